// The module tree of a loaded archive: which object is which qualified name, and what it holds.
#pragma once

#include <string>
#include <unordered_map>

#include "recorder/archive/archive.h"
#include "recorder/archive/shared_modules.h"
#include "recorder/base/torch_pch.h"
#include "schema/program.h"

namespace whence::recorder {

// "__torch__.torch.nn.modules.linear.___torch_mangle_3.Linear" -> "torch.nn.modules.linear.Linear";
// "__torch__.Net" -> "__main__.Net", as Python calls it.
std::string plain_type_name(const std::string& archive_name);

// A c10 tensor type as ours; undefined for quantized and sparse tensors.
DType dtype_of(const at::Tensor& tensor);

// Equal for tensors that see the same memory in the same way; "" for those without plain memory of their own.
std::string storage_key(const at::Tensor& tensor);

// Fills program.modules and program.parameters in the order of named_modules() and named_parameters(): depth first, in
// order of registration, each object once; further names of an object become aliases.
class ModuleTree {
 public:
  ModuleTree(Archive& archive, Program& program);

  ModuleId module_of(const c10::ivalue::Object* object) const;  // none_id for objects that are not modules
  // The parameter behind a tensor attribute; ties resolve to their first name.
  ParameterId parameter_of(const c10::ivalue::Object* object, const std::string& attribute) const;
  // The parameter that holds exactly this memory, however it was reached (an LSTM keeps a list of its own weights).
  ParameterId parameter_of(const at::Tensor& tensor) const;

 private:
  void visit(const torch::jit::Module& module, const std::string& path, ModuleId parent);
  void add_tensor(ModuleId owner, const torch::jit::Module& module, std::size_t slot, const std::string& path);
  void sum_parameters();

  Archive& archive_;
  Program& program_;
  SharedModules shared_;
  std::unordered_map<const c10::ivalue::Object*, ModuleId> ids_;
  std::unordered_map<std::string, ParameterId> by_attribute_;  // "<module id>.<attribute>"
  std::map<std::string, ParameterId> by_storage_;              // ties: same memory, same view
};

}  // namespace whence::recorder
