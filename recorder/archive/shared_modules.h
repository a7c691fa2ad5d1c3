// SharedModules: which objects of an archive were one module in Python.
//
// torch.jit.trace and torch.jit.script make an object for every name of a module, so a module with two names is two
// objects in an archive. Only their tensors still show that they were one: both objects hold the same ones. Two objects
// are taken as one module if class, structure and every tensor agree, and the archive does not show that they were two:
// in a trace only the object of the last name has code, so two objects with code, or with code at the same place below
// them, were two modules whose weights are tied. A single tensor is weak evidence, because one weight is often tied on
// purpose (an embedding of encoder and decoder): objects with one tensor are one module only if the same module holds
// both, or if the archive shows that the last one is called as often as it has names, or from outside the module that
// holds it. Objects without tensors are one module only if they are at the same place in a shared module.
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

  // Returns the first object, in order of registration, that was the same module: the object itself if it is the first.
  const c10::ivalue::Object* first(const c10::ivalue::Object* object) const;

 private:
  struct Form {
    int number = 0;   // equal for equal class, structure and tensors
    int tensors = 0;  // at or below
  };
  // By the receiver's type, since in a trace every object has a type of its own.
  struct Calls {
    std::map<const c10::Type*, std::size_t> places;  // how many places call it
    std::set<const c10::Type*> handed;               // types of objects that the caller got as an argument
  };
  using Group = std::vector<torch::jit::Module>;

  void note_calls(const torch::jit::Module& module);
  Form form_of(const torch::jit::Module& module, const c10::ivalue::Object* parent);
  bool one_tensor_identifies(const Group& group) const;
  void join(const torch::jit::Module& to, const torch::jit::Module& other);

  std::map<std::string, int> numbers_;                          // number of each form, by its description
  std::unordered_map<const c10::ivalue::Object*, Form> forms_;  // the form of each object seen
  std::vector<Group> groups_;                                   // by number: objects, first registered first
  std::unordered_map<const c10::ivalue::Object*, const c10::ivalue::Object*> parents_;
  Calls calls_;
  std::unordered_map<const c10::ivalue::Object*, const c10::ivalue::Object*> first_;
};

}  // namespace whence::recorder::archive
