"""Records values while a model runs: by hooks on the modules of a live one, by operators in the graphs of a scripted one."""

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
from .sketch import PARTS, WHOLE, sketch
from .value_file import ModuleCall, Operation, Recorded, Run, Values


@dataclass
class _Known:
    """Tensors that were recorded and still live: what a module is given is mostly what another one returned."""

    entries: dict[int, tuple[weakref.ref, int, Recorded]] = field(default_factory=dict)

    def find(self, tensor: torch.Tensor) -> Recorded | None:
        entry = self.entries.get(id(tensor))
        if entry is None or entry[0]() is not tensor or entry[1] != _version(tensor):
            return None
        return entry[2]

    def add(self, tensor: torch.Tensor, recorded: Recorded) -> None:
        self.entries[id(tensor)] = (weakref.ref(tensor), _version(tensor), recorded)


def _version(tensor: torch.Tensor) -> int:
    """The number of writes to the tensor; one of inference mode does not say."""
    return 0 if tensor.is_inference() else tensor._version


class _Calls:
    """The calls of a run, those that are open and those that ended."""

    def __init__(self, record: Callable[..., tuple[Recorded, ...]]) -> None:
        self._record = record             # the tensors of a value under keys with this beginning, for a module
        self._counts: dict[str, int] = {}
        self._open: list[_Open] = []
        self._ended: list[tuple[_Open, _Open | None, tuple[Recorded, ...]]] = []

    def enter(self, owner: Any, path: str, kind: type | str, given: Any, call: int | None = None) -> None:
        """``call``: its number, where that is known."""
        number = self._counts[path] = self._counts.get(path, -1) + 1
        number = number if call is None else call
        self._open.append(_Open(owner, path, kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}",
                                number, self._record(f"{path}#{number}/given", path, given)))

    def returned(self, operator: str, result: Any, wrote: bool) -> None:
        """An operation of the innermost open call returned ``result``. ``wrote``: to a tensor that may be known with what
        was in it before."""
        if not self._open:
            return
        call = self._open[-1]
        results = self._record(f"{call.path}#{call.call}/operation.{len(call.operations)}", call.path, result, anew=wrote)
        if results:
            call.operations.append(Operation(operator, results))

    def leave(self, owner: Any, result: Any) -> None:
        while self._open and self._open[-1].owner != owner:
            self._open.pop()  # that call ended with an exception
        if not self._open:
            return
        opened = self._open.pop()
        results = self._record(f"{opened.path}#{opened.call}/result", opened.path, result)
        self._ended.append((opened, self._open[-1] if self._open else None, results))

    def ended_in_order(self, with_operations: bool) -> list[ModuleCall]:
        places = {id(opened): at for at, (opened, _, _) in enumerate(self._ended)}
        return [ModuleCall(opened.path, opened.kind, opened.call, places.get(id(around)), opened.given, results,
                           tuple(opened.operations) if with_operations else None)
                for opened, around, results in self._ended]


@dataclass(frozen=True)
class _Open:
    owner: Any  # distinguishes the call when it ends: its module, or its depth
    path: str
    kind: str
    call: int
    given: tuple[Recorded, ...]
    operations: list[Operation] = field(default_factory=list)


