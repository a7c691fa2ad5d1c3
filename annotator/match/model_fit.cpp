// Is the file of this model at all, and with these weights? Quantised, converted and folded files of the right model
// are; so only weights that no tool had reason to change are compared, and structure has the first word.
#include "annotator/match/model_fit.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "schema/dtype.h"

namespace whence {

bool ModelFit::of_another_model() const {
  constexpr std::int64_t few = 4;  // one in this many
  constexpr std::int64_t hardly_any = 10;
  if (nodes == 0 || same > 0 || distinct * hardly_any >= parameters) return false;
  if (known_sizes * 2 >= weights && weights > 0) return false;  // a part of the model, perhaps
  return corresponding * few < nodes && by_name * few < parameters;
}

bool ModelFit::with_other_weights() const {
  constexpr std::int64_t enough = 3;  // one or two may have been changed by a tool
  return comparable >= enough && same == 0;
}

namespace {

std::vector<std::int64_t> sorted_sizes(std::vector<std::int64_t> dims) {
  std::erase(dims, 1);
  std::sort(dims.begin(), dims.end());
  return dims;
}

// Sizes and masks are computed differently by every exporter; what reads weights says which model it is.
bool reads_weights(const Structure& s, const StructureNode& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](std::int32_t input) {
    if (input < 0 || !s.values[input].constant) return false;
    const std::int32_t tensor = s.root_tensor(input);
    return tensor >= 0 && s.tensors[tensor].elements() > 8;
  });
}

}  // namespace

ModelFit model_fit(const Placement& placement, const TensorSources& tensors) {
  const Structure& foreign = placement.foreign;
  const Reference& reference = placement.reference;
  ModelFit fit;
  fit.parameters = tensors.parameters;
  fit.by_name = tensors.by_name;
  fit.by_bytes = tensors.by_bytes;
  fit.by_shape = tensors.by_shape;
  std::unordered_map<std::string_view, int> sharers;
  for (const ReferenceParameter& parameter : reference.parameters) ++sharers[parameter.digest];
  std::vector<bool> met(reference.parameters.size(), false);
  for (std::size_t i = 0; i < foreign.tensors.size(); ++i) {
    for (const TensorSource& source : tensors.of(static_cast<std::int32_t>(i))) {
      if (!source.by_content() || sharers[reference.parameters[source.parameter].digest] > 1) continue;
      if (!met[source.parameter]) ++fit.distinct;
      met[source.parameter] = true;
    }
  }

  std::set<std::vector<std::int64_t>> sizes;
  for (const ReferenceParameter& parameter : reference.parameters) sizes.insert(sorted_sizes(parameter.dims));
  for (const StructureTensor& tensor : foreign.tensors) {
    const std::vector<std::int64_t> own = sorted_sizes(tensor.dims);
    if (own.size() < 2) continue;
    ++fit.weights;
    fit.known_sizes += static_cast<std::int64_t>(sizes.count(own));
  }

  for (std::size_t i = 0; i < foreign.nodes.size(); ++i) {
    const auto node = static_cast<std::int32_t>(i);
    if (foreign.nodes[i].kind != NodeKind::heavy) continue;
    if (!reads_weights(foreign, foreign.nodes[i])) continue;
    ++fit.nodes;
    const MatchRule rule = placement.matches[i].rule;
    fit.corresponding += placement.pairs.node(node) >= 0 || rule == MatchRule::cone || rule == MatchRule::structure ||
                         rule == MatchRule::carried;
    if (placement.pairs.node(node) < 0) continue;
    if (placement.matches[i].units.size() != 1) continue;  // something is folded in
    for (const std::int32_t input : foreign.nodes[i].inputs) {
      const std::int32_t tensor = input < 0 || !foreign.values[input].constant ? -1 : foreign.root_tensor(input);
      if (tensor < 0 || foreign.tensors[tensor].bytes.empty() || foreign.tensors[tensor].elements() < 2) continue;
      for (const std::int32_t id : reference.parameters_of_unit[placement.matches[i].units.front()]) {
        const ReferenceParameter& parameter = reference.parameters[id];
        if (parameter.digest.empty() || sharers[parameter.digest] > 1) continue;
        const DType dtype = from_onnx(foreign.tensors[tensor].data_type);
        if (!is_floating(dtype) || size_of(dtype) != parameter.element_size) continue;
        if (sorted_sizes(foreign.tensors[tensor].dims) != sorted_sizes(parameter.dims)) continue;
        ++fit.comparable;
        const auto& sources = tensors.of(tensor);
        fit.same += std::any_of(sources.begin(), sources.end(), [&](const TensorSource& source) {
          return source.parameter == id && source.by_content();
        });
      }
    }
  }
  return fit;
}

}  // namespace whence
