"""Records values of models that PyTorch traces in this process: of the traced call, and of later calls.

``torch.jit.trace`` and ``torch.onnx.export(dynamo=False)`` run the model on real tensors during the trace. The
recording's own operations must not get into the trace.
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
from .value_recorder import Recorder, modules_of, run_recorded, untraced

Leave = Callable[[Any], None]  # takes the module's result


@contextmanager
def watching(full: Collection[str]) -> Iterator[list[Recorder]]:
    """Yields the recorders of the models that are traced inside the block, one for each model.

    All module calls go through ``_call_impl``. Hooks on a module would change which fast paths PyTorch uses, and global
    module hooks receive no keyword arguments.
    """
    watch = _Watch(full)
    original = torch.nn.Module._call_impl

    @functools.wraps(original)
    def watched(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():  # torch.export traces this code too, with tensors that have no data
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
    """Follows module calls in the thread that created it."""

    def __init__(self, full: Collection[str]) -> None:
        self.recorders: list[Recorder] = []
        self._full = full
        self._thread = threading.get_ident()
        self._by_model: dict[torch.nn.Module, Recorder] = {}
        self._run: tuple[Any, dict[str, Any]] | None = None  # the current run: its calls, and the paths of its modules

    @contextmanager
    def called(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Leave]:
        """Yields a function that takes the module's result; the block runs the module."""
        if threading.get_ident() != self._thread:
            yield _ignored
        elif self._run is not None:
            with self._inner(module, args, kwargs) as leave:
                yield leave
        elif not self._is_model(module):
            yield _ignored
        else:
            with self._outermost(module, args, kwargs) as leave:
                yield leave

    def _is_model(self, module: torch.nn.Module) -> bool:
        """Returns true if the module is being traced, or was. Modules of torch.jit wrap the model, or are the trace."""
        is_tracing = torch._C._get_tracing_state() is not None
        return (is_tracing or module in self._by_model) and not type(module).__module__.startswith("torch.jit.")

    @contextmanager
    def _inner(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Leave]:
        run, modules = self._run
        if module not in modules:
            yield _ignored
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
        """Returns true if the inputs are real and differ from those of earlier runs: torch.jit.trace runs a model again
        to check the trace."""
        if any(each.is_meta or isinstance(each, torch._subclasses.FakeTensor) for each in inputs.values()):
            return False
        recorder = self._by_model.get(model)
        return recorder is None or not any(_is_same(recorder, run, inputs) for run in recorder.runs)

    def _recorder(self, model: torch.nn.Module) -> Recorder:
        if model not in self._by_model:
            require_matches(self._full, [path for path, _ in modules_of(model).values()])
            self._by_model[model] = Recorder(self._full)
            self.recorders.append(self._by_model[model])
        return self._by_model[model]


def _is_same(recorder: Recorder, run: Run, inputs: Mapping[str, torch.Tensor]) -> bool:
    with untraced():
        return run.inputs.keys() == inputs.keys() and all(
            each.dims == tuple(inputs[name].shape) and each.dtype == str(inputs[name].dtype).removeprefix("torch.")
            and torch.equal(content(recorder.tensors[each.key]), content(inputs[name].detach().cpu()))
            for name, each in run.inputs.items())


def _ignored(result: Any) -> None:
    """Ignores the result of a call that is not recorded."""


def recorded(recorders: Collection[Recorder], programs: Collection[Captured],
             full: Collection[str]) -> tuple[list[Recorder], list[Diagnostic]]:
    """Returns one recorder for each model that ran and for each program, which is run on its own example, and warnings
    of programs that do not run.

    Raises WhenceError: E0101 for a glob that matches no module of a program, E0106 if there is nothing to record.
    """
    kept, warnings = [each for each in recorders if each.runs], []
    for program in programs:
        recorder = Recorder(full)
        try:
            run_recorded(recorder, program.as_made or program.program, (), None)
        except Exception as failure:  # PyTorch raises exceptions of any class while it rebuilds modules
            converted = failure if isinstance(failure, WhenceError) else error(
                "E0207", "run_failed", f"it does not run on its example: {failure}", "use whence.record_values")
            warnings += [replace(each, severity="warning", message=f"there are no values of {program}: {each.message}")
                       for each in converted.diagnostics]
            continue
        require_matches(full, {each.module for each in recorder.runs[0].calls})
        kept.append(recorder)
    if not kept and not warnings:
        raise error("E0106", "recording_state", "no module was called during a trace, so there are no values",
                    "trace a module, not a function, or leave out values")
    return kept, warnings
