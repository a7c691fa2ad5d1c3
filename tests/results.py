"""Compares results with the expected ones: equal number, dtypes and shapes, and values as close as the dtype allows.
Used by every comparison with PyTorch."""

from typing import Sequence

import numpy as np
import torch

# (relative, absolute): some units in the last place, for rounding within an operator.
TOLERANCES = {torch.float16: (2e-3, 2e-3), torch.bfloat16: (2e-2, 2e-2), torch.float32: (1e-5, 1e-5),
              torch.float64: (1e-9, 1e-9)}


def as_tensor(result) -> torch.Tensor:
    return result.detach() if isinstance(result, torch.Tensor) else torch.from_numpy(np.asarray(result))


def greatest(tensor: torch.Tensor) -> float:
    """Returns the greatest finite magnitude, at least 1."""
    finite = tensor[tensor.isfinite()].abs().double()
    return max(1.0, float(finite.max())) if finite.numel() else 1.0


def assert_same_results(actual: Sequence, expected: Sequence, tolerance: tuple[float, float] | None = None,
                        scaled: bool = False) -> None:
    """Integers and booleans must be equal. `tolerance` (relative, absolute) replaces the dtype's tolerance for floating
    results. With `scaled`, the absolute tolerance is relative to a result's greatest number, as for complete models, in
    which a result near 0 is the difference of large ones."""
    assert len(actual) == len(expected), f"{len(actual)} results, not {len(expected)}"
    for place, (ours, theirs) in enumerate(zip(map(as_tensor, actual), map(as_tensor, expected), strict=True)):
        assert ours.dtype == theirs.dtype, f"result {place} has dtype {ours.dtype}, not {theirs.dtype}"
        assert ours.shape == theirs.shape, f"result {place} has shape {list(ours.shape)}, not {list(theirs.shape)}"
        relative, absolute = 0.0, 0.0
        if theirs.is_floating_point():
            relative, absolute = tolerance or TOLERANCES[theirs.dtype]
        torch.testing.assert_close(ours, theirs, rtol=relative, atol=absolute * (greatest(theirs) if scaled and absolute else 1),
                                   equal_nan=True, msg=lambda text, place=place: f"result {place}: {text}")
