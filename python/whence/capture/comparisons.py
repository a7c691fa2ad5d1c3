"""Compares the results of a captured model with those of the original, also at other sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any

import torch

from ..arguments import trees
from ..axes.dynamic_axes import Axes
from ..errors import Diagnostic
from ..state.model_state import state_restored
from .other_inputs import (Tensors, at_long_sizes, at_other_sizes, sizes_of, with_exchanged_sizes,
                           with_one_size_of_1, with_other_elements)
from .size_conditions import SizeUse


class Outcome(Enum):
    SAME = auto()
    DIFFERS = auto()
    CAPTURE_FAILS = auto()  # the original runs
    MODEL_FAILS = auto()


def compared_with_model(model: torch.nn.Module, run: Callable[..., Any], inputs: Tensors,
                        state_of: torch.nn.Module | None = None) -> Outcome:
    try:
        expected = reproducible_outputs(model, model, tuple(inputs.values()))
    except Exception:  # the model may raise any exception at these sizes
        return Outcome.MODEL_FAILS
    try:
        result = reproducible_outputs(state_of or model, run, tuple(inputs.values()))
    except Exception:  # a trace raises RuntimeError, an exported program any exception
        return Outcome.CAPTURE_FAILS
    return Outcome.SAME if all_close(result, expected) else Outcome.DIFFERS


def baked_at_long_sizes(model: torch.nn.Module, run: Callable[..., Any], tensors: Tensors, axes: Axes,
                        size_uses: Sequence[SizeUse] = (), captured_as: str = "trace",
                        excluded: Callable[[Tensors, Outcome], bool] = lambda *_: False
                        ) -> Diagnostic | None:
    """Returns E0304 if ``run`` fails or is wrong at long sizes, but the model runs. ``run`` is correct near the
    example's sizes, but Python may have iterated over the example's chunks."""
    for inputs in at_long_sizes(model, tensors, axes):
        if compared_with_model(model, run, tensors) is not Outcome.SAME:  # the model draws random numbers
            return None
        result = compared_with_model(model, run, inputs)
        if result in (Outcome.DIFFERS, Outcome.CAPTURE_FAILS) and not excluded(inputs, result):
            return baked_size(sizes_of(inputs, axes), size_uses, captured_as)
    return None


def baked_by_export(model: torch.nn.Module, program: torch.export.ExportedProgram,
                    tensors: Tensors, axes: Axes) -> Diagnostic | None:
    """Returns E0304 if the program differs from the model at other sizes: torch.export silently replaces
    ``int(size * 0.5)`` with the example's number."""
    def is_wrong(inputs: Tensors) -> bool:
        run = without_guards(program)
        result = compared_with_model(model, run, inputs, state_of=run)
        return result in (Outcome.DIFFERS, Outcome.CAPTURE_FAILS) and not excludes(program, inputs, result)

    contents = with_other_elements(tensors, axes)
    other_inputs = [*at_other_sizes(contents, axes), *with_one_size_of_1(contents, axes),
                    *with_exchanged_sizes(contents, axes)]
    run = without_guards(program)
    if not other_inputs or compared_with_model(model, run, tensors, run) is not Outcome.SAME:
        return None  # the model draws random numbers
    wrong_inputs = next(filter(is_wrong, other_inputs), None)
    return None if wrong_inputs is None else baked_size(sizes_of(wrong_inputs, axes), captured_as="exported program")


_DEFAULT_MIN = 2  # the smallest size that torch.export reports for every axis, whatever the model does


def excludes(program: torch.export.ExportedProgram, inputs: Tensors, result: Outcome) -> bool:
    """Returns true for sizes outside the program's reported ranges. If the program fails, its inequality guards and
    torch.export's default minimum also exclude a size; an equality guard does not, because it fixes the size."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for name, tensor in zip(program.graph_signature.user_inputs, inputs.values()):
        for size, length in zip(getattr(values.get(name), "shape", ()), tensor.shape):
            within = None if isinstance(size, int) else program.range_constraints.get(size.node.expr)
            if within is None or within.lower <= length <= within.upper:
                continue
            if result is Outcome.CAPTURE_FAILS or length > within.upper or within.lower != _DEFAULT_MIN:
                return True
    if result is not Outcome.CAPTURE_FAILS:
        return False
    try:
        program.module()(*inputs.values())
    except Exception as failure:  # a guard or an operation may raise any exception
        message = str(failure)
        return ("Guard failed" in message or "Expected input" in message) and not any(
            word in message for word in ("==", "!=", "equal"))
    return False


def without_guards(program: torch.export.ExportedProgram) -> torch.nn.Module:
    """Returns the program as a file runs it: without input checks, which also exclude sizes at which it is correct."""
    module = program.module(check_guards=False)
    module._forward_pre_hooks.clear()
    return module


def baked_size(what: str, size_uses: Sequence[SizeUse] = (), captured_as: str = "trace") -> Diagnostic:
    lines = ", ".join(dict.fromkeys(f"{use.file}:{use.line}" for use in size_uses))
    return Diagnostic("E0304", "baked_size", "warning", f"the {captured_as} contains a size of the example, and the "
                      f"file does too: with {what}, the model computes something else"
                      + (f". Sizes were used as numbers in {lines}" if lines else ""),
                      "script the module to keep loops and conditions on sizes, or leave the axis fixed")


def reproducible_outputs(model: torch.nn.Module, run: Callable[..., Any], tensors: tuple[Any, ...],
                         seed: int = 0) -> list[torch.Tensor]:
    """Returns the tensors that ``run`` returns, and its numbers as tensors, as in a file. Seeds random generators;
    restores them and the model's state."""
    with torch.no_grad(), state_restored(model):
        torch.manual_seed(seed)
        results = trees.leaves(run(*trees.copied_apart(tensors)))
    return [torch.as_tensor(leaf) for leaf in results if isinstance(leaf, (torch.Tensor, bool, int, float))]


def all_close(result: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return len(result) == len(expected) and all(
        a.shape == b.shape and torch.allclose(a, b.to(a.dtype), 1e-3, 1e-5, True) for a, b in zip(result, expected))
