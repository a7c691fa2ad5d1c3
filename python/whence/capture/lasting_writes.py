"""Finds what a model changes for longer than one call: a file cannot do that, and the caller has to know.

PyTorch's tracers do not see all of it: an attribute that is set anew, a write through ``data``, or to a view that was
made before. So the model runs by itself, and what it holds afterwards is compared with what it held before. That is
done for every backend, and what an exporter has to say goes into the same warnings (E0308). It runs a second time from
what was found of its state: where the results are others, it keeps state elsewhere, as in a global or an iterator.

What is known to give wrong results is refused (E0303): two arguments that share memory which the model writes to, for
inputs of a file are separate; and a captured program whose own results on the example are others than the model's.
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
from .comparisons import alike, computed

TRACE, EXPORTED = "trace", "exported program"  # the two forms in which a model is captured

_STARTS_ANEW = "each run of the ONNX file starts from the value before"
_AS_OUTPUT = "return the new value as an output and take it as an input, if later runs need it"
_NAMES_AT_MOST = 8


@dataclass(frozen=True)
class Observed:
    """The result and the effects of one run of the model."""

    result: Any
    changes: Sequence[Change]
    inputs: tuple[str, ...]
    written_inputs: frozenset[str]
    returned_inputs: frozenset[str]
    repeatable: bool  # a second run from the state that was found, with the same random numbers, computed the same

    @property
    def in_place(self) -> list[str]:
        return [each.name for each in self.changes if each.in_place]


def observed(holder: Any, run: Callable[..., Any], tensors: Mapping[str, torch.Tensor]) -> Observed | None:
    """``run`` gets copies of the tensors; ``holder`` is what holds the state, and is afterwards as before.

    None where the model does not run: whatever exports it will say why.
    Raises WhenceError E0303 where tensors that share memory are written to, E0207 where an earlier export left the
    model without its data.
    """
    copies = trees.copied(tuple(tensors.values()))
    try:
        result, changed = _run(holder, run, copies)
    except Exception as failure:  # the model raises of every kind
        log.info("the model does not run by itself: %s", failure)
        return None
    refuse_results_without_data(trees.tensors_in(result), holder, copies)
    written = frozenset(name for (name, before), after in zip(tensors.items(), copies) if _is_changed(before, after))
    _refuse_shared(holder, run, tensors, copies, result, written)
    returned = {_place(each) for each in trees.tensors_in(result)}
    return Observed(result, changed, tuple(tensors), written,
                    frozenset(name for name, each in zip(tensors, copies) if _place(each) in returned),
                    _is_repeatable(holder, run, tensors, result))


def observed_script(model: torch.jit.ScriptModule, tensors: Mapping[str, Any]) -> Observed | None:
    """Runs a copy, for its attributes are not in Python. Only its parameters and buffers can be compared."""
    other = copy.deepcopy(model)
    return _observed_call(other, lambda given: other(**given), dict(tensors), trees.named)


def observed_program(program: torch.export.ExportedProgram) -> Observed | None:
    def call(arguments: tuple[Any, ...]) -> Any:
        positional, keywords = arguments
        return program.module(check_guards=False)(*positional, **keywords)

    def names_of(paths: list[trees.Path]) -> Iterable[Any]:
        names = program.graph_signature.user_inputs
        return names if len(names) == len(paths) else range(len(paths))

    return _observed_call({**program.state_dict, **program.constants}, call, program.example_inputs or ((), {}),
                          names_of)


def _observed_call(holder: Any, call: Callable[..., Any], arguments: Any,
                   names_of: Callable[[list[trees.Path]], Iterable[Any]]) -> Observed | None:
    """``call`` gets the arguments with copies of their tensors, which are named by ``names_of`` the paths of leaves."""
    found, close = trees.flatten(arguments)
    names = names_of([path for path, _ in found])
    tensors = {str(name): leaf for name, (_, leaf) in zip(names, found) if isinstance(leaf, torch.Tensor)}

    def run(*given: torch.Tensor) -> Any:
        left = iter(given)
        return call(close(iter([next(left) if isinstance(leaf, torch.Tensor) else leaf for _, leaf in found])))

    return observed(holder, run, tensors)


def _run(holder: Any, run: Callable[..., Any], copies: tuple[Any, ...]) -> tuple[Any, list[Change]]:
    with warnings.catch_warnings(), torch.no_grad(), state_restored(holder):
        warnings.simplefilter("ignore")  # the export runs the model again
        result = run(*copies)
        return result, changes()


def _is_repeatable(holder: Any, run: Callable[..., Any], tensors: Mapping[str, torch.Tensor], result: Any) -> bool:
    before = trees.tensors_in(result)
    try:
        return alike(trees.tensors_in(_run(holder, run, trees.copied(tuple(tensors.values())))[0]), before)
    except (NotImplementedError, RuntimeError):  # dtypes and layouts that cannot be compared
        return True
    except Exception as failure:  # an iterator may have ended: exceptions of any kind
        log.info("the model does not run a second time: %s", failure)
        return False


def _is_changed(before: torch.Tensor, after: torch.Tensor) -> bool:
    try:
        return before.shape != after.shape or not torch.allclose(before, after, 0, 0, equal_nan=True)
    except (NotImplementedError, RuntimeError):  # dtypes and layouts that cannot be compared
        return False


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    try:
        return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
    except (NotImplementedError, RuntimeError):  # a layout without one memory
        return (id(tensor),)


def _refuse_shared(holder: Any, run: Callable[..., Any], tensors: Mapping[str, torch.Tensor],
                   copies: tuple[Any, ...], result: Any, written: Iterable[str]) -> None:
    names = list(tensors)
    shared = [[names[each] for each in group] for group in trees.sharing(tensors.values())]
    shared = [group for group in shared if set(group) & set(written)]
    if not shared:
        return
    apart = trees.copied_apart(tuple(tensors.values()))
    other = _run(holder, run, apart)[0]
    if alike(trees.tensors_in(other), trees.tensors_in(result)) and alike(list(apart), list(copies)):
        return  # parts that do not overlap
    raise error("E0303", "unsupported_feature", f"{' and '.join(repr(name) for name in shared[0])} share memory, and "
                "the model writes to it; the inputs of a file are separate tensors",
                "give clones of them, if the model is meant to get separate tensors, else give the tensor once")


def refuse_missed_writes(seen: Observed | None, model: torch.nn.Module, tensors: Sequence[torch.Tensor],
                           programs: Iterable[Callable[[], Callable[..., Any]]], what: str) -> None:
    """Raises WhenceError E0303 where the model writes to what it holds, and one of ``programs``, which make a captured
    program, computes something else than the model on the example: what it lacks is the write. Models that draw random
    numbers are not compared."""
    if seen is None or not seen.in_place:
        return
    tensors = tuple(tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model has said all that
        with _said_to_be_captured(what):
            wanted, again = (_results(model, lambda: model, tensors, seed) for seed in (0, 1))
        found = [] if wanted is None or again is None or not alike(wanted, again) else \
            [_results(model, each, tensors) for each in programs]
    if not all(each is None or alike(each, wanted) for each in found):
        raise error("E0303", "unsupported_feature", f"the {what} lacks a write to {_list(seen.in_place)}: its results "
                    "are others than the model's, as are those of a file that is made of it",
                    "write to the tensor itself: self.state.add_(x); not through .data, nor to a view that was made "
                    "before the call")


def warn_of_other_results(seen: Observed | None, model: torch.nn.Module, tensors: Sequence[torch.Tensor],
                          program: Callable[[], Callable[..., Any]], what: str) -> None:
    """Warns, E0303, where a captured program computes something else than the model on the example: libraries ask
    whether a model is captured, and take another way then. Models that draw random numbers are not compared."""
    if seen is None or seen.in_place or not seen.repeatable:
        return
    tensors, wanted = tuple(tensors), trees.tensors_in(seen.result)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model has said all that
        found = _results(model, program, tensors)
        if found is None or _near(found, wanted):
            return
        again = [_results(model, lambda: model, tensors, seed) for seed in (0, 1)]
    if any(each is None or not _near(each, wanted) for each in again):
        return
    warnings.warn(str(Diagnostic(
        "E0303", "unsupported_feature", "warning", f"with the example itself the {what} computes something else than the "
        "model: what it calls takes another way while it is captured, and the file has that way",
        "compare them by whence.verify; give the model what it decides on otherwise (a mask, token types), or another "
        "implementation (attn_implementation='eager')")), WhenceWarning, stacklevel=5)


def _near(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> bool:
    """But for rounding, by the largest number: a captured program may call other kernels."""
    def one(a: torch.Tensor, b: torch.Tensor) -> bool:
        if a.shape != b.shape or a.is_complex() != b.is_complex():
            return False
        a, b = (torch.nan_to_num(each.to(torch.complex128 if each.is_complex() else torch.float64)) for each in (a, b))
        return not a.numel() or bool((a - b).abs().max() <= 0.02 * b.abs().max() + 1e-4)

    try:
        return len(found) == len(wanted) and all(map(one, found, wanted))
    except (NotImplementedError, RuntimeError):  # layouts that cannot be compared
        return True


@contextmanager
def _said_to_be_captured(what: str) -> Iterator[None]:
    """Sets torch.compiler.is_exporting(): what a model leaves out then is not missing in an exported program."""
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
        return computed(model, program(), tensors, seed)
    except Exception as failure:  # any kind: the exporter reports what cannot run
        log.info("writes are not compared with the model's: %s", failure)
        return None


def diagnostics_of(seen: Observed | None, by_exporter: Sequence[Diagnostic], input_names: Mapping[str, str],
                   differs: Callable[[], bool]) -> list[Diagnostic]:
    """The warnings of an export: those of the exporter, which knows source lines, and what it did not see.

    ``input_names``: what the file calls the call's tensors. ``differs`` runs the file, where that is possible.
    """
    if seen is None:
        return list(by_exporter)
    said, named = [], set()
    unnamed: list[int] = []  # positions of diagnostics on tensors whose names the exporter does not know
    for each in by_exporter:
        if "its input '" in each.message:
            name = next((name for name in input_names if _names(each, name) or _names(each, trees.identifier(name))),
                        None)
            named.add(name)
            if name not in seen.returned_inputs:
                said.append(each if name is None else replace(each, message=_of_input(input_names[name])))
            continue
        known = {change.name for change in seen.changes if any(_names(each, name) for name in
                                                               (change.name, *change.others))}
        named |= known
        unnamed += [] if known else [len(said)]
        said.append(each)
    left = [change for change in seen.changes if change.name not in named]
    constants = [change.name for change in left if change.in_place and not change.registered]
    registered = [change.name for change in left if change.in_place and change.registered]
    if len(constants) == len(unnamed) == 1:
        said[unnamed[0]] = replace(said[unnamed[0]], message=_of_constants(constants))
    if len(constants) <= len(unnamed):
        constants = []
    wrong = "; on the example too the results of the file are others than the model's" if seen.changes and differs() \
        else ""
    if registered:
        said.append(_warning(f"the model writes to {_list(registered)}; {_STARTS_ANEW}"))
    if constants:
        said.append(_warning(_of_constants(constants)))
    if not seen.repeatable and not seen.changes:
        said.append(_warning("the model's results change from call to call with the same arguments, random numbers and "
                             "attributes: it keeps state elsewhere, as in a global, an iterator or a context variable; "
                             "the ONNX file computes what one call did, and the model is a few calls further"))
    if anew := [change.name for change in left if not change.in_place]:
        said.append(_warning(f"the model sets {_list(anew)}, which lasts for one run of the ONNX file only; "
                             f"{_STARTS_ANEW}"))
    for name in sorted(seen.written_inputs - seen.returned_inputs - named, key=list(input_names).index):
        said.append(_warning(_of_input(input_names[name]), "return the new value as an output, if the caller needs it"))
    if wrong and said:
        said[-1] = replace(said[-1], message=said[-1].message + wrong)
    return said


def _names(said: Diagnostic, name: str) -> bool:
    return f"'{name}'" in said.message


def _of_constants(names: Sequence[str]) -> str:
    kind = "a tensor that it holds and that is not a parameter or buffer" if len(names) == 1 else \
        "tensors that it holds and that are not parameters or buffers"
    return f"the model writes to {_list(names)}, {kind}; {_STARTS_ANEW}"


def _of_input(name: str) -> str:
    return f"the model writes to its input '{name}'; a run of the ONNX file leaves inputs as they are"


def _warning(message: str, remedy: str = _AS_OUTPUT) -> Diagnostic:
    return Diagnostic("E0308", "state_not_kept", "warning", message, remedy)


def _list(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_AT_MOST
    return ", ".join(f"'{name}'" for name in names[:_NAMES_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def differs_in_runtime(verify: Callable[[], Any]) -> bool:
    """Returns false where it cannot be known, as without ONNX Runtime."""
    try:
        return not verify().ok
    except WhenceError:
        return False


def warn(diagnostics: Iterable[Diagnostic]) -> None:
    for each in diagnostics:
        warnings.warn(str(each), WhenceWarning, stacklevel=5)
