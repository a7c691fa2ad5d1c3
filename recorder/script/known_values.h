// KnownValues: results that depend on no input, no parameter and no dynamic size. PyTorch itself computed them; what
// the rest of the program reads of them becomes constants in the end (program/finish.h). Writes in place are followed
// by storage.
#pragma once

#include "recorder/script/lockstep.h"
#include "recorder/script/values.h"

namespace whence::recorder {

// The argument (by position) of which an operator uses the shape alone, or -1.
int shape_only_argument(const std::string& target);

class KnownValues {
 public:
  KnownValues(const Values& values, const Lockstep& runs) : values_(values), runs_(runs) {}

  // The term, a container with all that it holds, and no write since has made it depend on something else.
  bool is_known(const Term& term) const;
  bool contains(ValueId id) const { return by_id_.contains(id); }
  // True if the results of `node` are known by its arguments. A folded result may not be much larger than they are.
  bool is_result(const torch::jit::Node& node, const std::vector<Term>& arguments,
                 const std::optional<std::vector<c10::IValue>>& results) const;
  // Notes the first run's value of a known term, if it has one.
  void add(const Term& term);
  // `written` are about to be written to; afterwards, with a value that is not known.
  void before_write(const std::vector<const Term*>& written);
  void after_write(const std::vector<const Term*>& written);

  const std::unordered_map<ValueId, c10::IValue>& all() const { return by_id_; }

 private:
  bool is_known_size(const torch::jit::Node& node, const std::vector<Term>& arguments, const Term& sized) const;

  const Values& values_;
  const Lockstep& runs_;
  std::unordered_map<ValueId, c10::IValue> by_id_;
  std::unordered_map<const c10::StorageImpl*, std::vector<ValueId>> in_memory_;
  // Memory with contents that are not known. Held weakly, so that no later storage can get the same address and be
  // taken for this one.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> unknown_memory_;
};

}  // namespace whence::recorder
