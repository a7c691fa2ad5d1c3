// The parameters that a node reads, found by name or by bytes (tensor_sources.h), point to the operations that read
// them in the program. Equal bytes make several candidates; the structure decides among them.
#include <algorithm>
#include <cmath>
#include <vector>

#include "annotator/match/file_structure.h"
#include "annotator/match/rules/rule.h"

namespace whence::match {

namespace {

// True where all elements have the same bytes, as the scales of new norms, and where that is not known.
bool may_be_uniform(const StructureTensor& tensor) {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(tensor.elements(), 1));
  const std::size_t width = tensor.bytes.size() / size;
  return width == 0 || tensor.bytes.substr(width) == tensor.bytes.substr(0, tensor.bytes.size() - width);
}

// The tensors of which the name alone does not say whose they are: tools store equal tensors of several modules once,
// under the name of one, and tied weights have one of their names. Readers that do the same with a tensor like no other
// are calls of one module.
IndexedVector<ForeignTensor, bool> of_several_modules(const onnx_file::OnnxSummary& model,
                                                      const ForeignStructure& structure) {
  IndexedVector<ForeignTensor, std::vector<ForeignNode>> readers(structure.tensors.size());
  for (const ForeignNode i : structure.nodes.keys()) {
    if (structure.nodes[i].kind != NodeKind::heavy) continue;
    for (const ForeignValue input : structure.nodes[i].inputs) {
      const ForeignTensor tensor = input.exists() ? structure.root_tensor(input) : ForeignTensor();
      if (tensor.exists() && (readers[tensor].empty() || readers[tensor].back() != i)) readers[tensor].push_back(i);
    }
  }
  IndexedVector<ForeignTensor, bool> result(structure.tensors.size(), false);
  for (const ForeignTensor tensor : readers.keys()) {
    if (readers[tensor].size() < 2) continue;
    const std::string_view first = structure.nodes[readers[tensor].front()].op_type;
    result[tensor] = may_be_uniform(structure.tensors[tensor]) ||
                     std::ranges::any_of(readers[tensor],
                                         [&](ForeignNode reader) { return structure.nodes[reader].op_type != first; });
    release_bytes(model, structure.tensors[tensor]);
  }
  return result;
}

struct Weight {
  MatchRule rule;
  double strength;
};

Weight weight_of(TensorSource::How how) {
  switch (how) {
    case TensorSource::How::name:
      return {MatchRule::initializers, 1.8};
    case TensorSource::How::bytes:
    case TensorSource::How::part:
      return {MatchRule::digests, 2};
    case TensorSource::How::sketch:
      return {MatchRule::sketches, 1.9};
    case TensorSource::How::shape:
      return {MatchRule::shapes, 0.4};
  }
  return {MatchRule::none, 0};
}

}  // namespace

void parameters_read(const RuleContext& context, EvidenceTable& table) {
  constexpr std::size_t max_readers = 64;  // a parameter with more readers is no evidence
  const ForeignStructure& structure = context.foreign.structure;
  const bool by_names_alone = context.reference.structure.nodes.empty();
  const auto unclear = by_names_alone ? of_several_modules(context.model, structure)
                                      : IndexedVector<ForeignTensor, bool>(structure.tensors.size(), false);
  for (const ForeignNode i : structure.nodes.keys()) {
    const auto& node = structure.nodes[i];
    for (const ForeignValue input : node.inputs) {
      if (!input.exists() || !structure.values[input].constant) continue;
      const ForeignTensor tensor =
          node.kind == NodeKind::constant ? structure.values[input].tensor : structure.root_tensor(input);
      if (!tensor.exists() || unclear[tensor]) continue;
      for (const TensorSource& source : context.tensors.of(tensor)) {
        if (context.reference.parameters[source.parameter].units.size() > max_readers) continue;
        for (const UnitIndex unit : context.reference.parameters[source.parameter].units) {
          const Weight weight = weight_of(source.how);
          const double sharers = static_cast<double>(context.reference.parameters[source.parameter].units.size());
          const double strength = weight.strength / std::sqrt(sharers * source.candidates);
          table[i].push_back({weight.rule, unit, {}, strength, structure.tensors[tensor].name});
        }
      }
    }
  }
}

}  // namespace whence::match
