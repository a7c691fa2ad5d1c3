"""Checks whether a captured model computes the same as the model, also at other sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any

import torch

from ..arguments import trees
from ..axes.dynamic_axes import Axes
from ..errors import Diagnostic
from ..state.model_state import state_restored
from .other_inputs import (Tensors, at_long_sizes, at_one_each, at_other_sizes, reordered, sizes_of,
                           with_other_elements)
from .size_conditions import SizeUse


class Outcome(Enum):
    SAME = auto()
    DIFFERS = auto()
    FAILS = auto()  # but the model runs
    NOTHING = auto()  # the model does not run


def compared_with_model(model: torch.nn.Module, run: Callable[..., Any], given: Tensors,
                 state_of: torch.nn.Module | None = None) -> Outcome:
    try:
        expected = computed(model, model, tuple(given.values()))
    except Exception:  # the model may raise any exception at these sizes
        return Outcome.NOTHING
    try:
        result = computed(state_of or model, run, tuple(given.values()))
    except Exception:  # a trace raises RuntimeError, an exported program any exception
        return Outcome.FAILS
    return Outcome.SAME if alike(result, expected) else Outcome.DIFFERS


def baked_at_long_sizes(model: torch.nn.Module, run: Callable[..., Any], tensors: Tensors, axes: Axes,
                        size_uses: Sequence[SizeUse] = (), holder: str = "trace",
                        excluded: Callable[[Tensors, Outcome], bool] = lambda *_: False
                        ) -> Diagnostic | None:
    """Returns E0304 if ``run``, which is correct near the example's sizes, fails or is wrong at long sizes at which the
    model runs: Python may have iterated over the example's chunks."""
    for given in at_long_sizes(model, tensors, axes):
        if compared_with_model(model, run, tensors) is not Outcome.SAME:  # the model draws random numbers
            return None
        result = compared_with_model(model, run, given)
        if result in (Outcome.DIFFERS, Outcome.FAILS) and not excluded(given, result):
            return baked_size(sizes_of(given, axes), size_uses, holder)
    return None


def baked_by_export(model: torch.nn.Module, program: torch.export.ExportedProgram,
                    tensors: Tensors, axes: Axes) -> Diagnostic | None:
    """Returns E0304 if the program differs from the model at other sizes: torch.export silently replaces
    ``int(size * 0.5)`` by the example's number."""
    def is_wrong(given: Tensors) -> bool:
        run = without_guards(program)
        result = compared_with_model(model, run, given, state_of=run)
        return result in (Outcome.DIFFERS, Outcome.FAILS) and not excludes(program, given, result)

    contents = with_other_elements(tensors, axes)
    others = [*at_other_sizes(contents, axes), *at_one_each(contents, axes), *reordered(contents, axes)]
    run = without_guards(program)
    if not others or compared_with_model(model, run, tensors, run) is not Outcome.SAME:
        return None  # the model draws random numbers
    wrong = next(filter(is_wrong, others), None)
    return None if wrong is None else baked_size(sizes_of(wrong, axes), holder="exported program")


_DEFAULT_MIN = 2  # torch.export states this smallest size for every axis, whatever the model does


def excludes(program: torch.export.ExportedProgram, given: Tensors, result: Outcome) -> bool:
    """Returns true for sizes outside the program's reported ranges. If the program fails at a size, an inequality among
    its guards and torch.export's default smallest size count too; an equality does not, because it fixes the size."""
    inputs = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for name, tensor in zip(program.graph_signature.user_inputs, given.values()):
        for size, length in zip(getattr(inputs.get(name), "shape", ()), tensor.shape):
            within = None if isinstance(size, int) else program.range_constraints.get(size.node.expr)
            if within is None or within.lower <= length <= within.upper:
                continue
            if result is Outcome.FAILS or length > within.upper or within.lower != _DEFAULT_MIN:
                return True
    if result is not Outcome.FAILS:
        return False
    try:
        program.module()(*given.values())
    except Exception as failure:  # of a guard or of an operation, of any class
        words = str(failure)
        return ("Guard failed" in words or "Expected input" in words) and not any(
            word in words for word in ("==", "!=", "equal"))
    return False


def without_guards(program: torch.export.ExportedProgram) -> torch.nn.Module:
    """Returns the program as a file runs it: without input checks, which also exclude sizes at which it is correct."""
    module = program.module(check_guards=False)
    module._forward_pre_hooks.clear()
    return module


def baked_size(what: str, size_uses: Sequence[SizeUse] = (), holder: str = "trace") -> Diagnostic:
    lines = ", ".join(dict.fromkeys(f"{use.file}:{use.line}" for use in size_uses))
    return Diagnostic("E0304", "baked_size", "warning", f"the {holder} contains a size of the example, and so does the "
                      f"file: with {what} the model computes something else"
                      + (f". Sizes were used as numbers in {lines}" if lines else ""),
                      "script the module to keep loops and conditions on sizes, or leave the axis fixed")


def computed(model: torch.nn.Module, run: Callable[..., Any], tensors: tuple[Any, ...], seed: int = 0) -> list[torch.Tensor]:
    """Returns the tensors that ``run`` returns, reproducibly: restores random generators and the model's state."""
    with torch.no_grad(), state_restored(model):
        torch.manual_seed(seed)
        return trees.tensors_in(run(*trees.copied_apart(tensors)))


def alike(result: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return len(result) == len(expected) and all(
        a.shape == b.shape and torch.allclose(a, b.to(a.dtype), 1e-3, 1e-5, True) for a, b in zip(result, expected))
