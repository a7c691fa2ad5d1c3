"""Sketches: summaries of large tensors, about 6 KB each, that can be compared with other tensors.

    moments     float64[9]: numbers of elements, NaN, +inf and -inf; minimum, maximum, sum, sum of magnitudes and sum of
                squares of the finite elements
    samples     1,024 elements in the tensor's dtype, at positions that depend only on its size (``sample_positions``)
    projection  float32[251]: the finite elements, multiplied by seeded signs and summed into 251 buckets (``_signs``).
                The squared norm of the difference of two projections estimates that of the tensors within 9 % (one
                standard deviation): each element is in one bucket, and products of different elements cancel on
                average.

docs/values.md explains how to compute positions and signs.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..base.optional_packages import import_optional

if TYPE_CHECKING:
    import numpy

MAX_COMPLETE = 2048  # maximum number of elements of tensors that are stored completely
SAMPLES = 1024
BUCKETS = 251        # a prime, which spreads each channel over all buckets if there are 2^n channels
_CHUNK = 1024        # number of elements that float32 sums with enough precision
_MAX_NORM = 1e36     # maximum norm of a chunk whose sum of magnitudes certainly is finite in float32
_ROWS = 256          # rows of signs; later rows repeat them, each multiplied by another sign

PARTS = ("moments", "samples", "projection")
MOMENTS = ("count", "nan", "inf", "-inf", "min", "max", "sum", "sum of magnitudes", "sum of squares")


@dataclass(frozen=True)
class Sketch:
    moments: torch.Tensor     # float64[9]: MOMENTS
    samples: torch.Tensor     # [1024]
    projection: torch.Tensor  # float32[251]

    def moment(self, name: str) -> float:
        return float(self.moments[MOMENTS.index(name)])

    @property
    def norm(self) -> float:
        """Returns the Euclidean norm of the finite elements."""
        return math.sqrt(self.moment("sum of squares"))

    @property
    def not_finite(self) -> tuple[int, int, int]:
        """Returns the numbers of NaN, +inf and -inf."""
        return tuple(int(each) for each in self.moments[1:4])


def sketch(tensor: torch.Tensor) -> Sketch:
    flat = tensor.detach().cpu().contiguous().view(-1)
    return Sketch(moments(flat), flat[sample_positions(flat.numel())].clone(), projection(flat))


def sample_positions(count: int) -> torch.Tensor:
    """Returns the sampled positions, in contiguous order, of a tensor with ``count`` elements: int64[min(count, 1024)].
    They are pseudorandom, one in each of 1,024 equal ranges.
    """
    return _sample_positions(count)


@functools.lru_cache(maxsize=256)
def _sample_positions(count: int) -> torch.Tensor:
    number = min(count, SAMPLES)
    numpy = import_optional("numpy", "the sketch of a tensor")
    index = numpy.arange(number, dtype=numpy.uint64)
    first = index * numpy.uint64(count) // numpy.uint64(max(number, 1))
    end = (index + numpy.uint64(1)) * numpy.uint64(count) // numpy.uint64(max(number, 1))
    within = splitmix(index) % numpy.maximum(end - first, numpy.uint64(1))
    return torch.from_numpy((first + within).astype(numpy.int64))


def moments(flat: torch.Tensor) -> torch.Tensor:
    count = flat.numel()
    finite, not_finite = _finite(_as_numbers(flat))
    if finite.numel() == 0:
        return torch.tensor([count, *not_finite, math.inf, -math.inf, 0.0, 0.0, 0.0], dtype=torch.float64)
    lowest, highest = torch.aminmax(finite)
    return torch.tensor([count, *not_finite, float(lowest), float(highest), *_sums(finite)], dtype=torch.float64)


def norm_of(flat: torch.Tensor) -> tuple[float, tuple[int, int, int]]:
    """Returns two of the moments without the time for the others: ``Sketch.norm`` and ``Sketch.not_finite``."""
    numbers = _as_numbers(flat)
    end = _end_of_rows(numbers)
    norms = torch.linalg.vector_norm(numbers[:end].view(-1, _CHUNK), 2, 1).double()
    remainder = numbers[end:].double().square().sum()
    if bool((norms < _MAX_NORM).all()) and bool(torch.isfinite(remainder)):
        return math.sqrt(float(norms.square().sum() + remainder)), (0, 0, 0)
    finite, not_finite = _finite(numbers)
    return math.sqrt(_sums(finite)[2]), not_finite


def _finite(numbers: torch.Tensor) -> tuple[torch.Tensor, tuple[int, int, int]]:
    """Returns the finite elements, and the numbers of NaN, +inf and -inf."""
    if not numbers.is_floating_point() or not numbers.numel() or bool(torch.isfinite(numbers.sum())):
        return numbers, (0, 0, 0)
    return numbers[torch.isfinite(numbers)], (int(torch.isnan(numbers).sum()), int(torch.isposinf(numbers).sum()),
                                              int(torch.isneginf(numbers).sum()))


def _end_of_rows(numbers: torch.Tensor) -> int:
    """Returns the number of elements that float32 sums in chunks."""
    return numbers.numel() // _CHUNK * _CHUNK if numbers.dtype == torch.float32 else 0


def _sums(numbers: torch.Tensor) -> tuple[float, float, float]:
    """Returns sums of elements, magnitudes and squares. Sums chunks of float32 elements in float32, which is ten times
    faster."""
    end = _end_of_rows(numbers)
    rows, remainder = numbers[:end].view(-1, _CHUNK), numbers[end:].double()
    parts = [rows.sum(1).double(), rows.abs().sum(1).double(),
             torch.linalg.vector_norm(rows, 2, 1).double().square()]
    if not all(bool(torch.isfinite(part).all()) for part in parts):  # too large for float32
        parts, remainder = [torch.zeros(0, dtype=torch.float64)] * 3, numbers.double()
    return tuple(float(part.sum() + more)
                 for part, more in zip(parts, (remainder.sum(), remainder.abs().sum(), remainder.square().sum())))


def projection(flat: torch.Tensor) -> torch.Tensor:
    """Returns float32[251]. Bucket c is the sum over all rows q of
    row_signs[q] * signs[q mod 256, c] * element[251 q + c]."""
    numbers = _as_numbers(flat)
    dtype = torch.float64 if numbers.dtype == torch.float64 or not numbers.is_floating_point() else torch.float32
    projected = _projected(numbers.to(dtype))
    if not bool(torch.isfinite(projected).all()):
        projected = _projected(torch.nan_to_num(numbers.to(dtype), nan=0.0, posinf=0.0, neginf=0.0))
    return projected.float()


def _projected(numbers: torch.Tensor) -> torch.Tensor:
    buckets = torch.zeros(_ROWS, BUCKETS, dtype=numbers.dtype)
    complete = numbers.numel() // BUCKETS
    signs = _row_signs(-(-numbers.numel() // BUCKETS)).to(numbers.dtype)
    for at in range(0, complete, _ROWS):  # a block fits into the processor's cache
        rows = numbers[at * BUCKETS:min(at + _ROWS, complete) * BUCKETS].view(-1, BUCKETS)
        buckets[:len(rows)].addcmul_(rows, signs[at:at + len(rows)].unsqueeze(1))
    remainder = numbers[complete * BUCKETS:]
    if remainder.numel():
        buckets[complete % _ROWS, :remainder.numel()] += remainder * signs[complete]
    return buckets.mul_(_signs()).sum(0)


@functools.lru_cache(maxsize=1)
def _signs() -> torch.Tensor:
    """Returns ±1 for each bucket of the 256 rows: float32[256, 251]."""
    numpy = import_optional("numpy", "the sketch of a tensor")
    return _as_signs(splitmix(numpy.arange(_ROWS * BUCKETS, dtype=numpy.uint64))).view(_ROWS, BUCKETS)


@functools.lru_cache(maxsize=64)
def _row_signs(rows: int) -> torch.Tensor:
    """Returns ±1 for each row of 251 elements: float32[rows]. The seeds differ from those of ``_signs``."""
    numpy = import_optional("numpy", "the sketch of a tensor")
    return _as_signs(splitmix(numpy.arange(rows, dtype=numpy.uint64) + numpy.uint64(1 << 32)))


def _as_signs(hashes: numpy.ndarray) -> torch.Tensor:
    numpy = import_optional("numpy", "the sketch of a tensor")
    return torch.from_numpy(1.0 - 2.0 * (hashes >> numpy.uint64(63)).astype(numpy.float32)).float()


def splitmix(index: numpy.ndarray) -> numpy.ndarray:
    """Returns the outputs of splitmix64 (Steele, Lea, Flood 2014) with seed 0 at the steps ``index``: uint64, with the
    shape of ``index``."""
    numpy = import_optional("numpy", "the sketch of a tensor")
    with numpy.errstate(over="ignore"):
        mixed = (index + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> numpy.uint64(31))


def _as_numbers(flat: torch.Tensor) -> torch.Tensor:
    """Converts elements to a dtype for sums. A complex element becomes two real ones."""
    if flat.is_complex():
        return torch.view_as_real(flat.resolve_conj()).reshape(-1)
    if flat.dtype in (torch.float32, torch.float64):
        return flat
    return flat.to(torch.float32 if flat.is_floating_point() else torch.float64)
