#include "annotator/match/fused_sum.h"

#include <algorithm>

#include "annotator/match/op_class.h"
#include "annotator/match/value_steps.h"

namespace whence::match {
namespace {

constexpr std::size_t addend_slot = 3;  // the input that a convolution of ONNX Runtime adds

}  // namespace

ForeignValue added_value(const ForeignStructure& foreign, ForeignNode node) {
  const auto& entry = foreign.nodes[node];
  if (!origin::is_of_runtime(entry.domain) || !is_product(entry.op_class)) return {};
  const auto inputs = foreign.data_inputs(node);
  return inputs.size() > addend_slot ? inputs[addend_slot] : ForeignValue();
}

bool is_added(const ForeignStructure& foreign, const StructureUse<Side::foreign>& use) {
  return use.slot == static_cast<int>(addend_slot) && added_value(foreign, use.node).exists();
}

std::optional<ReferenceSum> sum_after(const ForeignStructure& foreign, const Reference& reference, ForeignNode node,
                                      ReferenceNode partner) {
  const ReferenceStructure& r = reference.structure;
  if (!added_value(foreign, node).exists() || !foreign.reads_weights(node) || r.nodes[partner].outputs.empty())
    return {};
  ReferenceValue value = r.loose(r.nodes[partner].outputs[0]);
  for (int step = 0; step < max_steps && value.exists(); ++step) {
    const auto& uses = r.heavy_uses(value);
    if (uses.empty()) return {};
    const ReferenceNode next = uses.front().node;  // the other uses are other forms of it
    if (!std::ranges::all_of(uses, [&](const auto& use) { return reference.same_units(use.node, next); })) return {};
    if (r.nodes[next].outputs.empty()) return {};
    const ReferenceValue result = r.loose(r.nodes[next].outputs[0]);
    const auto read = r.data_inputs(next);
    if (r.nodes[next].op_type == "Add" && read.size() == 2 && read[0].exists() && read[1].exists()) {
      return ReferenceSum{result, read[0] == value ? read[1] : read[0]};
    }
    if (!r.reads_weights(next)) return {};
    value = result;
  }
  return {};
}

}  // namespace whence::match
