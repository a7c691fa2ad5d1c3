// TrackedOpset: the opset that a graph is written for, as converters query it. It records for which other opsets every
// query would have had the same answer: for those the graph is the same and need not be built again.
#pragma once

#include <bitset>

#include "annotator/graph/graph.h"

namespace whence::convert {

class TrackedOpset {
 public:
  explicit TrackedOpset(int opset) : opset_(opset) { same_.set(); }

  // Returns question(opset), of any type that can be compared.
  template <class Question>
  auto answer(const Question& question) const {
    auto result = question(opset_);
    for (int other = graph::oldest_opset; other <= graph::newest_opset; ++other) {
      if (same_.test(other) && other != opset_ && !(question(other) == result)) same_.reset(other);
    }
    return result;
  }

  bool operator>=(int since) const {
    return answer([since](int opset) { return opset >= since; });
  }
  bool operator<(int since) const { return !(*this >= since); }

  // `other`: from oldest_opset to newest_opset.
  bool same_at(int other) const { return same_.test(other); }

 private:
  int opset_;
  mutable std::bitset<graph::newest_opset + 1> same_;
};

}  // namespace whence::convert
