"""Whether a captured model computes what the model computes, at other sizes too."""

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


class Found(Enum):
    SAME = auto()
    DIFFERS = auto()
    FAILS = auto()  # though the model runs
    NOTHING = auto()  # the model does not run


def as_the_model(model: torch.nn.Module, run: Callable[..., Any], given: Tensors,
                 state_of: torch.nn.Module | None = None) -> Found:
    try:
        wanted = computed(model, model, tuple(given.values()))
    except Exception:  # the model does not take these sizes, with errors of every kind
        return Found.NOTHING
    try:
        found = computed(state_of or model, run, tuple(given.values()))
    except Exception:  # a trace raises RuntimeError, an exported program errors of every kind
        return Found.FAILS
    return Found.SAME if alike(found, wanted) else Found.DIFFERS


def baked_at_long_sizes(model: torch.nn.Module, run: Callable[..., Any], tensors: Tensors, axes: Axes,
                        of_sizes: Sequence[SizeUse] = (), holder: str = "trace",
                        excluded: Callable[[Tensors, Found], bool] = lambda *_: False
                        ) -> Diagnostic | None:
    """E0304 where ``run``, which is right at sizes near the example's, fails or is wrong at long ones at which the model
    runs: Python went through the chunks of the example."""
    for given in at_long_sizes(model, tensors, axes):
        if as_the_model(model, run, tensors) is not Found.SAME:  # nothing can be said of models that draw numbers
            return None
        found = as_the_model(model, run, given)
        if found in (Found.DIFFERS, Found.FAILS) and not excluded(given, found):
            return baked_size(sizes_of(given, axes), of_sizes, holder)
    return None


def baked_by_export(model: torch.nn.Module, program: torch.export.ExportedProgram,
                    tensors: Tensors, axes: Axes) -> Diagnostic | None:
    """E0304 where the program computes something else than the model at other sizes: torch.export takes
    ``int(size * 0.5)`` for a number of the example without a word."""
    def is_wrong(given: Tensors) -> bool:
        run = without_guards(program)
        found = as_the_model(model, run, given, state_of=run)
        return found in (Found.DIFFERS, Found.FAILS) and not excludes(program, given, found)

    contents = with_other_elements(tensors, axes)
    others = [*at_other_sizes(contents, axes), *at_one_each(contents, axes), *reordered(contents, axes)]
    run = without_guards(program)
    if not others or as_the_model(model, run, tensors, run) is not Found.SAME:  # a model that draws numbers, say
        return None
    wrong = next(filter(is_wrong, others), None)
    return None if wrong is None else baked_size(sizes_of(wrong, axes), holder="exported program")


_ANY_LEAST = 2  # the least size that torch.export states of every axis, whatever the model does


def excludes(program: torch.export.ExportedProgram, given: Tensors, found: Found) -> bool:
    """True for sizes that the ranges of the program exclude, which are reported. Where it fails, so do an inequality
    among its guards and the least size that torch.export states of every axis; a size that is tied to a number by an
    equality was fixed."""
    inputs = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for name, tensor in zip(program.graph_signature.user_inputs, given.values()):
        for size, length in zip(getattr(inputs.get(name), "shape", ()), tensor.shape):
            within = None if isinstance(size, int) else program.range_constraints.get(size.node.expr)
            if within is None or within.lower <= length <= within.upper:
                continue
            if found is Found.FAILS or length > within.upper or within.lower != _ANY_LEAST:
                return True
    if found is not Found.FAILS:
        return False
    try:
        program.module()(*given.values())
    except Exception as failure:  # a guard's, or one of an operation, of every kind
        words = str(failure)
        return ("Guard failed" in words or "Expected input" in words) and not any(
            word in words for word in ("==", "!=", "equal"))
    return False


def without_guards(program: torch.export.ExportedProgram) -> torch.nn.Module:
    """The program as a file runs it: without checks of its inputs, which exclude sizes that it would be right at."""
    module = program.module(check_guards=False)
    module._forward_pre_hooks.clear()
    return module


def baked_size(what: str, of_sizes: Sequence[SizeUse] = (), holder: str = "trace") -> Diagnostic:
    lines = ", ".join(dict.fromkeys(f"{use.file}:{use.line}" for use in of_sizes))
    return Diagnostic("E0304", "baked_size", "warning", f"the {holder} holds a size of the example, and so does the "
                      f"file: with {what} the model computes something else"
                      + (f". Sizes were used as numbers in {lines}" if lines else ""),
                      "script the module, so that loops and conditions on sizes stay, or leave the axis fixed")


def computed(model: torch.nn.Module, run: Callable[..., Any], tensors: tuple[Any, ...], seed: int = 0) -> list[torch.Tensor]:
    """The tensors that ``run`` returns, the same each time: restores generators and the model's state."""
    with torch.no_grad(), state_restored(model):
        torch.manual_seed(seed)
        return trees.tensors_in(run(*trees.copied_apart(tensors)))


def alike(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    return len(found) == len(wanted) and all(
        a.shape == b.shape and torch.allclose(a, b.to(a.dtype), 1e-3, 1e-5, True) for a, b in zip(found, wanted))
