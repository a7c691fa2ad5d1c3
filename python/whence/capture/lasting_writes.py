"""Finds effects of a call that persist in the model. A file cannot reproduce them, so the caller is warned.

PyTorch's tracers miss some effects: an attribute that is set, a write through ``data``, or a write to a view created
before the call. So for every backend, the model first runs without a tracer, and its state before and after is
compared. The exporter's reports are merged into these warnings (E0308). The model then runs again from its recorded
state: if the results differ, it keeps state elsewhere, for example in a global or an iterator.

Two cases that give wrong results are refused (E0303): the model writes to two arguments that share memory, which
inputs of a file cannot do; or a captured program's results on the example differ from the model's.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..arguments import trees
from ..errors import Diagnostic, WhenceError, WhenceWarning, error
from ..state.export_settings import log
from ..state.model_state import Change, changes, refuse_results_without_data, state_restored
from .comparisons import all_close, reproducible_outputs

TRACE, EXPORTED = "trace", "exported program"  # the two forms in which a model is captured

_NEXT_RUN = "each run of the ONNX file starts from the value before"
_AS_OUTPUT = "return the new value as an output and take it as an input, if later runs need it"
_MAX_NAMES = 8


@dataclass(frozen=True)
class Observation:
    """The result and the effects of one run of the model."""

    result: Any
    changes: Sequence[Change]
    inputs: tuple[str, ...]
    written_inputs: frozenset[str]
    returned_inputs: frozenset[str]
    repeatable: bool  # a second run from the same state, with the same random numbers, had equal results

    @property
    def in_place(self) -> list[str]:
        return [each.name for each in self.changes if each.in_place]


def observe(holder: Any, run: Callable[..., Any], tensors: Mapping[str, torch.Tensor]) -> Observation | None:
    """Observes one run. ``run`` takes copies of the tensors. The state of ``holder`` is compared and then restored.

    Returns None if the model does not run; the exporter then reports why.
    Raises WhenceError E0303 if the model writes to tensors that share memory, E0207 if an earlier export left the model
    without its data.
    """
    copies = trees.copied(tuple(tensors.values()))
    try:
        result, changed = _run(holder, run, copies)
    except Exception as failure:  # the model may raise any exception
        log.info("the model does not run: %s", failure)
        return None
    refuse_results_without_data(trees.tensors_in(result), holder, copies)
    written = frozenset(name for (name, before), after in zip(tensors.items(), copies) if _is_changed(before, after))
    _refuse_shared_memory(holder, run, tensors, copies, result, written)
    returned = {_memory_key(each) for each in trees.tensors_in(result)}
    return Observation(result, changed, tuple(tensors), written,
                    frozenset(name for name, each in zip(tensors, copies) if _memory_key(each) in returned),
                    _is_repeatable(holder, run, tensors, result))


def observe_script(model: torch.jit.ScriptModule, tensors: Mapping[str, Any]) -> Observation | None:
    """Observes a copy, because a script's attributes are not in Python. Compares only its parameters and buffers."""
    copied = copy.deepcopy(model)
    return _observe_call(copied, lambda arguments: copied(**arguments), dict(tensors), trees.unique_names)


def observe_program(program: torch.export.ExportedProgram) -> Observation | None:
    def call(arguments: tuple[Any, ...]) -> Any:
        positional, keywords = arguments
        return program.module(check_guards=False)(*positional, **keywords)

    def names_of(paths: list[trees.Path]) -> Iterable[Any]:
        names = program.graph_signature.user_inputs
        return names if len(names) == len(paths) else range(len(paths))

    return _observe_call({**program.state_dict, **program.constants}, call, program.example_inputs or ((), {}),
                          names_of)


def _observe_call(holder: Any, call: Callable[..., Any], arguments: Any,
                   names_of: Callable[[list[trees.Path]], Iterable[Any]]) -> Observation | None:
    """Observes ``call``, which takes the arguments with copied tensors. ``names_of`` names tensors by the paths of
    leaves."""
    leaves, rebuild = trees.flatten(arguments)
    names = names_of([path for path, _ in leaves])
    tensors = {str(name): leaf for name, (_, leaf) in zip(names, leaves) if isinstance(leaf, torch.Tensor)}

    def run(*values: torch.Tensor) -> Any:
        remaining = iter(values)
        return call(rebuild(iter([next(remaining) if isinstance(leaf, torch.Tensor) else leaf for _, leaf in leaves])))

    return observe(holder, run, tensors)


def _run(holder: Any, run: Callable[..., Any], copies: tuple[Any, ...]) -> tuple[Any, list[Change]]:
    with warnings.catch_warnings(), torch.no_grad(), state_restored(holder):
        warnings.simplefilter("ignore")  # the export runs the model again
        result = run(*copies)
        return result, changes()


