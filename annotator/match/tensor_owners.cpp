#include "annotator/match/tensor_owners.h"

#include <algorithm>
#include <unordered_map>

#include "schema/dtype.h"
#include "schema/module_path.h"
#include "schema/parse_number.h"
#include "schema/sort_unique.h"

namespace whence::match {
namespace {

TensorOwner owner_of(const std::vector<TensorSource>& sources, const Reference& reference) {
  TensorOwner owner;
  std::vector<UnitIndex> named, alike;
  bool open = false, common = false, named_clearly = true;
  for (const TensorSource& source : sources) {
    if (source.how == TensorSource::How::shape) continue;
    const auto& units = reference.parameters[source.parameter].units;
    auto& list = source.how == TensorSource::How::name ? named : alike;
    list.insert(list.end(), units.begin(), units.end());
    common = common || source.is_common;
    if (source.how == TensorSource::How::name) {
      named_clearly = named_clearly && !source.is_open_name();
      continue;
    }
    open = open || source.candidates > 1 || units.size() > 1;  // several units: tied
    owner.rule = source.how == TensorSource::How::sketch ? MatchRule::sketches : MatchRule::digests;
  }
  sort_unique(named);
  sort_unique(alike);
  if (alike.empty()) {
    if (!named_clearly) return owner;
    owner.rule = named.empty() ? MatchRule::none : MatchRule::initializers;
    owner.parts = std::move(named);
    return owner;
  }
  if (!open || (alike.size() == 1 && !common)) {
    owner.parts = std::move(alike);
    return owner;
  }
  for (const UnitIndex unit : named) {
    if (named_clearly && std::ranges::find(alike, unit) != alike.end()) owner.parts.push_back(unit);
  }
  if (owner.parts.size() != 1) {
    owner.parts.clear();
    owner.alternatives = std::move(alike);
  }
  return owner;
}

}  // namespace

TensorOwners::TensorOwners(const ForeignStructure& file, const Reference& reference, const TensorSources& tensors)
    : f_(file),
      reference_(reference),
      owners_(file.tensors.size()),
      changed_elements_(file.tensors.size(), false),
      unit_of_(reference.scopes.size()),
      children_(reference.scopes.size()),
      read_once_(reference.scopes.size(), 0),
      read_often_(reference.scopes.size(), 0) {
  for (const ForeignTensor tensor : f_.tensors.keys()) {
    std::vector<TensorSource> sources = tensors.of(tensor);
    if (f_.tensors[tensor].elements() <= 1) {  // a batch counter has the bytes of many constants
      std::erase_if(sources, [](const TensorSource& source) { return source.how != TensorSource::How::name; });
    }
    owners_[tensor] = owner_of(sources, reference);
    for (const TensorSource& source : sources) {
      const DType dtype = from_onnx(f_.tensors[tensor].data_type);
      const bool same_dtype =
          is_floating(dtype) && size_of(dtype) == size_of(reference.parameters[source.parameter].dtype);
      if (same_dtype && source.how == TensorSource::How::sketch) changed_elements_[tensor] = true;
      const bool by_bytes = source.by_content() && source.candidates == 1;
      if (by_bytes || source.how == TensorSource::How::name) in_file_.insert(source.parameter);
    }
  }
  for (const UnitIndex unit : reference.units.keys()) unit_of_[reference.units[unit].scope] = unit;
  for (const ScopeIndex scope : reference.scopes.keys()) {
    if (reference.scopes[scope].parent.exists()) children_[reference.scopes[scope].parent].push_back(scope);
  }
  count_readers();
}

std::vector<ForeignTensor> TensorOwners::read_by(ForeignNode node) const {
  const auto& inputs = f_.nodes[node].inputs;
  std::vector<ForeignTensor> found;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].exists() || !f_.values[inputs[i]].constant) continue;
    const ForeignTensor tensor =
        f_.values[inputs[i]].tensor.exists() ? f_.values[inputs[i]].tensor : f_.root_tensor(inputs[i]);
    if (!tensor.exists()) continue;
    // The operand of a norm or of a convolution may be a parameter of another module.
    const auto& op_type = f_.nodes[node].op_type;
    if (i == 0 && inputs.size() > 1 && (op_type.ends_with("Normalization") || is_convolution(op_type))) continue;
    found.push_back(tensor);
  }
  return found;
}

void TensorOwners::count_readers() {
  std::unordered_map<ForeignTensor, std::vector<ForeignNode>> readers;
  for (const ForeignNode node : f_.nodes.keys()) {
    if (f_.nodes[node].kind == NodeKind::constant) continue;
    for (const ForeignTensor tensor : read_by(node)) readers[tensor].push_back(node);
  }
  for (const auto& [tensor, nodes] : readers) {
    const bool is_gathered =
        std::ranges::any_of(nodes, [&](ForeignNode node) { return f_.nodes[node].op_type == "Gather"; });
    if (is_gathered && is_table(tensor)) gathered_.insert(owners_[tensor].parts.front());
    const std::string_view first = f_.nodes[nodes.front()].op_type;
    const auto alike = std::ranges::count_if(nodes, [&](ForeignNode node) { return f_.nodes[node].op_type == first; });
    for (const UnitIndex unit : owners_[tensor].parts) {
      for (ScopeIndex at = reference_.units[unit].scope; at.exists(); at = reference_.scopes[at].parent) {
        ++(alike > 1 ? read_often_ : read_once_)[at];
      }
    }
  }
}

bool TensorOwners::is_container(ScopeIndex scope) const {
  return !has_parameters(scope) && has_modules_inside(scope) &&
         std::ranges::all_of(children_[scope],
                             [&](ScopeIndex child) { return is_digits(last_segment(reference_.scopes[child].path)); });
}

bool TensorOwners::is_table(ForeignTensor tensor) const {
  const auto& dims = f_.tensors[tensor].dims;
  if (owners_[tensor].parts.size() != 1 || std::ranges::count_if(dims, [](auto size) { return size > 1; }) < 2)
    return false;
  const auto& parameters = reference_.parameters_of_unit[owners_[tensor].parts.front()];
  return parameters.size() == 1 && is_matrix(parameters.front()) &&
         last_segment(reference_.parameters[parameters.front()].names.front()) == "weight";
}

bool TensorOwners::is_matrix(ParameterIndex parameter) const {
  return std::ranges::count_if(reference_.parameters[parameter].dims, [](std::int64_t size) { return size > 1; }) > 1;
}

bool is_convolution(std::string_view op_type) {
  static const std::set<std::string_view> convolutions = {"Conv",      "ConvInteger", "ConvTranspose",
                                                          "FusedConv", "NhwcConv",    "QLinearConv"};
  return convolutions.contains(op_type);
}

}  // namespace whence::match
