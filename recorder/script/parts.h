// Parts: the views that an operation cuts from a tensor along an axis; their number depends on the size. The list of
// parts is a sequence, which contains copies. A part that is read by its index is therefore recorded as the view that
// it is.
#pragma once

#include <optional>
#include <unordered_map>

#include "recorder/program/term.h"

namespace whence::recorder::script {

struct Recording;
using program::Term;

// Cuts an axis into single entries (unbind; no `length`), or into pieces of one length, the last of which may
// be shorter.
struct Cut {
  Term tensor;
  std::int64_t axis = 0;
  std::optional<Term> length;
  bool by_count = false;  // chunk: an empty axis has as many parts as any other
};

class Parts {
 public:
  void note(ValueId list, Cut cut) { cuts_.insert_or_assign(list, std::move(cut)); }
  // Returns the cut that made the list; null for a list that was made in another way or changed.
  const Cut* of(ValueId list) const {
    const auto found = cuts_.find(list);
    return found == cuts_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<ValueId, Cut> cuts_;
};

// Returns the cut that `node`, an operation on `arguments`, makes of its tensor; empty for any other operation.
std::optional<Cut> cut_of(Recording& recording, const Node& node, const std::vector<Term>& arguments);

// An operation without results, and its arguments.
struct PartView {
  Node operation;
  std::vector<Term> arguments;
};

// Returns the view that reads the part at `index`, which may be negative.
PartView view_of_part(Recording& recording, const Cut& cut, const Term& index, const Origin& origin);

// Returns the number of parts; empty if only the list's length shows it.
std::optional<Term> number_of_parts(Recording& recording, const Cut& cut, const Origin& origin);

}  // namespace whence::recorder::script
