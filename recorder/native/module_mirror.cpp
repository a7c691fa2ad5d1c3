#include "recorder/native/module_mirror.h"

#include <set>

#include <c10/util/Type.h>
#include <cxxabi.h>

#include "recorder/base/live_mark.h"

namespace whence::native {

using recorder::to_archive_name;

namespace {

ModuleKind kind_of(const std::string& type) {
  static const std::set<std::string> containers = {"torch::nn::SequentialImpl", "torch::nn::ModuleListImpl",
                                                   "torch::nn::ModuleDictImpl", "torch::nn::ParameterListImpl",
                                                   "torch::nn::ParameterDictImpl"};
  if (containers.count(type) > 0) return ModuleKind::container;
  return type.starts_with("torch::nn::") ? ModuleKind::layer : ModuleKind::user;
}

// Adds a class and its base classes, from run-time type information. Skips LibTorch's own classes.
void add_classes(const std::type_info& type, std::vector<std::string>& classes) {
  const std::string name = c10::demangle(type.name());
  if (name.starts_with("torch::nn::")) return;
  classes.push_back(name);
  if (const auto* single = dynamic_cast<const abi::__si_class_type_info*>(&type)) {
    add_classes(*single->__base_type, classes);
  } else if (const auto* several = dynamic_cast<const abi::__vmi_class_type_info*>(&type)) {
    for (unsigned i = 0; i < several->__base_count; ++i) add_classes(*several->__base_info[i].__base_type, classes);
  }
}

// Returns the name of the module's class in the archive, whose segments must be identifiers. LibTorch's modules get
// the names that users know, such as torch.nn.Linear.
c10::QualifiedName archive_type(const std::string& type, ModuleKind kind) {
  std::string name = "__torch__";
  for (std::size_t begin = 0; begin < type.size();) {
    const std::size_t end = std::min(type.find("::", begin), type.size());
    std::string segment = type.substr(begin, end - begin);
    begin = end + 2;
    if (segment == "(anonymous namespace)") continue;
    for (char& c : segment) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') c = '_';
    }
    name += "." + segment;
  }
  if (kind != ModuleKind::user && name.ends_with("Impl")) name.resize(name.size() - 4);
  return c10::QualifiedName(name);
}

}  // namespace

ModuleMirror::ModuleMirror(const torch::nn::Module& root)
    : root_(&root), unit_(std::make_shared<torch::jit::CompilationUnit>()), self_(mirror(root, "", nullptr)) {}

torch::jit::Module ModuleMirror::mirror(const torch::nn::Module& module, const std::string& name,
                                        const torch::nn::Module* parent) {
  if (const auto existing = mirrored_.find(&module); existing != mirrored_.end()) return existing->second;
  const std::string type = c10::demangle(typeid(module).name());
  const ModuleKind kind = kind_of(type);
  MirroredModule row{name, "__module", type, {}, kind, parent, 0, {}};
  add_classes(typeid(module), row.classes);
  if (parent != nullptr) {
    const MirroredModule& above = modules_.at(parent);
    if (!above.path.empty()) row.path = above.path + "." + name;
    row.scope = above.scope + "." + to_archive_name(name);
  }
  modules_.emplace(&module, std::move(row));
  order_.push_back(&module);
  torch::jit::Module self(archive_type(type, kind), unit_, /*shouldMangle=*/true);
  mirrored_.emplace(&module, self);
  self.register_attribute("training", c10::BoolType::get(), module.is_training());
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    self.register_parameter(to_archive_name(parameter.key()), parameter.value(), /*is_buffer=*/false);
  }
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
    self.register_buffer(to_archive_name(buffer.key()), buffer.value());
  }
  for (const auto& child : module.named_children()) {
    self.register_module(to_archive_name(child.key()), mirror(*child.value(), child.key(), &module));
    modules_.at(&module).children.push_back(child.value().get());
    ++modules_.at(child.value().get()).parents;
  }
  return self;
}

const MirroredModule* ModuleMirror::find(const torch::nn::Module* module) const {
  const auto found = modules_.find(module);
  return found == modules_.end() ? nullptr : &found->second;
}

bool ModuleMirror::encloses(const torch::nn::Module* ancestor, const torch::nn::Module* module) const {
  for (; module != nullptr; module = at(module).parent) {
    if (module == ancestor) return true;
  }
  return false;
}

const torch::nn::Module* ModuleMirror::user_module(const torch::nn::Module* module) const {
  while (module != root_ && at(module).kind != ModuleKind::user) module = at(module).parent;
  return module;
}

const torch::nn::Module* ModuleMirror::common_ancestor(const torch::nn::Module* a, const torch::nn::Module* b) const {
  while (!encloses(a, b)) a = at(a).parent;
  return a;
}

}  // namespace whence::native
