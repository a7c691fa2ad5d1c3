// Region: the nodes of a module call, and further nodes that must be added so that one node can replace them all.
#pragma once

#include <string>
#include <vector>

#include "annotator/functions/work_graph.h"

namespace whence::functions {

struct Region {
  CallIndex instance;
  std::vector<std::int32_t> nodes;  // ascending; convex: no path leaves them and comes back
  std::int64_t taken_along = 0;     // how many of them were added from enclosing modules
  std::string refusal;              // why one node cannot replace them; empty if it can
};

// Returns a region for each call; no call may be within another. Leaves out helpers that other calls read, too, such as
// a mask that the first layer computes for all. Adds nodes of enclosing modules that are between nodes of a call, such
// as sizes that several modules use. Refuses the region if nodes of other modules are there.
std::vector<Region> regions_of(const WorkGraph& graph, const std::vector<CallIndex>& calls);
// Returns one region with all nodes of the calls, helpers included; no call may be within another. `enclosing`: the
// call that encloses them, or the only call.
Region joined_region(const WorkGraph& graph, const std::vector<CallIndex>& calls, CallIndex enclosing);

// Returns the text of a node for messages: "Conv '/stem/Conv' of stem".
std::string node_text(const WorkGraph& graph, std::int32_t node);

// Returns the nodes outside of `nodes` (ascending) that are on a path from one of them to another, ascending.
std::vector<std::int32_t> nodes_between(const WorkGraph& graph, const std::vector<std::int32_t>& nodes);

}  // namespace whence::functions
