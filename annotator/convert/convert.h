// The conversion of one Program: walks it node by node, hands each node to its converter, and keeps what the converters
// share: which graph value stands for which program value, constants, sizes that the graph computes.
//
// Called by export_program(). A node that cannot be converted poisons its results, the walk goes on, and at the end all
// failures are returned at once. Knows nothing of single operators but prim::If and prim::Loop, which nest graphs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "annotator/convert/asked_opset.h"
#include "annotator/convert/ctx.h"
#include "annotator/convert/operator_types.h"
#include "annotator/convert/uses.h"
#include "annotator/graph/graph.h"
#include "annotator/operators/operator_forms.h"
#include "annotator/program/failure.h"
#include "schema/program.h"
#include "schema/result.h"
#include "whence/diagnostics.h"

namespace whence::convert {

struct ConvertOptions {
  int opset = graph::default_opset;
  operators::OperatorForms operators = operators::OperatorForms::runnable;
  bool unsupported_as_domain = false;  // write operators without a converter as nodes of a custom domain
  // Writes what other exporters write: operators that turn out to do nothing (a pad by zero) still become a node, a
  // tied weight is transposed by one. For comparison only: nodes that do nothing lack the inputs that would make them
  // run.
  bool as_other_exporters = false;
  // "mylib::op", or "mylib::op.Tensor" of one overload: written as nodes of that domain, even with a converter. Kept
  // ones hold their arguments exactly (custom_nodes.cpp), for a tool that replaces them.
  std::set<std::string> custom_operators, kept_operators;
  std::set<std::string> passed_through;  // namespaces whose operators without a converter become nodes of that domain
};

// Thrown by value_of() for a result of a node that failed; the driver catches it, so that nothing is reported twice.
struct Poisoned {};

// The source of a size that the graph computes: axis `axis` of `value`.
struct SizeSource {
  graph::GraphValueId value = graph::no_value;
  int axis = 0;
  SymbolId symbol = none_id;
  graph::GraphValueId vector = graph::no_value;  // the same size as int64 of shape [1]
};

// A value of the type that was recorded.
graph::GraphValue graph_value(const Type& type);

class ConvertSession {
 public:
  // `graph` receives inputs, nodes, initializers and outputs. Both must outlive the session.
  ConvertSession(const Program& program, graph::Graph& graph, const ConvertOptions& options);

  // Returns what failed, one failure per operator and reason, sorted by operator, after those of lowering; the graph is
  // whole if nothing did.
  Failures convert(Failures of_lowering = {});

  const Program& program() const { return program_; }
  const AskedOpset& opset() const { return opset_; }
  operators::OperatorForms operator_forms() const { return options_.operators; }
  const ProgramUses& uses();  // the uses in program(), which is lowered; built on first call
  graph::Graph& graph() { return *frames_.back()->graph; }  // the innermost one: a branch while it is being converted
  bool as_other_exporters() const { return options_.as_other_exporters; }
  std::int32_t current_op() const { return node_->origin.op; }

  // The graph value that stands for a program value; parameters and constants become initializers on first use.
  // Throws Poisoned, or Error(converter_refused) for a result that its converter does not make.
  graph::GraphValueId value_of(ValueId value);
  graph::GraphValueId value_of(const Argument& argument);  // a value, or a literal number as a 0-d constant
  void bind(ValueId value, graph::GraphValueId to);
  // The content of a program value that is a constant, else nullptr.
  const TensorData* known(ValueId value) const;

  // An initializer with this content; equal ones are one, wherever they are used.
  graph::GraphValueId constant(TensorData data);

  // The graph value of each program value in the outermost graph, as far as it was converted. The last that is asked.
  std::unordered_map<ValueId, graph::GraphValueId> take_outermost_values() {
    return std::move(frames_.front()->values);
  }

  // Adds a node stamped with the current operation; outputs get what types can be inferred.
  std::vector<graph::GraphValueId> emit(std::string_view domain, std::string_view op_type,
                                        std::vector<graph::GraphValueId> inputs, Attributes attributes, int outputs);
  std::vector<graph::GraphValueId> emit_widened(std::string_view op_type, std::vector<graph::GraphValueId> inputs,
                                                Attributes attributes, const WidenedTypes& widened);
  const std::optional<WidenedTypes>& widened(std::string_view op_type, const std::vector<graph::GraphValueId>& inputs,
                                             int outputs);

