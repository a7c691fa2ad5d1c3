"""Records values: hooks on the modules of a live model while it runs."""

from __future__ import annotations

import os
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import calls, nested
from ..errors import WhenceError, error
from ..keeping import state_restored
from ..surroundings import without_fast_path
from . import container
from .container import ModuleCall, Recorded, Run, Values
from .globs import matcher
from .sketch import PARTS, WHOLE, sketch


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


class Recorder:
    """Collects the values of runs, one after the other."""

    def __init__(self, full: Collection[str] = (), everything_whole: bool = False) -> None:
        self.runs: list[Run] = []
        self.tensors: dict[str, torch.Tensor] = {}
        self._is_full = (lambda path: True) if everything_whole else matcher(full)

    @contextmanager
    def run(self, modules: Mapping[torch.nn.Module, tuple[str, int | None]],
            inputs: Mapping[str, torch.Tensor]) -> Iterator[None]:
        """Records the calls of ``modules`` inside the block. A number beside a qualified name is the call's, where one
        object stands for that call alone."""
        number = len(self.runs)
        known = _Known()
        recorded = Run({name: self._add(f"{number}/input/{name}", tensor, True, known)
                        for name, tensor in inputs.items()})
        counts: dict[str, int] = {}
        open_calls: list[list] = []   # [module, call, given, calls within]
        ended: list[list] = []        # [module object, path, call, given, results, the open call around it]

        def enter(module: torch.nn.Module, args: tuple, kwargs: dict) -> None:
            path, stated = modules[module]
            call = counts[path] = counts.get(path, -1) + 1
            call = call if stated is None else stated
            given = self._all(f"{number}/{path}#{call}/given", path, (args, kwargs), known)
            open_calls.append([module, path, call, given])

        def leave(module: torch.nn.Module, args: tuple, kwargs: dict, result: Any) -> None:
            while open_calls and open_calls[-1][0] is not module:
                open_calls.pop()  # that call ended with an exception
            if not open_calls:
                return
            _, path, call, given = opened = open_calls.pop()
            results = self._all(f"{number}/{path}#{call}/result", path, result, known)
            ended.append([opened, open_calls[-1] if open_calls else None, type(module), path, call, given, results])

        handles = []
        try:
            for module in modules:
                handles.append(module.register_forward_pre_hook(enter, with_kwargs=True, prepend=False))
                handles.append(module.register_forward_hook(leave, with_kwargs=True, prepend=False))
            yield
        finally:
            for handle in handles:
                handle.remove()
        places = {id(entry[0]): at for at, entry in enumerate(ended)}
        recorded.calls = [ModuleCall(path, f"{kind.__module__}.{kind.__qualname__}", call,
                                     places.get(id(around)) if around is not None else None, given, results)
                          for _, around, kind, path, call, given, results in ended]
        self.runs.append(recorded)

    def _all(self, prefix: str, path: str, value: Any, known: _Known) -> tuple[Recorded, ...]:
        whole = self._is_full(path)
        tensors = [leaf for _, leaf in nested.flatten(value)[0] if isinstance(leaf, torch.Tensor)]
        return tuple(self._add(f"{prefix}.{at}", tensor, whole, known) for at, tensor in enumerate(tensors)
                     if tensor.layout is torch.strided and not tensor.is_quantized)

    def _add(self, key: str, tensor: torch.Tensor, whole: bool, known: _Known) -> Recorded:
        found = known.find(tensor)
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
        return container.in_memory(self.runs, self.tensors)


def modules_of(model: torch.nn.Module) -> dict[torch.nn.Module, tuple[str, int | None]]:
    return {module: (path, None) for path, module in model.named_modules()}


def record_values(model: Any, args: Any = (), path: str | os.PathLike | None = None, *,
                  kwargs: Mapping[str, Any] | None = None, more: Sequence[Any] = (),
                  full: Collection[str] = ()) -> Values:
    """Runs ``model`` and records what each call of each of its modules was given and returned.

    model   a torch.nn.Module, or a torch.export.ExportedProgram, whose own example is taken without ``args``.
    args, kwargs  as forward takes them. ``more``: the args of further runs, which may have other sizes.
    path    a safetensors file that is written, or replaced as a whole: ``model.values.safetensors``. None: in memory.
    full    globs of modules whose tensors are kept whole: ["encoder.layer.3.**"]. Of others, those of more than 2,048
            elements are kept as a sketch of some 6 KB: moments, samples and a projection (docs/values.md).

    The model is in eval mode while it runs, and afterwards as before. Raises WhenceError: E0104 for arguments that do
    not fit, E0207 when the model does not run, E0303 for a scripted module, whose calls Python does not see, E0307
    without safetensors, E0401.
    """
    if isinstance(full, str):
        raise error("E0101", "usage", f"{full!r} is one text, where a list is expected", f"give [{full!r}]")
    recorder = Recorder(full)
    for at, given in enumerate([args, *more]):
        run_recorded(recorder, model, given, kwargs if at == 0 else None)
    if path is None:
        return recorder.values()
    container.write(path, recorder.runs, recorder.tensors)
    return container.read(path)


def run_recorded(recorder: Recorder, model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> Any:
    """One run of ``model``; returns what it returned."""
    if isinstance(model, torch.jit.ScriptModule):
        raise error("E0303", "unsupported_feature", "the calls of a scripted module's modules are not seen from Python",
                    "record the module that it was made of, or its torch.export program")
    try:
        if isinstance(model, torch.export.ExportedProgram):
            return _run_exported(recorder, model, args, kwargs)
        with torch.no_grad(), without_fast_path(), _in_eval(model), calls.tensors_only(model, args, kwargs) as call:
            given = dict(zip(call.tensors, call.copies()))  # these very tensors are known as inputs
            with recorder.run(modules_of(model), given):
                return model(*given.values())
    except WhenceError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError) as failure:
        raise error("E0207", "run_failed", f"PyTorch cannot run the model on these arguments: {failure}",
                    "give arguments that the model accepts") from failure


@contextmanager
def _in_eval(model: torch.nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _run_exported(recorder: Recorder, program: torch.export.ExportedProgram, args: Any,
                  kwargs: Mapping[str, Any] | None) -> Any:
    """Modules of the program are rebuilt; what one returns are the values that others read, in order."""
    if kwargs is None and isinstance(args, (tuple, list)) and not args:
        args, kwargs = program.example_inputs
    positional, keywords = nested.copied((args if isinstance(args, (tuple, list)) else (args,), dict(kwargs or {})))
    module = torch.export.unflatten(program)
    modules = {}
    for path, each in module.named_modules():
        plain, _, call = path.partition("@")  # "layer@1": the second call of "layer"
        if "." not in call:
            modules[each] = (plain, int(call) if call.isdigit() else None)
    names = [spec.arg.name for spec in program.graph_signature.input_specs
             if spec.kind is torch.export.graph_signature.InputKind.USER_INPUT]
    tensors = nested.tensors_in((positional, keywords))
    with torch.no_grad(), state_restored([program.state_dict, program.constants]), \
            recorder.run(modules, dict(zip(names, tensors))):
        return module(*positional, **keywords)
