#include "recorder/script/observed_places.h"

#include <algorithm>
#include <numeric>

#include "schema/place.h"

namespace whence::recorder::script {

void ObservedPlaces::note_arguments(const std::vector<Term>& arguments) {
  for (const Term& each : arguments) {
    if (!each.is_value() || !seen_.contains(each.id)) note(each, {});
  }
}

void ObservedPlaces::note_result(const Term& result, const std::vector<Term>& arguments) {
  note(result, arguments);
  if (!result.is_container()) return;
  for (const Term& item : *result.items) note(item, arguments);
}

void ObservedPlaces::note(const Term& term, const std::vector<Term>& arguments) {
  if (!term.is_value()) return;
  Observation observation;
  bool any = false, plain = true;
  for (int run = 0; run < max_runs; ++run) {
    if (!term.seen[run] || !term.seen[run]->isTensor() || !term.seen[run]->toTensor().has_storage()) continue;
    const at::Tensor& tensor = term.seen[run]->toTensor();
    any = true;
    observation.runs[run] = {tensor.storage_offset(), tensor.sizes().vec(), tensor.strides().vec(),
                             tensor.numel() == 0};
    const auto compare = [&](const Term& argument, const auto& again) -> void {
      if (argument.is_container()) {
        for (const Term& item : *argument.items) again(item, again);
      }
      if (program::memory_of(argument, run) != program::memory_of(term, run)) return;
      observation.shared[run] = true;
      observation.argument = argument.id;
    };
    for (const Term& argument : arguments) compare(argument, compare);
    plain = plain && !observation.shared[run] && tensor.storage_offset() == 0 && tensor.is_contiguous();
  }
  if (!any) return;
  seen_.insert(term.id);
  if (!plain) observations_.insert_or_assign(term.id, std::move(observation));
}

class ObservedPlaces::RunCheck {
 public:
  RunCheck(const ObservedPlaces& places, const Program& program, const inputs::ExampleInputs& inputs)
      : places_(places), program_(program), inputs_(inputs) {}

  std::optional<MemoryPlace> operator()(ValueId id, const std::optional<MemoryPlace>& derived) const {
    const auto observation = places_.observations_.find(id);
    if (observation != places_.observations_.end()) return seen(id, observation->second, derived);
    if (places_.seen_.contains(id)) {
      return derived && derived->memory == id && is_row_major(*derived) ? derived : std::nullopt;
    }
    return program_.values[id].source == ValueSource::node ? std::nullopt : derived;
  }

 private:
  std::optional<MemoryPlace> seen(ValueId id, const Observation& observation,
                                  const std::optional<MemoryPlace>& derived) const {
    if (derived && agrees(id, observation, *derived)) return derived;
    const auto sizes = sizes_of(program_, id);
    if (!sizes) return std::nullopt;
    const auto& first = observation.runs[0];
    const bool fixed = std::ranges::all_of(*sizes, [](const Size& size) { return size.is_integer(); });
    if (program_.symbols.empty() && fixed && first && first->sizes.size() == sizes->size()) {
      MemoryPlace place{observation.shared[0] ? observation.argument : id, first->offset, *sizes, {}};
      place.strides.assign(first->strides.begin(), first->strides.end());
      return place;
    }
    return derived && derived->memory == id ? in_an_order(id, observation, *sizes) : std::nullopt;
  }

  std::optional<std::int64_t> number(SymbolId symbol, int run) const {
    if (local_size(symbol)) return std::nullopt;
    if (inputs_.symbol_sizes.contains(symbol)) return inputs_.symbol_sizes[symbol][run];
    const Symbol& derived = program_.symbols[symbol];
    if (derived.kind != SymbolKind::derived) return std::nullopt;
    return value_of(derived.size, [&](SymbolId other) { return other < symbol ? number(other, run) : std::nullopt; });
  }

  // Returns false if the size had another value in the run, and true if its value in the run is unknown.
  bool matches_run(const Size& size, int run, std::int64_t seen) const {
    const auto expected = value_of(size, [&](SymbolId symbol) { return number(symbol, run); });
    return !expected || *expected == seen;
  }

  bool agrees(ValueId id, const Observation& observation, const MemoryPlace& place) const {
    for (int run = 0; run < max_runs; ++run) {
      const auto& there = observation.runs[run];
      if (!there || there->empty) continue;
      if (observation.shared[run] != (place.memory != id) || there->sizes.size() != place.sizes.size()) return false;
      if (!matches_run(place.offset, run, there->offset)) return false;
      for (std::size_t axis = 0; axis < place.strides.size(); ++axis) {
        if (there->sizes[axis] != 1 && !matches_run(place.strides[axis], run, there->strides[axis])) return false;
      }
    }
    return true;
  }

  // Returns a place in new memory with the axes in another order, such as that of an argument, if all runs agree on it.
  std::optional<MemoryPlace> in_an_order(ValueId id, const Observation& observation,
                                         const std::vector<Size>& sizes) const {
    const auto has_strides = [&](const auto& there) { return there && !there->empty; };
    const auto first = std::ranges::find_if(observation.runs, has_strides);
    if (first == observation.runs.end() || (*first)->sizes.size() != sizes.size()) return std::nullopt;
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t axis) { return (*first)->strides[axis]; });
    for (int run = 0; run < max_runs; ++run) {
      const auto& there = observation.runs[run];
      if (!has_strides(there)) continue;
      std::int64_t dense = 1;
      if (observation.shared[run] || there->offset != 0 || there->sizes.size() != sizes.size()) return std::nullopt;
      for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
        if (there->sizes[*axis] != 1 && there->strides[*axis] != dense) return std::nullopt;
        dense *= there->sizes[*axis];
      }
    }
    return MemoryPlace{id, 0, sizes, dense_strides(sizes, order)};
  }

  const ObservedPlaces& places_;
  const Program& program_;
  const inputs::ExampleInputs& inputs_;
};

void ObservedPlaces::state(Program& program, const inputs::ExampleInputs& inputs) const {
  if (program.ran) place_tensors(program, RunCheck(*this, program, inputs));
}

}  // namespace whence::recorder::script
