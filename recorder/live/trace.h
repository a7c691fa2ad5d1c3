// LiveTrace: follows one trace of this process while it grows, and makes a Program from it.
//
// It reads only the tracer's graph: operations in order, with the dtype and shape that PyTorch computed; a block for
// every call of a module, with the module's name as scope; the Python stack of each operation. Only operations that
// depend on no input are run again. There are two kinds of trace:
//   torch.jit.trace   the graph's first input is the module; prim::TracedAttr nodes have full names of modules and
//                     tensors
//   torch.onnx.export parameters are inputs of the graph, and the exporter names them after the trace; scopes are
//                     shortened names, which modules.h completes
// Scripted functions and modules that traced code calls are entered (scripted.cpp).
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "recorder/base/torch_pch.h"
#include "recorder/live/modules.h"
#include "recorder/program/term.h"
#include "schema/program.h"

namespace whence::recorder::live {

// Callers must hold an Unobserved object during its calls.
class LiveTrace {
 public:
  explicit LiveTrace(std::shared_ptr<torch::jit::Graph> graph);

  // Reads the nodes added since the last call. Call it only while no operation is running.
  void read_new_nodes();
  // Notes the tensor of `value` in the trace, if it is an input or a parameter.
  void note_tensor(const torch::jit::Value* value, const at::Tensor& tensor);
  // Returns true if the value depends on more than sizes and constants.
  bool is_data(const torch::jit::Value* value) const;
  // Finds the outputs after the trace has ended and its graph was rearranged or left unfinished. Reads nothing
  // afterwards.
  void end();
  // Marks the trace as incomplete, even if it reached its end.
  void end_incomplete() { reached_end_ = false; }
  // Notes the qualified name of the module that is called next.
  void name_call(const std::string& path) { reported_paths_.push_back(path); }
  // Notes that the operations are complete but their modules may be wrong.
  void mark_modules_doubtful() { modules_doubtful_ = true; }

  bool follows(const torch::jit::Graph* graph) const { return !ended_ && graph_.get() == graph; }
  bool ended() const { return ended_; }
  bool reached_end() const { return reached_end_; }
  bool complete() const { return reached_end_ && !modules_doubtful_; }
  std::size_t operations() const { return operations_.size(); }

  // Returns the program read so far. Request digests only after the end of the trace: they read every weight.
  Program program(bool digests);

 private:
  struct Operation {
    Node node;               // without its scope
    std::int32_t call = -1;  // index into calls_
    torch::jit::SourceRange range;
    std::vector<std::size_t> reads;    // the operations whose results it reads
    std::optional<std::size_t> after;  // the operation it follows, if the tracer inserted it among earlier ones
    bool stays = false;        // it writes into a tensor, is random, or is scripted: kept even if nothing reads it
    bool cancels_out = false;  // one of a pair of conversions that cancel out: not an operation of the Program
  };
  using Env = std::unordered_map<const torch::jit::Value*, program::Term>;

  // ---- trace.cpp: the nodes in order, calls and attributes
  void read_inputs();
  void read_inserted(const torch::jit::Node& node);
  std::int32_t call_of(const torch::jit::Node& node) const;
  bool is_outermost(std::int32_t call) const;
  void read(const torch::jit::Node& node);
  bool read_second_name(const torch::jit::Node& node);
  void read_attribute(const torch::jit::Node& node);
  void note_producers(const torch::jit::Node& node);

  // ---- operations.cpp: terms and operations
  bool read_structure(const torch::jit::Node& node, Env& env);
  bool unpack(const torch::jit::Node& node, Env& env);
  Node read_operation(const torch::jit::Node& node, Env& env, bool run);
  void keep(Node node, const torch::jit::Node& from, bool stays);
  program::Term term_of(const torch::jit::Value* value, Env& env);
  program::Term constant(const c10::IValue& value);
  program::Term new_value(const torch::jit::Value& value, ValueSource source, std::int32_t index);
  std::optional<std::vector<c10::IValue>> compute(const torch::jit::Node& node,
                                                  const std::vector<program::Term>& arguments);
  bool follows_from_sizes(const torch::jit::Node& node, const std::vector<program::Term>& arguments) const;
  void forget_written(const torch::jit::Node& node, const std::vector<program::Term>& arguments);

  // ---- scripted.cpp: scripted code called by traced code
  class Scripted;
  void call_scripted(const torch::jit::Node& node);
  const program::Term* tensor_named(const std::string& name) const;

  // ---- outputs.cpp
  std::optional<program::Term> resolve_by_source(const torch::jit::Value& value) const;
  std::optional<program::Term> resolve(const torch::jit::Value* value, std::vector<Env>& callers);

  // ---- program.cpp
  void name_parameters();
  std::vector<bool> needed_operations() const;
  std::vector<std::size_t> order() const;

  std::shared_ptr<torch::jit::Graph> graph_;
  bool has_self_ = false, ended_ = false, reached_end_ = false, modules_doubtful_ = false, named_ = false;

  torch::jit::Node* cursor_ = nullptr;  // the last node read
  struct Open {
    torch::jit::Node* node;
    std::int32_t call;
  };
  std::vector<Open> open_;  // the blocks around the cursor
  std::vector<LiveCall> calls_{{-1, ""}};
  std::vector<std::string> reported_paths_;  // in order, by call that has a scope
  std::size_t scopes_read_ = 0;
  std::unordered_map<const torch::jit::Block*, std::int32_t> call_of_block_;

  Env env_;
  IndexedVector<ValueId, Value> values_;
  std::vector<Operation> operations_;
  const torch::jit::Node* last_kept_ = nullptr;
  std::unordered_map<const torch::jit::Value*, std::vector<std::size_t>> producers_;  // operations, by value
  std::unordered_map<const torch::jit::Source*, std::size_t> by_source_;              // operation, by source text
  LiveModules modules_;
  std::size_t read_inputs_ = 0;
  std::vector<ValueId> inputs_;                            // inputs of the graph, without self
  std::vector<std::string> names_at_end_;                  // names of the graph's inputs when the trace ended
  std::vector<at::Tensor> input_tensors_;                  // tensors of inputs_, undefined if not noted yet
  std::map<std::string, c10::ClassTypePtr> module_types_;  // by path
  std::unordered_map<const torch::jit::Value*, std::string> attribute_of_;  // TracedAttr values: their names
  std::vector<at::Tensor> constants_;                                       // by index
  std::vector<program::Term> constant_terms_;                               // by index
  std::unordered_map<const torch::jit::Source*, program::Term> scripted_results_;
  std::unordered_map<ValueId, c10::IValue> known_values_;
  std::unordered_set<ValueId> from_sizes_;  // values that depend only on sizes and constants, known or not
  std::vector<ProgramOutput> outputs_;
};

}  // namespace whence::recorder::live
