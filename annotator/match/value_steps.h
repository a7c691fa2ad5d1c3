// Steps over nodes that only one side may have: the values that differ from a given one by cheap arithmetic.
#pragma once

#include <cstddef>
#include <vector>

#include "annotator/match/structure.h"

namespace whence::match {

constexpr int max_steps = 3;  // nodes that growth steps over on one side

// Returns true for cheap arithmetic without weights, which one side may have more of: scaling, masking, an activation.
// Nodes that read a weight, or values computed from weights by channel, are in both files.
template <Side S>
bool may_be_stepped_over(const Structure<S>& s, NodeIndex<S> node);

// Returns the values from which `value` is computed by nodes with one data input: itself first, then the nearest ones.
template <Side S>
std::vector<ValueIndex<S>> values_before(const Structure<S>& s, ValueIndex<S> value);

// Returns the values that are computed from `value` by nodes that may be stepped over or are often folded into a
// product: itself first, then the nearest ones. Stops at values with more than `max_uses` uses.
template <Side S>
std::vector<ValueIndex<S>> values_after(const Structure<S>& s, ValueIndex<S> value, std::size_t max_uses);

}  // namespace whence::match
