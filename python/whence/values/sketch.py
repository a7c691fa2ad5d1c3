"""Sketch: what is kept of a large tensor, some 6 KB whatever its size, and what can be said of another one by it.

    moments     count of elements, of NaN, of +inf, of -inf; minimum, maximum, sum, sum of magnitudes, sum of squares of the
                finite ones: float64[9]
    samples     1,024 elements at places that follow from the size alone (``places``), in the tensor's own dtype
    projection  the finite elements with seeded signs, summed into 251 buckets (``_signs``): float32[251]. The squared
                length of the difference of two projections estimates that of the two tensors, within 9 % (one standard
                deviation): each element is in one bucket, and products of two different ones cancel.

docs/values.md says how to compute places and signs without whence.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..base.optional_packages import needs

if TYPE_CHECKING:
    import numpy

WHOLE = 2048         # elements: tensors of so many or fewer are kept whole
SAMPLES = 1024
BUCKETS = 251        # a prime, so that one channel of a power of two of channels is in all of them
_STRETCH = 1024      # elements whose sum float32 holds well enough
_ROWS = 256          # rows of signs, after which they repeat with another sign for each row

PARTS = ("moments", "samples", "projection")
MOMENTS = ("count", "nan", "inf", "-inf", "min", "max", "sum", "sum of magnitudes", "sum of squares")


@dataclass(frozen=True)
class Sketch:
    moments: torch.Tensor     # float64[9], see MOMENTS
    samples: torch.Tensor     # [1024]
    projection: torch.Tensor  # float32[251]

    def moment(self, name: str) -> float:
        return float(self.moments[MOMENTS.index(name)])

    @property
    def norm(self) -> float:
        """The length of the vector of finite elements."""
        return math.sqrt(self.moment("sum of squares"))

    @property
    def not_finite(self) -> tuple[int, int, int]:
        """Numbers of NaN, +inf and -inf."""
        return tuple(int(each) for each in self.moments[1:4])


def sketch(tensor: torch.Tensor) -> Sketch:
    flat = tensor.detach().cpu().contiguous().view(-1)
    return Sketch(moments(flat), flat[places(flat.numel())].clone(), projection(flat))


def places(count: int) -> torch.Tensor:
    """The places in contiguous order at which a tensor of ``count`` elements is sampled: int64[min(count, 1024)].

    One in each of 1,024 equal stretches, at a seeded place within it.
    """
    return _places(count)


@functools.lru_cache(maxsize=256)
def _places(count: int) -> torch.Tensor:
    number = min(count, SAMPLES)
    numpy = needs("numpy", "the sketch of a tensor")
    index = numpy.arange(number, dtype=numpy.uint64)
    first = index * numpy.uint64(count) // numpy.uint64(max(number, 1))
    behind = (index + numpy.uint64(1)) * numpy.uint64(count) // numpy.uint64(max(number, 1))
    within = splitmix(index) % numpy.maximum(behind - first, numpy.uint64(1))
    return torch.from_numpy((first + within).astype(numpy.int64))


def moments(flat: torch.Tensor) -> torch.Tensor:
    count = flat.numel()
    numbers = _as_numbers(flat)
    finite = numbers
    not_finite = [0, 0, 0]
    if numbers.is_floating_point() and count and not bool(torch.isfinite(numbers.sum())):
        not_finite = [int(torch.isnan(numbers).sum()), int(torch.isposinf(numbers).sum()),
                      int(torch.isneginf(numbers).sum())]
        finite = numbers[torch.isfinite(numbers)]
    if finite.numel() == 0:
        return torch.tensor([count, *not_finite, math.inf, -math.inf, 0.0, 0.0, 0.0], dtype=torch.float64)
    least, most = torch.aminmax(finite)
    return torch.tensor([count, *not_finite, float(least), float(most), *_sums(finite)], dtype=torch.float64)


def _sums(numbers: torch.Tensor) -> tuple[float, float, float]:
    """The sums of elements, of magnitudes and of squares. Stretches of float32 are summed in float32, which is ten times as fast."""
    whole = numbers.numel() // _STRETCH * _STRETCH if numbers.dtype == torch.float32 else 0
    rows, rest = numbers[:whole].view(-1, _STRETCH), numbers[whole:].double()
    parts = [rows.sum(1).double(), rows.abs().sum(1).double(),
             torch.linalg.vector_norm(rows, 2, 1).double().square()]
    if not all(bool(torch.isfinite(part).all()) for part in parts):  # too large for float32
        parts, rest = [torch.zeros(0, dtype=torch.float64)] * 3, numbers.double()
    return tuple(float(part.sum() + more) for part, more in zip(parts, (rest.sum(), rest.abs().sum(), rest.square().sum())))


def projection(flat: torch.Tensor) -> torch.Tensor:
    """float32[251]: bucket c is the sum over rows q of signs(q) * row_signs(q mod 256, c) * element 251 q + c."""
    numbers = _as_numbers(flat)
    if numbers.is_floating_point():
        numbers = torch.nan_to_num(numbers, nan=0.0, posinf=0.0, neginf=0.0) \
            if not bool(torch.isfinite(numbers.sum())) else numbers
    dtype = torch.float64 if numbers.dtype == torch.float64 or not numbers.is_floating_point() else torch.float32
    numbers = numbers.to(dtype)
    buckets = torch.zeros(_ROWS, BUCKETS, dtype=dtype)
    block = _ROWS * BUCKETS
    whole = numbers.numel() // block
    signs = _row_signs(-(-numbers.numel() // BUCKETS)).to(dtype)
    for at in range(whole):  # a block stays in the processor's cache
        rows = numbers[at * block:(at + 1) * block].view(_ROWS, BUCKETS)
        buckets.addcmul_(rows, signs[at * _ROWS:(at + 1) * _ROWS].unsqueeze(1))
    rest = numbers[whole * block:]
    if rest.numel():
        rows = torch.nn.functional.pad(rest, (0, -rest.numel() % BUCKETS)).view(-1, BUCKETS)
        buckets[:rows.shape[0]] += rows * signs[whole * _ROWS:].unsqueeze(1)
    return (buckets * _signs().to(dtype)).sum(0).float()


@functools.lru_cache(maxsize=1)
def _signs() -> torch.Tensor:
    """±1 for each row below 256 and bucket: float32[256, 251]."""
    numpy = needs("numpy", "the sketch of a tensor")
    return _as_signs(splitmix(numpy.arange(_ROWS * BUCKETS, dtype=numpy.uint64))).view(_ROWS, BUCKETS)


@functools.lru_cache(maxsize=64)
def _row_signs(rows: int) -> torch.Tensor:
    """±1 for each row of 251 elements, seeded apart from those of ``_signs``: float32[rows]."""
    numpy = needs("numpy", "the sketch of a tensor")
    return _as_signs(splitmix(numpy.arange(rows, dtype=numpy.uint64) + numpy.uint64(1 << 32)))


def _as_signs(hashes: numpy.ndarray) -> torch.Tensor:
    numpy = needs("numpy", "the sketch of a tensor")
    return torch.from_numpy(1.0 - 2.0 * (hashes >> numpy.uint64(63)).astype(numpy.float32)).float()


def splitmix(index: numpy.ndarray) -> numpy.ndarray:
    """The outputs of splitmix64 (Steele, Lea, Flood 2014) at steps ``index`` from seed 0: uint64 like ``index``."""
    numpy = needs("numpy", "the sketch of a tensor")
    with numpy.errstate(over="ignore"):
        mixed = (index + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> numpy.uint64(31))


def _as_numbers(flat: torch.Tensor) -> torch.Tensor:
    """Numbers that can be added up: of bools and small floats in a wider dtype; a complex number is two."""
    if flat.is_complex():
        return torch.view_as_real(flat.resolve_conj()).reshape(-1)
    if flat.dtype in (torch.float32, torch.float64):
        return flat
    return flat.to(torch.float32 if flat.is_floating_point() else torch.float64)
