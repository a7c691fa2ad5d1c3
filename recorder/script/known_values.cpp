#include "recorder/script/known_values.h"

#include "schema/operator_facts.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

// Larger results are folded only if they are not much larger than their arguments: others are cheaper to compute than
// to store.
constexpr std::size_t max_small_result = 1 << 20;

std::size_t bytes_in(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() ? value.toTensor().nbytes() : 0;
  std::size_t sum = 0;
  if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) sum += bytes_in(element);
  }
  return sum;
}

}  // namespace

bool KnownValues::is_known(const Term& term) const {
  if (term.items) {
    return std::ranges::all_of(*term.items, [&](const Term& item) { return is_known(item); });
  }
  if (!term.is_value()) return term.kind != Term::Kind::object;
  if (!term.known) return false;
  return std::ranges::none_of(memories_of(term), [&](const auto* memory) { return unknown_memory_.contains(memory); });
}

// Returns true if the sizes that the operator returns are the same in every run.
bool KnownValues::is_known_size(const jit::Node& node, const std::vector<Term>& arguments, const Term& sized) const {
  const auto& dims = values_.type(sized.id).dims;
  if (!dims) return false;
  const std::string target = node.kind().toQualString();
  if (target == "aten::size" && arguments.size() == 1) return false;  // a list: decided for each size
  const auto rank = static_cast<std::int64_t>(dims->size());
  std::int64_t axis = rank;
  if (target == "aten::len") axis = 0;
  if ((target == "aten::size" || target == "aten::sym_size") && arguments[1].settled()) {
    axis = arguments[1].settled()->toInt();
  }
  if (axis == rank) return std::ranges::all_of(*dims, [](const Dim& dim) { return dim.is_static(); });
  if (axis < 0) axis += rank;
  return axis < 0 || axis >= rank || (*dims)[static_cast<std::size_t>(axis)].is_static();
}

bool KnownValues::is_known_result(const jit::Node& node, const std::vector<Term>& arguments,
                                  const std::optional<std::vector<c10::IValue>>& results) const {
  if (!results || node.isNondeterministic() || runs_.depth > 0) return false;
  const std::string target = node.kind().toQualString();
  if (target.starts_with("aten::empty") || target == "aten::new_empty") return false;
  const int shape_only = facts_of(target).shape_only;
  std::size_t input_bytes = 0, output_bytes = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Term& term = arguments[i];
    if (static_cast<int>(i) == shape_only) {
      if (term.is_value() && !is_known_size(node, arguments, term)) return false;
      continue;
    }
    if (!is_known(term)) return false;
    if (term.seen[0]) input_bytes += bytes_in(*term.seen[0]);
  }
  for (const c10::IValue& value : *results) output_bytes += bytes_in(value);
  return output_bytes <= max_small_result || output_bytes <= 2 * input_bytes;
}

void KnownValues::add(const Term& term) {
  if (!term.known || !term.seen[0]) return;
  by_id_.emplace(term.id, *term.seen[0]);
  for (const auto* memory : memories_of(term)) in_memory_[memory].push_back(term.id);
}

// Copies the contents of known values before a write changes the memory that they share.
void KnownValues::before_write(const std::vector<const Term*>& written) {
  for (const Term* term : written) {
    for (const auto* memory : memories_of(*term)) {
      const auto sharing = in_memory_.find(memory);
      if (sharing == in_memory_.end()) continue;
      for (ValueId id : sharing->second) by_id_[id] = by_id_[id].toTensor().clone();
      in_memory_.erase(sharing);
    }
  }
}

void KnownValues::after_write(const std::vector<const Term*>& written) {
  for (const Term* term : written) {
    for (int run = 0; run < max_runs; ++run) {
      auto* memory = memory_of(*term, run);
      if (memory != nullptr)
        unknown_memory_.emplace(memory, term->seen[run]->toTensor().storage().getWeakStorageImpl());
    }
  }
}

}  // namespace whence::recorder::script
