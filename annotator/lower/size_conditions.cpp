#include "annotator/lower/size_conditions.h"

#include <algorithm>
#include <utility>

#include "schema/size_steps.h"

namespace whence::lower {

Argument SizeConditions::add(const char* target, const char* overload, std::vector<NamedArgument> arguments,
                             ValueKind kind) {
  Node node;
  node.target = target;
  node.overload = overload;
  node.arguments = std::move(arguments);
  node.origin = memory_.origin;
  const DType dtype = kind == ValueKind::boolean ? DType::boolean : DType::int64;
  node.outputs = {memory_.fresh("size", {kind, dtype, std::nullopt})};
  memory_.sink->push_back(std::move(node));
  return {ValueRef{memory_.sink->back().outputs.front()}};
}

Argument SizeConditions::integer(const char* target, Argument a, Argument b) {
  return add(target, "int", {{"a", std::move(a)}, {"b", std::move(b)}}, ValueKind::integer);
}

Argument SizeConditions::joined(const char* target, const std::optional<Argument>& a, const Argument& b) {
  return a ? add(target, "bool", {{"a", *a}, {"b", b}}, ValueKind::boolean) : b;
}

std::optional<Argument> SizeConditions::length(SymbolId symbol) {
  const auto read = [&](ValueId tensor, std::int64_t axis) -> std::optional<Argument> {
    if (memory_.renamed(tensor) != tensor) return std::nullopt;  // its shape has changed
    Argument self{ValueRef{tensor}};
    memory_.resolve_shape(self);
    return add("aten::size", "int", {{"self", self}, {"dim", {axis}}}, ValueKind::integer);
  };
  if (const auto local = local_size(symbol)) {
    const bool known = local->axis >= 0 && std::ranges::find(tensors_, local->value) != tensors_.end();
    return known ? read(local->value, local->axis) : std::nullopt;
  }
  std::vector<ValueId> tensors;
  for (const ProgramInput& input : program_.inputs) tensors.push_back(input.value);
  tensors.insert(tensors.end(), tensors_.begin(), tensors_.end());
  for (const ValueId tensor : tensors) {
    const auto sizes = sizes_of(program_, tensor);
    if (!sizes || program_.values[tensor].type.kind != ValueKind::tensor) continue;
    const auto axis = std::ranges::find(*sizes, Size::symbol(symbol));
    if (axis == sizes->end()) continue;
    if (auto found = read(tensor, axis - sizes->begin())) return found;
  }
  return std::nullopt;
}

std::optional<Argument> SizeConditions::number(const Size& size) {
  const SizeSteps<Argument> steps{
      [this](SymbolId symbol) { return length(symbol); }, [](std::int64_t number) { return Argument{number}; },
      [this](const char* target, const Argument& a, const Argument& b) { return integer(target, a, b); }};
  return steps.number(size);
}

std::optional<Argument> SizeConditions::holds(const Comparison& comparison) {
  const auto left = number(comparison.left), right = number(comparison.right);
  if (!left || !right) return std::nullopt;
  return add(comparison.relation == Relation::equal ? "aten::eq" : "aten::ne", "int", {{"a", *left}, {"b", *right}},
             ValueKind::boolean);
}

std::optional<Argument> SizeConditions::all_hold(const std::vector<Constraint>& constraints) {
  std::optional<Argument> all;
  for (const Constraint& constraint : constraints) {
    std::optional<Argument> any;
    for (const Comparison& comparison : constraint.any) {
      const auto each = holds(comparison);
      if (!each) return std::nullopt;
      any = joined("aten::__or__", any, *each);
    }
    all = joined("aten::__and__", all, *any);
  }
  return all;
}

}  // namespace whence::lower
