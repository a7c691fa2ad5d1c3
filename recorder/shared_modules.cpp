#include "recorder/shared_modules.h"

#include <algorithm>
#include <set>

#include "recorder/module_tree.h"

namespace whence {
namespace {

using JitModule = torch::jit::Module;

// Calls `visit(attribute, child)` for every module that is an attribute, in order of registration.
template <class Visit>
void for_each_child(const JitModule& module, const Visit& visit) {
  const auto& type = *module.type();
  for (std::size_t slot = 0; slot < type.numAttributes(); ++slot) {
    if (!type.getAttribute(slot)->is_module()) continue;
    const c10::IValue value = module._ivalue()->getSlot(slot);
    if (value.isObject()) visit(type.getAttributeName(slot), JitModule(value.toObject()));
  }
}

// Whether the objects of one form may have been one module: no two of them have code, nor have their children at any
// one place. Scripted objects share their type, and with it their code, so code says nothing of them.
bool may_be_one(const std::vector<JitModule>& group) {
  if (group[0].type() == group[1].type()) return true;
  std::set<const c10::ivalue::Object*> with_code;
  std::map<std::string, std::vector<JitModule>> children;
  for (const JitModule& module : group) {
    if (module.find_method("forward")) with_code.insert(module._ivalue().get());
    for_each_child(module, [&](const std::string& name, const JitModule& child) { children[name].push_back(child); });
  }
  return with_code.size() <= 1 &&
         std::all_of(children.begin(), children.end(), [](const auto& place) { return may_be_one(place.second); });
}

}  // namespace

SharedModules::SharedModules(const JitModule& root) {
  form_of(root);
  for (const Group& group : groups_) {
    if (group.size() < 2 || !forms_.at(group.front()._ivalue().get()).has_tensor || !may_be_one(group)) continue;
    for (std::size_t i = 1; i < group.size(); ++i) join(group.front(), group[i]);
  }
}

const c10::ivalue::Object* SharedModules::first(const c10::ivalue::Object* object) const {
  for (auto found = first_.find(object); found != first_.end(); found = first_.find(object)) object = found->second;
  return object;
}

SharedModules::Form SharedModules::form_of(const JitModule& module) {
  const c10::ivalue::Object* const object = module._ivalue().get();
  if (const auto known = forms_.find(object); known != forms_.end()) return known->second;
  Form form;
  const auto& type = *module.type();
  std::string description = plain_type_name(type.name()->qualifiedName());
  for (std::size_t slot = 0; slot < type.numAttributes(); ++slot) {
    const c10::IValue value = module._ivalue()->getSlot(slot);
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const std::string key = storage_key(value.toTensor());
    form.has_tensor = form.has_tensor || !key.empty();
    description += "\n" + type.getAttributeName(slot) + " " + key;
  }
  // Objects of one form never hold each other, so groups keep the order of registration, and those of children stand
  // before those of their parents.
  for_each_child(module, [&](const std::string& name, const JitModule& child) {
    const Form below = form_of(child);
    form.has_tensor = form.has_tensor || below.has_tensor;
    description += "\n" + name + " = " + std::to_string(below.number);
  });
  const auto [number, fresh] = numbers_.emplace(description, static_cast<int>(groups_.size()));
  if (fresh) groups_.emplace_back();
  form.number = number->second;
  groups_[form.number].push_back(module);
  forms_.emplace(object, form);
  return form;
}

// Children go with their parents, also those without a tensor of their own.
void SharedModules::join(const JitModule& to, const JitModule& other) {
  const c10::ivalue::Object* const target = first(to._ivalue().get());
  if (target == other._ivalue().get()) return;
  first_[other._ivalue().get()] = target;
  std::map<std::string, JitModule> children;
  for_each_child(to, [&](const std::string& name, const JitModule& child) { children.emplace(name, child); });
  for_each_child(other, [&](const std::string& name, const JitModule& child) { join(children.at(name), child); });
}

}  // namespace whence
