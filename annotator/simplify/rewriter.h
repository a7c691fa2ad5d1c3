// Rewriter: a Graph with the users of every value, kept up to date through every change, and a queue of the nodes that
// a change may have made rewritable. Rules change a graph only through it.
//
// Cost: a change is linear in the uses that it redirects, so a fixpoint over n nodes takes about n steps. References to
// nodes and values are valid until the next insert() or constant().
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
  // `graph` must be compacted: all nodes live and in topological order.
  Rewriter(graph::Graph& graph, int opset, operators::OperatorForms forms);

  const graph::Graph& graph() const { return graph_; }
  int opset() const { return opset_; }
  // Returns true if the export may use this operator of opset 23 or newer.
  bool writes(std::string_view op_type) const { return operators::writes(op_type, opset_, forms_); }

  // ---- questions
  const graph::GraphNode& node(std::int32_t index) const { return graph_.nodes[index]; }
  const graph::GraphValue& value(graph::GraphValueId id) const { return graph_.values[id]; }
  const graph::GraphNode* producer(
      graph::GraphValueId id) const;  // nullptr for inputs, initializers, captured and absent values
  // Returns the producer if it is an `op_type` of the standard domain, otherwise nullptr.
  const graph::GraphNode* producer(graph::GraphValueId id, std::string_view op_type) const;
  std::int32_t use_count(graph::GraphValueId id) const { return use_count_[id]; }  // includes graph outputs and bodies
  bool is_output(graph::GraphValueId id) const { return is_output_[id]; }
  std::vector<std::int32_t> users(graph::GraphValueId id);  // node indices, distinct, ascending
  const TensorData* constant(graph::GraphValueId id) const { return graph_.constant(id); }
  bool is_parameter(graph::GraphValueId id) const;  // an initializer that is a named parameter of the model
  // Describes the constants that the node reads, for the rule of schema/folding.h.
  FoldedConstants constants_read(const graph::GraphNode& node) const;
  std::optional<std::vector<std::int64_t>> integers(graph::GraphValueId id) const { return graph_.integers(id); }
  // Returns all sizes; nullopt if the rank or any size is unknown or dynamic.
  std::optional<std::vector<std::int64_t>> static_dims(graph::GraphValueId id) const;

  // ---- changes
  graph::GraphValueId constant(TensorData data, origin::NodeOrigin origin, std::string name = "");
  // Adds a node with one result of this type. Fills `outputs`.
  graph::GraphValueId insert(graph::GraphNode node, DType dtype, std::optional<std::vector<Dim>> dims);
  // Adds a node with several results. `outputs` must be values of new_value().
  void add(graph::GraphNode node);
  graph::GraphValueId new_value(DType dtype, std::optional<std::vector<Dim>> dims);
  // Like replace(), and records that `to` is the same value of the program, computed by a rewritten node.
  void replace_rewritten(graph::GraphValueId from, graph::GraphValueId to);
  // Adds a node whose only result replaces `value` and gets its dtype and sizes. Requires can_replace(), which is true
  // for every value that a node produces.
  void replace_with(graph::GraphValueId value, graph::GraphNode node);
  void set_input(std::int32_t node, std::size_t position, graph::GraphValueId value);
  void set_origin(std::int32_t node, origin::NodeOrigin origin) { graph_.nodes[node].origin = std::move(origin); }
  void set_constant_origin(std::size_t initializer, origin::NodeOrigin origin) {
    graph_.initializers[initializer].origin = std::move(origin);
  }
  // Returns true if every use of `from` can become a use of `to`. A graph output can only be replaced with a value of
  // the same dtype that a node produces and that is not another output.
  bool can_replace(graph::GraphValueId from, graph::GraphValueId to) const;
  // Redirects all uses; if `from` is a graph output, `to` takes over its position and name. Erases nodes that are no
  // longer used. Requires can_replace().
  void replace(graph::GraphValueId from, graph::GraphValueId to);
  // Replaces the node's only output with a constant that has the node's origin. Requires that it is not a graph output.
  void fold(std::int32_t node, TensorData data, std::string name = "");

  // ---- the queue
  std::optional<std::int32_t> next();  // the next live node
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
  // Possible users of a value. Entries stay when a use ends; users() filters them.
  std::vector<std::vector<std::int32_t>> users_;
  std::vector<bool> is_output_;
  std::uint64_t model_bytes_ = 0;
  std::vector<bool> from_numbers_;  // constants computed from a few numbers, which store no tensor data
  std::deque<std::int32_t> queue_;
  std::vector<bool> queued_;
};

}  // namespace whence::simplify
