// Evaluator: runs a TorchScript program symbolically and writes down, as a Program, the operations it performs.
//
// It walks the un-inlined graphs, because only there every call still names the module instance it is made on; inlining
// is its own doing. Host computation (module attributes, containers, integers that come from no tensor) is carried out
// on the spot, as tracing leaves it in Python; control flow whose condition is settled is followed, any other becomes a
// node with nested blocks. When example inputs are given, every operation is also executed, at one size or at several
// in lockstep: dtypes and shapes are then what PyTorch computed, and a size that differs between the runs is dynamic.
//
// Throws Error: run_failed, unsupported_feature; SecondRunFailed when only the second size fails.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recorder/archive/module_tree.h"
#include "recorder/archive/source_frames.h"
#include "recorder/inputs/example_inputs.h"
#include "recorder/program/term.h"

namespace whence::recorder {

struct SecondRunFailed : Error {
  using Error::Error;
  std::size_t reached = 0;  // values computed before: how far it got
};

class Evaluator {
 public:
  Evaluator(Program& program, const ModuleTree& tree, const ExampleInputs& inputs);

  // Evaluates forward of `root` and fills inputs, outputs, values, scopes, stacks, constants and the body.
  void run(const torch::jit::Module& root);

  // What users should know of a program that was evaluated: attributes that it sets.
  const Diagnostics& notes() const { return notes_; }

 private:
  using Env = std::unordered_map<const torch::jit::Value*, Term>;
  // One function being evaluated.
  struct Call {
    std::string function;  // plain name, for source frames
    ScopeId scope = 0;
    Stack callers;           // scripted call sites, innermost first
    bool outermost = false;  // the root's own forward
    Env env;
  };

  // ---- evaluator.cpp: calls, attributes, constants
  Term call(torch::jit::Function& function, std::vector<Term> arguments, ScopeId scope, Stack callers);
  void run_block(const torch::jit::Block& block, Call& call);
  void step_at(const torch::jit::Node& node, Call& call);
  void step(const torch::jit::Node& node, Call& call);
  void call_method(const torch::jit::Node& node, Call& call);
  void call_function(const torch::jit::Node& node, Call& call);
  void set_attribute(const torch::jit::Node& node, const Call& call);
  Stack callers_of(const torch::jit::Node& node, const Call& call);
  Term attribute(const Term& object, const std::string& name);
  Term constant(const at::Tensor& tensor, const std::string& name);
  Term parameter(ParameterId id, const at::Tensor& tensor);
  Term from_host(const c10::IValue& value, const std::string& name);
  Term input(const PerRun<const c10::IValue*>& given, const c10::TypePtr& type, const std::string& name);
  const Term& term(const torch::jit::Value* value, const Call& call) const;
  Place place(const torch::jit::Node& node, const Call& call);
  Origin origin_of(const torch::jit::Node& node, const Call& call);
  void refuse_without_shape(const torch::jit::Node& node, const torch::jit::Stack& results, const Call& call);
  [[noreturn]] void refuse(const torch::jit::Node& node, const Call& call, const std::string& why,
                           const std::string& remedy);

  // ---- evaluate_structure.cpp: containers and other host objects
  bool structural(const torch::jit::Node& node, Call& call);
  bool list_method(const torch::jit::Node& node, Call& call);
  Term is_none(const torch::jit::Node& node, const Call& call, const Term& optional);
  std::size_t index_of(const torch::jit::Node& node, const Call& call, const Term& container, const Term& index);

  // ---- watch.cpp
  class Watch;
  // A list or dict that was changed, or an attribute, which is a tuple of one item.
  struct ChangedContainer {
    Term::Kind kind;
    std::shared_ptr<std::vector<Term>> items;  // shared with whoever holds it
    c10::TypePtr type;
    std::vector<Term> before;

    bool changed() const { return !std::ranges::equal(*items, before, same_term); }

    // What it is now; afterwards it is what it was before.
    Term take_back() {
      Term now = Term::container(kind, std::move(*items));
      *items = before;
      return now;
    }
  };
  static bool may_change_containers(const torch::jit::Block& block);
  void note_change(const torch::jit::Node& node, const Call& call, const Term& container, const c10::TypePtr& type);
  bool speculative() const;

