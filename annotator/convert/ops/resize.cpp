// Changes the spatial size of [N, C, *spatial]: the upsample family, which torch.nn.functional.interpolate calls.
//
// PyTorch has two overloads of each operator: `vec` takes an output size or scale factors; the plain one takes an
// output size and the factors it was computed from. If there is a factor, it maps coordinates; otherwise the ratio of
// sizes does. ONNX's `scales` and `sizes` differ in the same way.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/convert/nearest_indices.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/scaled_size.h"

namespace whence::convert {
namespace {

// How samples are taken, as attributes of Resize.
struct Sampling {
  const char* mode;
  bool antialias = false;
  bool exact = false;  // nearest by pixel centres instead of corners
};

Attributes attributes_of(Ctx& c, const Sampling& sampling) {
  const std::string_view mode = sampling.mode;
  Attributes attributes;
  if (sampling.antialias) {
    if (c.opset() < 18) c.refuse("antialiased resizing needs opset 18", "export with --opset 18 or newer");
    if (c.flag("align_corners")) {
      c.refuse("antialiased resizing with align_corners=True is not supported", "use align_corners=False");
    }
    attributes.push_back({"antialias", 1});
    attributes.push_back({"exclude_outside", 1});  // PyTorch normalises the weights inside the image
  }
  const bool corners = mode != "nearest" && c.flag("align_corners");
  const bool centres = mode != "nearest" || sampling.exact;
  const char* coordinates = corners ? "align_corners" : centres ? "half_pixel" : "asymmetric";
  attributes.push_back({"coordinate_transformation_mode", coordinates});
  // The `a` of the cubic kernel: -0.5 if antialiased (aten/src/ATen/native/UpSample.h, PyTorch 2.13)
  if (mode == "cubic") attributes.push_back({"cubic_coeff_a", sampling.antialias ? -0.5F : -0.75F});
  attributes.push_back({"mode", std::string(mode)});
  if (mode == "nearest") attributes.push_back({"nearest_mode", sampling.exact ? "round_prefer_ceil" : "floor"});
  return attributes;
}

Val input(Ctx& c) { return c.tensor(c.schema().find("input") ? "input" : "self"); }

// With aligned corners PyTorch maps coordinates by the sizes, regardless of the factors.
bool aligns_corners(Ctx& c) { return c.schema().find("align_corners") && c.flag("align_corners"); }

double number(Ctx& c, const Argument& argument) {
  if (const auto* value = argument.as<double>()) return *value;
  if (const auto* value = argument.as<std::int64_t>()) return static_cast<double>(*value);
  c.refuse("a scale factor that is known only at run time is not supported", "pass the output size instead");
}

// Returns one factor for each spatial axis; empty if the caller passed none, or not all.
std::vector<double> scale_factors(Ctx& c) {
  std::vector<double> factors;
  if (c.schema().find("scale_factors")) {
    const Argument* argument = c.node().find("scale_factors");
    const auto* list = argument ? argument->as<ArgumentList>() : nullptr;
    for (const Argument& factor : list ? *list : ArgumentList{}) factors.push_back(number(c, factor));
    return factors;
  }
  for (const char* name : {"scales", "scales_d", "scales_h", "scales_w"}) {
    if (!c.schema().find(name)) continue;
    if (!c.has(name)) return {};
    factors.push_back(c.number(name));
  }
  return factors;
}

// Computes in float64, like ONNX's shape inference.
std::int64_t inferred_size(std::int64_t size, float factor) {
  return whole_size(static_cast<double>(size) * static_cast<double>(factor));
}

// Returns the factor in float32, or a neighbouring float if only that gives the same size as PyTorch's float64.
float rounded_factor(double factor, std::int64_t size, std::int64_t result_size) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  const auto rounded = static_cast<float>(factor);
  for (const float near : {rounded, std::nextafter(rounded, infinite), std::nextafter(rounded, -infinite)}) {
    if (scaled_size(size, near) == result_size && inferred_size(size, near) == result_size) return near;
  }
  return rounded;
}

// A factor for each spatial axis, and PyTorch's output sizes where they are, or may be, smaller than the factors give:
// the excess is then cut off.
struct Scaling {
  std::vector<float> factors;
  std::vector<Val> computed;  // a factor computed by the graph, float32 [1], if it depends on the size
  std::vector<std::optional<Size>> cut_to;
  std::vector<std::size_t> done;  // axes that need no Resize any more
};

// Returns true if PyTorch uses its kernel for small images, which it chooses by height and width of the result. Dynamic
// sizes count as in the example.
bool is_small_image(Ctx& c) {
  constexpr std::int64_t max_sum = 128;
  const auto result = c.output_dims();
  return result && result->size() == 4 && (*result)[2].size + (*result)[3].size <= max_sum;
}

// Returns the factor by which PyTorch maps the coordinates of an axis, which may differ from the passed one. An axis
// whose size stays is copied, and an axis that doubles reads the nearest element by the factor 2; nearest mode does so
// only in small images (aten/src/ATen/native/UpSample.h and cpu/UpSampleKernel.cpp, PyTorch 2.13).
double mapping_factor(Ctx& c, const Sampling& sampling, double passed_factor, std::int64_t size,
                      std::int64_t result_size) {
  const std::string_view mode = sampling.mode;
  if (sampling.antialias || sampling.exact || mode == "cubic") return passed_factor;
  if (mode == "nearest" && !is_small_image(c)) return passed_factor;
  if (size == result_size) return 1;
  return mode == "nearest" && result_size == 2 * size ? 2 : passed_factor;
}

// Returns true if a Resize keeps all sizes: ONNX Runtime then copies, regardless of the factors. `unknown`: the answer
// for dynamic axes.
bool keeps_sizes(Ctx& c, Val x, bool unknown) {
  const auto result = c.output_dims();
  if (!result) return false;
  const std::vector<Dim> dims = c.dims(x);
  for (std::size_t i = 2; i < dims.size() && i < result->size(); ++i) {
    const Dim &before = dims[i], &after = (*result)[i];
    const bool known = before.is_static() && after.is_static();
    if (known ? before.size != after.size : !unknown) return false;
  }
  return true;
}

// Computes mapping_factor() of linear samples for an unknown size: 1 if the factor leaves the size unchanged, as 1.1
// does 8. Returns absent if the factor needs no computation.
Val computed_factor(Ctx& c, Val x, std::int64_t axis, const Sampling& sampling, double factor) {
  const bool copies = std::string_view(sampling.mode) == "linear" && !sampling.antialias && !aligns_corners(c);
  if (!copies || !may_keep_size(factor)) return absent;
  const Val stays = c.emit("Equal", {size_by_factor(c, x, axis, factor), c.dim_of(x, axis)});
  const auto number = [&](double value) { return c.constant_number(value, DType::float32); };
  const Val chosen = c.emit("Where", {stays, number(1), number(factor_for_any_size(factor))});
  return c.unsqueeze(chosen, {0});
}

Scaling scaling(Ctx& c, Val x, const std::vector<double>& factors, const Sampling& sampling) {
  const auto result = c.output_dims();
  c.expect(!result || (result->size() == factors.size() + 2 && c.dims(x).size() == result->size()),
           "it must have a factor for each axis after batch and channels");
  Scaling found;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const std::int64_t in = result ? c.dims(x)[i + 2].size : -1, out = result ? (*result)[i + 2].size : -1;
    const bool known = in >= 0 && out >= 0;
    const bool fixed = known && c.dims(x)[i + 2].is_static() && (*result)[i + 2].is_static();
    const double factor = fixed ? mapping_factor(c, sampling, factors[i], in, out) : factors[i];
    found.factors.push_back(fixed ? rounded_factor(factor, in, out) : factor_for_any_size(factor));
    const std::int64_t resized_size = known ? scaled_size(in, found.factors.back()) : out;
    if (resized_size < out) {
      c.refuse("the output size is larger than its scale factor gives", "pass the output size or the factor, not both");
    }
    const auto axis = static_cast<std::int64_t>(i) + 2;
    found.computed.push_back(fixed ? absent : computed_factor(c, x, axis, sampling, factor));
    std::optional<Size> cut_to;
    if (fixed && resized_size > out) cut_to = out;
    if (!fixed && may_round_up(factor)) cut_to = size_by_factor(c, x, axis, factor);
    found.cut_to.push_back(cut_to);
  }
  return found;
}

