// Aliases: values that are, or may be, the same tensor, for the program's own test `a is b`. The effects of writes are
// derived from the Program later (annotator/lower).
#pragma once

#include <map>
#include <string>
#include <utility>

#include "recorder/script/call.h"

namespace whence::recorder::script {

// Attributes that the program sets, and lists and dicts that it may change, by object and name. Each is a tuple of one
// item.
using Attributes = std::map<std::pair<const c10::ivalue::Object*, std::string>, Term>;

class Aliases {
 public:
  // Returns the first value of the tensor: an in-place operation returns the tensor that it wrote to as a new value.
  ValueId first_name(const Term& term) const;
  void note_same_tensor(ValueId result, ValueId tensor) { same_tensor_[result] = tensor; }
  // Notes that `result` of a branch or loop may share the memory of any of `from`.
  void note_possible_alias(ValueId result, const std::vector<const Term*>& from);
  // Returns true if one of the two is the result of a branch or loop that may have the memory of the other.
  bool may_be_same(const Term& a, const Term& b) const;

 private:
  using Memory = c10::weak_intrusive_ptr<c10::StorageImpl>;
  struct PossibleAlias {
    ValueId result = none_id;
    PerRun<std::vector<Memory>> memory;  // a reshape may be a view only at some sizes

    std::vector<const c10::StorageImpl*> alive_in(int run) const;
    bool may_be(const Term& term) const;
  };

  std::unordered_map<ValueId, ValueId> same_tensor_;
  std::vector<PossibleAlias> possible_aliases_;
};

}  // namespace whence::recorder::script
