// Aliases: tensors that are, or may be, names of the same memory. What a write to one of them changes is worked out of
// the Program (annotator/lower). An ONNX sequence holds copies of its elements: a write into one of them is refused.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "recorder/script/call.h"

namespace whence::recorder::script {

// Attributes that the program sets, and lists and dicts that it may change: tuples of one item, by object and name.
using Attributes = std::map<std::pair<const c10::ivalue::Object*, std::string>, Term>;

class Aliases {
 public:
  // Returns the first name of the tensor: an operation in place returns the tensor that it wrote to under a new name.
  ValueId first_name(const Term& term) const;
  void note_same(ValueId result, ValueId tensor) { same_as_[result] = tensor; }
  // Notes that `result` of a branch or loop may share the memory of any of `from`.
  void note_passage(ValueId result, const std::vector<const Term*>& from);
  // True if one of the two is the result of a branch or loop that may hand out the memory of the other.
  bool may_be_one(const Term& a, const Term& b) const;
  // Notes that the tensor, in each run, is put into a list whose length depends on data.
  void note_element(const Term& element);
  void note_element(const at::Tensor& tensor);

  // Notes that the list holds views of a tensor. They are copies from its first use as a list on.
  void note_views(ValueId list, const program::Seen& views);
  bool is_written(ValueId list) const;
  // Throws Error unsupported_feature if the list holds views of which one was written to since.
  void note_use(const Term& list);

  // Throws Error unsupported_feature if a `written` tensor is in a list whose length depends on data.
  void note_writes(const std::vector<const Term*>& written);

 private:
  using Memory = c10::weak_intrusive_ptr<c10::StorageImpl>;
  struct Passage {
    ValueId result = none_id;
    PerRun<std::vector<Memory>> memory;  // a reshape may be a view at some sizes alone

    std::vector<const c10::StorageImpl*> alive_in(int run) const;
    bool may_be(const Term& term) const;
  };

  struct Views {
    std::vector<at::Tensor> tensors;
    bool written = false;
  };

  std::vector<const c10::StorageImpl*> may_lie_in(const Term& term, int run) const;

  std::unordered_map<ValueId, ValueId> same_as_;
  std::vector<Passage> passages_;
  std::unordered_map<const c10::StorageImpl*, Memory> in_sequences_;
  std::unordered_map<ValueId, Views> views_;  // by the list
};

}  // namespace whence::recorder::script
