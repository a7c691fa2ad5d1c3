"""Short-time Fourier transforms, as real and imaginary parts."""

import torch

from ops.case import case, f32


def stft(x, **options):
    return torch.stft(x, 16, center=False, return_complex=False, **options)


def transform(function, *inputs, **options):
    return case("aten::stft", function, *inputs, tolerance=(1e-4, 1e-4), **options)


CASES = [
    transform(lambda x: stft(x), f32(2, 64), opsets=(17, 18, 23)),
    transform(lambda x: stft(x, hop_length=5, normalized=True, onesided=False), f32(64)),
    transform(lambda x: stft(x, win_length=9), f32(2, 64)),
    transform(lambda x: stft(x, window=torch.hann_window(16)), f32(1, 64)),
    transform(lambda x, w: stft(x, win_length=10, window=w), f32(2, 64), f32(10, seed=1)),
    transform(lambda x: stft(x), f32(64), opsets=(13,), refused="from opset 17"),
    transform(lambda x: torch.view_as_real(torch.stft(x, 16, center=False, return_complex=True)), f32(64),
              refused="no complex tensors"),
]
