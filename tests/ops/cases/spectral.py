"""Fourier transforms of real signals and of complex signals, stored as pairs of real and imaginary parts."""

import torch
from torch import fft

from ops.case import case, f32, f64, i64

TOLERANCE = (1e-4, 1e-4)
HANN = torch.hann_window(16)
ORDER = "PyTorch and ONNX Runtime add overlapping frames in different orders, which spread NaN and infinities"
aten = torch.ops.aten


def stft(x, **options):
    return torch.stft(x, 16, center=False, return_complex=False, **options)


def spectra(x, *arguments, **options):
    """Returns the complex result of stft, the input of istft."""
    return torch.stft(x, *arguments, return_complex=True, **options)


def inverse(function, *inputs, **options):
    return case("aten::istft", function, *inputs, tolerance=TOLERANCE, finite=ORDER, **options)


def round_trip(x, *arguments, length=None, onesided=None, normalized=False, center=True, to_complex=False):
    z = torch.stft(x, *arguments, center=center, onesided=onesided, normalized=normalized, return_complex=True)
    return torch.istft(z * (0.5 + 0.25j), *arguments, center=center, onesided=onesided, normalized=normalized,
                       length=length, return_complex=to_complex)


def transform(function, *inputs, **options):
    return case("aten::stft", function, *inputs, tolerance=TOLERANCE, **options)


def spectrum(kernel, name, function, *inputs, **options):
    """Creates a case of an operator that PyTorch decomposes into one of its three kernels."""
    return case(f"aten::_fft_{kernel}", function, *inputs, tolerance=TOLERANCE, recorded_as=f"aten::{name}", **options)


