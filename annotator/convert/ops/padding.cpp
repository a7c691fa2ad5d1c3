// Padding: PyTorch lists pairs (before, after) from the last axis backwards; ONNX lists all befores, then all afters.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

// Returns the pads of all axes of `x` in ONNX's order. Negative pads cut elements off.
std::vector<Size> in_onnx_order(Ctx& c, Val x, const std::vector<Size>& pairs) {
  const std::size_t rank = c.rank(x);
  c.expect(pairs.size() <= 2 * rank, "the padding must not have more axes than self");
  std::vector<Size> pads(2 * rank, std::int64_t{0});
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::size_t axis = rank - 1 - i / 2;
    pads[axis] = pairs[i];
    pads[rank + axis] = pairs[i + 1];
  }
  return pads;
}

bool all_zero(Ctx& c, const std::vector<Size>& pads) {
  for (const Size& pad : pads) {
    if (c.static_size(pad) != std::int64_t{0}) return false;
  }
  return true;
}

Val pad(Ctx& c, Val x, const std::vector<Size>& pairs, const char* mode, Val value) {
  if (all_zero(c, pairs)) return x;
  std::vector<Val> inputs{x, c.to_vector(in_onnx_order(c, x, pairs))};
  if (value) inputs.push_back(value);
  Attributes attributes;
  if (mode != std::string_view("constant")) attributes.push_back({"mode", mode});
  return c.emit("Pad", std::move(inputs), std::move(attributes));
}

// Wraps around. Before opset 19, which added a mode for it, the ends of each axis are concatenated to it.
Val pad_circular(Ctx& c, Val x, const std::vector<Size>& pairs) {
  if (c.opset() >= 19) return pad(c, x, pairs, "wrap", absent);
  const int rank = c.rank(x);
  const auto slice = [&](Val from, std::int64_t begin, std::int64_t end, std::int64_t axis) {
    return c.emit("Slice", {from, c.constant_ints({begin}), c.constant_ints({end}), c.constant_ints({axis})});
  };
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::int64_t axis = rank - 1 - static_cast<std::int64_t>(i / 2);
    const auto before = c.static_size(pairs[i]), after = c.static_size(pairs[i + 1]);
    if (!before || !after)
      c.refuse("circular padding by dynamic sizes needs opset 19", "export with --opset 19 or newer");
    // Repeats only elements that are not cut off.
    if (*before < 0 || *after < 0) {
      x = slice(x, std::max<std::int64_t>(-*before, 0), *after < 0 ? *after : INT64_MAX, axis);
    }
    std::vector<Val> parts;
    if (*before > 0) parts.push_back(slice(x, -*before, INT64_MAX, axis));
    parts.push_back(x);
    if (*after > 0) parts.push_back(slice(x, 0, *after, axis));
    if (parts.size() > 1) x = c.emit("Concat", parts, {{"axis", axis}});
  }
  return x;
}

// Reflects or repeats the ends of `x`. An axis that is padded at one end and cut at the other takes two steps: ONNX
// cuts first, but PyTorch also pads with elements that are cut off.
Val pad_by_elements(Ctx& c, Val x, const std::vector<Size>& pairs, const char* mode) {
  std::vector<Size> added = pairs, cut(pairs.size(), std::int64_t{0});
  bool both_in_one_axis = false;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const auto before = c.static_size(pairs[i]), after = c.static_size(pairs[i + 1]);
    if (!before || !after || !((*before < 0 && *after > 0) || (*before > 0 && *after < 0))) continue;
    both_in_one_axis = true;
    std::swap(*before < 0 ? added[i] : added[i + 1], *before < 0 ? cut[i] : cut[i + 1]);
  }
  const std::vector<Dim> unknown(static_cast<std::size_t>(c.rank(x)), Dim{-1, true, none_id});
  x = pad(c, x, added, mode, absent);
  return both_in_one_axis ? pad(c, c.typed(x, c.output_dtype(), unknown), cut, "constant", absent) : x;
}

// Returns the number to pad with, absent for zero.
Val fill_value(Ctx& c, Val x) {
  if (!c.has("value")) return absent;
  const double value = c.number("value");
  return value == 0 ? absent : c.constant_number(value, c.dtype(x));
}

Val pad_in_mode(Ctx& c, std::string_view mode, std::string_view argument) {
  const Val x = c.tensor("self");
  const std::vector<Size> pairs = c.sizes(argument);
  if (mode == "circular") return pad_circular(c, x, pairs);
  if (mode == "reflect") return pad_by_elements(c, x, pairs, "reflect");
  if (mode == "replicate") return pad_by_elements(c, x, pairs, "edge");
  return pad(c, x, pairs, "constant", fill_value(c, x));
}

void pad_by_name(Ctx& c) {
  c.yield(pad_in_mode(c, c.one_of("mode", {"constant", "reflect", "replicate", "circular"}), "pad"));
}

// at::padding_mode of ATen/native/PadNd.h, PyTorch 2.13
void pad_by_number(Ctx& c) {
  const std::int64_t mode = c.integer("mode");
  if (mode < 0 || mode > 3) c.refuse("an unknown padding mode", "use constant, reflect, replicate or circular");
  const char* const names[] = {"reflect", "replicate", "circular", "constant"};
  c.yield(pad_in_mode(c, names[mode], "pad"));
}

void constant_pad(Ctx& c) { c.yield(pad_in_mode(c, "constant", "pad")); }
void circular_pad(Ctx& c) { c.yield(pad_in_mode(c, "circular", "pad")); }
void reflection_pad(Ctx& c) { c.yield(pad_in_mode(c, "reflect", "padding")); }
void replication_pad(Ctx& c) { c.yield(pad_in_mode(c, "replicate", "padding")); }

const OpEntry kPadding[] = {
    {"aten::pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", pad_by_name},
    {"aten::_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor", pad_by_number},
    {"aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", constant_pad},
    {"aten::_pad_circular(Tensor self, SymInt[] pad) -> Tensor", circular_pad},
    {"aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor", reflection_pad},
    {"aten::reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor", reflection_pad},
    {"aten::reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor", reflection_pad},
    {"aten::replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor", replication_pad},
    {"aten::replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor", replication_pad},
    {"aten::replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor", replication_pad},
};

}  // namespace

OpFamily padding_ops() { return kPadding; }

}  // namespace whence::convert
