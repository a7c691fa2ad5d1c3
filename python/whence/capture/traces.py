"""A trace of a model, and what it lost: Python that looked at values or sizes ran once, for the example alone."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..arguments import calls, trees
from ..axes.dynamic_axes import Axes, Axis
from ..command import recorder_library
from ..errors import Diagnostic, WhenceWarning
from ..recorder.plugin import listening
from ..state.model_state import state_restored
from . import size_conditions

Tensors = Mapping[str, torch.Tensor]

# Namespaces of operators that LibTorch itself has.
_LIBTORCH = frozenset({"aten", "prim", "prims", "quantized", "_quantized", "quantization", "sparse", "mkl", "mkldnn",
                       "mkldnn_prepacked", "onednn", "profiler", "static_runtime", "c10d", "_c10d_functional"})

# Operators whose results have sizes that depend on data, or may have.
_SIZED_BY_DATA = frozenset({"aten::index", "aten::masked_select", "aten::nonzero", "aten::nonzero_numpy",
                            "aten::unique_dim", "aten::_unique2", "aten::unique_consecutive"})

@dataclass(frozen=True)
class SizeUse:
    """A line of Python that used a size as a number, and where it turns, if it is a condition."""

    file: str
    line: int
    turns: tuple[size_conditions.TurningPoint, ...] = ()


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
    others += [(sizes_of(given, axes), given) for given in in_other_orders(contents, axes)]
    if of_sizes and any(node.kind() in _SIZED_BY_DATA for node in _nodes(made.inlined_graph)):
        others += [(_DATA, {name: change(tensor) for name, tensor in tensors.items()}) for change in _OTHER_DATA]
    for what, given in others:
        found = _as_the_model(model, run_of(made, tensors), given)
        if found is Found.FAILS and what in may_be_left:
            return None, True
        if found in (Found.FAILS, Found.DIFFERS):
            return baked_size(what, of_sizes), False
    return None, False


def run_of(made: torch.jit.ScriptModule, tensors: Tensors) -> Callable[..., Any]:
    names = list(calls.by_identifier(tensors))
    return lambda *each: made(**dict(zip(names, each)))


class Found(Enum):
    SAME = auto()
    DIFFERS = auto()
    FAILS = auto()  # though the model runs
    NOTHING = auto()  # the model does not run


def _as_the_model(model: torch.nn.Module, run: Callable[..., Any], given: Tensors,
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
        if _as_the_model(model, run, tensors) is not Found.SAME:  # nothing can be said of models that draw numbers
            return None
        found = _as_the_model(model, run, given)
        if found in (Found.DIFFERS, Found.FAILS) and not excluded(given, found):
            return baked_size(sizes_of(given, axes), of_sizes, holder)
    return None


def baked_by_export(model: torch.nn.Module, program: torch.export.ExportedProgram,
                    tensors: Tensors, axes: Axes) -> Diagnostic | None:
    """E0304 where the program computes something else than the model at other sizes: torch.export takes
    ``int(size * 0.5)`` for a number of the example without a word."""
    def is_wrong(given: Tensors) -> bool:
        run = without_guards(program)
        found = _as_the_model(model, run, given, state_of=run)
        return found in (Found.DIFFERS, Found.FAILS) and not excludes(program, given, found)

    contents = with_other_elements(tensors, axes)
    others = [*at_other_sizes(contents, axes), *at_one_each(contents, axes), *in_other_orders(contents, axes)]
    run = without_guards(program)
    if not others or _as_the_model(model, run, tensors, run) is not Found.SAME:  # a model that draws numbers, say
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


def sizes_of(given: Tensors, axes: Axes) -> str:
    return ", ".join(f"axis {axis} of '{name}' at {given[name].shape[axis]}" for name, each in axes.items()
                     for axis in each)


def baked_size(what: str, of_sizes: Sequence[SizeUse] = (), holder: str = "trace") -> Diagnostic:
    lines = ", ".join(dict.fromkeys(f"{use.file}:{use.line}" for use in of_sizes))
    return Diagnostic("E0304", "baked_size", "warning", f"the {holder} holds a size of the example, and so does the "
                      f"file: with {what} the model computes something else"
                      + (f". Sizes were used as numbers in {lines}" if lines else ""),
                      "script the module, so that loops and conditions on sizes stay, or leave the axis fixed")


def _signs(floating: Callable[[torch.Tensor], torch.Tensor], boolean: Callable[[torch.Tensor], torch.Tensor]):
    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == torch.bool:
            return boolean(tensor)
        return floating(tensor) if tensor.is_floating_point() else tensor
    return change


def _every_second(tensor: torch.Tensor) -> torch.Tensor:
    return tensor & (torch.arange(tensor.numel(), device=tensor.device) % 2 == 0).reshape(tensor.shape)


_DATA = "other data"

# Tensors of which other elements are true, or positive: some, all, none.
_OTHER_DATA = (_signs(torch.neg, _every_second), _signs(torch.abs, torch.ones_like),
               _signs(lambda tensor: -tensor.abs(), torch.zeros_like))


def at_other_sizes(contents: Sequence[Tensors], axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """The tensors with all dynamic axes longer: by one; as some models take multiples alone, twice as long; and where
    that is still short, so that few numbers computed of it are others, four times. Also the sizes at which models take
    other ways: of axes that whence proposed nothing seen before, and one token; of the caller's one."""
    if any(axes.values()):
        for each in contents:
            yield from _at_other_sizes(each, axes)


