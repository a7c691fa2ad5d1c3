// A region: the nodes of one module call, and what else must come along so that one node can take their place.
#pragma once

#include <string>
#include <vector>

#include "annotator/functions/work_graph.h"

namespace whence::functions {

struct Region {
  InstanceId instance = no_instance;
  std::vector<std::int32_t> nodes;  // ascending; convex: no way leads out of them and back in
  std::int64_t taken_along = 0;     // of them, nodes of enclosing modules that lie between
  std::string refusal;              // why the nodes cannot be replaced by one; empty: they can
};

// The nodes of each given call, but for helpers that it computes for others, too: the mask that the first layer makes
// for all. Calls must not be within each other. Nodes of enclosing modules that lie between nodes
// of a call, as sizes that several modules use do, come along; nodes of other modules there are a refusal.
std::vector<Region> regions_of(const WorkGraph& graph, const std::vector<InstanceId>& calls);
// All nodes of some calls together, helpers as well; none of the calls is within another. `around`: what surrounds
// them, or the one call itself.
Region joined_region(const WorkGraph& graph, const std::vector<InstanceId>& calls, InstanceId around);

// For messages: "Conv '/stem/Conv' of stem".
std::string described(const WorkGraph& graph, std::int32_t node);

// Nodes outside of `nodes` (ascending) that lie on a way from one of them to another, ascending.
std::vector<std::int32_t> nodes_between(const WorkGraph& graph, const std::vector<std::int32_t>& nodes);

}  // namespace whence::functions
