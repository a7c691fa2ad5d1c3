// Convolutions and transposed convolutions over one to three spatial axes. input [N, C, *spatial] or, without a batch,
// [C, *spatial]; weight [out, in / groups, *kernel], transposed [in, out / groups, *kernel].
#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

struct Convolution {
  Val input, weight, bias;
  Ints stride, dilation;
  Ints begin, end;  // padding before and after each spatial axis
  std::int64_t groups = 1;
  bool transposed = false;
  Ints output_padding;
};

std::size_t spatial_rank(Ctx& c) {
  const int rank = c.rank(c.tensor("weight"));
  c.expect(rank >= 3, "the weight must have at least 3 axes");
  return static_cast<std::size_t>(rank) - 2;
}

// A single value applies to all spatial axes.
Ints per_axis(Ctx& c, std::string_view argument, std::int64_t least) {
  return c.counts(argument, spatial_rank(c), least);
}

// Reads the arguments that all forms share; the caller reads padding and the transposed form's arguments.
Convolution read(Ctx& c) {
  Convolution conv;
  conv.input = c.tensor("input");
  conv.weight = c.tensor("weight");
  conv.bias = c.optional_tensor("bias");
  conv.stride = per_axis(c, "stride", 1);
  conv.dilation = per_axis(c, "dilation", 1);
  conv.groups = c.count("groups");
  return conv;
}

std::optional<Ints> kernel_shape(Ctx& c, const Convolution& conv) {
  Ints kernel;
  for (int axis = 2; axis < c.rank(conv.weight); ++axis) {
    const auto size = c.static_dim(conv.weight, axis);
    if (!size) return std::nullopt;
    kernel.push_back(*size);
  }
  return kernel;
}

// Appends elements that the kernel does not reach to the end of each spatial axis: zeros plus the bias.
Val padded_at_end(Ctx& c, Val result, const Ints& extra, Val bias) {
  Ints pads(2 * (extra.size() + 2), 0);
  std::copy(extra.begin(), extra.end(), pads.end() - static_cast<std::ptrdiff_t>(extra.size()));
  const Val padded = c.emit("Pad", {result, c.constant_ints(pads), c.constant_number(0, c.output_dtype())});
  if (!bias) return padded;
  Ints shape(extra.size() + 1, 1);
  shape.front() = -1;
  return c.emit("Add", {padded, c.emit("Reshape", {bias, c.constant_ints(shape)})});
}

// Takes output_padding out of the padding at the end. Returns the remainder: elements that hold only the bias. ONNX
// limits output_padding to below the stride; PyTorch also allows one below the dilation.
Ints take_from_padding(Convolution& conv) {
  Ints extra = conv.output_padding;
  for (std::size_t i = 0; i < extra.size(); ++i) {
    const std::int64_t taken = std::min(extra[i], conv.end[i]);
    conv.end[i] -= taken;
    extra[i] -= taken;
  }
  conv.output_padding.assign(extra.size(), 0);
  return extra;
}

void emit(Ctx& c, Convolution conv) {
  const Val bias = conv.bias;
  Ints extra(conv.stride.size(), 0);
  if (!conv.output_padding.empty() && !std::ranges::equal(conv.output_padding, conv.stride, std::less<>())) {
    extra = take_from_padding(conv);
  }
  const bool has_extra = extra != Ints(extra.size(), 0);
  if (has_extra) conv.bias = absent;
  Attributes attributes{{"dilations", conv.dilation}, {"group", conv.groups}};
  if (auto kernel = kernel_shape(c, conv)) attributes.push_back({"kernel_shape", *kernel});
  Ints pads = conv.begin;
  pads.insert(pads.end(), conv.end.begin(), conv.end.end());
  attributes.push_back({"pads", pads});
  attributes.push_back({"strides", conv.stride});
  if (conv.transposed && conv.output_padding != Ints(conv.output_padding.size(), 0)) {
    attributes.push_back({"output_padding", conv.output_padding});
  }
  const bool batched = c.rank(conv.input) == c.rank(conv.weight);
  std::vector<Val> inputs{batched ? conv.input : c.unsqueeze(conv.input, {0}), conv.weight};
  if (conv.bias) inputs.push_back(conv.bias);
  Val result = c.emit(conv.transposed ? "ConvTranspose" : "Conv", std::move(inputs), std::move(attributes));
  if (has_extra) result = padded_at_end(c, result, extra, bias);
  c.yield(batched ? result : c.squeeze(result, {0}));
}

