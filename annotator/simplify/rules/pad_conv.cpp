// x -> Pad(0) -> Conv(pads)                            before
// x -> Conv(pads + Pad's)                              after
// Condition: only spatial axes are padded, with zeros, by constant amounts that are not negative; nothing else reads
// the padded tensor. Origins: fused; the node belongs to the modules of both.
#include <algorithm>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::Attribute;
using graph::GraphNode;
using graph::no_value;

namespace {

bool pads_with_zeros(const Rewriter& r, const GraphNode& pad) {
  const Attribute* mode = pad.find("mode");
  if (mode != nullptr && std::get<std::string>(mode->value) != "constant") return false;
  if (pad.inputs.size() < 3 || pad.inputs[2] == no_value) return true;
  const TensorData* value = r.constant(pad.inputs[2]);
  return value != nullptr && program::single_number(*value) == 0.0;
}

// Returns the padding before and after each spatial axis, in Conv's order; nullopt if Conv cannot express it.
std::optional<std::vector<std::int64_t>> spatial_pads(const Rewriter& r, const GraphNode& pad) {
  const auto amounts = r.integers(pad.inputs[1]);
  const auto& dims = r.value(pad.inputs[0]).dims;
  const bool some_axes = pad.inputs.size() > 3 && pad.inputs[3] != no_value;
  if (!amounts || !dims || some_axes || amounts->size() != 2 * dims->size()) return std::nullopt;
  const std::size_t rank = dims->size();
  std::vector<std::int64_t> spatial;
  for (std::size_t i = 0; i < amounts->size(); ++i) {
    const std::int64_t amount = (*amounts)[i];
    if (amount < 0 || (i % rank < 2 && amount != 0)) return std::nullopt;
    if (i % rank >= 2) spatial.push_back(amount);
  }
  return spatial;
}

bool has_auto_pad(const GraphNode& conv) {
  const Attribute* automatic = conv.find("auto_pad");
  return automatic != nullptr && std::get<std::string>(automatic->value) != "NOTSET";
}

}  // namespace

Outcome pad_conv(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& conv = rewriter.node(index);
  if (!is(conv, "Conv")) return no_match();
  const GraphNode* pad = rewriter.producer(conv.inputs[0], "Pad");
  if (pad == nullptr) return no_match();
  if (!pads_with_zeros(rewriter, *pad)) return refused("the padding is not zero");
  if (rewriter.use_count(conv.inputs[0]) != 1) return refused("the padded tensor is used elsewhere");
  auto pads = spatial_pads(rewriter, *pad);
  if (!pads || has_auto_pad(conv)) return refused("Conv cannot pad like this");

  GraphNode merged = conv;
  if (const Attribute* own = conv.find("pads")) {
    const auto& amounts = std::get<std::vector<std::int64_t>>(own->value);
    for (std::size_t i = 0; i < pads->size(); ++i) (*pads)[i] += amounts[i];
    std::erase_if(merged.attributes, [](const Attribute& attribute) { return attribute.name == "pads"; });
  }
  merged.attributes.push_back({"pads", std::move(*pads)});
  merged.inputs[0] = pad->inputs[0];
  merged.origin = joined(pad->origin, conv.origin);
  rewriter.replace_with(conv.outputs[0], std::move(merged));
  return changed();
}

}  // namespace whence::simplify
