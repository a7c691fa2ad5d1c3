#include "annotator/derivation/weights.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "annotator/derivation/checkpoint_names.h"
#include "annotator/derivation/recorded_results.h"
#include "annotator/program/tensor_values.h"
#include "schema/printable.h"

namespace whence::derivation {

Weights::Weights(std::vector<checkpoint::CheckpointTensor> tensors)
    : tensors_(std::move(tensors)), stored_(tensors_.size()) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    names_.emplace(tensors_[i].name, i);
    for (const std::string& alias : tensors_[i].aliases) names_.emplace(alias, i);
  }
}

namespace {

// Returns an entry for each name of a tied tensor, as a file has them that does not store tied tensors once.
std::vector<checkpoint::CheckpointTensor> with_all_names(std::vector<checkpoint::CheckpointTensor> tensors) {
  std::vector<checkpoint::CheckpointTensor> all;
  for (checkpoint::CheckpointTensor& tensor : tensors) {
    const std::vector<std::string> aliases = std::exchange(tensor.aliases, {});
    for (const std::string& alias : aliases) all.push_back({.name = alias, .data = tensor.data});
    all.push_back(std::move(tensor));
  }
  return all;
}

}  // namespace

Weights Weights::read(const std::string& path, const Program* program, const std::optional<std::string>& prefix,
                      Diagnostics& notes) {
  std::vector<checkpoint::CheckpointTensor> tensors = with_all_names(checkpoint::read_checkpoint(path, notes));
  if (program == nullptr) return Weights(std::move(tensors));
  std::string removed = prefix_of(tensors, *program, prefix);
  remove_prefix(tensors, removed, *program);
  add_tied_names(tensors, *program);
  Weights weights(std::move(tensors));
  weights.prefix_ = std::move(removed);
  return weights;
}

const TensorData* Weights::find(std::string_view name) const {
  const auto found = entry(name);
  return found ? &tensors_[*found].data : nullptr;
}

TensorData Weights::value(std::string_view name) const {
  const std::size_t index = entry(name).value();
  const auto complete = replaced_.find(index);
  const TensorData& data = complete == replaced_.end() ? tensors_[index].data : complete->second;
  constexpr std::uint64_t most_read = std::uint64_t{64} << 20;
  read_ += data.bytes.size();
  if (read_ > most_read) {
    release();
    read_ = 0;
  }
  const auto product = adapters_.find(index);
  return product == adapters_.end() ? data : product->second.applied_to(data);
}

void Weights::release() const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t i = 0; i < stored_; ++i) {
    const auto bytes = tensors_[i].data.bytes.in_memory();
    const bool is_mapped = bytes && !tensors_[i].data.bytes.file().empty();
    if (!is_mapped) continue;
    const auto first = (reinterpret_cast<std::uintptr_t>(bytes->data()) + page - 1) / page * page;
    const auto last = (reinterpret_cast<std::uintptr_t>(bytes->data()) + bytes->size()) / page * page;
    // The pages stay in the system's cache of the file. It is only a hint.
    if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
}

void Weights::compute(const Program& program) {
  const auto value_of = [&](const Parameter& parameter) -> std::optional<TensorData> {
    std::vector<std::string> names = {parameter.name};
    names.insert(names.end(), parameter.aliases.begin(), parameter.aliases.end());
    for (const std::string& name : names) {
      if (const TensorData* const found = find(name); found != nullptr && found->shape == parameter.data.shape) {
        return program::cast_tensor(value(name), parameter.data.dtype);
      }
    }
    const bool is_known = !parameter.persistent && parameter.data.bytes.in_memory();
    return is_known ? std::optional(parameter.data) : std::nullopt;
  };
  Program computing = program;
  forget_recorded_results(computing);
  for (ComputedValue& each : computed_values(computing, value_of)) {
    if (find(each.name) != nullptr) continue;
    names_.emplace(each.name, tensors_.size());
    tensors_.push_back({.name = each.name, .data = each.data});
    each.data = {};
    computed_.push_back(std::move(each));
  }
}

ParameterStep Weights::step_of(std::size_t index, DType dtype) const {
  ParameterStep step{.name = tensors_[index].name, .dtype = dtype, .dims = tensors_[index].data.shape};
  step.same_bytes = tensors_[index].aliases;
  if (is_computed(index)) {
    step.parameters = computed_[index - stored_].parameters;
    step.recipe = computed_[index - stored_].recipe;
    step.is_rounded = computed_[index - stored_].is_rounded;
    step.readers = computed_[index - stored_].readers;
  }
  return step;
}

std::optional<std::size_t> Weights::entry(std::string_view name) const {
  auto found = names_.find(name);
  if (found == names_.end() && !prefix_.empty() && name.starts_with(prefix_)) {
    found = names_.find(name.substr(prefix_.size()));
  }
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t Weights::index_of(std::string_view name) const {
  if (const auto found = entry(name)) return *found;
  throw Error(Code::weights_mismatch,
              "the adapter changes '" + printable(name) + "', which the checkpoint does not have",
              "pass the checkpoint that the adapter was trained on", {.stage = "refit"});
}

void Weights::require_fit(const Adapter& adapter, const std::string& path) const {
  const auto require = [&](bool fits, const std::string& name) {
    if (fits) return;
    throw Error(Code::weights_mismatch, "the adapter's sizes do not fit the parameter '" + printable(name) + "'",
                "pass the checkpoint that the adapter was trained on", {.file = path, .stage = "refit"});
  };
  for (const auto& [name, product] : adapter.products) {
    const TensorData& weight = tensors_[index_of(name)].data;
    const std::int64_t inputs = product.a.element_count() / product.a.shape[0];
    const std::int64_t rows = weight.shape.empty() ? 0 : weight.shape[0];
    require(weight.element_count() == inputs * product.b.shape[0] &&
                rows == (product.transposed ? inputs : product.b.shape[0]),
            name);
  }
  for (const auto& [name, data] : adapter.complete) require(data.shape == tensors_[index_of(name)].data.shape, name);
}

void Weights::adapt(Adapter adapter) {
  for (auto& [name, product] : adapter.products) adapters_[index_of(name)] = std::move(product);
  for (auto& [name, data] : adapter.complete) replaced_[index_of(name)] = std::move(data);
}

void remove_wrapper(Program& program, const Weights& weights) {
  std::vector<const Parameter*> wanted;
  for (const Parameter& parameter : program.parameters) {
    if (parameter.kind == ParameterKind::parameter) wanted.push_back(&parameter);
  }
  if (wanted.empty() || weights.find(wanted.front()->name) != nullptr) return;
  const std::string first = wanted.front()->name;
  for (std::size_t dot = first.find('.'); dot != std::string::npos; dot = first.find('.', dot + 1)) {
    const std::string prefix = first.substr(0, dot + 1);
    const bool has_all = std::ranges::all_of(wanted, [&](const Parameter* each) {
      return each->name.starts_with(prefix) && weights.find(each->name.substr(prefix.size())) != nullptr;
    });
    if (!has_all) continue;
    const auto shorten = [&](std::string& name) {
      if (name.starts_with(prefix)) name = name.substr(prefix.size());
    };
    for (Parameter& parameter : program.parameters) {
      shorten(parameter.name);
      std::ranges::for_each(parameter.aliases, shorten);
    }
    return;
  }
}

}  // namespace whence::derivation
