"""Compares results with expected results: equal number, dtypes and shapes, and values within the dtype's precision.
Used by every comparison with PyTorch."""

import math
from typing import Sequence

import numpy as np
import torch

# (relative, absolute): a few units in the last place, for rounding within an operator.
TOLERANCES = {torch.float16: (2e-3, 2e-3), torch.bfloat16: (2e-2, 2e-2), torch.float32: (1e-5, 1e-5),
              torch.float64: (1e-9, 1e-9)}

# The smallest relative difference of complete outputs that is not explained by rounding to a format.
MINIMUM = {"float32": 1e-4, "float16": 2e-3, "8 bits": 0.03, "4 bits": 0.06}


def as_tensor(result) -> torch.Tensor:
    return result.detach() if isinstance(result, torch.Tensor) else torch.from_numpy(np.asarray(result))


def greatest(tensor: torch.Tensor) -> float:
    """Returns the greatest finite magnitude, at least 1."""
    finite = tensor[tensor.isfinite()].abs().double()
    return max(1.0, float(finite.max())) if finite.numel() else 1.0


def assert_same_results(actual: Sequence, expected: Sequence, tolerance: tuple[float, float] | None = None,
                        scaled: bool = False) -> None:
    """Integers and booleans must be equal. `tolerance` (relative, absolute) replaces the dtype's tolerance for floating
    results. With `scaled`, the absolute tolerance is relative to a result's greatest number. Complete models need this,
    because their values near 0 are differences of large numbers."""
    assert len(actual) == len(expected), f"{len(actual)} results, not {len(expected)}"
    for index, (result, reference) in enumerate(zip(map(as_tensor, actual), map(as_tensor, expected), strict=True)):
        assert result.dtype == reference.dtype, f"result {index} has dtype {result.dtype}, not {reference.dtype}"
        assert result.shape == reference.shape, (
            f"result {index} has shape {list(result.shape)}, not {list(reference.shape)}")
        relative, absolute = 0.0, 0.0
        if reference.is_floating_point():
            relative, absolute = tolerance or TOLERANCES[reference.dtype]
        torch.testing.assert_close(result, reference, rtol=relative,
                                   atol=absolute * (greatest(reference) if scaled and absolute else 1),
                                   equal_nan=True, msg=lambda text, index=index: f"result {index}: {text}")


def difference(expected: torch.Tensor, found: torch.Tensor) -> float:
    """Returns the norm of the difference over the norm of ``expected``; infinite if sizes or non-finite elements differ."""
    if expected.shape != found.shape:
        return math.inf
    expected, found = expected.double(), found.double()
    finite = torch.isfinite(expected)
    if not torch.equal(finite, torch.isfinite(found)):
        return math.inf
    norm = torch.linalg.vector_norm((found - expected)[finite])
    return float(norm / torch.linalg.vector_norm(expected[finite])) if norm else 0.0
