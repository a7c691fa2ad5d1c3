// BranchMerge: merges the results of the two sides of a branch. A result that is the same on both sides stays as it is,
// any other becomes a result of the branch's node; containers are merged item by item.
#pragma once

#include "recorder/script/shared_containers.h"

namespace whence::recorder::script {

// The results of one side, and the containers that it changed.
struct BranchSide {
  std::vector<Term> results;
  std::vector<ChangedContainer> changed;  // restored to their contents before the branch
  std::vector<Term> contents;             // the contents that the side left in `changed`

  // Returns the container as it is at the end of the side, whether or not the side changed it.
  const Term& final_contents(const Term& container) const;
};

class BranchMerge {
 public:
  // `take_first`: runs that take the first side. Values from `first_inside` on may belong to one of the sides.
  BranchMerge(Recording& recording, const std::array<BranchSide, 2>& sides, const PerRun<bool>& take_first,
              ValueId first_inside, Node& node)
      : recording_(recording), sides_(sides), take_first_(take_first), first_inside_(first_inside), node_(node) {}

  // Returns the i-th result of the branch. `type`: as declared, may be null. Throws Error unsupported_feature if no
  // value can represent the results of both sides.
  Term result(std::size_t i, const std::string& name, const c10::TypePtr& type) {
    return merged(sides_[0].results[i], sides_[1].results[i], name, type);
  }
  // Sets the lists, dicts and attributes that one of the sides changed to their contents after the branch.
  void set_changed();
  // Returns true if a result has different ranks on the two sides.
  bool ranks_differ() const { return ranks_differ_; }
  // Returns the new lists and dicts that replace those of the sides.
  const Replacements& replacements() const { return replacements_; }

 private:
  Term merged(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type);
  Term merged_containers(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type);
  Term merged_contents(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type);
  Term merged_with_unset(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type);
  Term merged_sequence(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type);
  Term merged_value(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type);
  void check_dtypes(const Term& a, const Term& b, DType taken);
  bool keep_common_sizes(Type& type, const Term& side);
  void note_alias(ValueId result, const Term& a, const Term& b);
  bool made_inside(const Term& term) const;

  Recording& recording_;
  const std::array<BranchSide, 2>& sides_;
  const PerRun<bool>& take_first_;
  ValueId first_inside_;
  Node& node_;
  Replacements replacements_;
  bool ranks_differ_ = false;
  std::map<std::pair<Items, Items>, Term> merged_containers_;  // by the containers of the two sides
};

}  // namespace whence::recorder::script
