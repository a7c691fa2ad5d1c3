// BranchMerge: the results of the two sides of a branch, where they meet. One that both sides have alike stays as it
// is, any other becomes a value of the branch's node; containers are merged item by item.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder {

class BranchMerge {
 public:
  // `take_first`: runs that take the first side. Values from `first_inside` on may have been made by one of the sides.
  BranchMerge(Recording& recording, const PerRun<bool>& take_first, ValueId first_inside, Node& node)
      : recording_(recording), take_first_(take_first), first_inside_(first_inside), node_(node) {}

  // `a` and `b`: what the sides leave; `type`: as declared, may be null. Throws Error unsupported_feature where no
  // value can be either.
  Term merged(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type);
  // Sets the container to what the sides leave in it.
  void merge_changed(const ChangedContainer& container, const Term& a, const Term& b);

 private:
  Term left_by_one(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type);
  Term merged_sequence(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type);
  Term merged_value(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type);
  void check_dtypes(const Term& a, const Term& b, DType taken);
  void keep_common_sizes(Type& type, const Term& side);
  void note_alias(ValueId result, const Term& a, const Term& b);
  bool made_inside(const Term& term) const;

  Recording& recording_;
  const PerRun<bool>& take_first_;
  ValueId first_inside_;
  Node& node_;
};

}  // namespace whence::recorder