void convolution(Ctx& c) {
  Convolution conv = read(c);
  conv.begin = conv.end = per_axis(c, "padding", 0);
  if (c.schema().find("transposed")) conv.transposed = c.flag("transposed");
  if (conv.transposed) conv.output_padding = per_axis(c, "output_padding", 0);
  emit(c, conv);
}

void convolution_transposed(Ctx& c) {
  Convolution conv = read(c);
  conv.begin = conv.end = per_axis(c, "padding", 0);
  conv.output_padding = per_axis(c, "output_padding", 0);
  conv.transposed = true;
  emit(c, conv);
}

// Padding by name. "same" keeps the sizes; if the total is odd, the extra element goes to the end.
void convolution_mode(Ctx& c) {
  Convolution conv = read(c);
  const std::size_t axes = spatial_rank(c);
  conv.begin = conv.end = Ints(axes, 0);
  if (c.one_of("padding", {"same", "valid"}) == "same") {
    const auto kernel = kernel_shape(c, conv);
    if (!kernel)
      c.refuse("padding='same' with a kernel of dynamic size is not supported", "specify the padding as numbers");
    for (std::size_t i = 0; i < axes; ++i) {
      c.expect((*kernel)[i] >= 1 && (*kernel)[i] <= max_count, "the kernel size must be above 0 and fit into 32 bits");
      const std::int64_t total = conv.dilation[i] * ((*kernel)[i] - 1);
      conv.begin[i] = total / 2;
      conv.end[i] = total - total / 2;
    }
  }
  emit(c, conv);
}

// Convolves time-major sequences: x [T, N, in], weight [kernel, in, out] -> [T + 2 * pad - kernel + 1, N, out]
void conv_tbc(Ctx& c) {
  const std::int64_t pad = c.count("pad", 0);
  const Val x = c.transpose(c.tensor("self"), {1, 2, 0}), weight = c.transpose(c.tensor("weight"), {2, 1, 0});
  Attributes pads;
  if (pad != 0) pads.push_back({"pads", Ints{pad, pad}});
  c.yield(c.transpose(c.emit("Conv", {x, weight, c.tensor("bias")}, std::move(pads)), {2, 0, 1}));
}

const OpEntry kConvolution[] = {
    {"aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
     "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, "
     "bool cudnn_enabled, bool allow_tf32) -> Tensor",
     convolution},
    {"aten::_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
     "SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, bool benchmark, bool deterministic, "
     "bool cudnn_enabled) -> Tensor",
     convolution},
    {"aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
     "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
     convolution},
    {"aten::_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, "
     "SymInt[] dilation, SymInt groups) -> Tensor",
     convolution_mode},
    {"aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], "
     "SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
     convolution},
    {"aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], "
     "SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
     convolution},
    {"aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], "
     "SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
     convolution},
    {"aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", conv_tbc},
    {"aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], "
     "str padding=\"valid\", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
     convolution_mode},
    {"aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
     "str padding=\"valid\", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
     convolution_mode},
    {"aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], "
     "str padding=\"valid\", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
     convolution_mode},
    {"aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], "
     "SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor",
     convolution_transposed},
    {"aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
     "SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor",
     convolution_transposed},
    {"aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], "
     "SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) "
     "-> Tensor",
     convolution_transposed},
};

}  // namespace

OpFamily convolution_ops() { return kConvolution; }

}  // namespace whence::convert
