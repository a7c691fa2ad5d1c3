// The operators that a node was made from, as its metadata `from_node` lists them: each pass over a graph adds the node
// that it replaced. Nodes made from one operator belong to the same call of a module, even if a pass dropped the module
// stack of some. Nodes made from a node that calls a graph or a module have only that in common, so it is left out.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace whence::pt2 {

struct FxSource {
  std::string name;        // of the node
  std::int64_t graph = 0;  // the graph that contained it

  auto operator<=>(const FxSource&) const = default;
};

// Parses [{"name": "linear", "target": "aten.linear.default", "graph_id": 1, "from_node": [...]}], the latest source
// first. Empty for any other text.
std::vector<FxSource> fx_sources(std::string_view from_node);

}  // namespace whence::pt2
