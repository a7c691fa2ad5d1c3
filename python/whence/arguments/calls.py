"""Adapts a call of a model so that both of PyTorch's tracers accept it: tensors in order as inputs, tensors as outputs.

Keyword arguments, nested arguments, arguments that are not tensors (flags, numbers, None) and dataclass results are
common in transformers, and neither tracer accepts all of them. During the trace, the model's ``forward`` is replaced
with one that takes only the tensors. The module object stays the same, so the paths of submodules do not change.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import WhenceWarning, error
from ..state.export_settings import log
from ..state.model_state import state_restored
from . import caches, trees
from .hidden_frames import leave_out_of_stacks


@dataclass(frozen=True)
class Call:
    """The arguments of one call of ``forward``, flattened to their leaves."""

    arguments: dict[str, Any]           # by name, in the order of forward's signature; *args is a tuple
    names: dict[trees.Path, str]        # names of all leaves, in order
    tensors: dict[str, torch.Tensor]    # the inputs of the exported file
    constants: dict[str, Any]           # leaves that are fixed in the file
    mutable_constants: dict[str, Any]   # the constants that forward may modify
    rebuild: trees.Rebuild
    signature: inspect.Signature

    @property
    def identifiers(self) -> list[str]:
        """Returns the names of the tensors as Python identifiers."""
        return list(map(trees.identifier, self.tensors))

    def input_names(self, chosen: Sequence[str]) -> Sequence[str]:
        """Returns the names of the file's inputs: the chosen names first, then the names of the remaining tensors.
        Returns only ``chosen`` if the remaining inputs already have these names in the archive."""
        names = [*chosen, *list(self.tensors)[len(chosen):]]
        return chosen if names[len(chosen):] == self.identifiers[len(chosen):] else names

    def copies(self) -> tuple[torch.Tensor, ...]:
        """Returns copies of the tensors, in order, for a run that may write to them."""
        return trees.copied(tuple(self.tensors.values()))

    def copies_apart(self) -> tuple[torch.Tensor, ...]:
        """Returns copies that share no memory with each other, like the inputs of a file."""
        return trees.copied_apart(tuple(self.tensors.values()))

    def with_tensors(self, tensors: Sequence[Any]) -> dict[str, Any]:
        """Returns ``arguments`` with these tensors, and with copies of the constants that forward may modify."""
        leaves = {**dict(zip(self.tensors, tensors)), **self.constants}
        if self.mutable_constants:
            leaves |= trees.copied(self.mutable_constants)
        return self.rebuild(iter([leaves[name] for name in self.names.values()]))

    def args_and_kwargs(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        remaining = dict(arguments)
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        by_position = True
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional += remaining.pop(name, ())
            elif name not in remaining:
                by_position = False  # omitted, so later arguments are passed by name
            elif parameter.kind is parameter.POSITIONAL_ONLY or by_position and self._before_variadic(name):
                positional.append(remaining.pop(name))
            else:
                keywords[name] = remaining.pop(name)
        return tuple(positional), keywords | remaining

    def default_of(self, name: str) -> Any:
        """Returns the default of an argument that the call omits."""
        parameter = self.signature.parameters.get(name)
        return parameter.default if parameter is not None else inspect.Parameter.empty

    def _before_variadic(self, name: str) -> bool:
        kinds = {each.name: each.kind for each in self.signature.parameters.values()}
        later = list(kinds)[list(kinds).index(name):]
        return any(kinds[each] is inspect.Parameter.VAR_POSITIONAL for each in later) \
            and kinds[name] is not inspect.Parameter.KEYWORD_ONLY


def split(args: Any, kwargs: Mapping[str, Any] | None, signature: inspect.Signature) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns args and kwargs. A dict at the end of args contains keyword arguments, as in torch.onnx.export."""
    positional = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    keywords = dict(kwargs or {})
    if not keywords and positional and type(positional[-1]) is dict:
        last = positional[-1]
        takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
        if all(isinstance(key, str) and (takes_any or key in signature.parameters) for key in last):
            log.info("the dict at the end of args is used as keyword arguments: %s", ", ".join(last))
            return positional[:-1], dict(last)
    return positional, keywords


def opened(forward: Any, args: Any, kwargs: Mapping[str, Any] | None) -> Call:
    """Returns the call ``forward(*args, **kwargs)``. Raises WhenceError E0104 if the arguments do not fit."""
    signature = forward if isinstance(forward, inspect.Signature) else inspect.signature(forward)
    return bound_to(signature, *split(args, kwargs, signature))


