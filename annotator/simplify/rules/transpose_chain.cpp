// x -> Transpose(p) -> Transpose(q)                    before
// x -> Transpose(p[q])                                 after; the first stays for its other users
// Origins: joined.
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;

Outcome transpose_chain(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& outer = rewriter.node(index);
  if (!is(outer, "Transpose")) return no_match();
  const GraphNode* inner = rewriter.producer(outer.inputs[0], "Transpose");
  if (inner == nullptr) return no_match();
  const graph::Attribute* first = inner->find("perm");
  const graph::Attribute* second = outer.find("perm");
  if (first == nullptr || second == nullptr) return refused("a Transpose without perm reverses an unknown rank");

  const auto& p = std::get<std::vector<std::int64_t>>(first->value);
  std::vector<std::int64_t> both = std::get<std::vector<std::int64_t>>(second->value);
  if (both.size() != p.size()) return refused("the two have different ranks");  // an inconsistent file
  for (std::int64_t& axis : both) axis = p[static_cast<std::size_t>(axis)];

  GraphNode merged = make_node("Transpose", {inner->inputs[0]}, joined(inner->origin, outer.origin));
  merged.attributes.push_back({"perm", std::move(both)});
  rewriter.replace_with(outer.outputs[0], std::move(merged));
  return changed();
}

}  // namespace whence::simplify
