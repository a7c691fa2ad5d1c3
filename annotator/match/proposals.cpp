#include "annotator/match/proposals.h"

namespace whence::match {

void Proposals::propose(ForeignNode f, ReferenceNode r, Distance distance) {
  if (distance == Distance::far) score_.add_bonus(f, r);
  if (!is_open(f, r)) return;
  const auto& f_node = pairs_.foreign().nodes[f];
  const auto& r_node = pairs_.reference().structure.nodes[r];
  if (f_node.kind != NodeKind::heavy || r_node.kind != NodeKind::heavy) return;
  if (rivals_.other_form_taken(r)) return;
  if (likeness_.kernels_differ(f, r) || f_node.computes_sizes != r_node.computes_sizes) return;
  if (rivals_.add(f, r)) queue_.push({score_.score(f, r), f, r});
}

bool Proposals::is_open(ForeignNode f, ReferenceNode r) const {
  return !pairs_.partner(f).exists() && !pairs_.partner(r).exists();
}

Proposal Proposals::take_best() {
  const Proposal best = queue_.top();
  queue_.pop();
  return best;
}

void Proposals::resume_waiting() {
  for (const Proposal& proposal : waiting_) queue_.push(proposal);
  waiting_.clear();
}

}  // namespace whence::match
