// GraphIndex: which node makes each value of a graph, and which nodes read it, bodies of If, Loop and Scan included.
// Every part of whence that draws a file, cuts functions out of it or extracts a module uses this index.
//
// A name refers to the value of the innermost graph around its use that defines it. A name that no graph defines
// becomes a value of the outermost graph without a producer; of several nodes that write one name, the last is the
// producer. Cost: linear.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "schema/flat_map.h"

namespace whence::onnx_file {

using ValueId = std::int32_t;
inline constexpr ValueId no_value = -1;

class GraphIndex {
 public:
  struct Value {
    std::string_view name;
    std::int32_t producer = -1;          // number of the node
    std::int32_t initializer = -1;       // index into the initializers of the graph that defines the value
    bool outermost = true;               // a value of the outermost graph
    bool input = false, output = false;  // input or output of the outermost graph
  };

  // One use of a value. A result of a body counts as read by the node that holds the body.
  struct Read {
    ValueId value = no_value;
    std::int32_t node = -1;
    bool result = false;  // the use is as a body's result
  };

  // A value on its way from the node that makes it to a node that reads it.
  struct Edge {
    std::int32_t from = -1, to = -1;
    std::string_view value;
  };

  // A value of the interface, and a node that reads or makes it.
  struct InterfaceEdge {
    std::string_view value;
    std::int32_t node = -1;
  };

  GraphIndex() = default;
  // `outermost` must outlive the index.
  explicit GraphIndex(const OnnxGraph& outermost);

  // In the order of all_nodes(), which numbers them.
  const std::vector<const OnnxNode*>& nodes() const { return nodes_; }
  std::int32_t holder(std::int32_t node) const { return holders_[node]; }  // -1: the node stands in no body
  // By output; no_value for one that is left out.
  std::span<const ValueId> writes(std::int32_t node) const {
    return {writes_.data() + first_write_[node], writes_.data() + first_write_[node + 1]};
  }
  const std::vector<Value>& values() const { return values_; }
  // Node by node: its inputs, then for each body the reads of its nodes and its results. Inputs that are left out are
  // not among them.
  const std::vector<Read>& reads() const { return reads_; }
  // By reading node, then input; a node that reads a value twice has one edge for it.
  std::vector<Edge> edges() const;
  std::vector<InterfaceEdge> input_edges() const;   // in the same order; initializers are not inputs
  std::vector<InterfaceEdge> output_edges() const;  // in the order of the graph's outputs
  ValueId find(std::string_view name) const;        // in the outermost graph; no_value when it has no such value

 private:
  struct Scope {
    Scope* outer = nullptr;
    FlatMap<std::string_view, ValueId> values = {};
  };

  ValueId declare(Scope& scope, std::string_view name);
  ValueId resolve(Scope& scope, std::string_view name);
  void add(const OnnxGraph& graph, Scope& scope, std::int32_t holder);
  void number(const std::vector<OnnxNode>& nodes, std::int32_t holder);
  std::vector<Read> distinct_reads() const;

  std::vector<const OnnxNode*> nodes_;
  std::vector<std::int32_t> holders_;
  std::vector<std::uint32_t> first_write_;
  std::vector<ValueId> writes_;
  std::vector<Value> values_;
  std::vector<Read> reads_;
  std::vector<ValueId> outputs_;  // outputs of the outermost graph
  std::int32_t next_ = 0;
  Scope outermost_;
};

}  // namespace whence::onnx_file
