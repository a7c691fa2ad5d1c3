#include "recorder/archive/shared_modules.h"

#include <algorithm>
#include <set>

#include "recorder/archive/module_tree.h"

namespace whence::recorder::archive {
namespace {

using JitModule = torch::jit::Module;

// Calls `visit(attribute, child)` for every attribute that is a module, in order of registration.
template <class Visit>
void for_each_child(const JitModule& module, const Visit& visit) {
  const auto& type = *module.type();
  for (std::size_t slot = 0; slot < type.numAttributes(); ++slot) {
    if (!type.getAttribute(slot)->is_module()) continue;
    const c10::IValue value = module._ivalue()->getSlot(slot);
    if (value.isObject()) visit(type.getAttributeName(slot), JitModule(value.toObject()));
  }
}

// Returns true if the objects of one form may have been one module: at most one of them has code, and the same is true
// for their children at each path. Scripted objects share their type, and with it their code, so their code is no
// evidence.
bool may_be_one_module(const std::vector<JitModule>& group) {
  if (group[0].type() == group[1].type()) return true;
  std::set<const c10::ivalue::Object*> with_code;
  std::map<std::string, std::vector<JitModule>> children;
  for (const JitModule& module : group) {
    if (module.find_method("forward")) with_code.insert(module._ivalue().get());
    for_each_child(module, [&](const std::string& name, const JitModule& child) { children[name].push_back(child); });
  }
  return with_code.size() <= 1 && std::all_of(children.begin(), children.end(),
                                              [](const auto& place) { return may_be_one_module(place.second); });
}

}  // namespace

SharedModules::SharedModules(const JitModule& root) {
  form_of(root, nullptr);
  for (const Group& group : groups_) {
    if (group.size() < 2 || !may_be_one_module(group)) continue;
    const int tensors = forms_.at(group.front()._ivalue().get()).tensors;
    if (tensors == 0 || (tensors == 1 && !one_tensor_identifies(group))) continue;
    for (std::size_t i = 1; i < group.size(); ++i) join(group.front(), group[i]);
  }
}

const c10::ivalue::Object* SharedModules::first(const c10::ivalue::Object* object) const {
  for (auto found = first_.find(object); found != first_.end(); found = first_.find(object)) object = found->second;
  return object;
}

bool SharedModules::one_tensor_identifies(const Group& group) const {
  const c10::Type* const last = group.back().type().get();
  if (calls_.passed_types.count(last) > 0) return true;
  const auto call_sites = calls_.call_sites.find(last);
  if (call_sites != calls_.call_sites.end() && call_sites->second >= group.size()) return true;
  return std::all_of(group.begin(), group.end(), [&](const JitModule& module) {
    return parents_.at(module._ivalue().get()) == parents_.at(group.front()._ivalue().get());
  });
}

// Counts the calls in a module's forward. A traced function receives modules that are not below its own as additional
// arguments.
void SharedModules::note_calls(const JitModule& module) {
  const auto method = module.find_method("forward");
  if (!method) return;
  for (const torch::jit::Node* node : method->graph()->nodes()) {
    if (node->kind() != c10::prim::CallMethod) continue;
    const torch::jit::Value* receiver = node->inputs()[0];
    const c10::Type* const type = receiver->type().get();
    ++calls_.call_sites[type];
    if (receiver->node()->kind() == c10::prim::Param && receiver != method->graph()->inputs()[0]) {
      calls_.passed_types.insert(type);
    }
  }
}

SharedModules::Form SharedModules::form_of(const JitModule& module, const c10::ivalue::Object* parent) {
  const c10::ivalue::Object* const object = module._ivalue().get();
  if (const auto known = forms_.find(object); known != forms_.end()) return known->second;
  parents_.emplace(object, parent);
  note_calls(module);
  Form form;
  const auto& type = *module.type();
  std::string description = plain_type_name(type.name()->qualifiedName());
  for (std::size_t slot = 0; slot < type.numAttributes(); ++slot) {
    const c10::IValue value = module._ivalue()->getSlot(slot);
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const std::string key = storage_key(value.toTensor());
    form.tensors += key.empty() ? 0 : 1;
    description += "\n" + type.getAttributeName(slot) + " " + key;
  }
  // Objects of one form never contain each other, so groups keep the order of registration, and the groups of children
  // precede those of their parents.
  for_each_child(module, [&](const std::string& name, const JitModule& child) {
    const Form below = form_of(child, object);
    form.tensors += below.tensors;
    description += "\n" + name + " = " + std::to_string(below.number);
  });
  const auto [number, fresh] = numbers_.emplace(description, static_cast<int>(groups_.size()));
  if (fresh) groups_.emplace_back();
  form.number = number->second;
  groups_[form.number].push_back(module);
  forms_.emplace(object, form);
  return form;
}

// Joins the children as well, even those without tensors.
void SharedModules::join(const JitModule& to, const JitModule& other) {
  const c10::ivalue::Object* const target = first(to._ivalue().get());
  if (target == other._ivalue().get()) return;
  first_[other._ivalue().get()] = target;
  std::map<std::string, JitModule> children;
  for_each_child(to, [&](const std::string& name, const JitModule& child) { children.emplace(name, child); });
  for_each_child(other, [&](const std::string& name, const JitModule& child) { join(children.at(name), child); });
}

}  // namespace whence::recorder::archive