def pairs(name, function):
    """Creates a case of an operator on complex numbers [batch, 3, 2], which decomposes into operators on pairs."""
    return case("aten::linalg_vector_norm", lambda x: (function(complex_of(x)), complex_of(x).abs()), f32(4, 3, 2, 2),
                tolerance=TOLERANCE, dynamic="x:0=b", recorded_as=f"aten::{name}")


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
    transform(lambda x: stft(x, win_length=9, align_to_window=True), f32(2, 64), dynamic="x:0=b,1=t"),
    transform(lambda x: real(torch.stft(complex_of(x), 16, 4, center=False, return_complex=True)), f32(2, 64, 2)),
    transform(lambda x: real(torch.stft(complex_of(x), 8, 3, normalized=True, pad_mode="constant",
                                        return_complex=True)), f32(64, 2)),
    *[transform(lambda x, mode=mode: real(aten.stft(x, 16, 4, None, None, True, mode, return_complex=True)), f32(2, 64),
                dynamic="x:0=b,1=t", recorded_as="aten::stft.center") for mode in ("reflect", "replicate", "circular")],
    transform(lambda x: real(aten.stft(x, 9, 4, 6, None, True, "constant", True, return_complex=True)), f32(64),
              dynamic="x:0=t", recorded_as="aten::stft.center"),
    transform(lambda x: real(torch.stft(x, 16, 4, window=torch.complex(HANN, -HANN), return_complex=True)), f32(64)),
    inverse(lambda x: round_trip(x, 16, 4, 16, HANN), f32(2, 64), dynamic="x:0=b,1=t", opsets=(17, 20, 23)),
    inverse(lambda x: round_trip(x, 16, 4), f32(64), dynamic="x:0=t"),
    inverse(lambda x: round_trip(x, 16, 8, 16, HANN, normalized=True), f32(3, 64), dynamic="x:1=t"),
    inverse(lambda x: round_trip(x, 16, 5, 12, HANN[:12] + 0.1), f32(2, 64), dynamic="x:0=b,1=t"),
    inverse(lambda x: round_trip(x, 15, 4, 9, normalized=True), f32(2, 64), dynamic="x:1=t",
         not_in_archives="torch.export assumes an even frame length"),
    inverse(lambda x: round_trip(x, 16, 16, center=False), f32(2, 64), dynamic="x:1=t"),
    inverse(lambda x: round_trip(x, 16, 6, 16, HANN + 0.1, center=False), f32(2, 64), dynamic="x:1=t"),
    inverse(lambda x, w: round_trip(x, 16, 4, 16, w * w + 0.1), f32(2, 64), f32(16), dynamic="x:1=t"),
    inverse(lambda x: round_trip(x, 16, 4, 16, HANN, onesided=False), f32(2, 64), dynamic="x:1=t"),
    inverse(lambda x: real(round_trip(x, 16, 4, 16, HANN, onesided=False, to_complex=True)), f32(2, 64),
         dynamic="x:0=b,1=t"),
    inverse(lambda x: real(round_trip(x, 9, 2, 7, onesided=False, normalized=True, to_complex=True)), f32(64),
         dynamic="x:0=t"),
    inverse(lambda x: round_trip(x, 16, 4, 16, HANN, length=60), f32(2, 64)),
    inverse(lambda x: round_trip(x, 16, 4, 16, HANN, length=90), f32(2, 64)),
    inverse(lambda x: round_trip(x, 16, 5, 16, length=61), f32(2, 64), dynamic="x:0=b"),
    inverse(lambda x: round_trip(x, 16, 4, 16, HANN, length=70), f32(2, 64), dynamic="x:0=b,1=t"),
    inverse(lambda x: round_trip(x, 16, 4, 16, HANN, length=x.size(-1)), f32(2, 64), dynamic="x:0=b,1=t",
         not_in_archives="torch.export fixes the length, which is not a SymInt"),
    inverse(lambda x: round_trip(x, 16, 7, 16, HANN, length=x.size(-1) + 9), f32(64), dynamic="x:0=t",
         not_in_archives="torch.export fixes the length, which is not a SymInt"),
    inverse(lambda z: torch.istft(complex_of(z) + spectra(torch.arange(44.0), 8, 4, window=HANN[::2]), 8, 4,
                               window=HANN[::2]), f32(2, 5, 12, 2), dynamic="z:0=b"),
    inverse("""def forward(self, x, w):
    z = torch.stft(x, 16, 4, window=w * w + 0.1, return_complex=True)
    magnitude = z.abs() * 0.5
    return torch.istft(torch.polar(magnitude, z.angle()), 16, 4, window=w * w + 0.1, length=x.size(1))
""", f32(2, 64), f32(16), dynamic="x:0=b,1=t"),
    inverse(lambda x: real(torch.istft(spectra(x, 16, 4, onesided=False), 16, 4, window=torch.complex(HANN, HANN),
                                    return_complex=True, onesided=False)), f32(64), refused="complex window of istft"),
    *[pairs(name, function) for name, function in {
        "where.self": lambda z: real(torch.where(z.abs() > 1, z, z * 1j)),
        "where.ScalarOther": lambda z: real(torch.where(z.real > 0, z, 1 - 2j)),
        "where.ScalarSelf": lambda z: real(torch.where(z.real > 0, 0.5, z)),
        "masked_fill.Scalar": lambda z: real(z.masked_fill(z.imag > 0, 3)),
        "masked_fill.Tensor": lambda z: real(z.masked_fill(z.imag > 0, torch.tensor(1 + 2j))),
        "repeat": lambda z: real(z.repeat(2, 1, 3)),
        "tile": lambda z: real(z.tile(2)),
        "cumsum": lambda z: real(z.cumsum(-1)),
        "nan_to_num": lambda z: real(torch.nan_to_num(z / z.real.floor(), 1, 2, 3)),
        "empty_like": lambda z: real(torch.empty_like(z).copy_(z)),
        "new_zeros": lambda z: real(torch.cat([z, z.new_zeros(z.shape[0], 1, z.shape[2])], 1)),
        "new_ones": lambda z: real(z + z.new_ones(3, 1)),
        "new_full": lambda z: real(z + z.new_full((2,), 1 - 2j)),
        "gather": lambda z: real(z.gather(-1, (z.real > 0).long())),
        "unfold": lambda z: real(z.unfold(1, 2, 1)),
        "eq.Tensor": lambda z: z == z.conj() * (z.real > 0),
        "ne.Tensor": lambda z: z != z * (z.real > 0),
        "eq.Scalar": lambda z: z * (z.real > 0) == 0,
        "ne.Scalar": lambda z: z.sgn() * 0 != 1j,
        "isnan": lambda z: torch.isnan(z / z.real.floor()),
        "isinf": lambda z: torch.isinf(z / z.real.floor()),
        "linalg_vector_norm": lambda z: torch.linalg.vector_norm(z, 3, dim=(0, -1)),
        "std.dim": lambda z: z.std(-1),
        "var.correction": lambda z: torch.var(z, dim=(1, 2), correction=0, keepdim=True),
    }.items()],
    spectrum("r2c", "fft_rfft", lambda x: real(fft.rfft(x)), f32(2, 9), opsets=(17, 20)),
    spectrum("r2c", "fft_rfft", lambda x: fft.rfft(x).abs(), f32(3, 8), dynamic="x:0=b,1=n"),
    spectrum("r2c", "fft_rfft", lambda x: fft.rfft(x, norm="ortho").real, f32(3, 8), dynamic="x:1=n"),
    spectrum("r2c", "fft_rfft", lambda x: fft.rfft(x, n=12, dim=1, norm="forward").imag, f32(2, 8, 3)),
    # Skips the first number, which is real: if it is negative, rounding decides whether its angle is pi or -pi.
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
             refused="irfft over an axis of dynamic size"),
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
