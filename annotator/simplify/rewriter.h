// Rewriter: a Graph together with who uses what, kept right through every change, and the queue of nodes that a change
// makes worth another look. Rules change a graph only through it.
//
// Cost: every change costs as many steps as it redirects uses, so that a fixpoint over n nodes takes about n steps.
// References to nodes and values are valid until the next insert() or constant().
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/operators/operator_forms.h"
#include "schema/folding.h"

namespace whence::simplify {

class Rewriter {
 public:
  // `graph` has been compacted: all of its nodes are live and in topological order.
  Rewriter(graph::Graph& graph, int opset, operators::OperatorForms forms);

  const graph::Graph& graph() const { return graph_; }
  int opset() const { return opset_; }
  // True if the export writes this operator of opset 23 or newer.
  bool writes(std::string_view op_type) const { return operators::writes(op_type, opset_, forms_); }

  // ---- questions
  const graph::GraphNode& node(std::int32_t index) const { return graph_.nodes[index]; }
  const graph::GraphValue& value(graph::GraphValueId id) const { return graph_.values[id]; }
  const graph::GraphNode* producer(
      graph::GraphValueId id) const;  // nullptr for inputs, initializers, captured and absent values
  // The producer when it is an `op_type` of the standard domain, else nullptr.
  const graph::GraphNode* producer(graph::GraphValueId id, std::string_view op_type) const;
  std::int32_t use_count(graph::GraphValueId id) const { return use_count_[id]; }  // graph outputs and bodies included
  bool is_output(graph::GraphValueId id) const { return is_output_[id]; }
  std::vector<std::int32_t> users(graph::GraphValueId id);  // nodes, distinct, ascending
  const TensorData* constant(graph::GraphValueId id) const { return graph_.constant(id); }
  bool is_parameter(graph::GraphValueId id) const;  // an initializer that the model holds under a name of its own
  // Describes the constants that the node reads, for the rule of schema/folding.h.
  FoldedConstants constants_read(const graph::GraphNode& node) const;
  std::optional<std::vector<std::int64_t>> integers(graph::GraphValueId id) const { return graph_.integers(id); }
  // All sizes, when rank and sizes are known and none is dynamic.
  std::optional<std::vector<std::int64_t>> static_dims(graph::GraphValueId id) const;

  // ---- changes
  graph::GraphValueId constant(TensorData data, origin::NodeOrigin origin, std::string name = "");
  // A new node with one result, typed as given. Its `outputs` are filled here.
  graph::GraphValueId insert(graph::GraphNode node, DType dtype, std::optional<std::vector<Dim>> dims);
  // A new node with several results, its `outputs`: values of new_value().
  void add(graph::GraphNode node);
  graph::GraphValueId new_value(DType dtype, std::optional<std::vector<Dim>> dims);
  // replace(), where `to` is the same value of the program as a rewritten node makes it.
  void take_place(graph::GraphValueId from, graph::GraphValueId to);
  // A new node whose one result takes the place of `value`, with its dtype and sizes. Requires that it can: see
  // can_replace(), which holds for every value that a node makes.
  void put_in_place_of(graph::GraphValueId value, graph::GraphNode node);
  void set_input(std::int32_t node, std::size_t position, graph::GraphValueId value);
  void set_origin(std::int32_t node, origin::NodeOrigin origin) { graph_.nodes[node].origin = std::move(origin); }
  void set_constant_origin(std::size_t initializer, origin::NodeOrigin origin) {
    graph_.initializers[initializer].origin = std::move(origin);
  }
  // True if every use of `from` can become one of `to`. A graph output needs a value that a node makes and that is
  // not another output, and keeps its dtype.
  bool can_replace(graph::GraphValueId from, graph::GraphValueId to) const;
  // Redirects all uses; `to` inherits the place among the outputs with its name. Nodes that are no longer needed are
  // erased. Requires can_replace().
  void replace(graph::GraphValueId from, graph::GraphValueId to);
  // The node's one output, which is not an output of the graph, becomes a constant with the node's origin.
  void fold(std::int32_t node, TensorData data, std::string name = "");

  // ---- the queue
  std::optional<std::int32_t> next();  // live node
  void queue(std::int32_t node);
  void queue_all();

 private:
  void add_uses(std::int32_t node);
  void drop_use(graph::GraphValueId value);
  void erase_if_unused(std::int32_t node);

  graph::Graph& graph_;
  int opset_;
  operators::OperatorForms forms_;
  std::vector<std::int32_t> use_count_;
  // Who may use a value: entries are never taken out when a use ends, users() sifts them.
  std::vector<std::vector<std::int32_t>> users_;
  std::vector<bool> is_output_;
  std::uint64_t model_bytes_ = 0;
  std::vector<bool> of_numbers_;  // constants that were computed of a few numbers, so that no tensor is stored in them
  std::deque<std::int32_t> queue_;
  std::vector<bool> queued_;
};

}  // namespace whence::simplify