class Recorder:
    """Collects the values of runs, one after the other."""

    def __init__(self, full: Collection[str] = (), operations: bool = False) -> None:
        self.runs: list[Run] = []
        self.tensors: dict[str, torch.Tensor] = {}
        self._is_full = matcher(full)
        self._with_operations = operations
        self._is_recording = False  # operations that run meanwhile are not the model's

    @contextmanager
    def run(self, modules: Mapping[torch.nn.Module, tuple[str, int | None]],
            inputs: Mapping[str, torch.Tensor]) -> Iterator[None]:
        """Records the calls of ``modules`` inside the block. A number beside a qualified name is the call's, where one
        object stands for that call alone."""
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
        """The same for a module of ``scripted_models.telling``; ``types``: classes by qualified name. The block enters and leaves
        the module itself."""
        with self.one_run(inputs) as calls:
            way: list[str] = []

            def enter(name: str, given: list[torch.Tensor]) -> None:
                way.append(f"{way[-1]}.{name}" if way and way[-1] else name)
                calls.enter(len(way), way[-1], types.get(way[-1], ""), given)

            def leave(results: list[torch.Tensor]) -> None:
                calls.leave(len(way), results)
                way.pop()

            with scripted_models.listening(scripted_models.Listener(enter, leave)):
                yield calls

    @contextmanager
    def one_run(self, inputs: Mapping[str, torch.Tensor]) -> Iterator[_Calls]:
        """Yields the listener for the calls of one run, which counts when the block ends."""
        number = len(self.runs)
        known = _Known()
        with self._apart():
            run = Run({name: self._add(f"{number}/input/{name}", tensor, True, known) for name, tensor in inputs.items()})
        calls = _Calls(lambda prefix, path, value, anew=False: self._all(f"{number}/{prefix}", path, value, known, anew))
        try:
            with self._operations_of(calls):
                yield calls
        except BaseException:
            self.tensors = {key: each for key, each in self.tensors.items() if not key.startswith(f"{number}/")}
            raise
        run.calls = calls.ended_in_order(self._with_operations)
        self.runs.append(run)

    @contextmanager
    def _operations_of(self, calls: _Calls) -> Iterator[None]:
        """Inside the block operations are recorded, if they are to be."""
        def returned(operator: str, result: Any, wrote: bool) -> None:
            if not self._is_recording:
                calls.returned(operator, result, wrote)

        with dispatched_operations.seen(returned) if self._with_operations else nullcontext():
            yield

    def _all(self, prefix: str, path: str, value: Any, known: _Known, anew: bool) -> tuple[Recorded, ...]:
        whole, is_tracing = self._is_full(path), torch._C._get_tracing_state() is not None
        with self._apart():
            return tuple(self._add(f"{prefix}.{at}", tensor, whole, known, anew)
                         for at, tensor in enumerate(each for each in tensors_of(value) if not (is_tracing and _is_size(each)))
                         if tensor.layout is torch.strided and not tensor.is_quantized)

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Keeps operations inside the block out of the recording, and out of a trace that is under way."""
        self._is_recording = True
        try:
            with untraced():
                yield
        finally:
            self._is_recording = False

    def _add(self, key: str, tensor: torch.Tensor, whole: bool, known: _Known, anew: bool = False) -> Recorded:
        found = None if anew else known.find(tensor)
        if found is not None and (found.form == "whole" or not whole):
            return found
        form = "whole" if whole or tensor.numel() <= WHOLE else "sketch"
        recorded = Recorded(key, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), form)
        if form == "whole":
            self.tensors[key] = tensor.detach().cpu().resolve_conj().resolve_neg().clone(
                memory_format=torch.contiguous_format)
        else:
            made = sketch(tensor)
            self.tensors |= {f"{key}:{part}": each for part, each in
                             zip(PARTS, (made.moments, made.samples, made.projection))}
        known.add(tensor, recorded)
        return recorded

    def values(self) -> Values:
        return value_file.in_memory(self.runs, self.tensors)


def _is_size(tensor: torch.Tensor) -> bool:
    """While a trace runs, sizes that are numbers of Python otherwise are such tensors."""
    return tensor.dim() == 0 and tensor.dtype is torch.int64


@contextmanager
def untraced() -> Iterator[None]:
    """Keeps operations inside the block out of a trace that is under way."""
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
    """The tensors in a value, however deep, in the order in which they are recorded."""
    return [leaf for _, leaf in trees.flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def modules_of(model: torch.nn.Module) -> dict[torch.nn.Module, tuple[str, int | None]]:
    return {module: (path, None) for path, module in model.named_modules()}


def record_values(model: Any, args: Any = (), path: str | os.PathLike[str] | None = None, *,
                  kwargs: Mapping[str, Any] | None = None, more: Sequence[Any] = (),
                  full: Collection[str] = (), operations: bool = False) -> Values:
    """Runs ``model`` and records what each call of each of its modules was given and returned.

    model   a torch.nn.Module, scripted or not, or a torch.export.ExportedProgram, whose own example is taken without
            ``args``. Archives: torch.jit.load(path), torch.export.load(path).
    args, kwargs  as forward takes them. ``more``: the args of further runs, which may have other sizes.
    path    a safetensors file that is written, or replaced as a whole: ``model.values.safetensors``. None: in memory.
    full    globs of modules whose tensors are kept whole: ["encoder.layer.3.**"]. Of others, those of more than 2,048
            elements are kept as a sketch of some 6 KB: moments, samples and a projection (docs/values.md).
    operations  also record what each ATen operator returned, by the innermost call around it: ``whence.accuracy`` then
            names the operation at which a difference begins.

    The model is in eval mode while it runs, and afterwards as before. Raises WhenceError: E0104 for arguments that do
    not fit, E0207 when the model does not run, E0307 without safetensors, E0401.
    """
    require_list(full)
    if path is not None:
        value_file.require_place(path)
    if not isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        raise error("E0101", "usage", f"a {type(model).__name__} is not a model", "give a module, or what torch.jit.load or "
                    "torch.export.load returns")
    recorder = Recorder(full, operations)
    for at, given in enumerate([args, *more]):
        with library_warnings.hidden():
            run_recorded(recorder, model, given, kwargs if at == 0 else None)
    require_matches(full, {each.module for run in recorder.runs for each in run.calls})
    if path is None:
        return recorder.values()
    value_file.write(path, recorder.runs, recorder.tensors)
    return value_file.read(path)


def run_recorded(recorder: Recorder, model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> Any:
    """One run of ``model``; returns what it returned."""
    try:
        if isinstance(model, torch.export.ExportedProgram):
            return _run_exported(recorder, model, args, kwargs)
        if isinstance(model, torch.jit.ScriptModule):
            return _run_scripted(recorder, model, args, kwargs)
        with torch.no_grad(), without_fast_path(), _in_eval(model), _restored(model, args, kwargs) as call:
            given = dict(zip(call.tensors, call.copies()))  # these very tensors are known as inputs
            with recorder.run(modules_of(model), given):
                return model(*given.values())
    except WhenceError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError) as failure:
        raise error("E0207", "run_failed", f"PyTorch cannot run the model on these inputs: {failure}",
                    "give inputs that the model accepts") from failure


@contextmanager
def _restored(model: torch.nn.Module, args: Any, kwargs: Mapping[str, Any] | None) -> Iterator[calls.Call]:
    """Without a copy of the parameters, which costs as much as the run. One that forward writes to is left changed, with
    a warning."""
    before = {name: each._version for name, each in model.named_parameters() if not each.is_inference()}
    with calls.tensors_only(model, args, kwargs, parameters=False) as call:
        yield call
    after = dict(model.named_parameters())
    if written := [name for name, version in before.items() if name in after and after[name]._version != version]:
        warnings.warn(f"forward wrote to the parameter '{written[0]}', which keeps what was written", WhenceWarning,
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
    given = trees.copied(call.arguments)
    tensors = dict(zip(call.tensors, trees.tensors_in(given)))
    types = {path: scripted_models.class_of(each) for path, each in model.named_modules()}
    telling = scripted_models.telling(model).eval()
    with torch.no_grad(), recorder.run_scripted(types, tensors) as run:
        run.enter(0, "", types.get("", ""), given)
        result = telling(**given)
        run.leave(0, result)
    return result


def _run_exported(recorder: Recorder, program: torch.export.ExportedProgram, args: Any,
                  kwargs: Mapping[str, Any] | None) -> Any:
    """Modules of the program are rebuilt; what one returns are the values that others read, in order."""
    names = [spec.arg.name for spec in program.graph_signature.input_specs
             if spec.kind is torch.export.graph_signature.InputKind.USER_INPUT]
    positional, keywords = trees.copied(_arguments_of(program, names, args, kwargs))
    if pytree.tree_structure((positional, keywords)) != program.call_spec.in_spec:
        raise error("E0104", "input_mismatch", "the inputs are not what the program takes",
                    f"give the arguments that it was exported with, or all of its inputs by name: {', '.join(names)}")
    module = torch.export.unflatten(program)
    modules = {}
    for path, each in module.named_modules():
        plain, _, call = path.partition("@")  # "layer@1": the second call of "layer"
        if "." not in call:
            modules[each] = (plain, int(call) if call.isdigit() else None)
    tensors = trees.tensors_in((positional, keywords))
    with torch.no_grad(), state_restored([program.state_dict, program.constants]), \
            recorder.run(modules, dict(zip(names, tensors))):
        return module(*positional, **keywords)


def _arguments_of(program: torch.export.ExportedProgram, names: list[str], args: Any,
                  kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """args and kwargs as the program was exported with; a dict alone has all of them by their names in the program."""
    args, kwargs = trees.with_tensors((args, kwargs))
    positional = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if not positional and kwargs is None:
        if program.example_inputs is None:
            raise error("E0104", "input_mismatch", "the program has no example inputs", "give args")
        return program.example_inputs
    if len(positional) == 1 and isinstance(positional[0], dict) and not kwargs and set(positional[0]) == set(names):
        return pytree.tree_unflatten([positional[0][name] for name in names], program.call_spec.in_spec)
    return positional, dict(kwargs or {})
