"""Runs modules alone on the file's values: this gives the error of the module itself, without the inherited error."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..arguments import trees
from ..errors import error, require_path
from ..values import archives
from ..values.value_file import Recorded, Run, Values
from ..values.value_recorder import Recorder, run_recorded, tensors_of
from . import tensor_differences
from .measurements import Measured, Measurement
from .runtimes import Runtime
from .value_flow import Flow

_REPEAT_LIMIT = 1e-2  # largest relative difference of two runs of one model, even in bfloat16 with other thread counts

CallKey = tuple[str, int]  # a module's qualified name, and the number of its call


@dataclass
class Suspect:
    """A call whose result differs and whose arguments are all observable."""

    arguments: list[Recorded]
    results: list[Measured]


@dataclass
class AloneErrors:
    """The errors of modules that were run alone."""

    relative: dict[CallKey, float] = field(default_factory=dict)
    failed: dict[CallKey, str] = field(default_factory=dict)  # why a module did not run alone


def model_of(model: Any, values: Values, run: Run) -> Any:
    """Returns the model, loaded if it is the path of an archive. Raises WhenceError as `whence record` does."""
    if isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        return model
    require_path(model, "the model")
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        inputs = Path(folder) / "inputs.pt"
        torch.save({name: values.whole(each) for name, each in run.inputs.items()}, inputs)
        return archives.open_archive(model, inputs)


def measure(flow: Flow, values: Values, run: Run, model: Any, runtime: Runtime, least: float,
            memory: int) -> AloneErrors:
    """Runs each call alone whose result differs by more than ``least``, except the whole model's. Its arguments are the
    file's values of its recorded arguments.

    Raises WhenceError: E0104 and E0207 if the model does not run on the recorded inputs, E0206 if it is another
    model."""
    alone_errors = AloneErrors()
    suspects = _suspects(flow.measurement, run, least)
    for part in _rounds(suspects, memory):
        file_tensors = _file_tensors(flow.measurement, values, part, runtime)
        recorder = _AloneRunner(model, values, part, file_tensors, alone_errors)
        result = run_recorded(recorder, model, *_arguments(model, values, run))
        _require_recorded(values, run, result)
    return alone_errors


def _require_recorded(values: Values, run: Run, result: Any) -> None:
    """Raises WhenceError E0206 if the model does not reproduce the recorded results: its errors would be its own."""
    for recorded, tensor in zip(run.calls[-1].results, tensors_of(result)):
        found = tensor_differences.compare(values, recorded, tensor)
        if found is None or not found.relative <= _REPEAT_LIMIT:
            raise error("E0206", "sidecar_mismatch", f"the model does not compute the values in {values.place}",
                        "give the model whose values were recorded, or record them again")


def _arguments(model: Any, values: Values, run: Run) -> tuple[Any, Mapping[str, Any] | None]:
    """Returns args and kwargs with the inputs under their recorded names."""
    inputs = {name: values.whole(each) for name, each in run.inputs.items()}
    if isinstance(model, torch.export.ExportedProgram):
        return (inputs,), None
    return (), inputs


def _suspects(measurement: Measurement, run: Run, least: float) -> dict[CallKey, Suspect]:
    seen = {each.point.recorded.key: each for each in measurement.points if each.value is not None}
    inputs = {each.key for each in run.inputs.values()}
    found = {}
    for call in run.calls:
        results = [seen[each.key] for each in call.results if each.key in seen]
        if call.module and any(each.differs(least) for each in results) and len(results) == len(call.results) \
                and all(each.key in seen or each.key in inputs for each in call.given):
            found[call.module, call.call] = Suspect(list(call.given), results)
    return found


def _rounds(suspects: Mapping[CallKey, Suspect], memory: int) -> Iterator[dict[CallKey, Suspect]]:
    """Yields the suspects for each round. The values of a round stay below ``memory``."""
    part: dict[CallKey, Suspect] = {}
    held: dict[str, int] = {}
    for key, each in suspects.items():
        sizes = {one.key: 8 * one.count
                 for one in (*each.arguments, *(result.point.recorded for result in each.results))}
        if part and sum((held | sizes).values()) > memory:
            yield part
            part, held = {}, {}
        part[key] = each
        held |= sizes
    if part:
        yield part


def _file_tensors(measurement: Measurement, values: Values, suspects: Mapping[CallKey, Suspect],
                  runtime: Runtime) -> dict[str, torch.Tensor]:
    """Returns the file's tensors by the keys of the recorded tensors, in their sizes and order of axes."""
    seen = {each.point.recorded.key: each for each in measurement.points if each.value is not None}
    recorded_of: dict[str, list[Recorded]] = {}
    for each in suspects.values():
        for recorded in (*each.arguments, *(result.point.recorded for result in each.results)):
            if recorded.key in seen:
                recorded_of.setdefault(seen[recorded.key].value, []).append(recorded)
    file_tensors = {}
    for name, tensor in runtime.take(measurement.feed.tensors, list(recorded_of)):
        for recorded in recorded_of[name]:
            layout = seen[recorded.key].figures.layout
            file_tensors[recorded.key] = tensor_differences.as_recorded(values, recorded, tensor, layout)
    return file_tensors


