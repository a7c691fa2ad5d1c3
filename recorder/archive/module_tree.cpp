#include "recorder/archive/module_tree.h"

#include <algorithm>

#include "recorder/base/live_mark.h"
#include "schema/module_path.h"
#include "schema/module_rows.h"

namespace whence::recorder::archive {

std::string plain_type_name(const std::string& archive_name) {
  std::vector<std::string> segments;
  std::size_t begin = 0;
  while (begin <= archive_name.size()) {
    const std::size_t end = std::min(archive_name.find('.', begin), archive_name.size());
    std::string segment = archive_name.substr(begin, end - begin);
    if (segment.rfind("___torch_mangle_", 0) != 0) segments.push_back(std::move(segment));
    begin = end + 1;
  }
  if (!segments.empty() && segments.front() == "__torch__") segments.erase(segments.begin());
  if (segments.size() == 1) segments.insert(segments.begin(), "__main__");
  std::string name;
  for (const std::string& segment : segments) name += (name.empty() ? "" : ".") + segment;
  return name;
}

DType dtype_of(const at::Tensor& tensor) {
  if (tensor.is_quantized() || tensor.layout() != at::kStrided) return DType::undefined;
  return from_scalar_type(static_cast<int>(tensor.scalar_type()));
}

std::string storage_key(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || !tensor.has_storage() || tensor.numel() == 0) return "";
  std::ostringstream key;
  key << tensor.storage().unsafeGetStorageImpl() << '+' << tensor.storage_offset() << tensor.sizes() << tensor.strides()
      << static_cast<int>(tensor.scalar_type());
  return key.str();
}

namespace {

std::string joined(const std::string& path, const std::string& attribute) {
  return joined_path(path, from_archive_name(attribute));
}

}  // namespace

ModuleTree::ModuleTree(Archive& archive, Program& program)
    : archive_(archive), program_(program), shared_(archive.module()) {
  visit(archive.module(), "", none_id);
  sum_parameters(program_);
}

ModuleId ModuleTree::module_of(const c10::ivalue::Object* object) const {
  const auto found = ids_.find(shared_.first(object));
  return found == ids_.end() ? none_id : found->second;
}

ParameterId ModuleTree::parameter_of(const c10::ivalue::Object* object, const std::string& attribute) const {
  auto found = by_attribute_.find(std::to_string(module_of(object).number()) + "." + attribute);
  return found == by_attribute_.end() ? none_id : found->second;
}

ParameterId ModuleTree::parameter_of(const at::Tensor& tensor) const {
  const auto found = by_storage_.find(storage_key(tensor));
  return found == by_storage_.end() ? none_id : found->second;
}

void ModuleTree::visit(const torch::jit::Module& module, const std::string& path, ModuleId parent) {
  const auto* const object = shared_.first(module._ivalue().get());
  const auto [known, fresh] = ids_.emplace(object, ModuleId(program_.modules.size()));
  const ModuleId id = known->second;
  if (!fresh) {
    program_.modules[id].aliases.push_back(path);
  } else {
    add_module(program_, path, plain_type_name(module.type()->name()->qualifiedName()), parent);
  }
  if (parent != none_id) {
    std::vector<ModuleId>& siblings = program_.modules[parent].children;
    if (std::find(siblings.begin(), siblings.end(), id) == siblings.end()) siblings.push_back(id);
  }
  const auto& type = *module.type();
  for (std::size_t slot = 0; slot < type.numAttributes(); ++slot) {
    if (!module._ivalue()->getSlot(slot).isTensor()) continue;
    const std::string name = joined(path, type.getAttributeName(slot));
    if (fresh) {
      add_tensor(id, module, slot, name);
    } else if (const ParameterId same = parameter_of(object, type.getAttributeName(slot)); same != none_id) {
      program_.parameters[same].aliases.push_back(name);
    }
  }
  // Names below an alias are aliases as well, so walk it again; a module cannot contain itself.
  for (std::size_t slot = 0; slot < type.numAttributes(); ++slot) {
    if (!type.getAttribute(slot)->is_module()) continue;
    const c10::IValue value = module._ivalue()->getSlot(slot);
    if (value.isObject()) visit(torch::jit::Module(value.toObject()), joined(path, type.getAttributeName(slot)), id);
  }
}

void ModuleTree::add_tensor(ModuleId owner, const torch::jit::Module& module, std::size_t slot,
                            const std::string& path) {
  const auto& type = *module.type();
  const at::Tensor tensor = module._ivalue()->getSlot(slot).toTensor();
  if (!tensor.defined()) return;
  const std::string attribute = std::to_string(owner.number()) + "." + type.getAttributeName(slot);
  if (const std::string key = storage_key(tensor); !key.empty()) {
    const auto [tied, first] = by_storage_.emplace(key, ParameterId(program_.parameters.size()));
    if (!first) {
      program_.parameters[tied->second].aliases.push_back(path);
      by_attribute_.emplace(attribute, tied->second);
      std::vector<ParameterId>& own = program_.modules[owner].own_parameters;
      if (std::find(own.begin(), own.end(), tied->second) == own.end()) own.push_back(tied->second);
      return;
    }
  }
  Parameter row;
  row.name = path;
  row.kind = type.is_parameter(slot) ? ParameterKind::parameter
             : type.is_buffer(slot)  ? ParameterKind::buffer
                                     : ParameterKind::attribute;
  row.trainable = row.kind == ParameterKind::parameter && tensor.requires_grad();
  row.data.dtype = dtype_of(tensor);
  row.data.shape = tensor.sizes().vec();
  if (row.data.dtype != DType::undefined) row.data.bytes = archive_.bytes_of(tensor, &row.member);
  const ParameterId id = program_.parameters.add(std::move(row));
  by_attribute_.emplace(attribute, id);
  program_.modules[owner].own_parameters.push_back(id);
}

}  // namespace whence::recorder::archive
