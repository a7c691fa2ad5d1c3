// ModuleMirror: a torch::jit::Module with the structure of a tree of torch::nn modules, which the tracer takes as
// `self`. It has the same names and shares parameters and buffers. A module with two names is mirrored once.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include <torch/nn/module.h>

#include "recorder/base/torch_pch.h"

namespace whence::native {

enum class ModuleKind : std::uint8_t {
  layer,      // a LibTorch class with a forward that announces its calls
  container,  // a LibTorch class without operations of its own: Sequential, ModuleList, ...
  user,
};

struct MirroredModule {
  std::string path;                  // qualified name, the first if there are several; the root is ""
  std::string scope;                 // its name in the tracer's scopes: "__module.layers.0"
  std::string type;                  // C++ name: "vision::BlockImpl"
  std::vector<std::string> classes;  // classes whose code may run on it: its own, then its bases
  ModuleKind kind = ModuleKind::user;
  const torch::nn::Module* parent = nullptr;  // the module that its path goes through
  int parents = 0;                            // the number of modules that hold it
  std::vector<const torch::nn::Module*> children;
};

class ModuleMirror {
 public:
  explicit ModuleMirror(const torch::nn::Module& root);

  torch::jit::Module& self() { return self_; }
  const torch::nn::Module* root() const { return root_; }
  const MirroredModule* find(const torch::nn::Module* module) const;  // null for a module that is not in the tree
  const MirroredModule& at(const torch::nn::Module* module) const { return modules_.at(module); }
  const std::vector<const torch::nn::Module*>& modules() const { return order_; }  // in the order of named_modules()
  // Returns true if `ancestor` is `module` or contains it.
  bool encloses(const torch::nn::Module* ancestor, const torch::nn::Module* module) const;
  // Returns the nearest user's module among `module` and its ancestors; the root if there is none.
  const torch::nn::Module* user_module(const torch::nn::Module* module) const;
  const torch::nn::Module* common_ancestor(const torch::nn::Module* a, const torch::nn::Module* b) const;

 private:
  torch::jit::Module mirror(const torch::nn::Module& module, const std::string& name, const torch::nn::Module* parent);

  const torch::nn::Module* root_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  std::unordered_map<const torch::nn::Module*, MirroredModule> modules_;
  std::unordered_map<const torch::nn::Module*, torch::jit::Module> mirrored_;
  std::vector<const torch::nn::Module*> order_;
  torch::jit::Module self_;
};

}  // namespace whence::native