// If a Resize keeps all sizes, ONNX Runtime copies, but PyTorch still samples cubic ones by the factor. To make ONNX
// Runtime sample, an axis is padded with its last element until the factor makes it grow; the excess is cut off.
Val lengthened(Ctx& c, Val x, const std::vector<double>& factors, Scaling& scales) {
  const auto may_stay = [](double factor) { return factor == 1 || may_keep_size(factor); };
  const auto growing = std::ranges::find_if(factors, may_keep_size);
  if (growing == factors.end() || !std::ranges::all_of(factors, may_stay) || !keeps_sizes(c, x, true)) return x;
  const auto i = static_cast<std::size_t>(growing - factors.begin());
  const auto rank = static_cast<std::size_t>(c.rank(x));
  constexpr double max_added = 1 << 24;
  const double added = std::ceil(1 / (*growing - 1));
  if (added > max_added)
    c.refuse("bicubic sampling by a factor of nearly 1 is not supported",
             "leave the call out, or pass the output size");
  Ints pads(2 * rank, 0);
  pads[rank + i + 2] = static_cast<std::int64_t>(added);
  const auto axis = static_cast<std::int64_t>(i) + 2;
  const auto known = c.static_dim(x, axis);
  scales.cut_to[i] =
      known ? Size{whole_size(static_cast<double>(*known) * *growing)} : Size{size_by_factor(c, x, axis, *growing)};
  scales.factors[i] = factor_for_any_size(*growing);
  return c.emit("Pad", {x, c.constant_ints(pads)}, {{"mode", std::string("edge")}});
}

