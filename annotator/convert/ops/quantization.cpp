// Quantization by scale and zero point, q = round(x / scale) + zero_point within [quant_min, quant_max]: to integers
// and back, and "fake", to floats that integers could represent.
//
// ONNX has QuantizeLinear and DequantizeLinear for 8 bits at all opsets. A narrower range is clipped between the two;
// other ranges are computed by arithmetic nodes.
#include <optional>

#include "annotator/convert/ops/families.h"
#include "annotator/convert/weights.h"

namespace whence::convert {
namespace {

struct Affine {
  Val scale, zero_point;             // per tensor [] or [1], per channel [C]; zero_point is absent if it is 0
  std::int64_t low = 0, high = 0;    // quant_min, quant_max
  std::optional<std::int64_t> axis;  // the axis of the channels
};

// Returns the 8-bit dtype that holds the whole range, if there is one.
std::optional<DType> eight_bits(const Affine& a) {
  if (a.low >= 0 && a.high <= 255) return DType::uint8;
  if (a.low >= -128 && a.high <= 127) return DType::int8;
  return std::nullopt;
}

bool fills(DType dtype, const Affine& a) {
  return dtype == DType::uint8 ? a.low == 0 && a.high == 255 : a.low == -128 && a.high == 127;
}

Attributes channel_axis(const Affine& a) { return a.axis ? Attributes{{"axis", *a.axis}} : Attributes{}; }

// Scale or zero point in `dtype`, shaped to broadcast against x.
Val spread(Ctx& c, Val parameter, Val x, const Affine& a, DType dtype) {
  const Val cast = c.cast(parameter, dtype);
  if (!a.axis) return cast;
  Ints axes;
  for (std::int64_t i = 0; i < c.rank(x); ++i) {
    if (i != *a.axis) axes.push_back(i);
  }
  return c.unsqueeze(cast, axes);
}

// round(x / scale) + zero_point within the range, as floats.
Val levels(Ctx& c, Val x, const Affine& a) {
  const DType dtype = c.dtype(x);
  Val q = c.emit("Round", {c.emit("Div", {x, spread(c, a.scale, x, a, dtype)})});
  if (a.zero_point) q = c.emit("Add", {q, spread(c, a.zero_point, x, a, dtype)});
  const auto bound = [&](std::int64_t value) { return c.constant_number(static_cast<double>(value), dtype); };
  return c.typed(c.emit("Clip", {q, bound(a.low), bound(a.high)}), dtype, c.dims(x));
}

// Quantizes a floating x to integers of `dtype`.
Val quantized(Ctx& c, Val x, const Affine& a, DType dtype) {
  if (eight_bits(a) != dtype || c.dtype(x) != DType::float32) return c.cast(levels(c, x, a), dtype);
  const Val zero = a.zero_point ? c.cast(a.zero_point, dtype) : c.constant_number(0, dtype);
  Val q = c.emit("QuantizeLinear", {x, c.cast(a.scale, DType::float32), zero}, channel_axis(a));
  if (!fills(dtype, a)) {
    const auto bound = [&](std::int64_t value) { return c.constant_number(static_cast<double>(value), dtype); };
    q = c.emit("Clip", {c.typed(q, dtype), bound(a.low), bound(a.high)});
  }
  return c.typed(q, dtype, c.dims(x));
}

// (q - zero_point) * scale in `dtype`.
Val dequantized(Ctx& c, Val q, const Affine& a, DType dtype) {
  const DType from = c.dtype(q);
  if (dtype == DType::float32 && (from == DType::uint8 || from == DType::int8)) {
    const Val zero = a.zero_point ? c.cast(a.zero_point, from) : absent;
    std::vector<Val> inputs{q, c.cast(a.scale, DType::float32)};
    if (zero) inputs.push_back(zero);
    return c.emit("DequantizeLinear", inputs, channel_axis(a));
  }
  Val x = c.typed(c.cast(q, dtype), dtype, c.dims(q));
  if (a.zero_point) x = c.emit("Sub", {x, spread(c, a.zero_point, q, a, dtype)});
  return c.emit("Mul", {x, spread(c, a.scale, q, a, dtype)});
}

// Turns numeric scales and zero points into constants of the dtypes that the 8-bit operators accept.
Affine affine(Ctx& c, Val x, const char* scale, const char* zero_point, DType storage) {
  Affine a;
  a.low = c.integer("quant_min"), a.high = c.integer("quant_max");
  const auto is_number = [&](const char* name) { return c.schema().find(name)->type.base != "Tensor"; };
  a.scale = is_number(scale) ? c.constant_number(c.number(scale), DType::float32) : c.tensor(scale);
  if (is_number(zero_point)) {
    a.zero_point = c.constant_number(static_cast<double>(c.integer(zero_point)), storage);
  } else {
    a.zero_point = c.optional_tensor(zero_point);
  }
  if (c.schema().find("axis")) a.axis = c.axis(c.integer("axis"), c.rank(x));
  return a;
}

void quantize(Ctx& c, const char* scale, const char* zero_point) {
  const Val x = c.tensor("input");
  const DType dtype = c.output_dtype();
  c.yield(quantized(c, x, affine(c, x, scale, zero_point, dtype), dtype));
}
void quantize_per_tensor(Ctx& c) { quantize(c, "scale", "zero_point"); }
void quantize_per_channel(Ctx& c) { quantize(c, "scales", "zero_points"); }

void dequantize(Ctx& c, const char* scale, const char* zero_point) {
  const Val q = c.tensor("input");
  c.yield(dequantized(c, q, affine(c, q, scale, zero_point, c.dtype(q)), c.output_dtype()));
}
void dequantize_per_tensor(Ctx& c) { dequantize(c, "scale", "zero_point"); }
void dequantize_per_channel(Ctx& c) { dequantize(c, "scales", "zero_points"); }

// Quantizes and dequantizes, in floats.
Val fake_quantized(Ctx& c, Val x) {
  Affine range;
  range.low = c.integer("quant_min"), range.high = c.integer("quant_max");
  const DType dtype = c.dtype(x);
  const auto storage = eight_bits(range);
  const Affine a = affine(c, x, "scale", "zero_point", storage.value_or(DType::int32));
  if (storage && dtype == DType::float32) return dequantized(c, quantized(c, x, a, *storage), a, dtype);
  Val y = levels(c, x, a);
  if (a.zero_point) y = c.emit("Sub", {y, spread(c, a.zero_point, x, a, dtype)});
  return c.emit("Mul", {y, spread(c, a.scale, x, a, dtype)});
}
void fake_quantize(Ctx& c) { c.yield(fake_quantized(c, c.tensor("self"))); }

// The forms of a training graph; the mask marks the elements that pass a gradient.
void fake_quantize_with_mask(Ctx& c) {
  if (c.result_used(1)) c.refuse("the mask of a fake quantization is not supported", "export without gradients");
  c.yield({fake_quantized(c, c.tensor("self")), absent});
}
void fake_quantize_when_enabled(Ctx& c) {
  if (c.result_used(1)) c.refuse("the mask of a fake quantization is not supported", "export without gradients");
  const Val x = c.tensor("self");
  const Val enabled = c.cast(c.tensor("fake_quant_enabled"), DType::boolean);
  c.yield({c.emit("Where", {enabled, fake_quantized(c, x), x}), absent});
}

const OpEntry kQuantization[] = {
    {"aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) "
     "-> Tensor",
     fake_quantize},
    {"aten::fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
     "int quant_min, int quant_max) -> Tensor",
     fake_quantize},
    {"aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, "
     "int quant_max) -> Tensor",
     fake_quantize},
    {"aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, "
     "int quant_max) -> (Tensor output, Tensor mask)",
     fake_quantize_with_mask},
    {"aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, "
     "int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
     fake_quantize_with_mask},
    {"aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
     "Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
     fake_quantize_when_enabled},
    {"quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, "
     "int quant_max, ScalarType dtype) -> Tensor",
     quantize_per_tensor},
    {"quantized_decomposed::quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, "
     "int quant_max, ScalarType dtype) -> Tensor",
     quantize_per_tensor},
    {"quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, "
     "int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     dequantize_per_tensor},
    {"quantized_decomposed::dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, "
     "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     dequantize_per_tensor},
    {"quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
     "int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     quantize_per_channel},
    {"quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, "
     "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     dequantize_per_channel},
};

}  // namespace

OpFamily quantization_ops() { return kQuantization; }

}  // namespace whence::convert
