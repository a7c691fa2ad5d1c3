// Aliases: tensors that are, or may be, other names of the same memory, and the writes in place that a Program could
// not express because of it. An ONNX sequence holds copies of its elements, and of what comes out of a branch or loop
// only run time shows whether it is a tensor from before or a new one: a write into either is refused while the other
// is still of use.
#pragma once

#include "recorder/script/call.h"

namespace whence::recorder {

class Aliases {
 public:
  // The first name of the tensor: operations in place give back what they wrote to.
  ValueId first_name(const Term& term) const;
  void note_same(ValueId result, ValueId tensor) { same_as_[result] = tensor; }
  // `result` of a branch or loop may be the memory of any of `from`.
  void note_passage(ValueId result, const std::vector<const Term*>& from);
  // The tensor is put into a list whose length depends on data.
  void note_element(const at::Tensor& tensor);

  // Throws Error unsupported_feature where a tensor is `written` that one of the `running` calls still knows, or a
  // sequence holds, under another name.
  void refuse_writes(const std::vector<const Term*>& written, const std::vector<const Call*>& running) const;

 private:
  using Memory = c10::weak_intrusive_ptr<c10::StorageImpl>;
  struct Passage {
    ValueId result = none_id;
    std::vector<Memory> memory;

    bool may_be(const Term& term) const;
    bool leaves_in_doubt(const Term& written, const Term& other) const;
  };

  std::unordered_map<ValueId, ValueId> same_as_;
  std::vector<Passage> passages_;
  std::unordered_map<const c10::StorageImpl*, Memory> in_sequences_;
};

}  // namespace whence::recorder
