"""Runs modules alone on the file's values, to separate a module's own error from inherited errors."""

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
from . import quantised_values, tensor_differences
from .measurements import Measured, Measurement
from .runtimes import Runtime
from .value_flow import Flow

_REPEAT_LIMIT = 1e-2  # maximum relative difference between runs of a model, even in bfloat16 with other thread counts

CallKey = tuple[str, int]  # a module's qualified name and the number of the call


@dataclass
class Suspect:
    """A call whose result differs and whose arguments are all observable."""

    arguments: list[Recorded]
    results: list[Measured]


@dataclass
class IsolatedErrors:
    """Errors of modules that were run alone."""

    relative: dict[CallKey, float] = field(default_factory=dict)
    failed: dict[CallKey, str] = field(default_factory=dict)  # error messages of modules that failed


def model_of(model: Any, values: Values, run: Run) -> Any:
    """Returns the model, which may be the path of an archive. Raises WhenceError like `whence record`."""
    if isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        return model
    require_path(model, "the model")
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        inputs = Path(folder) / "inputs.pt"
        torch.save({name: values.whole(each) for name, each in run.inputs.items()}, inputs)
        return archives.open_archive(model, inputs)


def measure(flow: Flow, values: Values, run: Run, model: Any, runtime: Runtime, min_difference: float,
            memory: int) -> IsolatedErrors:
    """Runs each call alone whose result differs by more than ``min_difference``, except the root's. Its arguments are
    the file's values for its recorded arguments.

    Raises WhenceError: E0104 or E0207 if the model does not run on the recorded inputs, E0206 if it is another
    model."""
    isolated_errors = IsolatedErrors()
    suspects = _suspects(flow.measurement, run, min_difference)
    for part in _split_into_rounds(suspects, memory):
        file_tensors = _file_tensors(flow, values, part, runtime)
        recorder = _IsolatedRunner(model, values, part, file_tensors, isolated_errors)
        result = run_recorded(recorder, model, *_arguments(model, values, run))
        _require_recorded(values, run, result)
    return isolated_errors


def _require_recorded(values: Values, run: Run, result: Any) -> None:
    """Raises WhenceError E0206 if the model does not reproduce the recorded results."""
    for recorded, tensor in zip(run.calls[-1].results, tensors_of(result)):
        difference = tensor_differences.compare(values, recorded, tensor)
        if difference is None or not difference.relative <= _REPEAT_LIMIT:
            raise error("E0206", "sidecar_mismatch", f"the model does not compute the values in {values.place}",
                        "pass the model whose values were recorded, or record the values again")


def _arguments(model: Any, values: Values, run: Run) -> tuple[Any, Mapping[str, Any] | None]:
    """Returns args and kwargs with the recorded inputs."""
    inputs = {name: values.whole(each) for name, each in run.inputs.items()}
    if isinstance(model, torch.export.ExportedProgram):
        return (inputs,), None
    return (), inputs


def _suspects(measurement: Measurement, run: Run, min_difference: float) -> dict[CallKey, Suspect]:
    observed = {each.point.recorded.key: each for each in measurement.points if each.value is not None}
    inputs = {each.key for each in run.inputs.values()}
    suspects = {}
    for call in run.calls:
        results = [observed[each.key] for each in call.results if each.key in observed]
        if call.module and any(each.differs(min_difference) for each in results) and len(results) == len(call.results) \
                and all(each.key in observed or each.key in inputs for each in call.given):
            suspects[call.module, call.call] = Suspect(list(call.given), results)
    return suspects


def _split_into_rounds(suspects: Mapping[CallKey, Suspect], memory: int) -> Iterator[dict[CallKey, Suspect]]:
    """Splits the suspects into rounds whose values fit into ``memory``."""
    part: dict[CallKey, Suspect] = {}
    sizes_of_round: dict[str, int] = {}
    for key, suspect in suspects.items():
        sizes = {tensor.key: 8 * tensor.count
                 for tensor in (*suspect.arguments, *(result.point.recorded for result in suspect.results))}
        if part and sum((sizes_of_round | sizes).values()) > memory:
            yield part
            part, sizes_of_round = {}, {}
        part[key] = suspect
        sizes_of_round |= sizes
    if part:
        yield part


def _file_tensors(flow: Flow, values: Values, suspects: Mapping[CallKey, Suspect],
                  runtime: Runtime) -> dict[str, torch.Tensor]:
    """Returns the file's tensors by the keys of the recorded tensors, with the recorded sizes and order of axes."""
    measurement = flow.measurement
    observed = {each.point.recorded.key: each for each in measurement.points if each.value is not None}
    recorded_of: dict[str, list[Recorded]] = {}
    for suspect in suspects.values():
        for recorded in (*suspect.arguments, *(result.point.recorded for result in suspect.results)):
            if recorded.key in observed:
                recorded_of.setdefault(observed[recorded.key].value, []).append(recorded)
    file_tensors = {}
    for name, tensor in runtime.take(measurement.feed.tensors, list(recorded_of)):
        for recorded in recorded_of[name]:
            tensor = quantised_values.dequantised(flow.file, name, tensor)
            layout = observed[recorded.key].figures.layout
            file_tensors[recorded.key] = tensor_differences.as_recorded(values, recorded, tensor, layout)
    return file_tensors