// Returns one factor for each axis, including batch and channels, float32 [N].
Val scales_of(Ctx& c, const Scaling& scaling) {
  const auto constant = [&](const std::vector<float>& numbers) {
    return c.constant_tensor({DType::float32,
                              {static_cast<std::int64_t>(numbers.size())},
                              Bytes::copy_of(numbers.data(), numbers.size() * sizeof(float))});
  };
  std::vector<float> known{1, 1};
  std::vector<Val> parts;
  for (std::size_t i = 0; i < scaling.factors.size(); ++i) {
    if (!scaling.computed[i]) {
      known.push_back(scaling.factors[i]);
      continue;
    }
    if (!known.empty()) parts.push_back(constant(std::exchange(known, {})));
    parts.push_back(scaling.computed[i]);
  }
  if (!known.empty()) parts.push_back(constant(known));
  return parts.size() == 1 ? parts.front() : c.emit("Concat", parts, {{"axis", 0}});
}

Val resize_by_factors(Ctx& c, Val x, const Scaling& scaling, Attributes attributes) {
  const Val resized = c.emit("Resize", {x, absent, scales_of(c, scaling)}, std::move(attributes));
  Ints axes;
  std::vector<Size> ends;
  for (std::size_t i = 0; i < scaling.cut_to.size(); ++i) {
    if (!scaling.cut_to[i]) continue;
    axes.push_back(static_cast<std::int64_t>(i) + 2);
    ends.push_back(*scaling.cut_to[i]);
  }
  if (axes.empty()) return resized;
  return c.emit("Slice", {resized, c.constant_ints(Ints(axes.size(), 0)), c.to_vector(ends), c.constant_ints(axes)});
}

