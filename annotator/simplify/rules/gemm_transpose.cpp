// w -> Transpose -> Gemm(x, w')                        before; same for x
// Gemm(x, w), transB flipped                           after; the Transpose stays for its other users
// Condition: none, because the operands of a Gemm are matrices. Origins: joined.
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;

namespace {

void flip(std::vector<graph::Attribute>& attributes, const char* name) {
  for (graph::Attribute& attribute : attributes) {
    if (attribute.name != name) continue;
    attribute.value = std::int64_t{std::get<std::int64_t>(attribute.value) == 0};
    return;
  }
  attributes.push_back({name, std::int64_t{1}});
}

}  // namespace

Outcome gemm_transpose(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& gemm = rewriter.node(index);
  if (!is(gemm, "Gemm")) return no_match();
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const GraphNode* transpose = rewriter.producer(gemm.inputs[side], "Transpose");
    if (transpose == nullptr) continue;
    GraphNode merged = make_node("Gemm", gemm.inputs, joined(transpose->origin, gemm.origin));
    merged.attributes = gemm.attributes;
    merged.inputs[side] = transpose->inputs[0];
    flip(merged.attributes, side == 0 ? "transA" : "transB");
    rewriter.replace_with(gemm.outputs[0], std::move(merged));
    return changed();
  }
  return no_match();
}

}  // namespace whence::simplify
