// Infers the types of results from the inputs of their nodes.
#include <gtest/gtest.h>

#include "annotator/convert/infer.h"
#include "tests/annotator/graph_builder.h"

namespace whence {
namespace {

using Dims = std::vector<Dim>;

const Dim rows{7, true, SymbolId(0)}, columns{7, true, SymbolId(1)}, unnamed{7, true, none_id};

Dim fixed_size(std::int64_t size) { return {size, false, none_id}; }

// Returns the inferred result of a binary operator.
graph::GraphValue result_of(const Dims& a, const Dims& b, const std::string& op_type = "Add") {
  GraphBuilder g;
  const auto operand = [&](const Dims& dims) {
    graph::GraphValue value;
    value.dtype = DType::float32;
    value.dims = dims;
    return g.graph.add_value(std::move(value));
  };
  graph::GraphValue untyped;
  const auto x = operand(a), y = operand(b), output = g.graph.add_value(std::move(untyped));
  graph::GraphNode node;
  node.op_type = op_type;
  node.inputs = {x, y};
  node.outputs = {output};
  convert::infer_types(g.graph, node);
  return g.graph.values[output];
}

TEST(ConvertTypes, BroadcastsKnownSizes) {
  EXPECT_EQ(result_of({rows, fixed_size(3)}, {fixed_size(3)}).dims, (Dims{rows, fixed_size(3)}));
  EXPECT_EQ(result_of({rows}, {rows}).dims, Dims{rows});
  EXPECT_EQ(result_of({rows}, {fixed_size(1)}).dims, Dims{rows});
  EXPECT_EQ(result_of({fixed_size(4)}, {rows}).dims, Dims{fixed_size(4)});
  EXPECT_EQ(result_of({fixed_size(2), fixed_size(1)}, {fixed_size(5)}).dims, (Dims{fixed_size(2), fixed_size(5)}));
  // The result is unknown, because either size may be 1.
  EXPECT_EQ(result_of({rows}, {columns}).dims, Dims{Dim{}});
  EXPECT_EQ(result_of({unnamed}, {unnamed}).dims, Dims{Dim{}});
  EXPECT_EQ(result_of({rows}, {unnamed}).dims, Dims{Dim{}});
}

TEST(ConvertTypes, ComparisonsReturnBools) {
  const graph::GraphValue result = result_of({rows}, {rows}, "Less");
  EXPECT_EQ(result.dtype, DType::boolean);
  EXPECT_EQ(result.dims, Dims{rows});
  EXPECT_EQ(result_of({rows}, {rows}).dtype, DType::float32);
}

}  // namespace
}  // namespace whence