  // ---- evaluate_sequence.cpp: lists whose length depends on data
  class SequenceMethod;
  bool call_sequence_method(const torch::jit::Node& node, Call& call, const Term& list);
  bool joined_with_sequence(const torch::jit::Node& node, Call& call, const Term& list);
  bool indexed_by_data(const torch::jit::Node& node, Call& call, const Term& list);
  void unpack_sequence(const torch::jit::Node& node, Call& call, const Term& list);
  DType dtype_held(const Term& list) const;
  Term sequence_of(const Term& list, const c10::TypePtr& type, DType dtype, std::vector<Node>& sink,
                   const Origin& origin);
  void note_element(const Term& element);
  ValueId first_name(const Term& term) const;
  void note_same(const torch::jit::Node& node, const Term& self, const Term& result);
  void note_passage(ValueId made, std::initializer_list<const Term*> from);
  void refuse_write_through_passage(const torch::jit::Node& node, const Call& call, const std::vector<Term>& arguments);
  void refuse_write_into_list(const torch::jit::Node& node, const Call& call, const std::vector<Term>& arguments);
  ValueId new_sequence(const PerRun<std::optional<c10::IValue>>& seen, DType dtype);

  // ---- evaluate_branch.cpp: prim::If
  void branch(const torch::jit::Node& node, Call& call);
  void branch_node(const torch::jit::Node& node, Call& call);
  struct Merge;
  struct Side;
  Side run_side(const torch::jit::Node& node, std::size_t side, const PerRun<bool>& takes, Call& call);
  void merge_changed(std::array<Side, 2>& sides, Merge& merge);
  void heed_refusals(const torch::jit::Node& node, const Term& condition, const Call& call);
  std::optional<std::size_t> side_to_follow(const torch::jit::Node& node, const Term& condition) const;
  Term merged(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type, Merge& merge);
  Term left_by_one(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type, Merge& merge);
  Term merged_sequence(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type, Merge& merge);
  void check_dtypes_of_sides(const Term& a, const Term& b, DType taken);
  Term merged_value(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type, Merge& merge);
  bool made_since(ValueId first, const Term& term) const;

  // ---- results.cpp: what the model returns
  void state_rank(const Term& term);
  Term returned(const Term& term, const c10::TypePtr& type);
  Term empty_result(const Term& list, const c10::TypePtr& type);
  Term optional_result(const Term& given, const Term& content);
  void add_optional(Block& block, const Type& type, std::vector<NamedArgument> content);

  // ---- evaluate_loop.cpp: prim::Loop
  void loop(const torch::jit::Node& node, Call& call);
  bool unroll(const torch::jit::Node& node, Call& call);
  class DataLoop;

  // ---- evaluate_operator.cpp: operations proper
  void operate(const torch::jit::Node& node, Call& call);
  void note_memory(Node& recorded, const std::vector<Term>& arguments) const;
  void note_views(const torch::jit::Node& node, const Node& recorded, const std::vector<Term>& arguments,
                  const Call& call);
  void tell_of_squeeze(const torch::jit::Node& node, const Call& call, const Node& recorded);
  bool on_host(const torch::jit::Node& node, Call& call, const std::vector<Term>& arguments);
  PerRun<std::optional<std::vector<c10::IValue>>> execute(const torch::jit::Node& node, Call& call,
                                                          const std::vector<Term>& arguments);
  Term sequence_result(PerRun<std::optional<c10::IValue>> seen, Node& node);
  Term result(const torch::jit::Value& output, PerRun<std::optional<c10::IValue>> seen, bool known, Node& node);

  // ---- evaluate_quantized.cpp: quantized tensors, which are integers in the Program
  // What the integers of a quantized tensor stand for: (q - zero_point) * scale, per tensor or per channel of `axis`.
  struct Levels {
    Argument scale, zero_point;  // numbers or values
    std::int64_t low = 0, high = 0;
    std::optional<std::int64_t> axis;
    DType dtype = DType::undefined;
  };
  bool operate_quantized(const torch::jit::Node& node, Call& call, const std::vector<Term>& arguments,
                         const Node& whole);
  void dequantize_result(Term& result, const Origin& origin, const Argument& quantized);
  std::optional<Levels> levels_of(const at::Tensor& tensor);
  std::optional<Levels> levels_of_result(const Node& whole, const at::Tensor& tensor);
  Term quantized_input(Term term, const std::string& name);
  Term unpacked_output(const Term& term);
  ValueId newest(ValueId id) const;
  bool is_fixed(const Argument& argument) const;
  ValueId step(const Origin& origin, const std::string& target, const std::string& overload,
               std::vector<NamedArgument> arguments, Type type);
  ValueId convert_levels(const Origin& origin, const char* verb, ValueId id, const Levels& levels, DType dtype);
  Argument in_floats(const Origin& origin, const Argument& argument);
  std::pair<Argument, Argument> unpacked(const Origin& origin, const std::string& unpack, const Term& packed,
                                         const Argument& input);
  std::optional<Node> packed_layer(const Origin& origin, const std::string& name, const std::vector<Term>& arguments);
  std::optional<Node> on_floats(const Node& whole, const std::string& name, const std::vector<Term>& arguments);

