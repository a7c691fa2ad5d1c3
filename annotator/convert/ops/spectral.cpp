// Spectra: Fourier transforms, of which complex tensors are pairs [*, 2] of real and imaginary parts here
// (../../lower/complex_pairs.h).
#include <cmath>

#include "annotator/convert/ops/families.h"
#include "annotator/convert/weights.h"
#include "schema/element_count.h"

namespace whence::convert {
namespace {

// The window of a frame: `given`, or ones, with zeros on both sides where it is shorter than the frame.
Val framed_window(Ctx& c, Val window, std::int64_t length, std::int64_t frame, DType dtype) {
  const std::int64_t left = (frame - length) / 2, right = frame - length - left;
  if (!window) {
    return c.constant_tensor(
        concatenated({filled({left}, 0, dtype), filled({length}, 1, dtype), filled({right}, 0, dtype)}));
  }
  window = c.cast(window, dtype);
  return length == frame ? window : c.emit("Pad", {window, c.constant_ints({left, right})});
}

// [signal] or [batch, signal] -> [(batch,) frequencies, frames, 2]
void stft(Ctx& c) {
  if (c.opset() < 17)
    c.refuse("ONNX has a short-time Fourier transform from opset 17", "export with --opset 17 or newer");
  if (c.has("return_complex") && c.flag("return_complex")) {
    c.refuse("ONNX has no complex tensors", "call torch.stft with return_complex=False");
  }
  const Val x = c.tensor("self");
  const DType dtype = c.dtype(x);
  const bool batched = c.rank(x) == 2;
  const std::int64_t frame = c.count("n_fft");
  const std::int64_t hop = c.has("hop_length") ? c.count("hop_length") : frame / 4;
  const std::int64_t length = c.has("win_length") ? c.count("win_length") : frame;
  c.expect(length <= frame, "a window that is no longer than the frame");
  c.table_size({frame});
  const bool onesided = !c.has("onesided") || c.flag("onesided");
  const Val signal = c.unsqueeze(x, batched ? Ints{2} : Ints{0, 2});
  const Val window = framed_window(c, c.optional_tensor("window"), length, frame, dtype);
  Val y =
      c.emit("STFT", {signal, c.constant_int(hop), window, c.constant_int(frame)}, {{"onesided", onesided ? 1 : 0}});
  y = c.transpose(c.typed(y, dtype), {0, 2, 1, 3});
  if (!batched) y = c.squeeze(y, {0});
  if (c.flag("normalized")) {
    y = c.emit("Div", {y, c.constant_number(std::sqrt(static_cast<double>(frame)), dtype)});
  }
  c.yield(y);
}

// ---- whole signals ----------------------------------------------------------------------------------------------

// DFT over one axis of x [*, 1] or pairs [*, 2], without any scale forward; backward ONNX divides by the size.
Val dft(Ctx& c, Val x, std::int64_t axis, bool forward, bool onesided) {
  if (c.opset() < 17) c.refuse("ONNX has Fourier transforms from opset 17", "export with --opset 17 or newer");
  Attributes attributes;
  std::vector<Val> inputs{x};
  if (c.opset() < 20) {
    attributes.push_back({"axis", axis});
  } else {
    inputs.insert(inputs.end(), {absent, c.constant_int(axis)});
  }
  if (!forward) attributes.push_back({"inverse", 1});
  if (onesided) attributes.push_back({"onesided", 1});
  return c.emit("DFT", std::move(inputs), std::move(attributes));
}

// Gives a signal the batch axis that runtimes expect in front.
template <class Transform>
Val with_batch(Ctx& c, Val x, int rank, const Transform& transform) {
  if (rank > 1) return transform(x, 0);
  return c.squeeze(transform(c.unsqueeze(x, {0}), 1), {0});
}

// `count` elements transformed: divided by that, by its root, or not at all.
Val normalized(Ctx& c, Val y, Val x, const Ints& axes, DType dtype, bool divided_already) {
  const std::int64_t how = c.integer("normalization");
  if (how == (divided_already ? 2 : 0)) return y;
  std::int64_t fixed = 1;
  Val count;
  for (const std::int64_t axis : axes) {
    if (const auto size = c.static_dim(x, axis)) {
      fixed = whence::element_count(Ints{fixed, *size});
    } else {
      const Val dynamic = c.cast(c.typed(c.dim_of(x, axis), DType::int64), dtype);
      count = count ? c.emit("Mul", {count, dynamic}) : dynamic;
    }
  }
  const Val known = c.constant_number(static_cast<double>(fixed), dtype);
  Val scale = !count ? known : fixed == 1 ? count : c.emit("Mul", {count, known});
  if (how == 1) {
    scale = count ? c.emit("Sqrt", {scale}) : c.constant_number(std::sqrt(static_cast<double>(fixed)), dtype);
  }
  return c.emit(divided_already ? "Mul" : "Div", {y, scale});
}

// Pairs [*, 2] transformed over several axes.
Val over_axes(Ctx& c, Val x, int rank, const Ints& axes, bool forward) {
  return with_batch(c, x, rank, [&](Val y, std::int64_t shift) {
    for (const std::int64_t axis : axes) y = dft(c, y, axis + shift, forward, false);
    return y;
  });
}

void fft_c2c(Ctx& c) {
  const Val x = c.tensor("self");
  const Ints axes = c.integers("dim");
  const bool forward = c.flag("forward");
  const Val y = over_axes(c, x, c.rank(x) - 1, axes, forward);
  c.yield(normalized(c, y, x, axes, c.dtype(x), !forward));
}

// At least one.
Ints axes_to_transform(Ctx& c) {
  Ints axes = c.integers("dim");
  c.expect(!axes.empty(), "an axis to transform");
  return axes;
}

// A real signal; the last of the axes gives half a spectrum.
void fft_r2c(Ctx& c) {
  const Val x = c.tensor("self");
  const int rank = c.rank(x);
  const DType dtype = c.output_dtype();
  Ints axes = axes_to_transform(c);
  const Ints all = axes;
  const bool onesided = c.flag("onesided");
  const std::int64_t last = axes.back();
  axes.pop_back();
  Val y = with_batch(c, c.unsqueeze(c.cast(x, dtype), {rank}), rank,
                     [&](Val signal, std::int64_t shift) { return dft(c, signal, last + shift, true, onesided); });
  if (!axes.empty()) y = over_axes(c, y, rank, axes, true);
  c.yield(normalized(c, y, x, all, dtype, false));
}

// The whole spectrum of n frequencies from the first n / 2 + 1: the others are conjugates of those, backwards.
Val whole_spectrum(Ctx& c, Val half, std::int64_t axis, std::int64_t n, DType dtype) {
  const std::int64_t mirrored = n - (n / 2 + 1);
  if (mirrored <= 0) return half;
  const Val back = c.emit("Slice", {half, c.constant_ints({mirrored}), c.constant_ints({0}), c.constant_ints({axis}),
                                    c.constant_ints({-1})});
  const Val signs = c.constant_tensor(concatenated({filled({1}, 1, dtype), filled({1}, -1, dtype)}));
  return c.emit("Concat", {half, c.emit("Mul", {back, signs})}, {{"axis", axis}});
}

void fft_c2r(Ctx& c) {
  const Val x = c.tensor("self");
  const int rank = c.rank(x) - 1;
  const DType dtype = c.dtype(x);
  Ints axes = axes_to_transform(c);
  const std::int64_t last = axes.back(), n = c.count("last_dim_size");
  axes.pop_back();
  Val y = axes.empty() ? x : over_axes(c, x, rank, axes, false);
  y = whole_spectrum(c, y, last, n, dtype);
  y = over_axes(c, y, rank, {last}, false);
  y = c.emit("Gather", {y, c.constant_int(0)}, {{"axis", rank}});
  axes.push_back(last);
  c.expect(c.output_dims().has_value(), "sizes of its result");
  const Val real = c.typed(y, dtype, *c.output_dims());
  c.yield(normalized(c, real, real, axes, dtype, true));
}

// The frequencies of a transform of n elements `d` apart: 0, 1, ..., and, if there are two sides, the negative ones.
void frequencies(Ctx& c, bool two_sides) {
  const std::int64_t n = c.count("n");
  c.table_size({n});
  const double unit = 1 / (static_cast<double>(n) * c.number("d"));
  const DType dtype = c.output_dtype();
  std::vector<TensorData> each;
  const auto add = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) each.push_back(filled({1}, static_cast<double>(i) * unit, dtype));
  };
  add(0, two_sides ? (n + 1) / 2 : n / 2 + 1);
  if (two_sides) add(-(n / 2), 0);
  c.yield(c.constant_tensor(concatenated(each)));
}
void fftfreq(Ctx& c) { frequencies(c, true); }
void rfftfreq(Ctx& c) { frequencies(c, false); }

const OpEntry kSpectral[] = {
    {"aten::fft_fftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     fftfreq},
    {"aten::fft_rfftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     rfftfreq},
    {"aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor", fft_c2c},
    {"aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor", fft_c2r},
    {"aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", fft_r2c},
    {"aten::stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
     "bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
     stft},
};

}  // namespace

OpFamily spectral_ops() { return kSpectral; }

}  // namespace whence::convert
