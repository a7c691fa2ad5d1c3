"""Records values while a model runs, with hooks on a live model's modules or operators in a scripted model's graphs."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..arguments import calls, trees
from ..base import library_warnings
from ..errors import WhenceError, WhenceWarning, error, require_list
from ..state.export_settings import without_fast_path
from ..state.model_state import state_restored
from . import dispatched_operations, scripted_models, value_file
from .module_globs import matcher, require_matches
from .sketch import PARTS, MAX_COMPLETE, sketch
from .value_file import ModuleCall, Operation, Recorded, Run, Values


@dataclass
class _RecordedTensors:
    """Tensors recorded in this run that still exist: an argument of a module is usually the result of another."""

    entries: dict[int, tuple[weakref.ref, int, Recorded]] = field(default_factory=dict)

    def find(self, tensor: torch.Tensor) -> Recorded | None:
        entry = self.entries.get(id(tensor))
        if entry is None or entry[0]() is not tensor or entry[1] != _version(tensor):
            return None
        return entry[2]

    def add(self, tensor: torch.Tensor, recorded: Recorded) -> None:
        self.entries[id(tensor)] = (weakref.ref(tensor), _version(tensor), recorded)


def _version(tensor: torch.Tensor) -> int:
    """Returns the number of writes to the tensor; 0 in inference mode, which does not count writes."""
    return 0 if tensor.is_inference() else tensor._version


class _Calls:
    """The open and the completed calls of a run."""

    def __init__(self, record: Callable[..., tuple[Recorded, ...]]) -> None:
        self._record = record             # records the tensors in a value; takes a key prefix and a module
        self._counts: dict[str, int] = {}
        self._open: list[_OpenCall] = []
        self._ended: list[tuple[_OpenCall, _OpenCall | None, tuple[Recorded, ...]]] = []

    def enter(self, owner: Any, path: str, kind: type | str, arguments: Any, call: int | None = None) -> None:
        """Opens a call. ``call`` is its number, or None to count."""
        number = self._counts[path] = self._counts.get(path, -1) + 1
        number = number if call is None else call
        self._open.append(_OpenCall(
            owner, path, kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}", number,
            self._record(f"{path}#{number}/given", path, arguments)))

    def returned(self, operator: str, result: Any, wrote: bool) -> None:
        """Records an operation of the innermost open call. ``wrote``: it wrote to an argument, so its result is
        recorded even if that tensor was recorded before."""
        if not self._open:
            return
        call = self._open[-1]
        results = self._record(f"{call.path}#{call.call}/operation.{len(call.operations)}", call.path, result,
                               always=wrote)
        if results:
            call.operations.append(Operation(operator, results))

    def leave(self, owner: Any, result: Any) -> None:
        while self._open and self._open[-1].owner != owner:
            self._open.pop()  # this call ended with an exception
        if not self._open:
            return
        call = self._open.pop()
        results = self._record(f"{call.path}#{call.call}/result", call.path, result)
        self._ended.append((call, self._open[-1] if self._open else None, results))

    def ended_in_order(self, with_operations: bool) -> list[ModuleCall]:
        positions = {id(call): at for at, (call, _, _) in enumerate(self._ended)}
        return [ModuleCall(call.path, call.kind, call.call, positions.get(id(parent)), call.arguments, results,
                           tuple(call.operations) if with_operations else None)
                for call, parent, results in self._ended]


@dataclass(frozen=True)
class _OpenCall:
    owner: Any  # identifies the call when it ends: its module, or its depth
    path: str
    kind: str
    call: int
    arguments: tuple[Recorded, ...]
    operations: list[Operation] = field(default_factory=list)


class Recorder:
    """Collects the values of successive runs."""

    def __init__(self, full: Collection[str] = (), operations: bool = False) -> None:
        self.runs: list[Run] = []
        self.tensors: dict[str, torch.Tensor] = {}
        self._is_full = matcher(full)
        self._with_operations = operations
        self._is_recording = False  # true while the recorder itself runs operations

    @contextmanager
    def run(self, modules: Mapping[torch.nn.Module, tuple[str, int | None]],
            inputs: Mapping[str, torch.Tensor]) -> Iterator[None]:
        """Records calls of ``modules`` inside the block. ``modules`` has the qualified name of each module and, if its
        object exists only for one call, the number of the call."""
        with self.one_run(inputs) as calls:
            def enter(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                path, call = modules[module]
                calls.enter(module, path, type(module), (args, kwargs), call)

            def leave(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
                calls.leave(module, result)

            handles = []
            try:
                for module in modules:
                    handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
                    handles.append(module.register_forward_hook(leave, with_kwargs=True))
                yield
            finally:
                for handle in handles:
                    handle.remove()

    @contextmanager
    def run_scripted(self, types: Mapping[str, str], inputs: Mapping[str, torch.Tensor]) -> Iterator[_Calls]:
        """Like ``run``, for a module from ``scripted_models.with_listeners``. ``types`` are classes by qualified name.
        The block itself reports calls of the root module."""
        with self.one_run(inputs) as calls:
            path: list[str] = []

            def enter(name: str, arguments: list[torch.Tensor]) -> None:
                path.append(f"{path[-1]}.{name}" if path and path[-1] else name)
                calls.enter(len(path), path[-1], types.get(path[-1], ""), arguments)

            def leave(results: list[torch.Tensor]) -> None:
                calls.leave(len(path), results)
                path.pop()

            with scripted_models.active_listener(scripted_models.Listener(enter, leave)):
                yield calls

    @contextmanager
    def one_run(self, inputs: Mapping[str, torch.Tensor]) -> Iterator[_Calls]:
        """Yields the calls of one run. Stores the run if the block ends without an exception."""
        number = len(self.runs)
        cache = _RecordedTensors()
        with self._recording_paused():
            run = Run({name: self._record_tensor(f"{number}/input/{name}", tensor, True, cache)
                       for name, tensor in inputs.items()})
        calls = _Calls(lambda prefix, path, value, always=False:
                       self._record_all(f"{number}/{prefix}", path, value, cache, always))
        try:
            with self._operations_observed(calls):
                yield calls
        except BaseException:
            self.tensors = {key: each for key, each in self.tensors.items() if not key.startswith(f"{number}/")}
            raise
        run.calls = calls.ended_in_order(self._with_operations)
        self.runs.append(run)

    @contextmanager
    def _operations_observed(self, calls: _Calls) -> Iterator[None]:
        """Records operations inside the block if requested."""
        def observe(operator: str, result: Any, wrote: bool) -> None:
            if not self._is_recording:
                calls.returned(operator, result, wrote)

        with dispatched_operations.observe(observe) if self._with_operations else nullcontext():
            yield

    def _record_all(self, prefix: str, path: str, value: Any, cache: _RecordedTensors,
                    always: bool) -> tuple[Recorded, ...]:
        whole, is_tracing = self._is_full(path), torch._C._get_tracing_state() is not None
        with self._recording_paused():
            return tuple(self._record_tensor(f"{prefix}.{index}", tensor, whole, cache, always)
                         for index, tensor in enumerate(
                             leaf for leaf in tensors_of(value) if not (is_tracing and _is_size(leaf)))
                         if tensor.layout is torch.strided and not tensor.is_quantized)

    @contextmanager
    def _recording_paused(self) -> Iterator[None]:
        """Excludes operations inside the block from the recording and from the current trace."""
        self._is_recording = True
        try:
            with trace_paused():
                yield
        finally:
            self._is_recording = False

    def _record_tensor(self, key: str, tensor: torch.Tensor, whole: bool, cache: _RecordedTensors,
             always: bool = False) -> Recorded:
        earlier = None if always else cache.find(tensor)
        if earlier is not None and (earlier.form == "whole" or not whole):
            return earlier
        form = "whole" if whole or tensor.numel() <= MAX_COMPLETE else "sketch"
        recorded = Recorded(key, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), form)
        if form == "whole":
            self.tensors[key] = tensor.detach().cpu().resolve_conj().resolve_neg().clone(
                memory_format=torch.contiguous_format)
        else:
            parts = sketch(tensor)
            self.tensors |= {f"{key}:{name}": part for name, part in
                             zip(PARTS, (parts.moments, parts.samples, parts.projection))}
        cache.add(tensor, recorded)
        return recorded

    def values(self) -> Values:
        return value_file.in_memory(self.runs, self.tensors)


def _is_size(tensor: torch.Tensor) -> bool:
    """Returns true for scalars that may be sizes, which are tensors instead of Python numbers during a trace."""
    return tensor.dim() == 0 and tensor.dtype is torch.int64


@contextmanager
def trace_paused() -> Iterator[None]:
    """Excludes operations inside the block from the current trace."""
    state = torch._C._get_tracing_state()
    if state is None:
        yield
        return
    torch._C._set_tracing_state(None)
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Returns the tensors in a value at any depth, in recording order."""
    return [leaf for _, leaf in trees.flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def modules_of(model: torch.nn.Module) -> dict[torch.nn.Module, tuple[str, int | None]]:
    return {module: (path, None) for path, module in model.named_modules()}


def record_values(model: Any, args: Any = (), path: str | os.PathLike[str] | None = None, *,
                  kwargs: Mapping[str, Any] | None = None, more: Sequence[Any] = (),
                  full: Collection[str] = (), operations: bool = False) -> Values:
    """Runs ``model`` and records the arguments and results of all module calls.

    model   a torch.nn.Module, scripted or not, or a torch.export.ExportedProgram, which runs on its example inputs
            without ``args``. For archives, use torch.jit.load(path) or torch.export.load(path).
    args, kwargs  arguments of forward. ``more`` contains the args of further runs, whose sizes may differ.
    path    a safetensors file such as ``model.values.safetensors``, replaced atomically. None: in memory.
    full    globs of modules whose tensors are recorded completely: ["encoder.layer.3.**"]. Other tensors of more than
            2,048 elements are stored as a 6 KB sketch: moments, samples and a projection (docs/values.md).
    operations  also record the results of each ATen operator, so that ``whence.accuracy`` names the operation at which
            a difference begins.

    The model runs in eval mode; its state is restored afterwards. Raises WhenceError: E0104 if the arguments do not
    fit, E0207 if the model does not run, E0307 without safetensors, E0401.
    """
    require_list(full)
    if path is not None:
        value_file.require_place(path)
    if not isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        raise error("E0101", "usage", f"a {type(model).__name__} is not a model", "pass a module, or the result of "
                    "torch.jit.load or torch.export.load")
    recorder = Recorder(full, operations)
    for number, run_args in enumerate([args, *more]):
        with library_warnings.hidden():
            run_recorded(recorder, model, run_args, kwargs if number == 0 else None)
    require_matches(full, {each.module for run in recorder.runs for each in run.calls})
    if path is None:
        return recorder.values()
    value_file.write(path, recorder.runs, recorder.tensors)
    return value_file.read(path)


def run_recorded(recorder: Recorder, model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> Any:
    """Runs ``model`` once, records its values and returns its result."""
    try:
        if isinstance(model, torch.export.ExportedProgram):
            return _run_exported(recorder, model, args, kwargs)
        if isinstance(model, torch.jit.ScriptModule):
            return _run_scripted(recorder, model, args, kwargs)
        with torch.no_grad(), without_fast_path(), _in_eval(model), _restored(model, args, kwargs) as call:
            inputs = dict(zip(call.tensors, call.copies()))  # the recorder identifies inputs by these tensors
            with recorder.run(modules_of(model), inputs):
                return model(*inputs.values())
    except WhenceError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError) as failure:
        raise error("E0207", "run_failed", f"PyTorch cannot run the model on these inputs: {failure}",
                    "pass inputs that the model accepts") from failure


@contextmanager
def _restored(model: torch.nn.Module, args: Any, kwargs: Mapping[str, Any] | None) -> Iterator[calls.Call]:
    """Restores the model's state but not its parameters, because copying them costs as much as the run. Warns if
    forward wrote to a parameter."""
    before = {name: each._version for name, each in model.named_parameters() if not each.is_inference()}
    with calls.tensors_only(model, args, kwargs, parameters=False) as call:
        yield call
    after = dict(model.named_parameters())
    if changed := [name for name, version in before.items() if name in after and after[name]._version != version]:
        warnings.warn(f"forward wrote to the parameter '{changed[0]}', which is not restored", WhenceWarning,
                      stacklevel=4)


@contextmanager
def _in_eval(model: torch.nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _run_scripted(recorder: Recorder, model: torch.jit.ScriptModule, args: Any, kwargs: Mapping[str, Any] | None) -> Any:
    call = calls.opened(calls.signature_of(model), args, kwargs)
    arguments = trees.copied(call.arguments)
    tensors = dict(zip(call.tensors, trees.tensors_in(arguments)))
    types = {path: scripted_models.class_of(each) for path, each in model.named_modules()}
    reporting = scripted_models.with_listeners(model).eval()
    with torch.no_grad(), recorder.run_scripted(types, tensors) as run:
        run.enter(0, "", types.get("", ""), arguments)
        result = reporting(**arguments)
        run.leave(0, result)
    return result


def _run_exported(recorder: Recorder, program: torch.export.ExportedProgram, args: Any,
                  kwargs: Mapping[str, Any] | None) -> Any:
    """Rebuilds the program's modules and runs them. A rebuilt module returns, in order, the values that other modules
    read."""
    names = [spec.arg.name for spec in program.graph_signature.input_specs
             if spec.kind is torch.export.graph_signature.InputKind.USER_INPUT]
    positional, keywords = trees.copied(_arguments_of(program, names, args, kwargs))
    if pytree.tree_structure((positional, keywords)) != program.call_spec.in_spec:
        raise error("E0104", "input_mismatch", "the inputs do not fit the program",
                    f"pass arguments as in its export, or all inputs by name: {', '.join(names)}")
    module = torch.export.unflatten(program)
    modules = {}
    for path, submodule in module.named_modules():
        name, _, call = path.partition("@")  # "layer@1": the second call of "layer"
        if "." not in call:
            modules[submodule] = (name, int(call) if call.isdigit() else None)
    tensors = trees.tensors_in((positional, keywords))
    with torch.no_grad(), state_restored([program.state_dict, program.constants]), \
            recorder.run(modules, dict(zip(names, tensors))):
        return module(*positional, **keywords)


def _arguments_of(program: torch.export.ExportedProgram, names: list[str], args: Any,
                  kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns args and kwargs as the program expects them. A single dict may contain all inputs by name."""
    args, kwargs = trees.with_tensors((args, kwargs))
    positional = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if not positional and kwargs is None:
        if program.example_inputs is None:
            raise error("E0104", "input_mismatch", "the program has no example inputs", "pass args")
        return program.example_inputs
    if len(positional) == 1 and isinstance(positional[0], dict) and not kwargs and set(positional[0]) == set(names):
        return pytree.tree_unflatten([positional[0][name] for name in names], program.call_spec.in_spec)
    return positional, dict(kwargs or {})
