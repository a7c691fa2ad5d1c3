// The module tree of a loaded archive: the qualified names, parameters and types of its objects.
#pragma once

#include <string>
#include <unordered_map>

#include "recorder/archive/archive.h"
#include "recorder/archive/shared_modules.h"
#include "recorder/base/torch_pch.h"
#include "schema/program.h"

namespace whence::recorder::archive {

// "__torch__.torch.nn.modules.linear.___torch_mangle_3.Linear" -> "torch.nn.modules.linear.Linear";
// "__torch__.Net" -> "__main__.Net", as in Python.
std::string plain_type_name(const std::string& archive_name);

// Returns the tensor's dtype; undefined for quantized and sparse tensors.
DType dtype_of(const at::Tensor& tensor);

// Returns a key that is equal for equal views of the same memory; "" for a tensor without strided memory or elements.
std::string storage_key(const at::Tensor& tensor);

// Fills program.modules and program.parameters in the order of named_modules() and named_parameters(): depth first, in
// order of registration, each object once; further names of an object become aliases.
class ModuleTree {
 public:
  ModuleTree(Archive& archive, Program& program);

  ModuleId module_of(const c10::ivalue::Object* object) const;  // none_id for objects that are not modules
  // Returns the parameter that a tensor attribute holds; tied ones resolve to their first name.
  ParameterId parameter_of(const c10::ivalue::Object* object, const std::string& attribute) const;
  // Returns the parameter with exactly this memory, for tensors that are not reached through an attribute (an LSTM has
  // a list of its weights).
  ParameterId parameter_of(const at::Tensor& tensor) const;

 private:
  void visit(const torch::jit::Module& module, const std::string& path, ModuleId parent);
  void add_tensor(ModuleId owner, const torch::jit::Module& module, std::size_t slot, const std::string& path);

  Archive& archive_;
  Program& program_;
  SharedModules shared_;
  std::unordered_map<const c10::ivalue::Object*, ModuleId> ids_;
  std::unordered_map<std::string, ParameterId> by_attribute_;  // "<module id>.<attribute>"
  std::map<std::string, ParameterId> by_storage_;              // ties: same memory, same view
};

}  // namespace whence::recorder::archive
