#include "recorder/inputs/leaves.h"

#include <utility>

namespace whence::recorder::inputs {

namespace {

void add_leaves(const c10::IValue& value, const std::string& name, std::vector<Leaf>& leaves) {
  if (value.isTensor()) {
    leaves.push_back({name, value.toTensor()});
  } else if (value.isTuple() || value.isList()) {
    std::size_t index = 0;
    const auto add = [&](const auto& elements) {
      for (const c10::IValue& element : elements) add_leaves(element, name + "." + std::to_string(index++), leaves);
    };
    if (value.isTuple()) add(value.toTupleRef().elements());
    if (value.isList()) add(value.toListRef());
  } else if (value.isGenericDict()) {
    std::size_t index = 0;
    for (const auto& entry : value.toGenericDict()) {
      const std::string key = entry.key().isString() ? entry.key().toStringRef() : std::to_string(index);
      add_leaves(entry.value(), name + "." + key, leaves);
      ++index;
    }
  }
}

}  // namespace

std::vector<Leaf> leaves(const c10::IValue& value, const std::string& name) {
  std::vector<Leaf> found;
  add_leaves(value, name, found);
  return found;
}

c10::IValue map_tensors(const c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTuple()) {
    std::vector<c10::IValue> elements;
    for (const c10::IValue& element : value.toTupleRef().elements()) elements.push_back(map_tensors(element, change));
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  if (value.isList()) {
    c10::impl::GenericList list(value.toList().elementType());
    for (const c10::IValue& element : value.toListRef()) list.push_back(map_tensors(element, change));
    return list;
  }
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    c10::impl::GenericDict copy(dict.keyType(), dict.valueType());
    for (const auto& entry : dict) copy.insert(entry.key(), map_tensors(entry.value(), change));
    return copy;
  }
  return value;
}

}  // namespace whence::recorder::inputs
