"""Fourier transforms, of real signals and of complex ones as real and imaginary parts."""

import torch
from torch import fft

from ops.case import case, f32, f64, i64

TOLERANCE = (1e-4, 1e-4)
aten = torch.ops.aten


def stft(x, **options):
    return torch.stft(x, 16, center=False, return_complex=False, **options)


def transform(function, *inputs, **options):
    return case("aten::stft", function, *inputs, tolerance=TOLERANCE, **options)


def spectrum(kernel, name, function, *inputs, **options):
    """An operator that is written with one of PyTorch's three kernels."""
    return case(f"aten::_fft_{kernel}", function, *inputs, tolerance=TOLERANCE, recorded_as=f"aten::{name}", **options)


def real(z):
    return torch.view_as_real(z)


def complex_of(x):
    return torch.view_as_complex(x)


CASES = [
    transform(lambda x: stft(x), f32(2, 64), opsets=(17, 20, 23)),
    transform(lambda x: stft(x, hop_length=5, normalized=True, onesided=False), f32(64)),
    transform(lambda x: stft(x, win_length=9), f32(2, 64)),
    transform(lambda x: stft(x, window=torch.hann_window(16)), f32(1, 64)),
    transform(lambda x, w: stft(x, win_length=10, window=w), f32(2, 64), f32(10, seed=1)),
    transform(lambda x: stft(x), f32(64), opsets=(13,), refused="from opset 17"),
    transform(lambda x: torch.stft(x, 16, return_complex=True).abs(), f32(2, 64), dynamic="x:0=b"),
    transform(lambda x: real(torch.stft(x, 16, center=False, return_complex=True)), f32(64)),
    transform(lambda x: torch.stft(x, 16, center=False, return_complex=True), f32(64)),
    spectrum("r2c", "fft_rfft", lambda x: real(fft.rfft(x)), f32(2, 9), opsets=(17, 20)),
    spectrum("r2c", "fft_rfft", lambda x: fft.rfft(x).abs(), f32(3, 8), dynamic="x:0=b,1=n"),
    spectrum("r2c", "fft_rfft", lambda x: fft.rfft(x, norm="ortho").real, f32(3, 8), dynamic="x:1=n"),
    spectrum("r2c", "fft_rfft", lambda x: fft.rfft(x, n=12, dim=1, norm="forward").imag, f32(2, 8, 3)),
    # Without the first number, which is real: rounding decides on which side of the cut of a negative one's angle it is.
    spectrum("r2c", "fft_rfft", lambda x: fft.rfft(x, n=5).angle()[1:], f32(8)),
    spectrum("r2c", "fft_rfft2", lambda x: real(fft.rfft2(x)), f32(2, 4, 6)),
    spectrum("r2c", "fft_rfftn", lambda x: real(fft.rfftn(x, dim=(0, 2), norm="ortho")), f64(4, 2, 6)),
    spectrum("r2c", "fft_rfft", lambda x: fft.rfft(x).abs(), f32(3, 8), opsets=(16,), refused="from opset 17"),
    spectrum("c2c", "fft_fft", lambda x: real(fft.fft(x)), f32(2, 6), opsets=(17, 20), dynamic="x:0=b"),
    spectrum("c2c", "fft_fft", lambda x: real(fft.fft(complex_of(x), dim=0)), f32(5, 3, 2)),
    spectrum("c2c", "fft_ifft", lambda x: real(fft.ifft(complex_of(x))), f32(3, 5, 2), dynamic="x:1=n"),
    spectrum("c2c", "fft_ifft", lambda x: real(fft.ifft(complex_of(x), norm="ortho")), f32(3, 5, 2), dynamic="x:1=n"),
    spectrum("c2c", "fft_ifft", lambda x: real(fft.ifft(complex_of(x), norm="forward")), f32(5, 2)),
    spectrum("c2c", "fft_fft2", lambda x: real(fft.fft2(x)), f32(2, 4, 6)),
    spectrum("c2c", "fft_ifft2", lambda x: fft.ifft2(fft.fft2(x) * 2).real, f32(2, 4, 6)),
    spectrum("c2c", "fft_fftn", lambda x: fft.ifftn(fft.fftn(x)).real, f32(2, 4, 6)),
    spectrum("c2r", "fft_irfft", lambda x: fft.irfft(fft.rfft(x)), f32(2, 8), dynamic="x:0=b"),
    spectrum("c2r", "fft_irfft", lambda x: fft.irfft(complex_of(x), n=7), f32(2, 4, 2)),
    spectrum("c2r", "fft_irfft", lambda x: fft.irfft(complex_of(x), n=12, norm="ortho"), f32(4, 2)),
    spectrum("c2r", "fft_irfft2", lambda x: fft.irfft2(fft.rfft2(x), norm="backward"), f32(3, 4, 6)),
    spectrum("c2r", "fft_irfft", lambda x: fft.irfft(complex_of(x)), f32(3, 4, 2), dynamic="x:1=n",
             refused="half spectrum of dynamic size"),
    case("aten::_fft_c2c", lambda x: real(aten._fft_c2c(complex_of(x), [1, 0], 1, False)), f32(4, 3, 2),
         tolerance=TOLERANCE),
    case("aten::_fft_r2c", lambda x: real(aten._fft_r2c(x, [0], 0, False)), f32(4, 3), tolerance=TOLERANCE),
    case("aten::_fft_c2r", lambda x: aten._fft_c2r(complex_of(x), [0], 2, 5), f32(3, 2, 2), tolerance=TOLERANCE),
    spectrum("c2r", "fft_hfft", lambda x: fft.hfft(complex_of(x)), f32(3, 5, 2), dynamic="x:0=b"),
    spectrum("c2r", "fft_hfft", lambda x: fft.hfft(x, n=6, norm="ortho"), f32(3, 5)),
    spectrum("c2r", "fft_hfft", lambda x: fft.hfft(x), i64(-9, 9, 3, 5)),
    spectrum("c2r", "fft_irfft2", lambda x: fft.irfft2(x, s=(3, 6)), i64(-9, 9, 3, 5)),
    spectrum("c2r", "fft_hfftn", lambda x: fft.hfftn(x, s=(3, 6), norm="forward"), f32(3, 4, 5)),
    spectrum("c2r", "fft_hfft2", lambda x: fft.hfft2(x, norm="ortho"), f32(3, 4, 5)),
    spectrum("r2c", "fft_ihfft", lambda x: fft.ihfft(x), f32(3, 6)),
    spectrum("r2c", "fft_ihfft2", lambda x: fft.ihfft2(x), f32(3, 4, 6)),
    spectrum("r2c", "fft_ihfftn", lambda x: fft.ihfftn(x, norm="ortho"), f32(3, 4, 6)),
    case("aten::fft_fftfreq", lambda x: fft.fftfreq(x.size(0), d=0.5) * x.sum(), f32(7)),
    case("aten::fft_rfftfreq", lambda x: fft.rfftfreq(x.size(0)) * x.sum(), f32(6)),
]