def bound_to(signature: inspect.Signature, positional: tuple[Any, ...], keywords: Mapping[str, Any]) -> Call:
    """Like ``opened``, but a dict at the end of ``positional`` stays a positional argument."""
    try:
        bound = signature.bind(*positional, **keywords)
    except TypeError as failure:
        raise error("E0104", "input_mismatch", f"the arguments do not fit forward: {failure}",
                    "pass the arguments that forward accepts") from None
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(value)
        else:
            arguments[name] = value
    arguments = trees.with_tensors(arguments)
    leaves, rebuild = trees.flatten(arguments)
    names = dict(zip((path for path, _ in leaves), trees.unique_names(path for path, _ in leaves)))
    by_name = dict(zip(names.values(), (leaf for _, leaf in leaves)))
    tensors = {name: leaf for name, leaf in by_name.items() if isinstance(leaf, torch.Tensor)}
    constants = {name: leaf for name, leaf in by_name.items() if name not in tensors}
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided:
            layout = str(tensor.layout).removeprefix("torch.")
            raise error("E0104", "input_mismatch", f"the argument '{name}' is a tensor of layout {layout}, but inputs "
                        "of ONNX models are dense", f"pass it as a dense tensor: {name}.to_dense()")
    trees.refuse_hidden_tensors(arguments)
    mutable_constants = {name: leaf for name, leaf in constants.items() if trees.copied(leaf) is not leaf}
    return Call(arguments, names, tensors, constants, mutable_constants, rebuild, signature)


_SIGNATURE = "_whence_signature"  # attribute of a module made from a scripted function


def as_module(model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[Any, Any, Any]:
    """Converts a scripted function to a module, as torch.jit.save does. The module loses the defaults, so they are
    added to the arguments and to the stored Python signature. Returns any other model unchanged."""
    if not isinstance(model, torch.jit.ScriptFunction):
        return model, args, kwargs
    archive = io.BytesIO()
    torch.jit.save(model, archive)
    archive.seek(0)
    module = torch.jit.load(archive)
    signature = module.__dict__[_SIGNATURE] = _signature(model.schema.arguments)
    positional, keywords = split(args, kwargs, signature)
    defaults = {name: each.default for name, each in list(signature.parameters.items())[len(positional):]
                if each.default is not each.empty}
    return module, positional, defaults | keywords


def signature_of(model: torch.jit.ScriptModule) -> inspect.Signature:
    """Returns the signature of a scripted module's forward, with its defaults."""
    return model.__dict__.get(_SIGNATURE) or _signature(model.forward.schema.arguments[1:])


def _signature(arguments: Sequence[torch._C.Argument]) -> inspect.Signature:
    return inspect.Signature([
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY if each.kwarg_only else
                          inspect.Parameter.POSITIONAL_OR_KEYWORD,
                          default=each.default_value if each.has_default_value() else inspect.Parameter.empty)
        for each in arguments])


def tracer_output(output: Any, inputs: Iterable[trees.Path] = ()) -> Any:
    """Returns a result in a form that tracers accept: a tensor, a tuple of tensors, or a dict of named tensors.

    Leaves out None, as PyTorch does. Converts numbers to tensors; leaves out anything else with a warning. ``inputs``
    are the paths of the call's tensors: they decide which scalar tensors of a cache are results.
    """
    if dataclasses.is_dataclass(output) and not isinstance(output, dict):
        output = {each.name: getattr(output, each.name) for each in dataclasses.fields(output)}
    if isinstance(output, Mapping):
        entries = {key: tracer_output(value) for key, value in output.items() if value is not None}
        if all(isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in entries.items()):
            return entries
    if trees.container_of(output) is None:
        return _leaf_as_tensor(output)
    leaves = trees.flatten(output)[0]
    if any(caches.head_of(path) is not None for path, _ in leaves):
        return _named_results(leaves, set(map(caches.tail_of, inputs)))
    return tuple(each for each in map(_leaf_as_tensor, (leaf for _, leaf in leaves)) if each is not None)


def _named_results(leaves: list[tuple[trees.Path, Any]],
                   input_paths: set[trees.Path | None]) -> dict[str, torch.Tensor]:
    """Names results by their paths, which is necessary if a cache is among them.

    During a trace, a number computed from sizes is a tensor. A scalar of a cache is a real tensor only if the call also
    passed a tensor at the same path of the cache; otherwise it is left out.
    """
    results = {}
    for path, leaf in leaves:
        of_cache = caches.head_of(path) is not None
        is_number = not isinstance(leaf, torch.Tensor) or leaf.dim() == 0 and caches.tail_of(path) not in input_paths
        if not (of_cache and is_number) and (tensor := _leaf_as_tensor(leaf)) is not None:
            results[path] = tensor
    return dict(zip(trees.unique_names(caches.as_results(results)), results.values()))


