// The parameters that a node reads, found by name or by bytes (tensor_sources.h), point to the operations that read
// them in the program. Equal bytes make several candidates; the structure decides among them.
#include <cmath>

#include "annotator/match/rules/rule.h"

namespace whence::match {

void parameters_read(const RuleContext& context, EvidenceTable& table) {
  constexpr double by_name = 1.8, by_bytes = 2, by_shape = 0.4;
  constexpr std::size_t max_readers = 64;  // a parameter with more readers is no evidence
  const ForeignStructure& structure = context.foreign.structure;
  for (const ForeignNode i : structure.nodes.keys()) {
    const auto& node = structure.nodes[i];
    for (const ForeignValue input : node.inputs) {
      if (!input.exists() || !structure.values[input].constant) continue;
      const ForeignTensor tensor =
          node.kind == NodeKind::constant ? structure.values[input].tensor : structure.root_tensor(input);
      if (!tensor.exists()) continue;
      for (const TensorSource& source : context.tensors.of(tensor)) {
        if (context.reference.parameters[source.parameter].units.size() > max_readers) continue;
        for (const UnitIndex unit : context.reference.parameters[source.parameter].units) {
          const double strength = source.by_content()                      ? by_bytes
                                  : source.how == TensorSource::How::shape ? by_shape
                                                                           : by_name;
          const MatchRule rule = source.by_content()                      ? MatchRule::digests
                                 : source.how == TensorSource::How::shape ? MatchRule::shapes
                                                                          : MatchRule::initializers;
          const double sharers = static_cast<double>(context.reference.parameters[source.parameter].units.size());
          table[i].push_back(
              {rule, unit, {}, strength / std::sqrt(sharers * source.candidates), structure.tensors[tensor].name});
        }
      }
    }
  }
}

}  // namespace whence::match
