// DisjointSets: sets of the numbers from 0 on that are united one by one (union-find with halved paths).
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
  // Adds a set of one number, size().
  void add() { parent_.push_back(static_cast<std::uint32_t>(parent_.size())); }

  // Returns the number that stands for the set of `one`.
  std::size_t root(std::size_t one) {
    while (parent_[one] != one) one = parent_[one] = parent_[parent_[one]];
    return one;
  }
  // The number that stands for the set of `other` then stands for both.
  void unite(std::size_t one, std::size_t other) { parent_[root(one)] = static_cast<std::uint32_t>(root(other)); }

 private:
  std::vector<std::uint32_t> parent_;
};

}  // namespace whence
