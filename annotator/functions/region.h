// A region: the nodes of one module call, and the other nodes that must come along so that one node can replace them.
#pragma once

#include <string>
#include <vector>

#include "annotator/functions/work_graph.h"

namespace whence::functions {

struct Region {
  CallIndex instance;
  std::vector<std::int32_t> nodes;  // ascending; convex: no path leads out of them and back in
  std::int64_t taken_along = 0;     // how many of them are nodes of enclosing modules in between
  std::string refusal;              // why the nodes cannot be replaced by one; empty: they can
};

// Returns a region for each call. Helpers that a call computes for others, too, are left out: the mask that the first
// layer makes for all. Calls must not be within each other. Nodes of enclosing modules that lie between nodes of a
// call, such as sizes that several modules use, come along; if nodes of other modules lie there, the region is refused.
std::vector<Region> regions_of(const WorkGraph& graph, const std::vector<CallIndex>& calls);
// Returns one region with all nodes of the calls, helpers included; none of the calls is within another. `around`: the
// call that encloses them, or the one call itself.
Region joined_region(const WorkGraph& graph, const std::vector<CallIndex>& calls, CallIndex around);

// For messages: "Conv '/stem/Conv' of stem".
std::string described(const WorkGraph& graph, std::int32_t node);

// Returns the nodes outside of `nodes` (ascending) that lie on a path from one of them to another, ascending.
std::vector<std::int32_t> nodes_between(const WorkGraph& graph, const std::vector<std::int32_t>& nodes);

}  // namespace whence::functions
