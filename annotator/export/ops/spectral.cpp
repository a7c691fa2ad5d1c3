// Spectra: the short-time Fourier transform, as real and imaginary parts. ONNX has no complex tensors.
#include <cmath>

#include "annotator/export/ops/families.h"
#include "annotator/export/weights.h"

namespace whence {
namespace {

// The window of a frame: `given`, or ones, with zeros on both sides where it is shorter than the frame.
Val framed_window(Ctx& c, Val given, std::int64_t length, std::int64_t frame, DType dtype) {
  const std::int64_t left = (frame - length) / 2, right = frame - length - left;
  if (!given) {
    return c.constant_tensor(
        concatenated({filled({left}, 0, dtype), filled({length}, 1, dtype), filled({right}, 0, dtype)}));
  }
  given = c.cast(given, dtype);
  return length == frame ? given : c.emit("Pad", {given, c.constant_ints({left, right})});
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
  const std::int64_t frame = c.integer("n_fft");
  const std::int64_t hop = c.has("hop_length") ? c.integer("hop_length") : frame / 4;
  const std::int64_t length = c.has("win_length") ? c.integer("win_length") : frame;
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

const OpEntry kSpectral[] = {
    {"aten::stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
     "bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
     stft},
};

}  // namespace

OpFamily spectral_ops() { return kSpectral; }

}  // namespace whence
