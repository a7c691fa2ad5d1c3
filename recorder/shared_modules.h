// SharedModules: which objects of an archive were one module in Python.
//
// torch.jit.trace and torch.jit.script make an object for every name of a module, so that one module under two names
// comes back from an archive as two objects. What remains of the identity are the tensors: both hold the same ones.
// Two objects are taken as one module when class, structure and every tensor agree, and the archive does not show that
// they were two: in a trace only the last name's object has code, so two objects with code, or with code at the same
// place below them, were two modules whose weights are tied. A module without any tensor cannot be told from its copy
// unless what holds it is shared.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "recorder/torch_pch.h"

namespace whence {

class SharedModules {
 public:
  explicit SharedModules(const torch::jit::Module& root);

  // The first object, in order of registration, that was the same module; the object itself when it is the first.
  const c10::ivalue::Object* first(const c10::ivalue::Object* object) const;

 private:
  struct Form {
    int number = 0;           // equal for equal class, structure and tensors
    bool has_tensor = false;  // at or below
  };
  using Group = std::vector<torch::jit::Module>;

  Form form_of(const torch::jit::Module& module);
  void join(const torch::jit::Module& to, const torch::jit::Module& other);

  std::map<std::string, int> numbers_;                          // of forms, by description
  std::unordered_map<const c10::ivalue::Object*, Form> forms_;  // of objects seen
  std::vector<Group> groups_;                                   // by number: objects, first registered first
  std::unordered_map<const c10::ivalue::Object*, const c10::ivalue::Object*> first_;
};

}  // namespace whence
