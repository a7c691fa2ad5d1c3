// KnownValues: results that depend on no input, no parameter and no dynamic size, as PyTorch computed them. Those that
// the finished program reads become constants (program/finish.h). In-place writes are tracked by storage.
#pragma once

#include "recorder/script/lockstep.h"
#include "recorder/script/values.h"

namespace whence::recorder::script {

class KnownValues {
 public:
  KnownValues(const Values& values, const Lockstep& runs) : values_(values), runs_(runs) {}

  // Returns true if the term, and every item of a container, is known, and no write has made its contents unknown.
  bool is_known(const Term& term) const;
  bool contains(ValueId id) const { return by_id_.contains(id); }
  // Returns true if the results of `node` depend only on known arguments, and are not much larger than these.
  bool is_known_result(const torch::jit::Node& node, const std::vector<Term>& arguments,
                       const std::optional<std::vector<c10::IValue>>& results) const;
  // Notes the value of a known term in the first run, if it has one.
  void add(const Term& term);
  // before_write() saves known contents of tensors that share memory with `written`; after_write() notes that the
  // contents of that memory are now unknown.
  void before_write(const std::vector<const Term*>& written);
  void after_write(const std::vector<const Term*>& written);

  const std::unordered_map<ValueId, c10::IValue>& all() const { return by_id_; }

 private:
  bool is_known_size(const torch::jit::Node& node, const std::vector<Term>& arguments, const Term& sized) const;

  const Values& values_;
  const Lockstep& runs_;
  std::unordered_map<ValueId, c10::IValue> by_id_;
  std::unordered_map<const c10::StorageImpl*, std::vector<ValueId>> in_memory_;
  // Memory with unknown contents. The weak references prevent a later storage from getting the same address.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> unknown_memory_;
};

}  // namespace whence::recorder::script
