#include "recorder/script/values.h"

#include <algorithm>

#include "recorder/archive/module_tree.h"

namespace whence::recorder::script {

ValueId Values::add(const std::string& name, ValueSource source, Type type, std::int32_t index) {
  Value value;
  int& count = names_[name];
  value.name = count == 0 ? name : name + "_" + std::to_string(count);
  while (count > 0 && names_.count(value.name) > 0) value.name = name + "_" + std::to_string(++count);
  ++count;
  if (value.name != name) names_[value.name] = 1;
  value.type = std::move(type);
  value.source = source;
  value.index = index;
  return program_.values.add(std::move(value));
}

DType Values::dtype(const Term& term) const {
  if (term.is_value()) return type(term.id).dtype;
  return term.is_settled_number() ? program::dtype_of_number(*term.settled()) : DType::undefined;
}

// Returns a fixed size if it is equal in all runs; else a dynamic one, with a symbol if it equals the symbol in every
// run.
Dim Values::dim_of(const Numbers& sizes) {
  Dim dim;
  for (const auto& size : sizes) {
    if (!size) continue;
    if (dim.size < 0) dim.size = *size;
    dim.dynamic |= *size != dim.size;
  }
  if (!dim.dynamic) return dim;
  dim.symbol = symbol_of(sizes);
  if (dim.symbol == none_id) note_large_runs(sizes);
  return dim;
}

void Values::note_large_runs(const Numbers& sizes) {
  Numbers others = sizes;
  std::fill(others.begin() + inputs_.first_large_run, others.end(), std::nullopt);
  const SymbolId symbol = symbol_of(others);
  if (symbol == none_id) return;
  for (int run = inputs_.first_large_run; run < inputs_.runs; ++run) {
    hides_symbol_[run] |= sizes[run] && *sizes[run] != inputs_.symbol_sizes[symbol][run];
  }
}

SymbolId Values::symbol_of(const Numbers& sizes) const {
  SymbolId found = none_id;
  for (const SymbolId symbol : inputs_.symbol_sizes.keys()) {
    bool equal = true;
    for (int run = 0; run < max_runs; ++run) equal &= !sizes[run] || *sizes[run] == inputs_.symbol_sizes[symbol][run];
    if (equal) found = symbol;
  }
  return found;
}

Type Values::type_of(const RunValues& seen, const c10::TypePtr& declared) {
  const auto found = std::find_if(seen.begin(), seen.end(), [](const auto& value) { return value.has_value(); });
  const c10::IValue* first = found == seen.end() ? nullptr : &**found;
  if (first != nullptr && first->isTensor() && first->toTensor().defined()) {
    const at::Tensor& tensor = first->toTensor();
    Type type{ValueKind::tensor, archive::dtype_of(tensor), std::vector<Dim>()};
    std::vector<PerRun<std::optional<std::int64_t>>> sizes(static_cast<std::size_t>(tensor.dim()));
    for (int run = 0; run < max_runs; ++run) {
      if (!seen[run] || !seen[run]->isTensor() || !seen[run]->toTensor().defined()) continue;
      const at::Tensor& other = seen[run]->toTensor();
      if (other.dim() != tensor.dim()) return {ValueKind::tensor, type.dtype, std::nullopt};
      for (std::size_t axis = 0; axis < sizes.size(); ++axis) sizes[axis][run] = other.size(static_cast<int>(axis));
    }
    for (const auto& axis : sizes) type.dims->push_back(dim_of(axis));
    return type;
  }
  if (first != nullptr && first->isList()) return {ValueKind::sequence, program::element_dtype(seen), std::nullopt};
  const c10::TypePtr type = program::without_optional(declared);
  // Sizes that the tracer stored in the archive are those of other inputs.
  if (type && type->kind() == c10::TypeKind::TensorType) return {ValueKind::tensor, DType::undefined, std::nullopt};
  if (type && type->kind() == c10::TypeKind::NumberType && first != nullptr) {
    if (first->isDouble()) return program::declared_type(c10::FloatType::get());
    if (first->isBool()) return program::declared_type(c10::BoolType::get());
  }
  return program::declared_type(type);
}

}  // namespace whence::recorder::script