class _AloneRunner(Recorder):
    """A recorder that runs each suspect module on the file's values instead of recording its arguments."""

    def __init__(self, model: Any, values: Values, suspects: Mapping[CallKey, Suspect],
                 file_tensors: Mapping[str, torch.Tensor], alone_errors: AloneErrors) -> None:
        super().__init__()
        self._model = model
        self._values = values
        self._suspects = suspects
        self._file_tensors = file_tensors
        self._alone_errors = alone_errors

    @contextmanager
    def one_run(self, inputs: Mapping[str, torch.Tensor]) -> Iterator[_AloneCalls]:
        yield _AloneCalls(self._call)

    def _call(self, owner: Any, path: str, number: int, arguments: Any) -> None:
        suspect = self._suspects.get((path, number))
        if suspect is None:
            return
        try:
            results = self._ran(owner, path, number, arguments,
                                self._in_place_of(tensors_of(arguments), suspect.arguments))
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as failure:
            self._alone_errors.failed[path, number] = \
                str(failure).splitlines()[0] if str(failure) else type(failure).__name__
            return
        off = [tensor_differences.relative(result, self._file_tensors[each.point.recorded.key])
               for result, each in zip(results, suspect.results)]
        self._alone_errors.relative[path, number] = max(off, default=0.0)

    def _in_place_of(self, arguments: list[torch.Tensor], recorded: list[Recorded]) -> list[torch.Tensor | None]:
        """Returns the file's tensor for each argument. A torch.export program passes a module its inputs in another
        order than the recorded model, so arguments are matched by equal tensors."""
        remaining = list(recorded)
        file_tensors = []
        for tensor in arguments:
            same = next((each for each in remaining
                         if each.dims == tuple(tensor.shape) and self._equals(each, tensor)), None)
            if same is None:
                raise TypeError("its arguments are not the recorded ones")
            remaining.remove(same)
            file_tensors.append(self._file_tensors.get(same.key))
        return file_tensors

    def _equals(self, recorded: Recorded, tensor: torch.Tensor) -> bool:
        found = tensor_differences.compare(self._values, recorded, tensor, in_own_order=True)
        return found is not None and found.relative <= _REPEAT_LIMIT

    def _ran(self, owner: Any, path: str, number: int, arguments: Any,
             tensors: list[torch.Tensor | None]) -> list[torch.Tensor]:
        if not isinstance(owner, torch.nn.Module):  # a scripted module passes only its tensors
            return self._ran_scripted(path, number, arguments, tensors)
        leaves, close = trees.flatten(arguments)
        remaining = iter(_replaced(tensors_of(arguments), tensors))
        args, kwargs = close(iter([next(remaining) if isinstance(leaf, torch.Tensor) else leaf for _, leaf in leaves]))
        with _buffers_restored(owner):
            return tensors_of(owner(*args, **kwargs))

    def _ran_scripted(self, path: str, number: int, arguments: list[torch.Tensor],
                      tensors: list[torch.Tensor | None]) -> list[torch.Tensor]:
        module = functools.reduce(getattr, path.split("."), self._model)._c
        later = f"forward{number}"  # a trace has one method for each further call
        method = module._get_method(later if number and module._has_method(later) else "forward")
        if [each.type.kind() for each in method.schema.arguments[1:]] != ["TensorType"] * len(arguments):
            raise TypeError("it has arguments that are not tensors")
        return tensors_of(method(*_replaced(arguments, tensors)))


@contextmanager
def _buffers_restored(module: torch.nn.Module) -> Iterator[None]:
    """Restores buffers and random state afterwards. Leaves hooks alone: those of the surrounding run must stay."""
    saved = [(each, each.clone()) for each in module.buffers()]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            for buffer, content in saved:
                buffer.copy_(content)


def _replaced(arguments: list[torch.Tensor], tensors: list[torch.Tensor | None]) -> list[torch.Tensor]:
    """Returns the file's tensors, and PyTorch's own where the file has none: at inputs of the model."""
    return [original.detach().clone() if replacement is None else replacement.to(original.dtype).reshape(original.shape)
            for original, replacement in zip(arguments, tensors, strict=True)]


class _AloneCalls:
    """Counts the model's calls. Calls that a module makes while it runs alone do not count."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._counts: dict[str, int] = {}
        self._is_alone = False

    def enter(self, owner: Any, path: str, kind: type | str, arguments: Any, call: int | None = None) -> None:
        if self._is_alone:
            return
        number = self._counts[path] = self._counts.get(path, -1) + 1
        self._is_alone = True
        try:
            self._call(owner, path, number if call is None else call, arguments)
        finally:
            self._is_alone = False

    def leave(self, owner: Any, result: Any) -> None:
        """Does nothing: results are not recorded."""