class _IsolatedRunner(Recorder):
    """A recorder that runs suspects on the file's values instead of recording calls."""

    def __init__(self, model: Any, values: Values, suspects: Mapping[CallKey, Suspect],
                 file_tensors: Mapping[str, torch.Tensor], isolated_errors: IsolatedErrors) -> None:
        super().__init__()
        self._model = model
        self._values = values
        self._suspects = suspects
        self._file_tensors = file_tensors
        self._isolated_errors = isolated_errors

    @contextmanager
    def one_run(self, inputs: Mapping[str, torch.Tensor]) -> Iterator[_IsolatedCalls]:
        yield _IsolatedCalls(self._call)

    def _call(self, owner: Any, path: str, number: int, arguments: Any) -> None:
        suspect = self._suspects.get((path, number))
        if suspect is None:
            return
        try:
            results = self._run_alone(owner, path, number, arguments,
                                      self._replacements(tensors_of(arguments), suspect.arguments))
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as failure:
            self._isolated_errors.failed[path, number] = \
                str(failure).splitlines()[0] if str(failure) else type(failure).__name__
            return
        errors = [tensor_differences.relative(result, self._file_tensors[each.point.recorded.key])
                  for result, each in zip(results, suspect.results)]
        self._isolated_errors.relative[path, number] = max(errors, default=0.0)

    def _replacements(self, arguments: list[torch.Tensor], recorded: list[Recorded]) -> list[torch.Tensor | None]:
        """Returns the file's tensor for each argument. Matches arguments by equal tensors, because modules of a
        torch.export program take them in a different order from the recorded model."""
        remaining = list(recorded)
        file_tensors = []
        for tensor in arguments:
            match = next((each for each in remaining
                         if each.dims == tuple(tensor.shape) and self._equals(each, tensor)), None)
            if match is None:
                raise TypeError("its arguments differ from the recorded ones")
            remaining.remove(match)
            file_tensors.append(self._file_tensors.get(match.key))
        return file_tensors

    def _equals(self, recorded: Recorded, tensor: torch.Tensor) -> bool:
        difference = tensor_differences.compare(self._values, recorded, tensor, in_own_order=True)
        return difference is not None and difference.relative <= _REPEAT_LIMIT

    def _run_alone(self, owner: Any, path: str, number: int, arguments: Any,
                   tensors: list[torch.Tensor | None]) -> list[torch.Tensor]:
        if not isinstance(owner, torch.nn.Module):  # scripted modules report only their tensors
            return self._run_scripted(path, number, arguments, tensors)
        leaves, rebuild = trees.flatten(arguments)
        remaining = iter(_replaced(tensors_of(arguments), tensors))
        args, kwargs = rebuild(iter([next(remaining) if isinstance(leaf, torch.Tensor) else leaf
                                     for _, leaf in leaves]))
        with _buffers_restored(owner):
            return tensors_of(owner(*args, **kwargs))

    def _run_scripted(self, path: str, number: int, arguments: list[torch.Tensor],
                      tensors: list[torch.Tensor | None]) -> list[torch.Tensor]:
        module = functools.reduce(getattr, path.split("."), self._model)._c
        later_method = f"forward{number}"  # traces have a method for each later call
        method = module._get_method(later_method if number and module._has_method(later_method) else "forward")
        if [each.type.kind() for each in method.schema.arguments[1:]] != ["TensorType"] * len(arguments):
            raise TypeError("some of its arguments are not tensors")
        return tensors_of(method(*_replaced(arguments, tensors)))


@contextmanager
def _buffers_restored(module: torch.nn.Module) -> Iterator[None]:
    """Restores buffers and the random state afterwards, but not hooks: those of the enclosing run must stay."""
    saved = [(each, each.clone()) for each in module.buffers()]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            for buffer, content in saved:
                buffer.copy_(content)


def _replaced(arguments: list[torch.Tensor], tensors: list[torch.Tensor | None]) -> list[torch.Tensor]:
    """Replaces arguments with the file's tensors. Copies arguments without one, which are inputs of the model."""
    return [original.detach().clone() if replacement is None else replacement.to(original.dtype).reshape(original.shape)
            for original, replacement in zip(arguments, tensors, strict=True)]


class _IsolatedCalls:
    """Counts the model's calls, except calls inside a module that runs alone."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._counts: dict[str, int] = {}
        self._runs_isolated_module = False

    def enter(self, owner: Any, path: str, kind: type | str, arguments: Any, call: int | None = None) -> None:
        if self._runs_isolated_module:
            return
        number = self._counts[path] = self._counts.get(path, -1) + 1
        self._runs_isolated_module = True
        try:
            self._call(owner, path, number if call is None else call, arguments)
        finally:
            self._runs_isolated_module = False

    def leave(self, owner: Any, result: Any) -> None:
        """Does nothing: results are not recorded."""