  // ---- values.cpp: types, what is known, what shapes depend on
  ValueId new_value(const std::string& name, ValueSource source, std::int32_t index);
  Type type_of(const PerRun<std::optional<c10::IValue>>& seen, const c10::TypePtr& type) const;
  Dim dim_of(const PerRun<std::optional<std::int64_t>>& sizes) const;
  bool is_known(const Term& term) const;
  bool static_size(const Node& node, std::size_t axis) const;
  bool result_known(const torch::jit::Node& node, const std::vector<Term>& arguments,
                    const PerRun<std::optional<std::vector<c10::IValue>>>& results) const;
  void before_write(const torch::jit::Node& node, const std::vector<Term>& arguments);
  void after_write(const torch::jit::Node& node, const std::vector<Term>& arguments, bool known);
  void follow_data(const std::vector<Term>& arguments, const Node& recorded);
  bool indexes_by_mask(const Node& node) const;
  std::set<std::int64_t> fixed_sizes(const std::vector<const Term*>& values, const Node& recorded) const;
  void mark_data_shaped(ValueId id);

  struct ValueFacts {
    bool from_sizes = false;   // computed from sizes and constants alone
    bool data_shaped = false;  // some size depends on the contents of an input
  };

  Program& program_;
  const ModuleTree& tree_;
  const ExampleInputs& inputs_;
  SourceFrames frames_;
  int runs_;                                           // 0: no example inputs
  PerRun<bool> active_{true, true, true, true, true};  // runs that take part; a loop may end earlier in one of them
  PerRun<bool> alive_{true, true, true, true, true};   // false for a witness that failed
  PerRun<bool> pretends_{};  // runs inside a branch that they do not take: their failures do not count
  int depth_ = 0;            // data-dependent blocks around the current node
  std::vector<Watch*> watches_;
  std::vector<Node>* sink_ = nullptr;  // where recorded nodes go
  std::unordered_map<std::string, int> names_;
  std::unordered_map<ModuleId, std::int32_t> calls_;
  // Attributes that the program sets, and lists and dicts that it may change: tuples of one item.
  std::map<std::pair<const c10::ivalue::Object*, std::string>, Term> attributes_;
  std::unordered_map<const c10::ivalue::Object*, int> made_at_;  // depth at which the program made an object
  std::unordered_map<ParameterId, Term> parameters_;
  std::unordered_map<const c10::TensorImpl*, Term> constants_;
  Diagnostics notes_;
  std::unordered_map<ValueId, Diagnostics> squeezed_;  // by result: of what is told unless the program returns it
  std::vector<at::Tensor> kept_;                       // owners of the addresses above
  std::vector<ValueFacts> facts_;                      // by ValueId
  std::unordered_map<ValueId, c10::IValue> known_;
  std::unordered_map<const c10::StorageImpl*, std::vector<ValueId>> known_in_;
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> tainted_;
  std::set<std::int64_t> data_sizes_;
  std::unordered_set<ValueId> views_by_strides_;  // results of reshapes that share their argument's memory
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> in_sequences_;
  // A result of a branch or loop, and the memory that it may be.
  struct Passage {
    ValueId made = none_id;
    std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> memory;
  };
  std::vector<Passage> passages_;
  std::unordered_map<ValueId, ValueId> same_as_;           // another name of the same tensor
  std::set<std::shared_ptr<std::vector<Term>>> in_doubt_;  // containers that may be one or another
  std::vector<const Call*> running_;                       // calls, the outermost first
  std::unordered_map<ValueId, Levels> levels_;             // of the values that are quantized tensors
  std::unordered_map<ValueId, at::Tensor> quantized_in_;   // the same in the first run
  std::unordered_map<ValueId, ValueId> rewritten_;         // quantized tensors that were written in place
  std::unordered_map<const c10::ivalue::Object*, ValueId> packed_weights_;
  // Values that no later node of a block needs, by node; computed once a block.
  using LastUses = std::unordered_map<const torch::jit::Node*, std::vector<const torch::jit::Value*>>;
  std::unordered_map<const torch::jit::Block*, LastUses> last_uses_;
  const LastUses& last_uses(const torch::jit::Block& block);
  bool last_used_by(const torch::jit::Node& node, const torch::jit::Value& value);
  static void forget(const torch::jit::Block& block, Call& call);
};

}  // namespace whence::recorder