def _leaf_as_tensor(leaf: Any) -> Any:
    if leaf is None or isinstance(leaf, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
        return leaf
    if isinstance(leaf, (bool, int, float, complex)):
        return torch.tensor(leaf)
    warnings.warn(f"a result that is a {type(leaf).__name__} is left out of the file: ONNX models return only tensors",
                  WhenceWarning, stacklevel=2)
    return None


@contextmanager
def tensors_only(model: torch.nn.Module, args: Sequence[Any] | torch.Tensor,
                 kwargs: Mapping[str, Any] | None, parameters: bool = True) -> Iterator[Call]:
    """Inside the block, ``model.forward`` takes only the call's tensors, by position or by identifier.

    Afterwards the model's state is restored; if ``parameters`` is false, the contents of its parameters are not.
    """
    call = opened(model.forward, args, kwargs)
    original, identifiers = model.forward, call.identifiers
    is_nested = any(trees.container_of(each) is not None for each in call.arguments.values())
    tensor_paths = [path for path, name in call.names.items() if name in call.tensors]

    def forward(*by_position: Any, **by_name: Any) -> Any:
        tensors = {**dict(zip(identifiers, by_position)), **by_name}
        arguments = call.with_tensors([tensors[name] for name in identifiers])
        compares = is_nested and not torch.compiler.is_dynamo_compiling()  # Dynamo would trace this code
        before = _tensors_by_path(arguments) if compares else {}
        positional, keywords = call.args_and_kwargs(arguments)
        result = original(*positional, **keywords)
        if compares:
            _warn_of_lost_tensors(before, _tensors_by_path(arguments), result)
        return tracer_output(result, tensor_paths)

    leave_out_of_stacks(forward)
    forward.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in identifiers])
    overridden = model.__dict__.get("forward")
    model.forward = forward
    try:
        modules = {name: each for name, each in call.constants.items() if isinstance(each, torch.nn.Module)}
        with state_restored(modules), state_restored(model, parameters):
            yield call
    finally:
        if overridden is None:
            del model.forward
        else:
            model.forward = overridden


def _tensors_by_path(arguments: dict[str, Any]) -> dict[trees.Path, torch.Tensor]:
    return {path: leaf for path, leaf in trees.flatten(arguments)[0] if isinstance(leaf, torch.Tensor)}


def _warn_of_lost_tensors(before: Mapping[trees.Path, Any], after: Mapping[trees.Path, Any], result: Any) -> None:
    """Warns if forward replaced tensors in lists, dicts or objects of the call without returning them."""
    returned = {id(each) for each in trees.tensors_in(result)}
    lost = dict.fromkeys(path[0] for path in (*before, *after)
                         if before.get(path) is not after.get(path) and id(after.get(path)) not in returned)
    for name in lost:
        warnings.warn(f"forward changes the contents of '{name}', which users of the file will not see: return the new "
                      "tensors, or work on a copy", WhenceWarning, stacklevel=2)


def trace(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> torch.jit.ScriptModule:
    """Runs torch.jit.trace inside ``tensors_only``. Undoes the model's writes to its arguments and its state."""
    with torch.no_grad(), state_restored(model):
        if not tensors:
            return torch.jit.trace(model, (), strict=False, check_trace=False)
        return torch.jit.trace(model, example_kwarg_inputs=trees.copied_apart(by_identifier(tensors)), strict=False,
                               check_trace=False)


def reloaded(traced: torch.jit.ScriptModule, tensors: Iterable[str]) -> Callable[..., Any]:
    """Returns a function that runs the trace after a round trip through its archive, and takes the tensors in order.
    Exports read the archive, and LibTorch drops some writes when it loads one."""
    archive = io.BytesIO()
    torch.jit.save(traced, archive)
    archive.seek(0)
    module, names = torch.jit.load(archive), list(map(trees.identifier, tensors))
    return lambda *values: module(**dict(zip(names, values)))


def by_identifier(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {trees.identifier(name): each for name, each in tensors.items()}


def save_inputs(inputs: Mapping[str, Any], path: Path) -> None:
    """Saves copies of the inputs for LibTorch, without Python classes. LibTorch loads newer dtypes (float8) only from
    its own pickler."""
    plain_inputs = trees.without_classes(trees.copied_apart(by_identifier(inputs)))
    storages = torch.storage._dtype_to_storage_type_map()
    if all(tensor.dtype in storages for tensor in trees.tensors_in(plain_inputs)):
        torch.save(plain_inputs, path)
    else:
        path.write_bytes(torch._C._pickle_save(plain_inputs))
