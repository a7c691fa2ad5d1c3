// Fourier transforms. Complex tensors are pairs [*, 2] of real and imaginary parts here (../../lower/complex_pairs.h).
#include <algorithm>
#include <cmath>
#include <optional>

#include "annotator/convert/ops/families.h"
#include "annotator/convert/weights.h"
#include "schema/element_count.h"

namespace whence::convert {
namespace {

// The window of a frame: `window`, or ones, with zeros on both sides if it is shorter than the frame.
Val framed_window(Ctx& c, Val window, std::int64_t length, std::int64_t frame, DType dtype) {
  const std::int64_t left = (frame - length) / 2, right = frame - length - left;
  if (!window) {
    return c.constant_tensor(
        concatenated({filled({left}, 0, dtype), filled({length}, 1, dtype), filled({right}, 0, dtype)}));
  }
  window = c.cast(window, dtype);
  return length == frame ? window : c.emit("Pad", {window, c.constant_ints({left, right})});
}

// [(batch,) signal], or pairs [(batch,) signal, 2] -> [(batch,) frequencies, frames, 2]. Lowering has already padded
// the signal (../../lower/complex_spectra.cpp).
void stft(Ctx& c) {
  if (c.opset() < 17)
    c.refuse("ONNX has a short-time Fourier transform from opset 17", "export with --opset 17 or newer");
  if (c.has("return_complex") && c.flag("return_complex")) {
    c.refuse("ONNX has no complex tensors", "call torch.stft with return_complex=False");
  }
  const Val x = c.tensor("self");
  const DType dtype = c.dtype(x);
  c.expect(c.output_dims().has_value(), "the shape of the result must be known");
  const bool batched = c.output_dims()->size() == 4;
  const bool pairs = c.rank(x) == (batched ? 3 : 2);
  const std::int64_t frame = c.count("n_fft");
  const std::int64_t hop = c.has("hop_length") ? c.count("hop_length") : frame / 4;
  const std::int64_t length = c.has("win_length") ? c.count("win_length") : frame;
  c.expect(length <= frame, "win_length must not exceed n_fft");
  c.table_size({frame});
  const bool onesided = !c.has("onesided") || c.flag("onesided");
  Ints added;
  if (!batched) added.push_back(0);
  if (!pairs) added.push_back(2);
  const Val signal = c.unsqueeze(x, added);
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

// DFT over one axis of x [*, 1] or of pairs [*, 2]. The forward transform is not scaled; ONNX divides the backward one
// by the size. An axis shorter than `length` is padded with zeros.
Val dft(Ctx& c, Val x, std::int64_t axis, bool forward, bool onesided, std::optional<std::int64_t> length = {}) {
  if (c.opset() < 17) c.refuse("ONNX has Fourier transforms from opset 17", "export with --opset 17 or newer");
  Attributes attributes;
  std::vector<Val> inputs{x};
  if (length) inputs.push_back(c.constant_int(*length));
  if (c.opset() < 20) {
    attributes.push_back({"axis", axis});
  } else {
    inputs.resize(2, absent);
    inputs.push_back(c.constant_int(axis));
  }
  if (!forward) attributes.push_back({"inverse", 1});
  if (onesided) attributes.push_back({"onesided", 1});
  return c.emit("DFT", std::move(inputs), std::move(attributes));
}

// Gives a signal the leading batch axis that runtimes expect.
template <class Transform>
Val with_batch(Ctx& c, Val x, int rank, const Transform& transform) {
  if (rank > 1) return transform(x, 0);
  return c.squeeze(transform(c.unsqueeze(x, {0}), 1), {0});
}

// Divides y by the number of transformed elements, by its square root, or not at all, as `normalization` requires.
// `divided_already`: y is already divided by that number.
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

// Transforms pairs [*, 2] over several axes.
Val over_axes(Ctx& c, Val x, int rank, const Ints& axes, bool forward) {
  return with_batch(c, x, rank, [&](Val y, std::int64_t shift) {
    for (const std::int64_t axis : axes) y = dft(c, y, axis + shift, forward, false);
    return y;
  });
}

// Returns the axes to transform. The last axis, which holds the pairs, does not count, neither here nor in `rank`.
Ints axes_to_transform(Ctx& c, int rank) {
  Ints axes = c.integers("dim");
  for (std::int64_t& axis : axes) axis = c.axis(axis, rank);
  return axes;
}

// The last of these axes has the one-sided spectrum.
Ints half_spectrum_axes(Ctx& c, int rank) {
  Ints axes = axes_to_transform(c, rank);
  c.expect(!axes.empty(), "dim must name at least one axis");
  return axes;
}

void fft_c2c(Ctx& c) {
  const Val x = c.tensor("self");
  const int rank = c.rank(x) - 1;
  const Ints axes = axes_to_transform(c, rank);
  const bool forward = c.flag("forward");
  const Val y = over_axes(c, x, rank, axes, forward);
  c.yield(normalized(c, y, x, axes, c.dtype(x), !forward));
}

// One-sided spectrum (rfft): real transform over the last of the axes, complex over the others.
void fft_r2c(Ctx& c) {
  const Val x = c.tensor("self");
  const int rank = c.rank(x);
  const DType dtype = c.output_dtype();
  Ints axes = half_spectrum_axes(c, rank);
  const Ints all = axes;
  const bool onesided = c.flag("onesided");
  const std::int64_t last = axes.back();
  axes.pop_back();
  Val y = with_batch(c, c.unsqueeze(c.cast(x, dtype), {rank}), rank,
                     [&](Val signal, std::int64_t shift) { return dft(c, signal, last + shift, true, onesided); });
  if (!axes.empty()) y = over_axes(c, y, rank, axes, true);
  c.yield(normalized(c, y, x, all, dtype, false));
}

// Returns real signals of n samples, times `scale`, from the first n / 2 + 1 frequencies of their spectra along `axis`:
// pairs [*, n / 2 + 1, *, 2] -> [*, n, *]. The other frequencies are the conjugates of these, so in the real part each
// counts twice, except the first one and, for an even n, the middle one.
Val real_signal(Ctx& c, Val half, int rank, std::int64_t axis, std::int64_t n, double scale, DType dtype) {
  const std::int64_t frequencies = n / 2 + 1, single = n % 2 == 0 ? 1 : 0;
  c.table_size({frequencies});
  Ints shape(static_cast<std::size_t>(rank - axis) + 1, 1);  // from `axis` to the axis of the pairs
  shape.front() = frequencies;
  std::vector<TensorData> counts{filled({1}, scale, dtype)};
  if (n > 1) {
    counts.push_back(filled({frequencies - 1 - single}, 2 * scale, dtype));
    counts.push_back(filled({single}, scale, dtype));
  }
  Val y = c.emit("Mul", {half, c.constant_tensor(reshaped(concatenated(counts), shape))});
  y = with_batch(c, y, rank, [&](Val x, std::int64_t shift) { return dft(c, x, axis + shift, false, false, n); });
  return c.emit("Gather", {y, c.constant_int(0)}, {{"axis", rank}});
}

void fft_c2r(Ctx& c) {
  const Val x = c.tensor("self");
  const int rank = c.rank(x) - 1;
  const DType dtype = c.dtype(x);
  Ints axes = half_spectrum_axes(c, rank);
  if (!c.static_size(c.size("last_dim_size"))) {
    c.refuse("irfft over an axis of dynamic size is not supported", "pass n, the length of its result");
  }
  const std::int64_t last = axes.back(), n = c.count("last_dim_size");
  axes.pop_back();
  Val y = axes.empty() ? x : over_axes(c, x, rank, axes, false);
  y = real_signal(c, y, rank, last, n, 1, dtype);
  axes.push_back(last);
  c.expect(c.output_dims().has_value(), "the shape of the result must be known");
  const Val real = c.typed(y, dtype, *c.output_dims());
  c.yield(normalized(c, real, real, axes, dtype, true));
}

// ---- signals from the spectra of their frames -------------------------------------------------------------------

// Frames of `length` samples, each `hop` samples after the previous one, and the numbers of samples cut off at each end
// of their sum.
struct Overlap {
  std::int64_t length, hop, front, back;
};

// Adds frames [batch, length, frames] where they overlap: [batch, samples]. Splits each frame into parts of `hop`
// samples, so that part p of frame f is added to block f + p of the result.
Val overlap_added(Ctx& c, Val frames, const Overlap& overlap, DType dtype) {
  const std::int64_t hop = overlap.hop, parts = (overlap.length - 1) / hop + 1;
  const std::int64_t missing = parts * hop - overlap.length;
  std::int64_t front = overlap.front, back = overlap.back + missing;
  if (missing > 0) frames = c.emit("Pad", {frames, c.constant_ints({0, 0, 0, 0, missing, 0})});
  Val blocks = c.emit("Reshape", {frames, c.constant_ints({0, parts, hop, -1})});
  if (parts > 1) {
    std::vector<TensorData> shifts;
    c.table_size({parts, parts});
    for (std::int64_t part = 0; part < parts; ++part) {
      for (const auto& [count, value] : {std::pair{part, 0.0}, {1, 1.0}, {parts - 1 - part, 0.0}}) {
        shifts.push_back(filled({count}, value, dtype));
      }
    }
    const Val kernel = c.constant_tensor(reshaped(concatenated(shifts), {parts, 1, 1, parts}));
    blocks = c.emit("ConvTranspose", {blocks, kernel}, {{"pads", Ints{0, front / hop, 0, back / hop}}});
    front %= hop;
    back %= hop;
  }
  const Val samples = c.emit("Reshape", {c.transpose(blocks, {0, 1, 3, 2}), c.constant_ints({0, -1})});
  if (front == 0 && back == 0) return samples;
  return c.emit("Slice", {samples, c.constant_ints({front}), c.constant_ints({back == 0 ? INT64_MAX : -back}),
                          c.constant_ints({1})});
}

// Returns the sum of the squared windows [length] of overlapping `frames`: [samples].
Val window_envelope(Ctx& c, Val window, const Size& frames, const Overlap& overlap, DType dtype) {
  const Val ones = c.emit("ConstantOfShape", {c.to_vector({std::int64_t{1}, std::int64_t{1}, frames})},
                          {{"value", filled({1}, 1, dtype)}});
  const Val squares = c.unsqueeze(c.emit("Mul", {window, window}), {0, 1});
  const Val sum = c.emit("ConvTranspose", {ones, squares},
                         {{"pads", Ints{overlap.front, overlap.back}}, {"strides", Ints{overlap.hop}}});
  return c.squeeze(sum, {0, 1});
}

// Cuts a signal [batch, samples] to a length, or pads it with zeros.
Val with_length(Ctx& c, Val signal, const Size& length) {
  const Val missing = c.emit("Sub", {c.to_scalar_value(length), c.dim_of(signal, 1)});
  const std::int64_t none = 0;
  return c.emit("Pad", {signal, c.to_vector({none, none, none, missing})});
}

// Returns the frames of signals from spectra [batch, frequencies, frames, 2]: one tensor [batch, frame, frames], or one
// for the real and one for the imaginary part.
std::vector<Val> frames_of(Ctx& c, Val spectra, std::int64_t frame, double scale, DType dtype) {
  if (!c.flag("return_complex")) {
    const std::int64_t half = frame / 2 + 1;
    if (c.static_dim(spectra, 1) != half) {
      spectra = c.emit("Slice", {spectra, c.constant_ints({0}), c.constant_ints({half}), c.constant_ints({1})});
    }
    return {real_signal(c, spectra, 3, 1, frame, scale, dtype)};
  }
  if (scale != 1) spectra = c.emit("Mul", {spectra, c.constant_number(scale, dtype)});
  const Val pairs = dft(c, spectra, 1, false, false);
  const auto part = [&](std::int64_t index) { return c.emit("Gather", {pairs, c.constant_int(index)}, {{"axis", 3}}); };
  return {part(0), part(1)};
}

// [(batch,) frequencies, frames, 2] -> [(batch,) samples], or [(batch,) samples, 2]. The sum of the frames, each
// weighted by the window, is divided by the sum of the squared windows, as in aten/src/ATen/native/SpectralOps.cpp,
// PyTorch 2.13.
void istft(Ctx& c) {
  const Val x = c.tensor("self");
  const DType dtype = c.dtype(x);
  const bool batched = c.rank(x) == 4;
  const std::int64_t frame = c.count("n_fft");
  const std::int64_t hop = c.has("hop_length") ? c.count("hop_length") : frame / 4;
  const std::int64_t length = c.has("win_length") ? c.count("win_length") : frame;
  c.expect(length <= frame && hop > 0 && hop <= length,
           "hop_length must not exceed win_length, which must not exceed n_fft");
  c.table_size({frame});
  const auto frame_count = c.static_dim(x, -2);
  const Size frames = frame_count ? Size{*frame_count} : Size{c.dim_of(x, -2)};

  Overlap overlap{frame, hop, c.flag("center") ? frame / 2 : 0, 0};
  std::optional<Size> samples;  // absent if the frames give the requested number
  if (c.has("length")) samples = c.size("length");
  if (!samples) {
    overlap.back = overlap.front;
  } else if (const auto known = c.static_size(*samples); known && frame_count) {
    c.expect(*frame_count <= max_count, "the number of frames must fit into 32 bits");
    const std::int64_t available = frame + hop * (*frame_count - 1) - overlap.front;
    overlap.back = std::max<std::int64_t>(available - *known, 0);
    if (*known <= available) samples.reset();
  }

  const Val window = framed_window(c, c.optional_tensor("window"), length, frame, dtype);
  const double scale = c.flag("normalized") ? std::sqrt(static_cast<double>(frame)) : 1;
  const Val envelope = window_envelope(c, window, frames, overlap, dtype);
  std::vector<Val> parts = frames_of(c, batched ? x : c.unsqueeze(x, {0}), frame, scale, dtype);
  for (Val& part : parts) {
    part = c.emit("Mul", {part, c.unsqueeze(window, {1})});
    part = c.emit("Div", {overlap_added(c, part, overlap, dtype), envelope});
    if (samples) part = with_length(c, part, *samples);
    if (parts.size() > 1) part = c.unsqueeze(part, {2});
  }
  const Val y = parts.size() > 1 ? c.emit("Concat", parts, {{"axis", 2}}) : parts.front();
  c.yield(batched ? y : c.squeeze(y, {0}));
}

// The frequencies of a transform of n elements `d` apart: 0, 1, ..., then the negative ones if it is two-sided.
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
    {"aten::istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
     "bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> "
     "Tensor",
     istft},
};

}  // namespace

OpFamily spectral_ops() { return kSpectral; }

}  // namespace whence::convert
