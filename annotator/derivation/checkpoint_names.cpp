#include "annotator/derivation/checkpoint_names.h"

#include <algorithm>
#include <map>
#include <utility>

#include "schema/flat_map.h"
#include "schema/tensor_digests.h"

namespace whence::derivation {
namespace {

using checkpoint::CheckpointTensor;
using NamedParameters = std::map<std::string, const Parameter*, std::less<>>;

// Returns the saved parameters of a program by all their names.
NamedParameters parameters_of(const Program& program) {
  NamedParameters parameters;
  for (const Parameter& parameter : program.parameters) {
    if (!parameter.persistent) continue;
    parameters.emplace(parameter.name, &parameter);
    for (const std::string& alias : parameter.aliases) parameters.emplace(alias, &parameter);
  }
  return parameters;
}

bool fits(const CheckpointTensor& tensor, const Parameter& parameter) {
  return tensor.data.shape == parameter.data.shape;
}

bool has_recorded_bytes(const CheckpointTensor& tensor, const Parameter& parameter) {
  if (!fits(tensor, parameter) || tensor.data.dtype != parameter.data.dtype || parameter.digests.content.empty())
    return false;
  Program one;
  one.parameters.items().emplace_back().data = tensor.data;
  compute_digests(one);
  return one.parameters.items().front().digests.content == parameter.digests.content;
}

using Pairs = std::map<const Parameter*, const CheckpointTensor*>;

// Returns the tensors with the names and sizes of the program's parameters, by the prefix of their names. One name that
// happens to end as another one is no prefix; a part that shares parameters with another one may lack their names.
std::map<std::string, Pairs> pairs_by_prefix(const std::vector<CheckpointTensor>& tensors, const Program& program) {
  const NamedParameters parameters = parameters_of(program);
  std::map<std::string, Pairs> pairs;
  for (const CheckpointTensor& tensor : tensors) {
    for (std::size_t at = 0; at != std::string::npos;) {
      const auto found = parameters.find(std::string_view(tensor.name).substr(at));
      if (found != parameters.end() && fits(tensor, *found->second)) {
        pairs[tensor.name.substr(0, at)].emplace(found->second, &tensor);
      }
      const std::size_t dot = tensor.name.find('.', at);
      at = dot == std::string::npos ? dot : dot + 1;
    }
  }
  const std::size_t count = static_cast<std::size_t>(
      std::ranges::count_if(program.parameters, [](const Parameter& each) { return each.persistent; }));
  std::erase_if(pairs, [&](const auto& each) { return 2 * each.second.size() < count; });
  return pairs;
}

std::ptrdiff_t count_recorded(const Pairs& pairs) {
  return std::ranges::count_if(pairs, [](const auto& pair) { return has_recorded_bytes(*pair.second, *pair.first); });
}

}  // namespace

std::string prefix_of(const std::vector<CheckpointTensor>& tensors, const Program& program,
                      const std::optional<std::string>& preferred) {
  const std::map<std::string, Pairs> pairs = pairs_by_prefix(tensors, program);
  if (pairs.empty()) return "";
  if (preferred && pairs.contains(*preferred)) return *preferred;
  if (pairs.size() == 1) return pairs.begin()->first;
  // The bytes are read only if several prefixes fit. Of equal ones, "" is the first.
  return std::ranges::max_element(
             pairs, {}, [](const auto& each) { return std::pair(count_recorded(each.second), each.second.size()); })
      ->first;
}

void remove_prefix(std::vector<CheckpointTensor>& tensors, const std::string& prefix, const Program& program) {
  if (prefix.empty()) return;
  const NamedParameters parameters = parameters_of(program);
  for (CheckpointTensor& tensor : tensors) {
    if (!tensor.name.starts_with(prefix)) continue;
    std::string name = tensor.name.substr(prefix.size());
    if (parameters.contains(name)) tensor.name = std::move(name);
  }
}

void add_tied_names(std::vector<CheckpointTensor>& tensors, const Program& program) {
  FlatMap<std::string, std::size_t> known;
  for (std::size_t i = 0; i < tensors.size(); ++i) known.emplace(tensors[i].name, i);
  const auto with_name_of = [&](const Parameter& parameter) -> CheckpointTensor* {
    if (const auto found = known.find(parameter.name); found != known.end()) return &tensors[found->second];
    for (const std::string& alias : parameter.aliases) {
      if (const auto found = known.find(alias); found != known.end()) return &tensors[found->second];
    }
    return nullptr;
  };
  for (const auto& [name, parameter] : parameters_of(program)) {
    if (known.contains(name)) continue;
    CheckpointTensor* tensor = with_name_of(*parameter);
    if (tensor == nullptr) {
      const auto found =
          std::ranges::find_if(tensors, [&](const auto& each) { return has_recorded_bytes(each, *parameter); });
      if (found != tensors.end()) tensor = &*found;
    }
    if (tensor != nullptr) tensor->aliases.push_back(name);
  }
}

}  // namespace whence::derivation
