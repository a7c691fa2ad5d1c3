// The limits and weights that the files of Correspondence share, and the key of a pair.
#pragma once

#include <cstddef>
#include <cstdint>

#include "annotator/match/index.h"

namespace whence::match {

constexpr std::size_t max_readers = 64;  // a value with more proposes no pairs by itself

// Weights of the reasons for a pair; one agreeing neighbour is 1 (see correspondence_support.cpp).
constexpr double bridged = 0.7;
constexpr double needed = 0.6;  // support without which likeness is not enough
constexpr double clear_gap = 0.25, small_gap = 0.05;

inline std::uint64_t pair_key(ForeignNode f, ReferenceNode r) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(f.number())) << 32 |
         static_cast<std::uint32_t>(r.number());
}

}  // namespace whence::match
