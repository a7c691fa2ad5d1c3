"""Sketches, compared with an independent implementation of docs/values.md, and their estimates."""

import math

import numpy
import pytest
import torch

from splitmix import splitmix
from whence.values import sketch as sketching


def sign(i: int) -> int:
    return -1 if splitmix(i) >> 63 else 1


def sample_indices(count: int) -> list[int]:
    indices = []
    for i in range(min(count, 1024)):
        first, end = i * count // min(count, 1024), (i + 1) * count // min(count, 1024)
        indices.append(first + splitmix(i) % (end - first))
    return indices


def projection(elements: list[float]) -> list[float]:
    buckets = [0.0] * 251
    for at, element in enumerate(elements):
        row, column = divmod(at, 251)
        if math.isfinite(element):
            buckets[column] += sign(row + 2**32) * sign(251 * (row % 256) + column) * element
    return buckets


def test_splitmix_matches_the_published_generator():
    # The first outputs for seed 0, as published with the generator.
    assert [splitmix(i) for i in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert sketching.splitmix(numpy.arange(3, dtype=numpy.uint64)).tolist() == [splitmix(i) for i in range(3)]


@pytest.mark.parametrize("count", [1, 7, 1023, 1024, 1025, 5000, 393_216])
def test_sample_indices_match_the_documentation(count):
    assert sketching.sample_positions(count).tolist() == sample_indices(count)


@pytest.mark.parametrize("count", [2049, 64_256, 64_257, 150_000])  # the signs of rows repeat after 64,256 elements
def test_projection_matches_the_documentation(count):
    tensor = torch.randn(count, generator=torch.Generator().manual_seed(count))
    tensor[5], tensor[6], tensor[7] = math.nan, math.inf, -math.inf
    expected = projection(tensor.double().tolist())
    torch.testing.assert_close(sketching.projection(tensor).double(), torch.tensor(expected, dtype=torch.float64),
                               rtol=1e-4, atol=1e-3)


def test_moments_count_non_finite_elements():
    tensor = torch.tensor([1.0, -3.0, math.nan, math.inf, -math.inf, -math.inf, 0.5])
    assert sketching.moments(tensor).tolist() == [7, 1, 1, 2, -3.0, 1.0, -1.5, 4.5, 10.25]


def test_moments_without_finite_elements():
    assert sketching.moments(torch.tensor([math.nan])).tolist() == [1, 1, 0, 0, math.inf, -math.inf, 0, 0, 0]
    assert sketching.moments(torch.zeros(0)).tolist() == [0, 0, 0, 0, math.inf, -math.inf, 0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8, torch.bool,
                                   torch.complex64])
def test_every_dtype_has_a_sketch(dtype):
    tensor = (torch.randn(5000) * 3).to(dtype)
    sketch = sketching.sketch(tensor)
    assert sketch.samples.dtype == dtype
    numbers = torch.view_as_real(tensor).flatten() if dtype.is_complex else tensor
    assert sketch.moment("sum of squares") == pytest.approx(float((numbers.double() ** 2).sum()), rel=1e-4)


PATTERNS = {
    "noise": lambda shape: torch.randn(shape, generator=torch.Generator().manual_seed(3)),
    "an offset": lambda shape: torch.ones(shape),
    "one channel of 512": lambda shape: (torch.arange(shape[-1]) == 9).float().expand(shape),
    "one row": lambda shape: (torch.arange(shape[0]) == 2).float()[:, None].expand(shape),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_projection_estimates_a_difference(pattern):
    tensor = torch.randn(600, 512, generator=torch.Generator().manual_seed(1))
    difference = PATTERNS[pattern](tensor.shape) * 1e-2
    a, b = sketching.sketch(tensor), sketching.sketch(tensor + difference)
    estimate = float((a.projection.double() - b.projection.double()).norm())
    assert estimate == pytest.approx(float(difference.double().norm()), rel=0.3)  # about three standard deviations


def test_sketches_do_not_depend_on_strides():
    tensor = torch.randn(60, 80)
    a, b = sketching.sketch(tensor), sketching.sketch(tensor.t().contiguous().t())
    for part in ("moments", "samples", "projection"):
        assert torch.equal(getattr(a, part), getattr(b, part))
