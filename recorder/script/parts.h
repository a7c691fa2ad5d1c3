// Parts: the views that an operation cuts from a tensor along an axis, as many as the axis has room for. The list of
// them is a sequence, which holds copies. A part that is read by its place is recorded as the view that it is.
#pragma once

#include <optional>
#include <unordered_map>

#include "recorder/program/term.h"

namespace whence::recorder::script {

struct Recording;
using program::Term;

// Single places along an axis (unbind), or pieces of one length; the last may be shorter.
struct Cut {
  Term tensor;
  std::int64_t axis = 0;
  std::optional<Term> length;
  bool by_number = false;  // chunk: an axis without elements has as many parts, too
};

class Parts {
 public:
  void note(ValueId list, Cut cut) { cuts_.insert_or_assign(list, std::move(cut)); }
  // Returns the cut that made the list; null for a list that was made in another way, or changed.
  const Cut* of(ValueId list) const {
    const auto found = cuts_.find(list);
    return found == cuts_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<ValueId, Cut> cuts_;
};

// Returns the cut that `node`, an operation on `arguments`, makes of its tensor; empty for any other operation.
std::optional<Cut> cut_by(Recording& recording, const Node& node, const std::vector<Term>& arguments);

// An operation without results, and its arguments.
struct PartView {
  Node operation;
  std::vector<Term> arguments;
};

// Reads the part at `index`, which may be negative.
PartView view_of_part(Recording& recording, const Cut& cut, const Term& index, const Origin& origin);

// The number of parts; empty where only the list says it.
std::optional<Term> number_of_parts(Recording& recording, const Cut& cut, const Origin& origin);

}  // namespace whence::recorder::script
