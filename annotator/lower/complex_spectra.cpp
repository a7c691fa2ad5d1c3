// Rewrites Fourier transforms as PyTorch's three kernels, which have converters on pairs: real to complex, complex to
// complex, complex to real. Follows aten/src/ATen/native/SpectralOps.cpp, PyTorch 2.13.
#include <algorithm>
#include <limits>
#include <string>

#include "annotator/lower/complex_pairs.h"

namespace whence::lower {
namespace {

enum Scale : std::int64_t { none = 0, by_root = 1, by_count = 2 };

// Checks a condition that PyTorch guarantees but a damaged archive may violate.
void expect(PairSteps& c, bool holds, const std::string& what) {
  if (!holds) c.steps.refuse(what, "save the model again; PyTorch refuses this too");
}

// Returns the scaling. By default only the inverse transform is divided by the number of elements.
Scale scale_of(PairSteps& c, bool forward) {
  if (!c.has("norm")) return forward ? none : by_count;
  const auto* norm = c.argument("norm").as<std::string>();
  expect(c, norm != nullptr, "'norm' is not a string");
  if (*norm == "ortho") return by_root;
  return (*norm == "backward") == forward ? none : by_count;
}

std::size_t axes_in(PairSteps& c, const Argument& x) { return c.steps.dims(x).size() - (c.is_pair(x) ? 1 : 0); }

// The axes to transform, counted from the front, and the requested length of each; -1 keeps the length.
struct Axes {
  std::vector<std::int64_t> axes, sizes;
};

std::vector<std::int64_t> integers(PairSteps& c, const Argument& argument) {
  std::vector<std::int64_t> found;
  const auto take = [&](const Argument& element) {
    const auto* known = element.as<std::int64_t>();
    if (known == nullptr) c.refuse("an axis or a length of a Fourier transform is not a constant");
    found.push_back(*known);
  };
  if (const auto* list = argument.as<ArgumentList>()) {
    for (const Argument& element : *list) take(element);
  } else if (!argument.is_none()) {
    take(argument);
  }
  return found;
}

// Returns the axes and lengths of a transform, for operators of one axis (`n`) and of several (`s`).
Axes axes_of(PairSteps& c, const Argument& x, std::vector<std::int64_t> otherwise) {
  Axes result;
  const auto rank = static_cast<std::int64_t>(axes_in(c, x));
  result.sizes = integers(c, c.argument(c.node().find("s") != nullptr ? "s" : "n"));
  result.axes = integers(c, c.argument("dim"));
  if (result.axes.empty()) result.axes = std::move(otherwise);
  if (result.axes.empty()) {
    const auto count = result.sizes.empty() ? rank : static_cast<std::int64_t>(result.sizes.size());
    for (std::int64_t axis = rank - count; axis < rank; ++axis) result.axes.push_back(axis);
  }
  for (std::int64_t& axis : result.axes) {
    expect(c, axis >= -rank && axis < rank, "axis " + std::to_string(axis) + " is out of range");
    axis += axis < 0 ? rank : 0;
  }
  if (result.sizes.empty()) result.sizes.assign(result.axes.size(), -1);
  expect(c, result.sizes.size() == result.axes.size(), "'s' needs one length per axis of 'dim'");
  constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t size : result.sizes) {
    if (size > longest)
      c.steps.refuse("a transform length of " + std::to_string(size) + " is too large", "use a smaller number");
  }
  return result;
}

// Like axes_of(), but requires at least one axis.
Axes some_axes(PairSteps& c, const Argument& x, std::vector<std::int64_t> otherwise) {
  Axes axes = axes_of(c, x, std::move(otherwise));
  expect(c, !axes.axes.empty(), "expected at least one axis to transform");
  return axes;
}

// Slices or zero-pads an axis to `size` elements.
Argument resized(PairSteps& c, const Argument& x, std::int64_t axis, std::int64_t size) {
  std::vector<Dim> dims = c.steps.dims(x);
  Dim& dim = dims[static_cast<std::size_t>(axis)];
  if (size < 0 || (dim.is_static() && dim.size == size)) return x;
  if (!dim.is_static()) c.refuse("a Fourier transform with a fixed length over an axis of dynamic size");
  const std::int64_t before = dim.size;
  dim = fixed(size);
  if (size < before) {
    return c.steps.add("aten::slice.Tensor",
                       {{"self", x}, {"dim", {axis}}, {"start", {std::int64_t{0}}}, {"end", {size}}}, c.steps.dtype(x),
                       std::move(dims));
  }
  ArgumentList pad;
  for (std::int64_t i = static_cast<std::int64_t>(dims.size()) - 1; i >= axis; --i) {
    pad.push_back({std::int64_t{0}});
    pad.push_back({i == axis ? size - before : std::int64_t{0}});
  }
  return c.steps.add("aten::constant_pad_nd", {{"self", x}, {"pad", {std::move(pad)}}, {"value", {0.0}}},
                     c.steps.dtype(x), std::move(dims));
}

Argument list_of(const std::vector<std::int64_t>& numbers) {
  ArgumentList list;
  for (const std::int64_t number : numbers) list.push_back({number});
  return {std::move(list)};
}

Argument complex_to_complex(PairSteps& c, const Argument& pair, const std::vector<std::int64_t>& axes, Scale scale,
                            bool forward) {
  if (axes.empty()) return pair;
  return c.steps.add(
      "aten::_fft_c2c",
      {{"self", pair}, {"dim", list_of(axes)}, {"normalization", {std::int64_t{scale}}}, {"forward", {forward}}},
      c.steps.dtype(pair), c.steps.dims(pair));
}

Argument floating(PairSteps& c, const Argument& x) {
  if (c.is_pair(x) || c.steps.dtype(x) == c.real_dtype()) return x;
  return c.steps.add("aten::_to_copy", {{"self", x}, {"dtype", {c.real_dtype()}}}, c.real_dtype(), c.steps.dims(x));
}

Argument transform(PairSteps& c, bool forward, std::vector<std::int64_t> otherwise) {
  Argument x = c.as_pair(floating(c, c.argument("self")));
  const Axes axes = axes_of(c, c.argument("self"), std::move(otherwise));
  for (std::size_t i = 0; i < axes.axes.size(); ++i) x = resized(c, x, axes.axes[i], axes.sizes[i]);
  return complex_to_complex(c, x, axes.axes, scale_of(c, forward), forward);
}

// One-sided spectrum (rfft): real transform over the last axis, complex over the rest.
Argument real_transform(PairSteps& c, std::vector<std::int64_t> otherwise) {
  Argument x = floating(c, c.argument("self"));
  const Axes axes = some_axes(c, c.argument("self"), std::move(otherwise));
  for (std::size_t i = 0; i < axes.axes.size(); ++i) x = resized(c, x, axes.axes[i], axes.sizes[i]);
  return c.steps.add("aten::_fft_r2c",
                     {{"self", x},
                      {"dim", list_of(axes.axes)},
                      {"normalization", {std::int64_t{scale_of(c, true)}}},
                      {"onesided", {true}}},
                     c.real_dtype(), c.result_dims());
}

// Computes a real signal from its one-sided spectrum (irfft, `forward` false), or the real spectrum of a Hermitian
// signal of which one half is given (hfft, `forward` true).
Argument to_real(PairSteps& c, std::vector<std::int64_t> otherwise, bool forward) {
  const Argument& given = c.argument("self");
  Axes axes = some_axes(c, given, std::move(otherwise));
  std::int64_t& last = axes.sizes.back();
  Argument x = c.as_pair(floating(c, given));
  if (last < 0) {
    const Dim& dim = c.steps.dims(x)[static_cast<std::size_t>(axes.axes.back())];
    if (!dim.is_static()) c.refuse("irfft over an axis of dynamic size");
    expect(c, dim.size <= std::numeric_limits<std::int32_t>::max(), "the length of an axis is out of range");
    last = 2 * (dim.size - 1);
  }
  for (std::size_t i = 0; i < axes.axes.size(); ++i) {
    const bool half = i + 1 == axes.axes.size();
    x = resized(c, x, axes.axes[i], half ? axes.sizes[i] / 2 + 1 : axes.sizes[i]);
  }
  std::vector<std::int64_t> inverse = axes.axes;
  if (forward) {
    const std::vector<std::int64_t> others(axes.axes.begin(), axes.axes.end() - 1);
    x = c.conjugate(complex_to_complex(c, x, others, scale_of(c, true), true));
    inverse = {axes.axes.back()};
  }
  return c.steps.add("aten::_fft_c2r",
                     {{"self", x},
                      {"dim", list_of(inverse)},
                      {"normalization", {std::int64_t{scale_of(c, forward)}}},
                      {"last_dim_size", {last}}},
                     c.real_dtype(), c.result_dims());
}

// One-sided inverse of a real signal (ihfft): conjugated one-sided spectrum over the last axis, inverse over the rest.
Argument inverse_of_real(PairSteps& c, std::vector<std::int64_t> otherwise) {
  Argument x = floating(c, c.argument("self"));
  const Axes axes = some_axes(c, c.argument("self"), std::move(otherwise));
  for (std::size_t i = 0; i < axes.axes.size(); ++i) x = resized(c, x, axes.axes[i], axes.sizes[i]);
  const Argument half = c.steps.add("aten::_fft_r2c",
                                    {{"self", x},
                                     {"dim", list_of({axes.axes.back()})},
                                     {"normalization", {std::int64_t{scale_of(c, false)}}},
                                     {"onesided", {true}}},
                                    c.real_dtype(), c.result_dims());
  const std::vector<std::int64_t> others(axes.axes.begin(), axes.axes.end() - 1);
  return complex_to_complex(c, c.conjugate(half), others, scale_of(c, false), false);
}

Argument fft(PairSteps& c) { return transform(c, true, {-1}); }
Argument ifft(PairSteps& c) { return transform(c, false, {-1}); }
Argument fft2(PairSteps& c) { return transform(c, true, {-2, -1}); }
Argument ifft2(PairSteps& c) { return transform(c, false, {-2, -1}); }
Argument fftn(PairSteps& c) { return transform(c, true, {}); }
Argument ifftn(PairSteps& c) { return transform(c, false, {}); }
Argument rfft(PairSteps& c) { return real_transform(c, {-1}); }
Argument rfft2(PairSteps& c) { return real_transform(c, {-2, -1}); }
Argument rfftn(PairSteps& c) { return real_transform(c, {}); }
Argument irfft(PairSteps& c) { return to_real(c, {-1}, false); }
Argument irfft2(PairSteps& c) { return to_real(c, {-2, -1}, false); }
Argument irfftn(PairSteps& c) { return to_real(c, {}, false); }
Argument hfft(PairSteps& c) { return to_real(c, {-1}, true); }
Argument hfft2(PairSteps& c) { return to_real(c, {-2, -1}, true); }
Argument hfftn(PairSteps& c) { return to_real(c, {}, true); }
Argument ihfft(PairSteps& c) { return inverse_of_real(c, {-1}); }
Argument ihfft2(PairSteps& c) { return inverse_of_real(c, {-2, -1}); }
Argument ihfftn(PairSteps& c) { return inverse_of_real(c, {}); }

// Rewrites the kernels themselves: their axes do not count the pair axis.
Argument kernel(PairSteps& c) {
  std::vector<NamedArgument> arguments = c.node().arguments;
  const auto rank = static_cast<std::int64_t>(axes_in(c, c.argument("self")));
  for (NamedArgument& argument : arguments) {
    if (argument.name != "dim") continue;
    std::vector<std::int64_t> axes = integers(c, argument.value);
    for (std::int64_t& axis : axes) axis += axis < 0 ? rank : 0;
    argument.value = list_of(axes);
  }
  return c.steps.add(c.node().target, std::move(arguments), c.real_dtype(), c.result_dims());
}

// Sets or replaces an argument of a call.
void set(std::vector<NamedArgument>& arguments, std::string_view name, Argument value) {
  for (NamedArgument& argument : arguments) {
    if (argument.name == name) return void(argument.value = std::move(value));
  }
  arguments.push_back({std::string(name), std::move(value)});
}

// Pads the last axis of a signal at both ends. A complex signal gets a zero pad for its pair axis.
Argument padded(PairSteps& c, const Argument& signal, std::int64_t before, std::int64_t after,
                const std::string& mode) {
  if (before == 0 && after == 0) return signal;
  ArgumentList pad{{before}, {after}};
  const bool pairs = c.is_pair(signal);
  if (pairs) pad.insert(pad.begin(), 2, Argument{std::int64_t{0}});
  std::vector<Dim> dims = c.steps.dims(signal, pairs ? 2 : 1);
  Dim& dim = dims[dims.size() - (pairs ? 2 : 1)];
  dim = dim.is_static() ? fixed(dim.size + before + after) : Dim{-1, true, none_id};
  return c.steps.add("aten::pad", {{"self", signal}, {"pad", {std::move(pad)}}, {"mode", {mode}}},
                     c.steps.dtype(signal), std::move(dims));
}

std::int64_t length_or(PairSteps& c, const char* name, std::int64_t otherwise) {
  return c.has(name) ? c.steps.integer(name) : otherwise;
}

// The converter of stft takes a padded signal and returns pairs.
Argument stft(PairSteps& c) {
  std::vector<NamedArgument> arguments = c.node().arguments;
  const Argument& signal = c.argument("self");
  if (c.is_pair(c.argument("window"))) c.refuse("a complex window of stft");
  const std::int64_t frame = c.steps.integer("n_fft");
  const bool can_center = c.node().overload == "center", aligned = length_or(c, "align_to_window", 0) != 0;
  if (can_center && length_or(c, "center", 1) != 0) {
    const auto* mode = c.argument("pad_mode").as<std::string>();
    const std::int64_t half = frame / 2;
    set(arguments, "self", padded(c, signal, half, half, mode == nullptr ? "reflect" : *mode));
  } else if (aligned) {  // the first window, not the first frame, starts at the first sample
    const std::int64_t around = frame - length_or(c, "win_length", frame), before = around / 2;
    set(arguments, "self", padded(c, signal, before, around - before, "constant"));
  }
  std::erase_if(arguments, [](const NamedArgument& argument) {
    return argument.name == "center" || argument.name == "pad_mode" || argument.name == "align_to_window";
  });
  if (!c.has("onesided")) set(arguments, "onesided", {!c.is_pair(signal)});
  set(arguments, "return_complex", {false});
  return c.steps.add("aten::stft", std::move(arguments), c.real_dtype(), c.result_dims());
}

// The converter of istft takes pairs and returns a real signal unless a complex one is requested.
Argument istft(PairSteps& c) {
  if (c.is_pair(c.argument("window"))) c.refuse("a complex window of istft");
  expect(c, c.is_pair(c.argument("self")), "expected a complex spectrum");
  return c.steps.add("aten::istft", c.node().arguments, c.real_dtype(), c.result_dims());
}

}  // namespace

const PairRules& pair_spectra() {
  static const PairRules table{
      {"aten::_fft_c2c", kernel}, {"aten::_fft_c2r", kernel},   {"aten::_fft_r2c", kernel},
      {"aten::fft_fft", fft},     {"aten::fft_fft2", fft2},     {"aten::fft_fftn", fftn},
      {"aten::fft_ifft", ifft},   {"aten::fft_ifft2", ifft2},   {"aten::fft_ifftn", ifftn},
      {"aten::fft_irfft", irfft}, {"aten::fft_irfft2", irfft2}, {"aten::fft_irfftn", irfftn},
      {"aten::fft_rfft", rfft},   {"aten::fft_rfft2", rfft2},   {"aten::fft_rfftn", rfftn},
      {"aten::fft_hfft", hfft},   {"aten::fft_hfft2", hfft2},   {"aten::fft_hfftn", hfftn},
      {"aten::fft_ihfft", ihfft}, {"aten::fft_ihfft2", ihfft2}, {"aten::fft_ihfftn", ihfftn},
      {"aten::stft", stft},       {"aten::istft", istft},
  };
  return table;
}

}  // namespace whence::lower
