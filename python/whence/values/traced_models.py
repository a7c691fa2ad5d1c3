"""Records values of models that PyTorch traces in this process: of the traced call and of later calls.

``torch.jit.trace`` and ``torch.onnx.export(dynamo=False)`` trace the model on real tensors. The operations of the
recording itself must not be traced.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch

from ..arguments import calls
from ..arguments.hidden_frames import leave_out_of_stacks
from ..capture.exported_programs import Captured
from ..errors import Diagnostic, WhenceError, error
from .module_globs import require_matches
from .value_file import Run, content
from .value_recorder import Recorder, modules_of, run_recorded, trace_paused

Leave = Callable[[Any], None]  # takes the module's result


@contextmanager
def watching(full: Collection[str]) -> Iterator[list[Recorder]]:
    """Yields the recorders of the models traced inside the block, one for each model.

    Replaces ``_call_impl``, which all module calls use. Hooks on a module would make PyTorch choose other code paths,
    and global module hooks receive no keyword arguments.
    """
    watch = _Watch(full)
    original = torch.nn.Module._call_impl

    @functools.wraps(original)
    def watched(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():  # torch.export traces this code, too, on fake tensors
            return original(module, *args, **kwargs)
        with watch.called(module, args, kwargs) as leave:
            result = original(module, *args, **kwargs)
            leave(result)
        return result

    leave_out_of_stacks(watched)
    torch.nn.Module._call_impl = watched
    try:
        yield watch.recorders
    finally:
        torch.nn.Module._call_impl = original


class _Watch:
    """Watches module calls in the thread that created it."""

    def __init__(self, full: Collection[str]) -> None:
        self.recorders: list[Recorder] = []
        self._full = full
        self._thread = threading.get_ident()
        self._by_model: dict[torch.nn.Module, Recorder] = {}
        self._run: tuple[Any, dict[str, Any]] | None = None  # calls and module paths of the current run

    @contextmanager
    def called(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Leave]:
        """Yields a function that takes the module's result. The block runs the module."""
        if threading.get_ident() != self._thread:
            yield _ignore_result
        elif self._run is not None:
            with self._inner(module, args, kwargs) as leave:
                yield leave
        elif not self._is_model(module):
            yield _ignore_result
        else:
            with self._outermost(module, args, kwargs) as leave:
                yield leave

    def _is_model(self, module: torch.nn.Module) -> bool:
        """Returns true if the module is or was traced. torch.jit's own modules do not count: wrappers and traces."""
        is_tracing = torch._C._get_tracing_state() is not None
        return (is_tracing or module in self._by_model) and not type(module).__module__.startswith("torch.jit.")

    @contextmanager
    def _inner(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Leave]:
        run, modules = self._run
        if module not in modules:
            yield _ignore_result
            return
        run.enter(module, modules[module][0], type(module), (args, kwargs))
        yield functools.partial(run.leave, module)

    @contextmanager
    def _outermost(self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Leave]:
        inputs = calls.bound_to(inspect.signature(model.forward), args, kwargs).tensors
        is_new = self._is_new(model, inputs)
        with self._recorder(model).one_run(inputs) if is_new else nullcontext() as run:
            self._run = run, modules_of(model) if is_new else {}
            try:
                with self._inner(model, args, kwargs) as leave:
                    yield leave
            finally:
                self._run = None

    def _is_new(self, model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> bool:
        """Returns true if the inputs have data and differ from all earlier runs' inputs: torch.jit.trace runs the model
        again to check the trace."""
        if any(tensor.is_meta or isinstance(tensor, torch._subclasses.FakeTensor) for tensor in inputs.values()):
            return False
        recorder = self._by_model.get(model)
        return recorder is None or not any(_has_inputs(recorder, run, inputs) for run in recorder.runs)

    def _recorder(self, model: torch.nn.Module) -> Recorder:
        if model not in self._by_model:
            require_matches(self._full, [path for path, _ in modules_of(model).values()])
            self._by_model[model] = Recorder(self._full)
            self.recorders.append(self._by_model[model])
        return self._by_model[model]


def _has_inputs(recorder: Recorder, run: Run, inputs: Mapping[str, torch.Tensor]) -> bool:
    with trace_paused():
        return run.inputs.keys() == inputs.keys() and all(
            recorded.dims == tuple(inputs[name].shape)
            and recorded.dtype == str(inputs[name].dtype).removeprefix("torch.")
            and torch.equal(content(recorder.tensors[recorded.key]), content(inputs[name].detach().cpu()))
            for name, recorded in run.inputs.items())


def _ignore_result(result: Any) -> None:
    """Ignores the result, because the call is not recorded."""


def recorded(recorders: Collection[Recorder], programs: Collection[Captured],
             full: Collection[str]) -> tuple[list[Recorder], list[Diagnostic]]:
    """Runs each program on its example inputs. Returns the recorders of all models and programs that ran, and a warning
    for each program that failed.

    Raises WhenceError: E0101 for a glob that matches no module of a program, E0106 if there is nothing to record.
    """
    used, warnings = [recorder for recorder in recorders if recorder.runs], []
    for program in programs:
        recorder = Recorder(full)
        try:
            run_recorded(recorder, program.as_made or program.program, (), None)
        except Exception as failure:  # rebuilding modules can raise any exception
            converted = failure if isinstance(failure, WhenceError) else error(
                "E0207", "run_failed", f"it does not run on its example inputs: {failure}", "use whence.record_values")
            warnings += [replace(diagnostic, severity="warning",
                                 message=f"no values were recorded for {program}: {diagnostic.message}")
                         for diagnostic in converted.diagnostics]
            continue
        require_matches(full, {call.module for call in recorder.runs[0].calls})
        used.append(recorder)
    if not used and not warnings:
        raise error("E0106", "recording_state", "no module was called during a trace, so no values were recorded",
                    "trace a module, not a function, or do not request values")
    return used, warnings