  // Opens a body graph: what is emitted until it is closed stands in it. Closing gives it as an attribute's graph.
  void open_body();
  graph::GraphValueId add_body_input(graph::GraphValue value);
  void add_body_output(graph::GraphValueId value);
  std::shared_ptr<graph::Graph> close_body();
  // A value of the graph that the body stands in, as seen from the body.
  graph::GraphValueId from_around(graph::GraphValueId value);

  // The size of a dynamic axis as an int64 scalar. One node serves all that ask, also for other values whose axis has
  // the same symbol.
  graph::GraphValueId dim_of(graph::GraphValueId value, int axis);
  graph::GraphValueId shape_slice(graph::GraphValueId value, int start,
                                  int end);  // sizes [start, end) of value, int64 of rank 1
  const SizeSource* size_source(graph::GraphValueId size) const;
  // An axis of a graph input whose size is `symbol`; no_value when there is none.
  std::pair<graph::GraphValueId, int> input_axis(SymbolId symbol);

 private:
  // One graph being filled, with what is visible only in it.
  struct Frame {
    graph::Graph* graph = nullptr;
    std::shared_ptr<graph::Graph> body;  // the graph, where it is a body
    std::unordered_map<ValueId, graph::GraphValueId> values;
    std::unordered_map<graph::GraphValueId, graph::GraphValueId> captures;  // enclosing graph's value -> ours
    std::map<std::tuple<graph::GraphValueId, int, int>, graph::GraphValueId> shape_slices;
    std::map<std::pair<graph::GraphValueId, int>, graph::GraphValueId> dims;
    std::unordered_map<graph::GraphValueId, SizeSource> sizes;
  };

  void convert_nodes(const std::vector<Node>& nodes);
  void convert_node(const Node& node);
  Error contradiction(const Node& node, const std::string& what) const;
  Error defect(const Node& node, const std::string& what) const;
  void convert_with(const OpEntry& converter, const Node& node);
  Error no_converter(const Node& node) const;
  void write_no_op(const Node& node);
  void poison_outputs(const Node& node);
  void record(const Error& error);

  // custom_nodes.cpp
  void convert_as_custom(const Node& node);
  void bind_custom(const Node& node, const std::vector<Argument>& inputs, Attributes attributes);
  Argument as_written(const Argument& argument) const;
  bool is_written_as_it_is(const Node& node) const;
  bool is_kept(const Node& node) const;
  bool is_passed_through(const Node& node) const;  // its namespace is one that the user has an ONNX domain for

  // control_flow.cpp
  void convert_if(const Node& node);
  void convert_loop(const Node& node);
  graph::GraphValueId copied(graph::GraphValueId value);
  graph::GraphValueId unread(const Type& type);
  // `results`: the types that its results must have, of dtype undefined where any will do.
  // nullptr where a result failed.
  std::shared_ptr<graph::Graph> convert_body(const Block& block, const std::vector<Type>& results, bool loop);

  graph::GraphValueId from_outer(std::size_t depth, graph::GraphValueId outer_value, std::size_t outer_depth);
  graph::GraphValueId parameter(ParameterId id);
  graph::GraphValueId outermost_constant(TensorData data);
  graph::GraphValueId outermost(graph::GraphValueId value);  // an outermost graph's value as seen from the innermost
  void also_used_here(graph::GraphValueId value);  // a shared helper's producers get the current operation as well
  void add_inputs();
  void add_outputs();

  const Program& program_;
  ConvertOptions options_;
  AskedOpset opset_;
  std::unordered_map<std::string, std::optional<WidenedTypes>> widened_;  // by operator, dtypes and number of outputs
  std::vector<std::unique_ptr<Frame>> frames_;
  const Node* node_ = nullptr;  // being converted; nullptr while outputs are made
  std::unique_ptr<ProgramUses> uses_;
  std::unordered_map<ParameterId, graph::GraphValueId> parameters_;
  std::unordered_map<std::string, graph::GraphValueId> constants_;  // by content, see content_key()
  std::unordered_map<ConstantId, graph::GraphValueId> known_;       // ids of the outermost graph, as the two above
  std::unordered_set<ValueId> poisoned_;
  std::map<SymbolId, std::pair<graph::GraphValueId, int>> input_axes_;
  std::map<std::pair<std::string, std::string>, Failure> failures_;  // by operator and message
};

}  // namespace whence::convert
