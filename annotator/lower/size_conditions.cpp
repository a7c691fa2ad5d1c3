#include "annotator/lower/size_conditions.h"

#include <algorithm>
#include <utility>

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
    if (memory_.renamed(tensor) != tensor) return std::nullopt;  // it has another shape now
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

std::optional<Argument> SizeConditions::number(const SizeAtom& atom) {
  if (atom.kind == SizeAtom::Kind::symbol) return length(atom.symbol);
  if (atom.kind == SizeAtom::Kind::call) return std::nullopt;
  const char* target = atom.kind == SizeAtom::Kind::floor_division ? "aten::floordiv"
                       : atom.kind == SizeAtom::Kind::minimum      ? "prim::min"
                                                                   : "prim::max";
  std::optional<Argument> result;
  for (const Size& operand : atom.operands) {
    auto each = number(operand);
    if (!each) return std::nullopt;
    result = result ? integer(target, *result, *each) : *each;
  }
  return result;
}

std::optional<Argument> SizeConditions::number(const Size& size) {
  if (!size.is_known()) return std::nullopt;
  std::optional<Argument> sum;
  if (size.number() != 0 || size.is_integer()) sum = Argument{size.number()};
  for (const Size::Term& term : size.terms()) {
    std::optional<Argument> product;
    if (term.coefficient != 1) product = Argument{term.coefficient};
    for (const auto& factor : term.factors) {
      auto each = number(*factor);
      if (!each) return std::nullopt;
      product = product ? integer("aten::mul", *product, *each) : *each;
    }
    sum = sum ? integer("aten::add", *sum, *product) : *product;
  }
  return sum;
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
