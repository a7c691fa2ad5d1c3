// Proposals: the queue of pairs that growth may accept, the best score first, and those that wait because a rival is as
// good.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "annotator/match/correspondence.h"
#include "annotator/match/likeness.h"
#include "annotator/match/pair_score.h"
#include "annotator/match/rivals.h"

namespace whence::match {

struct Proposal {
  double score;
  ForeignNode foreign;
  ReferenceNode reference;

  bool operator<(const Proposal& other) const {
    if (score != other.score) return score < other.score;
    if (foreign != other.foreign) return foreign > other.foreign;
    return reference > other.reference;
  }
};

// The distance of a pair from values that correspond. A distant pair gets a bonus: no value of its own supports it.
enum class Distance : std::uint8_t { near, far };

class Proposals {
 public:
  // All arguments must outlive this object.
  Proposals(const Correspondence& pairs, const Likeness& likeness, PairScore& score, Rivals& rivals)
      : pairs_(pairs), likeness_(likeness), score_(score), rivals_(rivals) {}

  // Adds a pair, unless the nodes cannot correspond or one of them has a partner.
  void propose(ForeignNode f, ReferenceNode r, Distance distance = Distance::near);
  // Returns true if neither node has a partner.
  bool is_open(ForeignNode f, ReferenceNode r) const;

  bool empty() const { return queue_.empty(); }
  std::size_t size() const { return queue_.size(); }
  Proposal take_best();
  void put_back(const Proposal& proposal) { queue_.push(proposal); }

  void postpone(const Proposal& proposal) { waiting_.push_back(proposal); }
  std::vector<Proposal>& waiting() { return waiting_; }
  void resume_waiting();  // puts the waiting pairs back into the queue

 private:
  const Correspondence& pairs_;
  const Likeness& likeness_;
  PairScore& score_;
  Rivals& rivals_;
  std::priority_queue<Proposal> queue_;
  std::vector<Proposal> waiting_;
};

}  // namespace whence::match
