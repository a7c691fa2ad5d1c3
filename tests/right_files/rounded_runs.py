"""Decides which error a number format explains, without whence: PyTorch runs the model with every result rounded.

Each result of an operation is rounded to the format, at a random offset of up to half a step, so that elements near a
boundary fall on either side. In 8 bits, a tensor has 255 steps between its smallest and largest element; in 4 bits, only
weights are rounded, to 15 steps. A file is right if its outputs differ from PyTorch's by at most three times the largest
error of such runs, or by a minimum for its format.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from results import MINIMUM, difference

RUNS = 6
FACTOR = 3
_WITH_WEIGHTS = {"addmm", "baddbmm", "bmm", "convolution", "embedding", "linear", "mm"}


def allowed_error(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], number_format: str) -> float:
    """Returns the largest relative difference of right outputs in the format, one of MINIMUM."""
    with torch.no_grad():
        expected = module(*inputs)
        errors = []
        for seed in range(RUNS):
            with _Rounding(number_format, seed, module):
                rounded = module(*inputs)
            errors.append(difference(expected, rounded))
    return max([MINIMUM[number_format], *(FACTOR * each for each in errors if math.isfinite(each))])


class _Rounding(TorchDispatchMode):
    """Rounds the results of all operations that return new tensors."""

    def __init__(self, number_format: str, seed: int, module: torch.nn.Module) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)
        self._weights_only = number_format == "4 bits"
        self._weights = {each.untyped_storage().data_ptr() for each in module.parameters()}
        self._function = _ROUNDED[number_format]

    def _rounded(self, x: torch.Tensor) -> torch.Tensor:
        return self._function(x, torch.rand(x.shape, generator=self._generator) - 0.5) if x.is_floating_point() else x

    def _rounded_weight(self, x: torch.Tensor) -> torch.Tensor:
        return self._rounded(x) if x.untyped_storage().data_ptr() in self._weights else x

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if function._schema.name.split("::")[1] in _WITH_WEIGHTS:
            args = tree_map_only(torch.Tensor, self._rounded_weight, args)
        result = function(*args, **(kwargs or {}))
        if self._weights_only or any(each.alias_info is not None for each in function._schema.returns):
            return result  # a view shares the memory of a tensor that is rounded already
        return tree_map_only(torch.Tensor, self._rounded, result)


def _to_float32(x: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    return x * (1 + offset.double() * 2**-21).to(x.dtype)


def _to_float16(x: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    return (x * (1 + offset * 2**-10)).half().to(x.dtype)


def _to_steps(bits: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def rounded(x: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        finite = x[torch.isfinite(x)]
        if not finite.numel():
            return x
        step = (finite.max().clamp(min=0) - finite.min().clamp(max=0)) / (2**bits - 1)
        return torch.where(torch.isfinite(x), torch.round(x / step + offset) * step, x).to(x.dtype) if step > 0 else x

    return rounded


_ROUNDED = {"float32": _to_float32, "float16": _to_float16, "8 bits": _to_steps(8), "4 bits": _to_steps(4)}
