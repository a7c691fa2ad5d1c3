"""A trace of a model, and what it lost: Python that looked at values or sizes ran once, for the example alone."""

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
from .comparisons import Found, as_the_model, baked_size
from .other_inputs import (DATA_CHANGES, OTHER_DATA, Tensors, at_other_sizes, at_turning_points, reordered,
                           sizes_of, with_other_elements)
from .size_conditions import SizeUse

# Namespaces of operators that LibTorch itself has.
_LIBTORCH = frozenset({"aten", "prim", "prims", "quantized", "_quantized", "quantization", "sparse", "mkl", "mkldnn",
                       "mkldnn_prepacked", "onednn", "profiler", "static_runtime", "c10d", "_c10d_functional"})

# Operators whose results have sizes that depend on data, or may have.
_SIZED_BY_DATA = frozenset({"aten::index", "aten::masked_select", "aten::nonzero", "aten::nonzero_numpy",
                            "aten::unique_dim", "aten::_unique2", "aten::unique_consecutive"})

# PyTorch's words for values that leave for other libraries, where no operator tells of it.
_LEAVING = ("to a NumPy array", "to a Python list")


@dataclass(frozen=True)
class Trace:
    """``baked_size``, E0304: it computes something else than the model at other sizes, of dynamic axes or of what data
    decide. ``fails``: at sizes just above the example's, at which the model runs, it does not. ``of_sizes``: the lines of
    Python that used a size as a number. ``values``, E0309: the lines that used a tensor's value."""

    module: torch.jit.ScriptModule
    baked_size: Diagnostic | None
    fails: bool = False
    of_sizes: Sequence[SizeUse] = ()
    values: Sequence[Diagnostic] = ()

    @property
    def ignores_inputs(self) -> bool:
        """True if Python read values, and nothing is left in the trace of an input: another value changes nothing."""
        return bool(self.values) and any(not each.uses() for each in list(self.module.inlined_graph.inputs())[1:])

    def warn_of_values(self) -> None:
        for diagnostic in self.values:
            warnings.warn(str(diagnostic), WhenceWarning, stacklevel=5)


def traced(model: torch.nn.Module, tensors: Tensors, axes: Axes) -> Trace:
    """The trace, which knows each line of Python that used a tensor's value.

    The plugin tells values from sizes; PyTorch gives one warning for both. Where it cannot, those are passed on.
    """
    by_pytorch, turns = [], []

    def note(message: Any, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
        by_pytorch.append(warnings.WarningMessage(message, category, filename, lineno))
        turns.append(tuple(size_conditions.of_last_condition()))

    with warnings.catch_warnings(), listening() as told:
        warnings.simplefilter("always", torch.jit.TracerWarning)
        warnings.showwarning = note
        made = calls.trace(model, tensors)
    values = [each for each in told or () if each.code == "E0309"]
    of_sizes: list[SizeUse] = []
    for each, points in zip(by_pytorch, turns, strict=True):
        if not issubclass(each.category, torch.jit.TracerWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        elif told is None or any(words in str(each.message) for words in _LEAVING):
            values.append(_baked_value(each))
        else:
            of_sizes.append(SizeUse(each.filename, each.lineno, points))
    # With values baked in, the results differ for that reason.
    baked, fails = (None, False) if values else _compared(model, made, tensors, axes, of_sizes, must_run=False)
    return Trace(made, baked, fails, of_sizes, values)


def of_libraries(made: torch.jit.ScriptModule) -> list[str]:
    """Operators in a trace that this process was taught, by torch.library or a library of C++: the command, a process
    of its own, does not have them."""
    by_python = {name.partition(".")[0] for name in torch.library._defs}
    called = {node.kind() for node in _nodes(made.inlined_graph)}
    return sorted(name for name in called if name in by_python or name.partition("::")[0] not in _LIBTORCH)


def library_words(scripted: torch.jit.ScriptModule) -> list[str]:
    """For the command, a process of its own: the libraries of this one where a scripted module needs such operators."""
    if not of_libraries(scripted):
        return []
    return [word for each in sorted(torch.ops.loaded_libraries) if Path(each).name != recorder_library.LIBRARY
            for word in ("--library", each)]


def traced_otherwise(made: torch.jit.ScriptModule) -> set[str]:
    """Operators that the model may have called and a trace does not name: all convolutions are one there."""
    if all(node.kind() != "aten::_convolution" for node in _nodes(made.inlined_graph)):
        return set()
    return {"aten::convolution"} | {f"aten::conv{kind}{number}d" for kind in ("", "_transpose") for number in (1, 2, 3)}


def _nodes(block: torch._C.Graph | torch._C.Block) -> Iterator[torch._C.Node]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _baked_value(warning: warnings.WarningMessage) -> Diagnostic:
    said = str(warning.message).split(". ")[0]
    return Diagnostic("E0309", "baked_value", "warning", f"a trace holds the example's value: {said}",
                      "compute with tensors, or script the module", {"source": f"{warning.filename}:{warning.lineno}"})


def size_baked(model: torch.nn.Module, made: torch.jit.ScriptModule, tensors: Tensors,
               axes: Axes, of_sizes: Sequence[SizeUse] = ()) -> Diagnostic | None:
    """E0304 where the trace does not run, or computes something else than the model, at other sizes."""
    return _compared(model, made, tensors, axes, of_sizes, must_run=True)[0]


def _compared(model: torch.nn.Module, made: torch.jit.ScriptModule, tensors: Tensors, axes: Axes,
              of_sizes: Sequence[SizeUse], must_run: bool) -> tuple[Diagnostic | None, bool]:
    """E0304 where the trace computes something else than the model at other sizes, or with other data. One that does
    not run at longer sizes is wrong with ``must_run``; else it is left to the export, which may say with which operation:
    then True is returned. One that does not run at sizes in another order, or with other data, is wrong."""
    contents = with_other_elements(tensors, axes)
    others = [(sizes_of(given, axes), given) for given in at_other_sizes(contents, axes)]
    may_be_left = {what for what, _ in others} if not must_run else set()
    others += [(sizes_of(given, axes), given) for given in at_turning_points(model, contents[-1], axes, of_sizes)]
    others += [(sizes_of(given, axes), given) for given in reordered(contents, axes)]
    if of_sizes and any(node.kind() in _SIZED_BY_DATA for node in _nodes(made.inlined_graph)):
        others += [(OTHER_DATA, {name: change(tensor) for name, tensor in tensors.items()}) for change in DATA_CHANGES]
    for what, given in others:
        found = as_the_model(model, run_of(made, tensors), given)
        if found is Found.FAILS and what in may_be_left:
            return None, True
        if found in (Found.FAILS, Found.DIFFERS):
            return baked_size(what, of_sizes), False
    return None, False


def run_of(made: torch.jit.ScriptModule, tensors: Tensors) -> Callable[..., Any]:
    names = list(calls.by_identifier(tensors))
    return lambda *each: made(**dict(zip(names, each)))