Val resize_to_size(Ctx& c, Val x, std::vector<Size> sizes, Attributes attributes) {
  if (c.opset() >= 18) {
    Ints axes;
    for (std::size_t i = 0; i < sizes.size(); ++i) axes.push_back(static_cast<std::int64_t>(i) + 2);
    attributes.insert(attributes.begin(), {"axes", axes});
  } else {
    std::vector<Size> all{c.dim_of(x, 0), c.dim_of(x, 1)};
    all.insert(all.end(), sizes.begin(), sizes.end());
    sizes = std::move(all);
  }
  return c.emit("Resize", {x, absent, absent, c.to_vector(sizes)}, std::move(attributes));
}

// ---- nearest elements -------------------------------------------------------------------------------------------

// Returns true if the axis returns to the size before halving, judged by the example's sizes.
bool doubles(const Dim& before, const Dim& after) {
  return before.size > 0 && (after.size == 2 * before.size || after.size == 2 * before.size - 1);
}

// Gathers x along the axes on which a Resize would not read the same elements as PyTorch; `scales` then keeps these
// axes unchanged. Without factors, the ratio of the sizes is used.
Val gathered(Ctx& c, Val x, const std::vector<double>& factors, const Sampling& sampling, Scaling& scales) {
  const auto result = c.output_dims();
  if (!result) return x;
  const auto known = [](const Dim& dim) { return dim.is_static() ? std::optional(dim.size) : std::nullopt; };
  std::vector<Dim> dims = c.dims(x);
  const auto gather = [&](std::size_t i, bool copied) {
    const std::size_t axis = i + 2;
    NearestAxis nearest{.size = known(dims[axis]),
                        .result_size = known((*result)[axis]),
                        .exact = sampling.exact,
                        .copied = copied,
                        .image = is_small_image(c),
                        .doubles = doubles(dims[axis], (*result)[axis])};
    if (factors.empty()) {
      const std::vector<Size> requested = c.sizes("output_size");
      c.expect(requested.size() + 2 == dims.size(), "output_size must have one size for each spatial axis");
      nearest.requested_size = requested[i];
    } else {
      const bool fixed = nearest.size && nearest.result_size;
      nearest.factor =
          fixed ? mapping_factor(c, sampling, factors[i], *nearest.size, *nearest.result_size) : factors[i];
      nearest.resize_factor = scales.factors[i];
    }
    const Val indices = indices_to_gather(c, x, static_cast<std::int64_t>(axis), nearest);
    if (!indices) return;
    dims[axis] = (*result)[axis];
    x = c.typed(c.emit("Gather", {x, indices}, {{"axis", static_cast<std::int64_t>(axis)}}), c.output_dtype(), dims);
    scales.done.push_back(i);
    if (factors.empty()) return;
    scales.factors[i] = 1;
    scales.cut_to[i].reset();
  };
  const bool copied = keeps_sizes(c, x, true);
  for (std::size_t i = 0; i + 2 < dims.size(); ++i) gather(i, copied);
  const std::vector<std::size_t> first = scales.done;  // once these are gathered, a Resize may keep all other sizes
  for (std::size_t i = 0; i + 2 < dims.size() && !first.empty(); ++i) {
    if (std::ranges::find(first, i) == first.end()) gather(i, true);
  }
  return x;
}

// Returns the sizes that PyTorch computes from the factors.
std::vector<Size> scaled_sizes(Ctx& c, Val x, const std::vector<double>& factors) {
  const auto result = c.output_dims();
  std::vector<Size> sizes;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const bool known = result && (*result)[i + 2].is_static();
    sizes.emplace_back(known ? Size{(*result)[i + 2].size}
                             : Size{size_by_factor(c, x, static_cast<std::int64_t>(i) + 2, factors[i])});
  }
  return sizes;
}

