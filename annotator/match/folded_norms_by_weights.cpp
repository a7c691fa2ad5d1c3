#include "annotator/match/folded_norms_by_weights.h"

#include <algorithm>
#include <string>
#include <vector>

#include "schema/element_count.h"

namespace whence::match {
namespace {

int number_at_end(std::string_view path) {
  const std::size_t last = path.find_last_not_of("0123456789");
  const std::string_view digits = path.substr(last + 1);
  return digits.empty() || digits.size() > 6 ? -1 : std::stoi(std::string(digits));
}

}  // namespace

void FoldedNorms::find_norm(ForeignNode convolution, UnitIndex own) {
  if (!has_changed_bias(convolution, own)) return;
  const UnitIndex norm = nearest_norm(own);
  if (!norm.exists()) return;
  pairs_.emplace(own, norm);
  pairs_.emplace(norm, own);
}

// Returns true if the convolution has a bias whose elements differ from its own parameter, the effect of a folded norm.
// The bias of an integer convolution is added after the convolution and its scale.
bool FoldedNorms::has_changed_bias(ForeignNode node, UnitIndex own) const {
  constexpr std::size_t bias = 2;
  constexpr int max_distance = 4;
  const ForeignStructure& f = placement_.foreign;
  const auto is_changed = [&](ForeignTensor tensor) {
    const TensorOwner& owner = owners_.of(tensor);
    const bool is_own =
        owner.parts == std::vector{own} || std::ranges::find(owner.alternatives, own) != owner.alternatives.end();
    return !is_own || owner.rule != MatchRule::digests;
  };
  if (f.nodes[node].op_type != "ConvInteger") {
    const auto& inputs = f.nodes[node].inputs;
    if (inputs.size() <= bias || !inputs[bias].exists()) return false;
    const ForeignTensor tensor = f.root_tensor(inputs[bias]);
    return !tensor.exists() || is_changed(tensor);
  }
  for (int step = 0; step < max_distance; ++step) {
    const auto readers = placement_.readers(node);
    if (readers.size() != 1) return false;
    node = readers.front();
    for (const ForeignTensor tensor : owners_.read_by(node)) {
      if (f.tensors[tensor].elements() > 1) return f.nodes[node].op_type == "Add" && is_changed(tensor);
    }
  }
  return false;
}

// Returns the norm that a convolution may have absorbed: it has as many channels, is the nearest in the tree of
// modules, and its name ends in the same number, "conv2" and "bn2", or in the next one of a Sequential.
UnitIndex FoldedNorms::nearest_norm(UnitIndex own) const {
  const origin::CallTree& scopes = placement_.reference.scopes;
  const auto& units = placement_.reference.units;
  const ScopeIndex scope = units[own].scope;
  std::vector<UnitIndex> found;
  int nearest = 0;
  for (const UnitIndex unit : units.keys()) {
    if (!is_lost_norm(unit, own)) continue;
    const int depth = scopes[scopes.common(units[unit].scope, scope)].depth;
    if (depth > nearest) found.clear();
    if (depth >= nearest) found.push_back(unit);
    nearest = std::max(nearest, depth);
  }
  if (found.empty()) return {};
  if (found.size() == 1) return found.front();
  const auto number = [&](UnitIndex unit) { return number_at_end(scopes[units[unit].scope].path); };
  const auto same = std::ranges::find(found, number(own), number);
  if (same != found.end()) return *same;
  std::erase_if(found, [&](UnitIndex unit) { return number(unit) < number(own); });
  if (found.empty()) return {};
  return *std::ranges::min_element(found, {}, number);
}

// Returns true for a module that has only scales and statistics for each channel of the convolution, none of them in
// the file.
bool FoldedNorms::is_lost_norm(UnitIndex unit, UnitIndex convolution) const {
  const auto& reference = placement_.reference;
  std::int64_t channels = 0;
  for (const ParameterIndex i : reference.parameters_of_unit[unit]) {
    const std::int64_t elements = element_count(reference.parameters[i].dims);
    if (elements == 1) continue;
    if (owners_.is_in_file(i) || (channels > 0 && elements != channels) || owners_.is_matrix(i)) return false;
    channels = elements;
  }
  return channels > 0 && std::ranges::any_of(reference.parameters_of_unit[convolution], [&](ParameterIndex weight) {
           const auto& dims = reference.parameters[weight].dims;
           return dims.size() > 2 && (dims[0] == channels || dims[1] == channels);
         });
}
}  // namespace whence::match