def with_other_elements(tensors: Tensors, axes: Axes) -> Sequence[Tensors]:
    """The tensors; where a floating one has one element throughout, also with elements that differ: of ones, x + 1 is
    x * 2. Without dynamic axes no other elements are asked for."""
    varied = {name: tensor + torch.rand(tensor.shape, generator=torch.Generator().manual_seed(0)).to(tensor)
              for name, tensor in tensors.items()
              if any(axes.values()) and tensor.is_floating_point() and tensor.numel() > 0
              and bool((tensor == tensor.flatten()[0]).all())}
    return [tensors, {**tensors, **varied}] if varied else [tensors]


def _at_other_sizes(tensors: Tensors, axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    changed = partial(_at_sizes, tensors, axes)
    usual = [lambda what, size: size + what.times, lambda _, size: 2 * size,
             lambda _, size: 4 * size if size < 16 else size]
    if any(what.smallest is None for each in axes.values() for what in each.values()):
        usual.append(lambda what, size: 1 if what.smallest is None else size)
    yield from filter(partial(_in_bounds, axes), map(changed, usual))
    smallest = {what.name: what.smallest for each in axes.values() for what in each.values()
                if what.smallest is not None}
    for names in [{name} for name in smallest] + [set(smallest)] * (len(smallest) > 1):
        yield changed(lambda what, size: smallest[what.name] if what.name in names else size)


def at_one_each(contents: Sequence[Tensors], axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """The tensors with each of several sizes of the caller's at 1 alone: a model may not run where all are."""
    every = [what for each in axes.values() for what in each.values()]
    names = dict.fromkeys(what.name for what in every if what.smallest is None and not what.parts)
    if len(names) < 2 or any(what.times != 1 for what in every):
        return
    for chosen in names:
        for each in contents:
            given = _at_sizes(each, axes, lambda what, size: 1 if what.name == chosen else size)
            if _in_bounds(axes, given):
                yield given


def at_long_sizes(model: torch.nn.Module, tensors: Tensors,
                  axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """The tensors with each of the sizes beyond the chunks in which models work (256), where a run is little work."""
    long = 300
    every = [(what, tensors[name].shape[axis]) for name, each in axes.items() for axis, what in each.items()]
    if any(what.times != 1 for what, _ in every):
        return
    parameters = sum(each.numel() for each in model.parameters())
    varied = with_other_elements(tensors, axes)[-1]
    for chosen in {what.name: None for what, size in every
                   if not what.parts and size < long and (getattr(what.dim, "max", None) or long) >= long}:
        longer = _at_sizes(varied, axes, lambda what, size: long if what.name == chosen else size)
        if _is_little_work(longer, parameters):
            yield longer


def _is_little_work(tensors: Tensors, parameters: int) -> bool:
    """Fewer products of an element and a parameter than a second takes."""
    most_products = 2e10
    return sum(each.numel() for each in tensors.values()) * (parameters + 1) < most_products


def at_turning_points(model: torch.nn.Module, tensors: Tensors, axes: Axes,
                      of_sizes: Sequence[SizeUse]) -> Iterator[dict[str, torch.Tensor]]:
    """The tensors with each of the sizes at those where a condition turns that Python decided, where a run is little work."""
    most = 40
    points = list(dict.fromkeys(point for use in of_sizes for point in use.turns))
    if not points or any(what.times != 1 for each in axes.values() for what in each.values()):
        return
    parameters = sum(each.numel() for each in model.parameters())
    sizes = {what.name: tensors[name].shape[axis] for name, each in axes.items() for axis, what in each.items()
             if not what.parts}
    for chosen, other in itertools.islice(size_conditions.sizes_of_axes(points, sizes), most):
        given = _at_sizes(tensors, axes, lambda what, own: other if what.name == chosen else own)
        if _in_bounds(axes, given) and _is_little_work(given, parameters):
            yield given


def in_other_orders(contents: Sequence[Tensors], axes: Axes) -> Iterator[dict[str, torch.Tensor]]:
    """The tensors with sizes that are not far apart the other way round, and equal: models compare them."""
    if any(what.parts or what.times != 1 for each in axes.values() for what in each.values()):
        return
    sizes = {what.name: contents[0][name].shape[axis] for name, each in axes.items() for axis, what in each.items()}
    order = sorted(sizes, key=lambda name: sizes[name])
    groups = [[name for name in order if least <= sizes[name] < 4 * least] for least in (2, 8, 32, 128, 512)]
    groups = [group for group in groups if len(group) > 1]
    exchanged, equal = dict(sizes), dict(sizes)
    for group in groups:
        for place, (name, other) in enumerate(zip(group, reversed(group), strict=True)):
            exchanged[name] = sizes[other] + len(group) - place  # never as they were, if they are all of one size
            equal[name] = sizes[group[0]] + 1
    for others in (exchanged, equal) if groups else ():
        for each in contents:
            if _in_bounds(axes, given := _at_sizes(each, axes, lambda what, _: others[what.name])):
                yield given


def _in_bounds(axes: Axes, given: Tensors) -> bool:
    """True for sizes within the bounds that the caller's Dims have."""
    def holds(what: Axis, size: int) -> bool:
        least, most = getattr(what.dim, "min", None), getattr(what.dim, "max", None)
        return (least is None or size >= least) and (most is None or size <= most)

    return all(holds(what, given[name].shape[axis]) for name, each in axes.items() for axis, what in each.items())


def at_usual_sizes(tensors: Tensors, axes: Axes) -> dict[str, torch.Tensor] | None:
    """The tensors with sizes of 3 and more in the place of those of 0 and 1 along proposed axes: models take other ways
    there, and a trace holds one. None where there are no such sizes, or the axes are the caller's."""
    small = [name for name, each in axes.items() for axis, what in each.items()
             if what.smallest is not None and tensors[name].shape[axis] < 2]
    if not small:
        return None
    return _at_sizes(tensors, axes,
                     lambda what, size: size if what.smallest is None or size > 1 else 4 - what.smallest)


def _at_sizes(tensors: Tensors, axes: Axes,
              size_of: Callable[[Axis, int], int]) -> dict[str, torch.Tensor]:
    every = [(name, axis, what) for name, each in axes.items() for axis, what in each.items()]
    parts = {what.name: (what, tensors[name].shape[axis]) for name, axis, what in every if not what.parts}
    other = dict(tensors)
    for name, axis, what in every:
        size = what.plus + sum(size_of(*parts[part]) for part, _ in what.parts) if what.parts \
            else size_of(what, tensors[name].shape[axis])
        other[name] = stretched(other[name], axis, size)
    return other


def stretched(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """Its own elements over again, so that what was an index or a mask still is one."""
    if tensor.shape[axis] == 0:
        return tensor.new_zeros([size if each == axis else length for each, length in enumerate(tensor.shape)])
    return tensor.index_select(axis, torch.arange(size, device=tensor.device) % tensor.shape[axis])


def computed(model: torch.nn.Module, run: Callable[..., Any], tensors: tuple[Any, ...], seed: int = 0) -> list[torch.Tensor]:
    """The tensors that ``run`` returns, the same each time: restores generators and the model's state."""
    with torch.no_grad(), state_restored(model):
        torch.manual_seed(seed)
        return trees.tensors_in(run(*trees.copied_apart(tensors)))


def alike(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    return len(found) == len(wanted) and all(
        a.shape == b.shape and torch.allclose(a, b.to(a.dtype), 1e-3, 1e-5, True) for a, b in zip(found, wanted))