def _is_repeatable(holder: Any, run: Callable[..., Any], tensors: Mapping[str, torch.Tensor], result: Any) -> bool:
    before = trees.tensors_in(result)
    try:
        return all_close(trees.tensors_in(_run(holder, run, trees.copied(tuple(tensors.values())))[0]), before)
    except (NotImplementedError, RuntimeError):  # dtypes and layouts that cannot be compared
        return True
    except Exception as failure:  # any exception, for example because an iterator has ended
        log.info("the model does not run a second time: %s", failure)
        return False


def _is_changed(before: torch.Tensor, after: torch.Tensor) -> bool:
    try:
        return before.shape != after.shape or not torch.allclose(before, after, 0, 0, equal_nan=True)
    except (NotImplementedError, RuntimeError):  # dtypes and layouts that cannot be compared
        return False


def _memory_key(tensor: torch.Tensor) -> tuple[Any, ...]:
    try:
        return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
    except (NotImplementedError, RuntimeError):  # a layout without one memory
        return (id(tensor),)


def _refuse_shared_memory(holder: Any, run: Callable[..., Any], tensors: Mapping[str, torch.Tensor],
                   copies: tuple[Any, ...], result: Any, written: Iterable[str]) -> None:
    names = list(tensors)
    shared = [[names[each] for each in group] for group in trees.sharing_memory(tensors.values())]
    shared = [group for group in shared if set(group) & set(written)]
    if not shared:
        return
    separate = trees.copied_apart(tuple(tensors.values()))
    other = _run(holder, run, separate)[0]
    if all_close(trees.tensors_in(other), trees.tensors_in(result)) and all_close(list(separate), list(copies)):
        return  # they do not overlap
    raise error("E0303", "unsupported_feature", f"{' and '.join(repr(name) for name in shared[0])} share memory, and "
                "the model writes to it, but the inputs of a file are separate tensors",
                "pass clones, if the model expects separate tensors; otherwise pass the tensor once")


