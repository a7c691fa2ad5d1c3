// SharedModules: finds which objects of an archive were one module in Python.
//
// torch.jit.trace and torch.jit.script make an object for every name of a module, so a module with two names is two
// objects in an archive. Only their tensors still show that they were one: both objects have the same tensors. Two
// objects count as one module if class, structure and every tensor agree, and the archive does not show that they were
// two. In a trace only the object of the last name has code: if both objects, or their children at the same path, have
// code, they were two modules with tied weights.
//
// A single tensor is weak evidence, because one weight is often tied on purpose (the embedding of encoder and decoder).
// Objects with one tensor count as one module only if the same module contains all of them, or if the archive shows
// that the last one is called as often as it has names, or from outside the module that contains it. Objects without
// tensors count as one module only at the same path in a shared module.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "recorder/base/torch_pch.h"

namespace whence::recorder::archive {

class SharedModules {
 public:
  explicit SharedModules(const torch::jit::Module& root);

  // Returns the first object, in order of registration, that was the same module; the object itself if it is the first.
  const c10::ivalue::Object* first(const c10::ivalue::Object* object) const;

 private:
  struct Form {
    int number = 0;   // equal for equal class, structure and tensors
    int tensors = 0;  // number of tensors at or below the object
  };
  // Calls by the receiver's type: in a trace every object has a separate type.
  struct Calls {
    std::map<const c10::Type*, std::size_t> call_sites;  // number of call sites
    std::set<const c10::Type*> passed_types;             // types of objects that the caller received as an argument
  };
  using Group = std::vector<torch::jit::Module>;

  void note_calls(const torch::jit::Module& module);
  Form form_of(const torch::jit::Module& module, const c10::ivalue::Object* parent);
  bool one_tensor_identifies(const Group& group) const;
  void join(const torch::jit::Module& to, const torch::jit::Module& other);

  std::map<std::string, int> numbers_;                          // number of each form, by its description
  std::unordered_map<const c10::ivalue::Object*, Form> forms_;  // the form of each object seen
  std::vector<Group> groups_;                                   // objects of each form, in order of registration
  std::unordered_map<const c10::ivalue::Object*, const c10::ivalue::Object*> parents_;
  Calls calls_;
  std::unordered_map<const c10::ivalue::Object*, const c10::ivalue::Object*> first_;
};

}  // namespace whence::recorder::archive
