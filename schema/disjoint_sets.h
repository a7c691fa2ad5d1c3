// DisjointSets: union-find over the numbers from 0 on, with path halving.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace whence {

class DisjointSets {
 public:
  explicit DisjointSets(std::size_t size = 0) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), std::uint32_t{0});
  }

  std::size_t size() const { return parent_.size(); }
  // Adds the number size() as a set of its own.
  void add() { parent_.push_back(static_cast<std::uint32_t>(parent_.size())); }

  // Returns the representative of the set that contains `one`.
  std::size_t root(std::size_t one) {
    while (parent_[one] != one) one = parent_[one] = parent_[parent_[one]];
    return one;
  }
  // Merges two sets. The representative of `other` becomes that of both.
  void unite(std::size_t one, std::size_t other) { parent_[root(one)] = static_cast<std::uint32_t>(root(other)); }

 private:
  std::vector<std::uint32_t> parent_;
};

}  // namespace whence
