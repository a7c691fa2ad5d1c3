"""Traces a model, and detects whether the trace is valid only for the example: a trace omits Python code that used
values or sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..arguments import calls
from ..axes.dynamic_axes import Axes
from ..command import recorder_library
from ..errors import Diagnostic, WhenceWarning
from ..recorder.plugin import listening
from . import size_conditions
from .comparisons import Outcome, baked_size, compared_with_model
from .other_inputs import (DATA_CHANGES, OTHER_DATA, Tensors, at_other_sizes, at_turning_points, sizes_of,
                           with_exchanged_sizes, with_other_elements)
from .size_conditions import SizeUse

# Namespaces of the operators built into LibTorch.
_LIBTORCH = frozenset({"aten", "prim", "prims", "quantized", "_quantized", "quantization", "sparse", "mkl", "mkldnn",
                       "mkldnn_prepacked", "onednn", "profiler", "static_runtime", "c10d", "_c10d_functional"})

# Operators whose results may have sizes that depend on data.
_SIZED_BY_DATA = frozenset({"aten::index", "aten::masked_select", "aten::nonzero", "aten::nonzero_numpy",
                            "aten::unique_dim", "aten::_unique2", "aten::unique_consecutive"})

# Fragments of PyTorch's warnings about conversions to other libraries, which add no operator to the trace.
_CONVERSIONS = ("to a NumPy array", "to a Python list")


@dataclass(frozen=True)
class Trace:
    """A trace, and what makes it valid only for the example.

    baked_size  E0304 if the trace differs from the model at other dynamic or data-dependent sizes.
    fails       true if the trace fails at sizes just above the example's, although the model runs there.
    size_uses   lines of Python that used a size as a number.
    values      E0309 for each line that used a tensor's value.
    """

    module: torch.jit.ScriptModule
    baked_size: Diagnostic | None
    fails: bool = False
    size_uses: Sequence[SizeUse] = ()
    values: Sequence[Diagnostic] = ()

    @property
    def ignores_inputs(self) -> bool:
        """Returns true if Python read values and the trace has an unused input, which cannot affect results."""
        return bool(self.values) and any(not each.uses() for each in list(self.module.inlined_graph.inputs())[1:])

    def warn_of_values(self) -> None:
        for diagnostic in self.values:
            warnings.warn(str(diagnostic), WhenceWarning, stacklevel=5)


def traced(model: torch.nn.Module, tensors: Tensors, axes: Axes) -> Trace:
    """Traces a model, and finds each line of Python that used a tensor's value.

    The plugin distinguishes values from sizes; PyTorch's warning is the same for both. Without the plugin, and for
    conversions to other libraries, PyTorch's warnings are used.
    """
    messages, turning_points = [], []

    def note(message: Any, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
        messages.append(warnings.WarningMessage(message, category, filename, lineno))
        turning_points.append(tuple(size_conditions.of_last_condition()))

    with warnings.catch_warnings(), listening() as recorded:
        warnings.simplefilter("always", torch.jit.TracerWarning)
        warnings.showwarning = note
        trace = calls.trace(model, tensors)
    values = [each for each in recorded or () if each.code == "E0309"]
    size_uses: list[SizeUse] = []
    for each, points in zip(messages, turning_points, strict=True):
        if not issubclass(each.category, torch.jit.TracerWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        elif recorded is None or any(fragment in str(each.message) for fragment in _CONVERSIONS):
            values.append(_baked_value(each))
        else:
            size_uses.append(SizeUse(each.filename, each.lineno, points))
    # If values are baked in, results differ anyway, so they are not compared.
    baked, fails = (None, False) if values else _compared(model, trace, tensors, axes, size_uses, must_run=False)
    return Trace(trace, baked, fails, size_uses, values)


def operators_of_libraries(trace: torch.jit.ScriptModule) -> list[str]:
    """Returns the operators of a trace that Python or a C++ library registered in this process. The command
    runs in another process, which does not have them."""
    by_python = {name.partition(".")[0] for name in torch.library._defs}
    called = {node.kind() for node in _nodes(trace.inlined_graph)}
    return sorted(name for name in called if name in by_python or name.partition("::")[0] not in _LIBTORCH)


def library_options(scripted: torch.jit.ScriptModule) -> list[str]:
    """Returns a --library option for each operator library loaded in this process, if a scripted module calls an
    operator of a library."""
    if not operators_of_libraries(scripted):
        return []
    return [word for each in sorted(torch.ops.loaded_libraries) if Path(each).name != recorder_library.LIBRARY
            for word in ("--library", each)]


def possibly_renamed_operators(trace: torch.jit.ScriptModule) -> set[str]:
    """Returns operators that the model may have called under other names: a trace has one operator for all
    convolutions."""
    if all(node.kind() != "aten::_convolution" for node in _nodes(trace.inlined_graph)):
        return set()
    return {"aten::convolution"} | {f"aten::conv{kind}{number}d" for kind in ("", "_transpose") for number in (1, 2, 3)}


def _nodes(block: torch._C.Graph | torch._C.Block) -> Iterator[torch._C.Node]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _baked_value(warning: warnings.WarningMessage) -> Diagnostic:
    text = str(warning.message).split(". ")[0]
    return Diagnostic("E0309", "baked_value", "warning", f"a trace contains the example's value: {text}",
                      "compute with tensors, or script the module", {"source": f"{warning.filename}:{warning.lineno}"})


def find_baked_size(model: torch.nn.Module, trace: torch.jit.ScriptModule, tensors: Tensors,
                    axes: Axes, size_uses: Sequence[SizeUse] = ()) -> Diagnostic | None:
    """Returns E0304 if the trace fails, or differs from the model, at other sizes."""
    return _compared(model, trace, tensors, axes, size_uses, must_run=True)[0]


def _compared(model: torch.nn.Module, trace: torch.jit.ScriptModule, tensors: Tensors, axes: Axes,
              size_uses: Sequence[SizeUse], must_run: bool) -> tuple[Diagnostic | None, bool]:
    """Returns E0304 if the trace differs from the model at other sizes or with other data, or if it fails with other
    data or with permuted sizes. A failure at longer sizes gives E0304 with ``must_run``. Without it, the second value
    becomes true, so that the export can report the operation that fails."""
    contents = with_other_elements(tensors, axes)
    variants = [(sizes_of(inputs, axes), inputs) for inputs in at_other_sizes(contents, axes)]
    may_fail = {what for what, _ in variants} if not must_run else set()
    variants += [(sizes_of(inputs, axes), inputs)
                 for inputs in at_turning_points(model, contents[-1], axes, size_uses)]
    variants += [(sizes_of(inputs, axes), inputs) for inputs in with_exchanged_sizes(contents, axes)]
    if size_uses and any(node.kind() in _SIZED_BY_DATA for node in _nodes(trace.inlined_graph)):
        variants += [(OTHER_DATA, {name: change(tensor) for name, tensor in tensors.items()})
                     for change in DATA_CHANGES]
    for what, inputs in variants:
        outcome = compared_with_model(model, run_of(trace, tensors), inputs)
        if outcome is Outcome.CAPTURE_FAILS and what in may_fail:
            return None, True
        if outcome in (Outcome.CAPTURE_FAILS, Outcome.DIFFERS):
            return baked_size(what, size_uses), False
    return None, False


def run_of(trace: torch.jit.ScriptModule, tensors: Tensors) -> Callable[..., Any]:
    names = list(calls.by_identifier(tensors))
    return lambda *each: trace(**dict(zip(names, each)))
