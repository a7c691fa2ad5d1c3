// The parameters that a node reads, known by name or by bytes (tensor_sources.h), point to the operations that read
// them in the program. Equal bytes make several candidates; the structure decides among them.
#include <cmath>

#include "annotator/match/rules/rule.h"

namespace whence::match {

void parameters_read(const RuleContext& context, EvidenceTable& table) {
  constexpr double by_name = 1.8, by_bytes = 2, by_shape = 0.4;
  constexpr std::size_t most_readers = 64;  // what more read points nowhere
  const Structure& structure = context.foreign.structure;
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    const StructureNode& node = structure.nodes[i];
    for (const std::int32_t input : node.inputs) {
      if (input < 0 || !structure.values[input].constant) continue;
      const std::int32_t tensor =
          node.kind == NodeKind::constant ? structure.values[input].tensor : structure.root_tensor(input);
      if (tensor < 0) continue;
      for (const TensorSource& source : context.tensors.of(tensor)) {
        if (context.reference.parameters[source.parameter].units.size() > most_readers) continue;
        for (const std::int32_t unit : context.reference.parameters[source.parameter].units) {
          const double strength = source.by_content()                      ? by_bytes
                                  : source.how == TensorSource::How::shape ? by_shape
                                                                           : by_name;
          const MatchRule rule = source.by_content()                      ? MatchRule::digests
                                 : source.how == TensorSource::How::shape ? MatchRule::shapes
                                                                          : MatchRule::initializers;
          const double sharers = static_cast<double>(context.reference.parameters[source.parameter].units.size());
          table[i].push_back(
              {rule, unit, -1, strength / std::sqrt(sharers * source.candidates), structure.tensors[tensor].name});
        }
      }
    }
  }
}

}  // namespace whence::match
