// Windows of known or computed length: hann, hamming, blackman, bartlett. Each is a function of the fraction of the
// period before an element. ONNX's own windows are not used: its Hamming window has another coefficient.
#include <cmath>
#include <numbers>

#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

struct Window {
  DType dtype;
  Val length;
  Val share;  // fraction of the period before each element, [length]
};

// A periodic window is a window with one more element, without its last element.
Window window(Ctx& c) {
  const DType dtype = c.output_dtype();
  if (!is_floating(dtype)) c.refuse("a window of integers is not supported", "make float32 and convert");
  const Val length = c.to_scalar_value(c.size("window_length")), one = c.constant_int(1);
  const bool periodic = c.schema().find("periodic") == nullptr || c.flag("periodic");
  const Val period = c.emit("Max", {periodic ? length : c.emit("Sub", {length, one}), one});
  const Val positions = c.emit("Range", {c.constant_int(0), length, one});
  const auto as_result = [&](Val numbers) { return c.cast(c.typed(numbers, DType::int64), dtype); };
  return {dtype, length, c.emit("Div", {as_result(positions), as_result(period)})};
}

// A window of one element is 1.
void yield_window(Ctx& c, const Window& w, Val values) {
  const Val single = c.emit("Equal", {w.length, c.constant_int(1)});
  c.yield(c.emit("Where", {single, c.constant_number(1, w.dtype), values}));
}

Val cosine(Ctx& c, const Window& w, double periods) {
  return c.emit("Cos", {c.emit("Mul", {w.share, c.constant_number(2 * std::numbers::pi * periods, w.dtype)})});
}

Val minus(Ctx& c, const Window& w, double from, double factor, Val values) {
  return c.emit("Sub", {c.constant_number(from, w.dtype), c.emit("Mul", {values, c.constant_number(factor, w.dtype)})});
}

void hann_window(Ctx& c) {
  const Window w = window(c);
  yield_window(c, w, minus(c, w, 0.5, 0.5, cosine(c, w, 1)));
}

void hamming_window(Ctx& c) {
  const Window w = window(c);
  const double alpha = c.schema().find("alpha") ? c.number("alpha") : 0.54;
  const double beta = c.schema().find("beta") ? c.number("beta") : 0.46;
  yield_window(c, w, minus(c, w, alpha, beta, cosine(c, w, 1)));
}

void blackman_window(Ctx& c) {
  const Window w = window(c);
  const Val second = c.emit("Mul", {cosine(c, w, 2), c.constant_number(0.08, w.dtype)});
  yield_window(c, w, c.emit("Add", {minus(c, w, 0.42, 0.5, cosine(c, w, 1)), second}));
}

// A triangle.
void bartlett_window(Ctx& c) {
  const Window w = window(c);
  const Val centred = minus(c, w, 1, 2, w.share);
  yield_window(c, w, minus(c, w, 1, 1, c.emit("Abs", {centred})));
}

const OpEntry kWindows[] = {
    {"aten::hann_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     hann_window},
    {"aten::hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     hann_window},
    {"aten::hamming_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     hamming_window},
    {"aten::hamming_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     hamming_window},
    {"aten::hamming_window.periodic_alpha(int window_length, bool periodic, float alpha, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     hamming_window},
    {"aten::hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, *, "
     "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     hamming_window},
    {"aten::blackman_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     blackman_window},
    {"aten::blackman_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     blackman_window},
    {"aten::bartlett_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     bartlett_window},
    {"aten::bartlett_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     bartlett_window},
};

}  // namespace

OpFamily window_ops() { return kWindows; }

}  // namespace whence::convert
