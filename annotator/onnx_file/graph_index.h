// GraphIndex: the producer and the consumers of each value of a graph, including the bodies of If, Loop and Scan. Every
// part of whence that draws a file, outlines functions or extracts a module uses this index.
//
// A name refers to the value of the innermost enclosing graph that defines it. A name that no graph defines becomes a
// value of the outermost graph without a producer. If several nodes write a name, the last one is the producer. Cost:
// linear.
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

  // A use of a value. The result of a body counts as read by the node with the body.
  struct Read {
    ValueId value = no_value;
    std::int32_t node = -1;
    bool result = false;  // the value is used as a result of a body
  };

  // A value between its producer and a consumer.
  struct Edge {
    std::int32_t from = -1, to = -1;
    std::string_view value;
  };

  // An input or output of the graph, and a node that reads or produces it.
  struct InterfaceEdge {
    std::string_view value;
    std::int32_t node = -1;
  };

  GraphIndex() = default;
  // `outermost` must outlive the index.
  explicit GraphIndex(const OnnxGraph& outermost);

  // Nodes in the order of all_nodes(); their positions are the node numbers.
  const std::vector<const OnnxNode*>& nodes() const { return nodes_; }
  // Returns the node whose body contains `node`; -1 if there is none.
  std::int32_t holder(std::int32_t node) const { return holders_[node]; }
  // Returns the values by output; no_value for an omitted output.
  std::span<const ValueId> writes(std::int32_t node) const {
    return {writes_.data() + first_write_[node], writes_.data() + first_write_[node + 1]};
  }
  const std::vector<Value>& values() const { return values_; }
  // Returns the reads by node: its inputs, then for each body the reads of its nodes and its results. Omitted inputs
  // are skipped.
  const std::vector<Read>& reads() const { return reads_; }
  // Ordered by consumer, then input; a node that reads a value twice has one edge for it.
  std::vector<Edge> edges() const;
  std::vector<InterfaceEdge> input_edges() const;   // in the same order; without initializers
  std::vector<InterfaceEdge> output_edges() const;  // in the order of the graph's outputs
  ValueId find(std::string_view name) const;        // in the outermost graph; no_value if there is none

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
