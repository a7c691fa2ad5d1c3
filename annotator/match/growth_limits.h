// The limits of growth, in units of the score of a pair (pair_score.h), in which one agreeing neighbour is 1.
#pragma once

#include <cstddef>

namespace whence::match {

constexpr std::size_t max_readers = 64;  // a value with more readers proposes no pairs by itself

constexpr double bridge_bonus = 0.7;    // for a pair at a distance from values that correspond
constexpr double needed_support = 0.6;  // with less, likeness is not enough
constexpr double clear_gap = 0.25, small_gap = 0.05;

}  // namespace whence::match