Val resized(Ctx& c, Val x, const Sampling& sampling) {
  Attributes attributes = attributes_of(c, sampling);
  std::vector<double> factors = scale_factors(c);
  if (c.has("output_size") && aligns_corners(c)) factors.clear();
  Scaling scales = factors.empty() ? Scaling{} : scaling(c, x, factors, sampling);
  const bool cuts = std::ranges::any_of(scales.cut_to, [](const auto& size) { return size.has_value(); });
  if (cuts && aligns_corners(c)) return resize_to_size(c, x, scaled_sizes(c, x, factors), std::move(attributes));
  if (std::string_view(sampling.mode) == "nearest") x = gathered(c, x, factors, sampling, scales);
  if (!scales.done.empty() && scales.done.size() == c.dims(x).size() - 2) return x;
  const bool cubic = std::string_view(sampling.mode) == "cubic" && !sampling.antialias && !aligns_corners(c);
  if (cubic && !factors.empty()) x = lengthened(c, x, factors, scales);
  if (!factors.empty()) return resize_by_factors(c, x, scales, std::move(attributes));
  return resize_to_size(c, x, c.sizes("output_size"), std::move(attributes));
}

// Integers are sampled as floats and then rounded, because ONNX Runtime truncates. PyTorch rounds along each axis, so
// the two may differ by one. With antialias ONNX Runtime also rounds along each axis.
void resize(Ctx& c, const Sampling& sampling) {
  const Val x = input(c);
  const std::string_view mode = sampling.mode;
  if (!is_integral(c.dtype(x)) || mode == "nearest" || sampling.antialias) return c.yield(resized(c, x, sampling));
  if (mode == "cubic")
    c.refuse("bicubic sampling of bytes is not supported", "convert to float32 before and round afterwards");
  c.yield(c.emit("Round", {resized(c, c.cast(x, DType::float32), sampling)}));
}

void nearest(Ctx& c) { resize(c, {"nearest"}); }
void nearest_exact(Ctx& c) { resize(c, {"nearest", false, true}); }
void linear(Ctx& c) { resize(c, {"linear"}); }
void cubic(Ctx& c) { resize(c, {"cubic"}); }
void linear_antialiased(Ctx& c) { resize(c, {"linear", true}); }
void cubic_antialiased(Ctx& c) { resize(c, {"cubic", true}); }

const OpEntry kResize[] = {
    {"aten::upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor", nearest},
    {"aten::upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", nearest},
    {"aten::upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> "
     "Tensor",
     nearest},
    {"aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", nearest},
    {"aten::upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, "
     "float? scales_w=None) -> Tensor",
     nearest},
    {"aten::upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", nearest},
    {"aten::_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
     nearest_exact},
    {"aten::_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
     nearest_exact},
    {"aten::_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, "
     "float? scales_w=None) -> Tensor",
     nearest_exact},
    {"aten::_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
     nearest_exact},
    {"aten::_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, "
     "float? scales_h=None, float? scales_w=None) -> Tensor",
     nearest_exact},
    {"aten::_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
     nearest_exact},
    {"aten::upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor",
     linear},
    {"aten::upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) "
     "-> Tensor",
     linear},
    {"aten::upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, "
     "float? scales_w=None) -> Tensor",
     linear},
    {"aten::upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
     "float[]? scale_factors) -> Tensor",
     linear},
    {"aten::upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, "
     "float? scales_h=None, float? scales_w=None) -> Tensor",
     linear},
    {"aten::upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
     "float[]? scale_factors) -> Tensor",
     linear},
    {"aten::upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, "
     "float? scales_w=None) -> Tensor",
     cubic},
    {"aten::upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
     "float[]? scale_factors) -> Tensor",
     cubic},
    {"aten::_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, "
     "float? scales_w=None) -> Tensor",
     linear_antialiased},
    {"aten::_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
     "float[]? scale_factors) -> Tensor",
     linear_antialiased},
    {"aten::_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, "
     "float? scales_w=None) -> Tensor",
     cubic_antialiased},
    {"aten::_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
     "float[]? scale_factors) -> Tensor",
     cubic_antialiased},
};

}  // namespace

OpFamily resize_ops() { return kResize; }

}  // namespace whence::convert