def refuse_missed_writes(observed: Observation | None, model: torch.nn.Module, tensors: Sequence[torch.Tensor],
                         programs: Iterable[Callable[[], Callable[..., Any]]], what: str) -> None:
    """Raises WhenceError E0303 if the model writes to its state and a captured program differs from the model on the
    example, because it lacks the write. ``programs`` return these programs. Models that draw random numbers are not
    compared."""
    if observed is None or not observed.in_place:
        return
    tensors = tuple(tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model has already raised these warnings
        with _as_if_exporting(what):
            expected, again = (_results(model, lambda: model, tensors, seed) for seed in (0, 1))
        results = [] if expected is None or again is None or not all_close(expected, again) else \
            [_results(model, each, tensors) for each in programs]
    if not all(each is None or all_close(each, expected) for each in results):
        raise error("E0303", "unsupported_feature", f"the {what} lacks a write to {_list(observed.in_place)}: its "
                    "results differ from the model's, and the file's results would differ, too",
                    "write to the tensor itself: self.state.add_(x), not through .data or to a view that was created "
                    "before the call")


def warn_of_different_results(observed: Observation | None, model: torch.nn.Module, tensors: Sequence[torch.Tensor],
                          program: Callable[[], Callable[..., Any]], what: str) -> None:
    """Warns (E0303) if a captured program differs from the model on the example: libraries take another branch if a
    model is being captured. Models that draw random numbers are not compared."""
    if observed is None or observed.in_place or not observed.repeatable:
        return
    tensors, expected = tuple(tensors), trees.tensors_in(observed.result)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model has already raised these warnings
        results = _results(model, program, tensors)
        if results is None or _near(results, expected):
            return
        again = [_results(model, lambda: model, tensors, seed) for seed in (0, 1)]
    if any(each is None or not _near(each, expected) for each in again):
        return
    warnings.warn(str(Diagnostic(
        "E0303", "unsupported_feature", "warning", f"on the example itself, the {what} computes something else than "
        "the model: a library takes another branch while the model is captured, and the file contains that branch",
        "compare them with whence.verify; pass the value that decides the branch (a mask, token types), or choose "
        "another implementation (attn_implementation='eager')")), WhenceWarning, stacklevel=5)


def _near(results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    """Returns true if results agree up to rounding, relative to the largest number: captured programs call other
    kernels."""
    def agree(a: torch.Tensor, b: torch.Tensor) -> bool:
        if a.shape != b.shape or a.is_complex() != b.is_complex():
            return False
        a, b = (torch.nan_to_num(each.to(torch.complex128 if each.is_complex() else torch.float64)) for each in (a, b))
        return not a.numel() or bool((a - b).abs().max() <= 0.02 * b.abs().max() + 1e-4)

    try:
        return len(results) == len(expected) and all(map(agree, results, expected))
    except (NotImplementedError, RuntimeError):  # layouts that cannot be compared
        return True


@contextmanager
def _as_if_exporting(what: str) -> Iterator[None]:
    """Sets torch.compiler.is_exporting(), so that the model takes the same branches as during torch.export."""
    before = getattr(torch.compiler, "_is_exporting_flag", None)
    if before is None or what != EXPORTED:
        yield
        return
    torch.compiler._is_exporting_flag = True
    try:
        yield
    finally:
        torch.compiler._is_exporting_flag = before


def _results(model: torch.nn.Module, program: Callable[[], Callable[..., Any]], tensors: tuple[Any, ...],
             seed: int = 0) -> list[torch.Tensor] | None:
    try:
        return reproducible_outputs(model, program(), tensors, seed)
    except Exception as failure:  # any exception; the exporter reports models that do not run
        log.info("the results are not compared with the model's: %s", failure)
        return None


def diagnostics_of(observed: Observation | None, exporter_diagnostics: Sequence[Diagnostic],
                   input_names: Mapping[str, str], differs: Callable[[], bool]) -> list[Diagnostic]:
    """Returns the warnings of an export: the exporter's, which have source lines, and warnings about missed effects.

    ``input_names``: the file's names of the call's tensors. ``differs`` runs the file and compares it, if possible.
    """
    if observed is None:
        return list(exporter_diagnostics)
    diagnostics, named = [], set()
    unnamed: list[int] = []  # positions of diagnostics about tensors whose names the exporter lacks
    for entry in exporter_diagnostics:
        if "its input '" in entry.message:
            name = next((name for name in input_names if _names(entry, name) or _names(entry, trees.identifier(name))),
                        None)
            named.add(name)
            if name not in observed.returned_inputs:
                diagnostics.append(entry if name is None else replace(entry, message=_of_input(input_names[name])))
            continue
        reported = {change.name for change in observed.changes
                    if any(_names(entry, name) for name in (change.name, *change.others))}
        named |= reported
        unnamed += [] if reported else [len(diagnostics)]
        diagnostics.append(entry)
    unreported = [change for change in observed.changes if change.name not in named]
    constants = [change.name for change in unreported if change.in_place and not change.registered]
    registered = [change.name for change in unreported if change.in_place and change.registered]
    if len(constants) == len(unnamed) == 1:
        diagnostics[unnamed[0]] = replace(diagnostics[unnamed[0]], message=_of_constants(constants))
    if len(constants) <= len(unnamed):
        constants = []
    difference = "; even on the example, the file's results differ from the model's" if observed.changes and differs() \
        else ""
    if registered:
        diagnostics.append(_warning(f"the model writes to {_list(registered)}; {_NEXT_RUN}"))
    if constants:
        diagnostics.append(_warning(_of_constants(constants)))
    if not observed.repeatable and not observed.changes:
        diagnostics.append(_warning(
            "the model's results change from call to call with the same arguments, random numbers and attributes: it "
            "keeps state elsewhere, as in a global, an iterator or a context variable; the ONNX file computes the results "
            "of one call, and the model has advanced by a few calls"))
    if assigned := [change.name for change in unreported if not change.in_place]:
        diagnostics.append(_warning(f"the model sets {_list(assigned)}, which lasts for one run of the ONNX file only; "
                                    f"{_NEXT_RUN}"))
    for name in sorted(observed.written_inputs - observed.returned_inputs - named, key=list(input_names).index):
        diagnostics.append(_warning(_of_input(input_names[name]),
                                    "return the new value as an output, if the caller needs it"))
    if difference and diagnostics:
        diagnostics[-1] = replace(diagnostics[-1], message=diagnostics[-1].message + difference)
    return diagnostics


def _names(diagnostic: Diagnostic, name: str) -> bool:
    return f"'{name}'" in diagnostic.message


def _of_constants(names: Sequence[str]) -> str:
    kind = "a tensor that it holds and that is not a parameter or buffer" if len(names) == 1 else \
        "tensors that it holds and that are not parameters or buffers"
    return f"the model writes to {_list(names)}, {kind}; {_NEXT_RUN}"


def _of_input(name: str) -> str:
    return f"the model writes to its input '{name}'; a run of the ONNX file leaves inputs as they are"


def _warning(message: str, remedy: str = _AS_OUTPUT) -> Diagnostic:
    return Diagnostic("E0308", "state_not_kept", "warning", message, remedy)


def _list(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(f"'{name}'" for name in names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def differs_in_runtime(verify: Callable[[], Any]) -> bool:
    """Returns true if the file differs from the model; false if that is unknown, for example without ONNX Runtime."""
    try:
        return not verify().ok
    except WhenceError:
        return False


def warn(diagnostics: Iterable[Diagnostic]) -> None:
    for diagnostic in diagnostics:
        warnings.warn(str(diagnostic), WhenceWarning, stacklevel=5)
