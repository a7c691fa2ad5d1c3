// Decides whether the file is of this model, and whether it has the model's weights. Quantised, converted and folded
// files of the right model must be accepted, so only weights that no tool had a reason to change are compared, and
// structure counts more.
#include "annotator/match/model_fit.h"

#include <algorithm>

#include "schema/dtype.h"
#include "schema/flat_map.h"

namespace whence::match {

// Known bytes, sketches and names are evidence of the model. But two models may share a few bytes: the same noise, or
// the weights from which one was initialised. Without such evidence (folded, quantised, renamed), most weights of the
// file must be placed in modules with parameters of their sizes; two models of one hidden size have many weights of the
// same sizes.
bool ModelFit::of_another_model() const {
  constexpr std::int64_t few_bytes = 10, few_names = 4, few_same = 4;  // one in this many
  constexpr std::int64_t enough_to_compare = 2;
  if (nodes == 0) return computing >= enough_to_compare && corresponding == 0;
  if (same > 0 && same * few_same >= std::max(comparable, nodes)) return false;
  if ((distinct + sketched) * few_bytes >= parameters.all) return false;
  if (parameters.all_by_name * 10 >= parameters.all * 9) return false;
  // Models of one family share some names; in a file of this model, at least some of the weights are also placed.
  if (parameters.all_by_name * few_names >= parameters.all) return placed * few_names < nodes;
  const bool all_shapes = parameters.all_by_shape * 10 >= parameters.all * 9;
  return all_shapes ? placed * 2 < nodes : placed * 4 < nodes * 3;
}

// A tool may have changed one or two of the weights that should have kept their bytes.
bool ModelFit::with_other_weights() const {
  constexpr std::int64_t enough = 3, few_bytes = 10;
  if (weights.are_others() || (weights.none_recognised() && distinct == 0)) return true;
  return comparable >= enough && same == 0 && distinct * few_bytes < parameters.all;
}

// Quantised, folded and split weights still have similar elements, so most of them are recognised in a file of the
// model. A table that all models of a kind have, or one layer that was not trained again, is not enough.
bool WeightCounts::are_others() const {
  constexpr std::int64_t enough = 2, few = 4;                              // one in this many
  const bool holds_the_model = known >= enough && held * 10 >= known * 9;  // perhaps with other models
  return compared >= enough && recognised * few < compared && !holds_the_model;
}

namespace {

// Returns the matrices that a node reads, which identify the model; every exporter computes sizes and masks
// differently. Leaves out elementwise sums and products: their matrices are masks and position tables, which only some
// exporters fold.
std::vector<ForeignTensor> matrices_of(const ForeignStructure& s, const StructureNode<Side::foreign>& node) {
  std::vector<ForeignTensor> matrices;
  if (node.commutative) return matrices;
  for (const ForeignValue input : node.inputs) {
    if (!input.exists() || !s.values[input].constant) continue;
    const ForeignTensor tensor = s.root_tensor(input);
    if (tensor.exists() && !s.tensors[tensor].is_vector() && s.tensors[tensor].elements() > 8)
      matrices.push_back(tensor);
  }
  return matrices;
}

// Returns true if one of the parameters that these units read has the sizes of one of the matrices that the node reads.
bool fits(const ForeignStructure& s, ForeignNode node, const std::vector<ForeignTensor>& matrices,
          const Reference& reference, const std::vector<UnitIndex>& units) {
  const bool in_blocks = computes_in_blocks(s.nodes[node].domain);
  for (const UnitIndex unit : units) {
    for (const ParameterIndex id : reference.parameters_of_unit[unit]) {
      const std::vector<std::int64_t>& dims = reference.parameters[id].dims;
      const std::vector<std::int64_t> sizes = sorted_sizes(dims);
      if (std::ranges::any_of(matrices, [&](ForeignTensor tensor) {
            return sorted_sizes(s.tensors[tensor].dims) == sizes ||
                   (in_blocks && is_filled_up(dims, s.tensors[tensor].dims));
          })) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

ModelFit model_fit(const Placement& placement, const TensorSources& tensors) {
  const ForeignStructure& foreign = placement.foreign;
  const Reference& reference = placement.reference;
  ModelFit fit;
  fit.parameters = tensors.counts();
  fit.weights = tensors.weights();
  FlatMap<std::string_view, int> sharers;
  sharers.reserve(reference.parameters.size());
  for (const ReferenceParameter& parameter : reference.parameters) ++sharers[parameter.digests.content];
  IndexedVector<ParameterIndex, bool> is_met(reference.parameters.size(), false);
  for (const ForeignTensor i : foreign.tensors.keys()) {
    bool counted = false;  // a tensor counts once for several equal parameters
    bool sketch_counted = false;
    for (const TensorSource& source : tensors.of(i)) {
      if (source.how == TensorSource::How::sketch) {
        const std::string& content = reference.parameters[source.parameter].digests.content;
        const bool is_one_of_equals = !content.empty() && source.candidates <= sharers[content];
        fit.sketched += source.candidates == 1 || (is_one_of_equals && !sketch_counted);
        sketch_counted = sketch_counted || is_one_of_equals;
      }
      if (!source.by_content() || is_met[source.parameter]) continue;
      const bool shared = sharers[reference.parameters[source.parameter].digests.content] > 1;
      // Ones and zeros are in every new model.
      if ((shared && counted) || foreign.tensors[i].is_uniform()) continue;
      is_met[source.parameter] = counted = true;
      ++fit.distinct;
    }
  }

  for (const ForeignNode node : foreign.nodes.keys()) {
    if (foreign.nodes[node].kind != NodeKind::heavy) continue;
    const NodeMatch& match = placement.matches[node];
    ++fit.computing;
    fit.corresponding += placement.pairs.partner(node).exists();
    if (const auto matrices = matrices_of(foreign, foreign.nodes[node]); !matrices.empty()) {
      ++fit.nodes;
      const origin::Confidence max_confidence =
          std::max(origin::Confidence::matched, placement.max_confidence(match.units));
      fit.placed += match.confidence <= max_confidence && fits(foreign, node, matrices, reference, match.units);
    }
    if (!placement.pairs.partner(node).exists()) continue;
    if (placement.matches[node].units.size() != 1) continue;  // something is folded in
    for (const ForeignValue input : foreign.nodes[node].inputs) {
      if (!input.exists() || !foreign.values[input].constant) continue;
      const ForeignTensor tensor = foreign.root_tensor(input);
      if (!tensor.exists() || foreign.tensors[tensor].bytes.empty() || foreign.tensors[tensor].elements() < 2) continue;
      if (foreign.tensors[tensor].is_uniform()) continue;
      for (const ParameterIndex id : reference.parameters_of_unit[placement.matches[node].units.front()]) {
        const ReferenceParameter& parameter = reference.parameters[id];
        if (parameter.digests.content.empty() || sharers[parameter.digests.content] > 1) continue;
        const DType dtype = from_onnx(foreign.tensors[tensor].data_type);
        if (!is_floating(dtype) || size_of(dtype) != size_of(parameter.dtype)) continue;
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

}  // namespace whence::match
