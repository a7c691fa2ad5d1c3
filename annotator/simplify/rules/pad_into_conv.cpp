// x -> Pad(zeros on spatial axes) -> Conv(pads: p)     before
// x ----------------------------------> Conv(pads: p + those)    after; the Pad stays for its other users
// Condition: constant mode, value zero, no negative padding, batch and channel axes untouched, explicit pads.
// Origins: fused; the node belongs to the modules of both.
#include "annotator/graph/tensor_values.h"
#include "annotator/simplify/rule.h"

namespace whence {

namespace {

using Ints = std::vector<std::int64_t>;

bool is_given(const GraphNode& node, std::size_t position) {
  return node.inputs.size() > position && node.inputs[position] != no_value;
}

bool pads_with_zero(const Rewriter& r, const GraphNode& pad) {
  const Attribute* mode = pad.find("mode");
  if (mode != nullptr && std::get<std::string>(mode->value) != "constant") return false;
  if (!is_given(pad, 2)) return true;
  const TensorData* value = r.constant(pad.inputs[2]);
  return value != nullptr && value->element_count() == 1 && number_at(*value, 0) == 0;
}

// [begin of each axis..., end of each axis...] over all `rank` axes; nothing when it is not constant.
std::optional<Ints> all_pads(const Rewriter& r, const GraphNode& pad, std::size_t rank) {
  const auto pads = r.integers(pad.inputs[1]);
  if (!pads) return std::nullopt;
  if (!is_given(pad, 3)) return pads->size() == 2 * rank ? pads : std::nullopt;
  const auto axes = r.integers(pad.inputs[3]);
  if (!axes || pads->size() != 2 * axes->size()) return std::nullopt;
  Ints all(2 * rank, 0);
  for (std::size_t i = 0; i < axes->size(); ++i) {
    const std::int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + static_cast<std::int64_t>(rank) : (*axes)[i];
    all[static_cast<std::size_t>(axis)] = (*pads)[i];
    all[static_cast<std::size_t>(axis) + rank] = (*pads)[i + axes->size()];
  }
  return all;
}

bool has_explicit_pads(const GraphNode& conv) {
  const Attribute* automatic = conv.find("auto_pad");
  return automatic == nullptr || std::get<std::string>(automatic->value) == "NOTSET";
}

}  // namespace

Outcome pad_into_conv(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& conv = rewriter.node(index);
  if (!is(conv, "Conv")) return not_mine();
  const GraphNode* pad = rewriter.producer(conv.inputs[0], "Pad");
  const TensorData* weight = rewriter.constant(conv.inputs[1]);
  if (pad == nullptr || weight == nullptr) return not_mine();
  if (!pads_with_zero(rewriter, *pad)) return refused("the padding is not with zeros");
  if (!has_explicit_pads(conv)) return refused("the convolution chooses its padding itself");
  const std::size_t rank = weight->shape.size();
  const auto added = all_pads(rewriter, *pad, rank);
  if (!added) return refused("the padding is computed");

  const std::size_t spatial = rank - 2;
  const Attribute* own = conv.find("pads");
  Ints pads = own == nullptr ? Ints(2 * spatial, 0) : std::get<Ints>(own->value);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t begin = (*added)[axis], end = (*added)[axis + rank];
    if (begin < 0 || end < 0) return refused("negative padding cuts");
    if (axis < 2 && (begin != 0 || end != 0)) return refused("batch or channels are padded");
    if (axis < 2) continue;
    pads[axis - 2] += begin;
    pads[axis - 2 + spatial] += end;
  }

  GraphNode padded = conv;
  std::erase_if(padded.attributes, [](const Attribute& attribute) { return attribute.name == "pads"; });
  padded.attributes.push_back({"pads", pads});
  padded.inputs[0] = pad->inputs[0];
  padded.origin = joined(pad->origin, conv.origin);
  const GraphValueId result = conv.outputs[0];
  const GraphValue type = rewriter.value(result);
  rewriter.replace(result, rewriter.insert(std::move(padded), type.dtype, type.dims));
  return changed();
}

}  // namespace whence
