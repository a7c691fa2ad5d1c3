// Converts one Program: visits its nodes in order, calls the converter of each, and keeps the state that converters
// share: the graph value of each program value, constants, and sizes that the graph computes.
//
// Called by export_program(). A node that cannot be converted poisons its results; the loop continues, and all failures
// are returned together at the end. Treats no single operator specially except prim::If and prim::Loop, which nest
// graphs.
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

#include "annotator/convert/ctx.h"
#include "annotator/convert/operator_types.h"
#include "annotator/convert/tracked_opset.h"
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
  // Writes what other exporters write: an operator that does nothing (a pad by zero) still becomes a node, and a tied
  // weight is transposed by a node. For comparison only: such no-op nodes lack the inputs that they need to run.
  bool as_other_exporters = false;
  // "mylib::op", or "mylib::op.Tensor" for one overload: written as nodes of that domain even if a converter exists.
  // Nodes of kept operators also store their arguments exactly (custom_nodes.cpp), for a tool that replaces them.
  std::set<std::string> custom_operators, kept_operators;
  // Namespaces; operators in them that have no converter become nodes of that domain.
  std::set<std::string> passed_through;
};

// Thrown by value_of() for a result of a node that failed. The driver catches it, so that no failure is reported twice.
struct Poisoned {};

// The source of a size that the graph computes: axis `axis` of `value`.
struct SizeSource {
  graph::GraphValueId value = graph::no_value;
  int axis = 0;
  SymbolId symbol = none_id;
  graph::GraphValueId vector = graph::no_value;  // the same size as int64 of shape [1]
};

// Returns a graph value of the recorded type.
graph::GraphValue graph_value(const Type& type);

class ConvertSession {
 public:
  // `graph` receives inputs, nodes, initializers and outputs. Both must outlive the session.
  ConvertSession(const Program& program, graph::Graph& graph, const ConvertOptions& options);

  // Returns the failures of lowering, followed by one failure per operator and reason, sorted by operator. The graph is
  // complete if there are none.
  Failures convert(Failures of_lowering = {});

  const Program& program() const { return program_; }
  const TrackedOpset& opset() const { return opset_; }
  operators::OperatorForms operator_forms() const { return options_.operators; }
  const ProgramUses& uses();                                // uses in program(), the lowered one; built on first call
  graph::Graph& graph() { return *frames_.back()->graph; }  // the innermost graph: a branch while it is being converted
  bool as_other_exporters() const { return options_.as_other_exporters; }
  std::int32_t current_op() const { return node_->origin.op; }

  // Returns the graph value of a program value; parameters and constants become initializers on first use. Throws
  // Poisoned, or Error(converter_refused) for a result that its converter does not make.
  graph::GraphValueId value_of(ValueId value);
  graph::GraphValueId value_of(const Argument& argument);  // a value, or a literal number as a 0-d constant
  void bind(ValueId value, graph::GraphValueId to);
  // Returns the content of a constant program value, else nullptr.
  const TensorData* known(ValueId value) const;

  // Returns an initializer with this content; equal contents share one initializer.
  graph::GraphValueId constant(TensorData data);

  // Moves out the graph values of all program values converted in the outermost graph. Call it last.
  std::unordered_map<ValueId, graph::GraphValueId> take_outermost_values() {
    return std::move(frames_.front()->values);
  }

  // Adds a node stamped with the current operation; infers the types of its outputs where possible.
  std::vector<graph::GraphValueId> emit(std::string_view domain, std::string_view op_type,
                                        std::vector<graph::GraphValueId> inputs, Attributes attributes, int outputs);
  std::vector<graph::GraphValueId> emit_widened(std::string_view op_type, std::vector<graph::GraphValueId> inputs,
                                                Attributes attributes, const WidenedTypes& widened);
  const std::optional<WidenedTypes>& widened(std::string_view op_type, const std::vector<graph::GraphValueId>& inputs,
                                             int outputs);

  // Opens a body graph, which receives all emitted nodes until close_body() returns it as the value of a graph
  // attribute.
  void open_body();
  graph::GraphValueId add_body_input(graph::GraphValue value);
  void add_body_output(graph::GraphValueId value);
  std::shared_ptr<graph::Graph> close_body();
  // Returns the body's captured value for a value of the enclosing graph.
  graph::GraphValueId from_enclosing(graph::GraphValueId value);

  // Returns the size of a dynamic axis as an int64 scalar. One node serves all callers, also for other values whose
  // axis has the same symbol.
  graph::GraphValueId dim_of(graph::GraphValueId value, int axis);
  // Returns sizes [start, end) of value, int64 of rank 1.
  graph::GraphValueId shape_slice(graph::GraphValueId value, int start, int end);
  const SizeSource* size_source(graph::GraphValueId size) const;
  // Returns an axis of a graph input whose size is `symbol`; no_value if there is none.
  std::pair<graph::GraphValueId, int> input_axis(SymbolId symbol);

 private:
  // A graph being filled, with the values that are visible only in it.
  struct Frame {
    graph::Graph* graph = nullptr;
    std::shared_ptr<graph::Graph> body;  // owns `graph` if it is a body
    std::unordered_map<ValueId, graph::GraphValueId> values;
    // value of the enclosing graph -> captured value here
    std::unordered_map<graph::GraphValueId, graph::GraphValueId> captures;
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
  Argument as_python_number(const Argument& argument) const;
  bool is_custom_operator(const Node& node) const;
  bool is_kept(const Node& node) const;
  bool is_passed_through(const Node& node) const;  // true if the user maps its namespace to an ONNX domain

  // control_flow.cpp
  void convert_if(const Node& node);
  void convert_loop(const Node& node);
  graph::GraphValueId copied(graph::GraphValueId value);
  graph::GraphValueId placeholder(const Type& type);
  // `results`: the types that its results must have; dtype undefined accepts any dtype. Returns nullptr if a result
  // failed.
  std::shared_ptr<graph::Graph> convert_body(const Block& block, const std::vector<Type>& results, bool loop);

  graph::GraphValueId from_outer(std::size_t depth, graph::GraphValueId outer_value, std::size_t outer_depth);
  graph::GraphValueId parameter(ParameterId id);
  graph::GraphValueId outermost_constant(TensorData data);
  // Returns a value of the outermost graph as seen from the innermost.
  graph::GraphValueId outermost(graph::GraphValueId value);
  // Adds the current operation to the origins of a shared helper's nodes.
  void also_used_here(graph::GraphValueId value);
  void add_inputs();
  void add_outputs();

  const Program& program_;
  ConvertOptions options_;
  TrackedOpset opset_;
  std::unordered_map<std::string, std::optional<WidenedTypes>> widened_;  // by operator, dtypes and number of outputs
  std::vector<std::unique_ptr<Frame>> frames_;
  const Node* node_ = nullptr;  // the node being converted; nullptr while outputs are added
  std::unique_ptr<ProgramUses> uses_;
  std::unordered_map<ParameterId, graph::GraphValueId> parameters_;
  std::unordered_map<std::string, graph::GraphValueId> constants_;  // by content, see content_key()
  std::unordered_map<ConstantId, graph::GraphValueId> known_;       // in the outermost graph, like the two maps above
  std::unordered_set<ValueId> poisoned_;
  std::map<SymbolId, std::pair<graph::GraphValueId, int>> input_axes_;
  std::map<std::pair<std::string, std::string>, Failure> failures_;  // by operator and message
};

}  // namespace whence::convert
