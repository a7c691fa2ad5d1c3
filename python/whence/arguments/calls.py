"""Makes a call of a model one that both of PyTorch's tracers accept: tensors in order, tensors out.

Keyword arguments, nested ones, arguments that are not tensors (flags, numbers, None) and results that are dataclasses
are everyday in transformers, and neither tracer takes them all as they are. The model's ``forward`` is replaced for the
time of the trace by one that takes the tensors alone. The module itself stays what it is, so no path of a submodule
changes.
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
    """The arguments of one call of ``forward``, opened to their leaves."""

    arguments: dict[str, Any]           # by name, in the order of forward's signature; *args is one of them, a tuple
    names: dict[trees.Path, str]       # names of all leaves, in order
    tensors: dict[str, torch.Tensor]    # the inputs of the exported file
    constants: dict[str, Any]           # leaves that are fixed in it
    changeable: dict[str, Any]          # the leaves that forward may change
    close: trees.Close
    signature: inspect.Signature

    @property
    def identifiers(self) -> list[str]:
        """The names of the tensors, as the arguments of a function."""
        return list(map(trees.identifier, self.tensors))

    def input_names(self, chosen: Sequence[str]) -> Sequence[str]:
        """The names of the file's inputs: the caller's for the first of them, then those of the call's tensors. Inputs
        that have names of their own in the archive need none."""
        names = [*chosen, *list(self.tensors)[len(chosen):]]
        return chosen if names[len(chosen):] == self.identifiers[len(chosen):] else names

    def copies(self) -> tuple[torch.Tensor, ...]:
        """Copies of the tensors, in order: for a run that may write to them."""
        return trees.copied(tuple(self.tensors.values()))

    def copies_apart(self) -> tuple[torch.Tensor, ...]:
        """Copies that share no memory with each other, like the inputs of a file."""
        return trees.copied_apart(tuple(self.tensors.values()))

    def with_tensors(self, tensors: Sequence[Any]) -> dict[str, Any]:
        """``arguments`` of the same call with other tensors; no object in them is the caller's."""
        filled = {**dict(zip(self.tensors, tensors)), **self.constants}
        if self.changeable:
            filled |= trees.copied(self.changeable)
        return self.close(iter([filled[name] for name in self.names.values()]))

    def as_passed(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """args and kwargs."""
        left = dict(arguments)
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        by_position = True
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional += left.pop(name, ())
            elif name not in left:
                by_position = False  # it has its default; what follows goes by name
            elif parameter.kind is parameter.POSITIONAL_ONLY or by_position and self._before_variadic(name):
                positional.append(left.pop(name))
            else:
                keywords[name] = left.pop(name)
        return tuple(positional), keywords | left

    def default_of(self, name: str) -> Any:
        """The default of an argument that was not given."""
        parameter = self.signature.parameters.get(name)
        return parameter.default if parameter is not None else inspect.Parameter.empty

    def _before_variadic(self, name: str) -> bool:
        kinds = {each.name: each.kind for each in self.signature.parameters.values()}
        later = list(kinds)[list(kinds).index(name):]
        return any(kinds[each] is inspect.Parameter.VAR_POSITIONAL for each in later) \
            and kinds[name] is not inspect.Parameter.KEYWORD_ONLY


def split(args: Any, kwargs: Mapping[str, Any] | None, signature: inspect.Signature) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """args and kwargs; a dict at the end of args holds keyword arguments, as torch.onnx.export has it."""
    positional = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    keywords = dict(kwargs or {})
    if not keywords and positional and type(positional[-1]) is dict:
        last = positional[-1]
        takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
        if all(isinstance(key, str) and (takes_any or key in signature.parameters) for key in last):
            log.info("the dict at the end of args is taken for keyword arguments: %s", ", ".join(last))
            return positional[:-1], dict(last)
    return positional, keywords


def opened(forward: Any, args: Any, kwargs: Mapping[str, Any] | None) -> Call:
    """The call ``forward(*args, **kwargs)``. Raises WhenceError E0104 when the arguments do not fit it."""
    signature = forward if isinstance(forward, inspect.Signature) else inspect.signature(forward)
    return bound_to(signature, *split(args, kwargs, signature))


def bound_to(signature: inspect.Signature, positional: tuple[Any, ...], keywords: Mapping[str, Any]) -> Call:
    """The call with just these arguments: a dict at their end is one of them. Raises as ``opened`` does."""
    try:
        bound = signature.bind(*positional, **keywords)
    except TypeError as failure:
        raise error("E0104", "input_mismatch", f"the arguments do not fit forward: {failure}",
                    "give them as forward takes them") from None
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(value)
        else:
            arguments[name] = value
    arguments = trees.with_tensors(arguments)
    found, close = trees.flatten(arguments)
    names = dict(zip((path for path, _ in found), trees.named(path for path, _ in found)))
    by_name = dict(zip(names.values(), (leaf for _, leaf in found)))
    tensors = {name: leaf for name, leaf in by_name.items() if isinstance(leaf, torch.Tensor)}
    constants = {name: leaf for name, leaf in by_name.items() if name not in tensors}
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided:
            layout = str(tensor.layout).removeprefix("torch.")
            raise error("E0104", "input_mismatch", f"the argument '{name}' is a tensor of layout {layout}, which no input "
                        "of an ONNX model has", f"pass it as a dense tensor: {name}.to_dense()")
    trees.refuse_hidden_tensors(arguments)
    changeable = {name: leaf for name, leaf in constants.items() if trees.copied(leaf) is not leaf}
    return Call(arguments, names, tensors, constants, changeable, close, signature)


_SIGNATURE = "_whence_signature"  # attribute of a module that was made of a function


def as_module(model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[Any, Any, Any]:
    """A scripted function as the module that torch.jit.save makes of it, which keeps no defaults: they stand in its
    Python signature and among the arguments then. Anything else is what it is."""
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
    """The signature of a scripted module's forward, with its defaults."""
    return model.__dict__.get(_SIGNATURE) or _signature(model.forward.schema.arguments[1:])


def _signature(arguments: Sequence[torch._C.Argument]) -> inspect.Signature:
    return inspect.Signature([
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY if each.kwarg_only else
                          inspect.Parameter.POSITIONAL_OR_KEYWORD,
                          default=each.default_value if each.has_default_value() else inspect.Parameter.empty)
        for each in arguments])


def plain(output: Any, inputs: Iterable[trees.Path] = ()) -> Any:
    """A result as tracers take it: a tensor, a tuple of them, or a dict of tensors, which names them.

    None is left out, as PyTorch does. Numbers become tensors; anything else is told and left out. Of a cache, which
    tensors it holds depends on those that the ``inputs`` hold.
    """
    if dataclasses.is_dataclass(output) and not isinstance(output, dict):
        output = {each.name: getattr(output, each.name) for each in dataclasses.fields(output)}
    if isinstance(output, Mapping):
        kept = {key: plain(value) for key, value in output.items() if value is not None}
        if all(isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in kept.items()):
            return kept
    if trees.opened(output) is None:
        return _plain_leaf(output)
    found = trees.flatten(output)[0]
    if any(caches.head_of(path) is not None for path, _ in found):
        return _named_results(found, set(map(caches.tail_of, inputs)))
    return tuple(each for each in map(_plain_leaf, (leaf for _, leaf in found)) if each is not None)


def _named_results(found: list[tuple[trees.Path, Any]], given: set[trees.Path | None]) -> dict[str, torch.Tensor]:
    """With a cache among them, the name of each says what it is.

    While a trace runs, a number that was computed of sizes is a tensor. One that is a tensor anyway was given as one.
    """
    results = {}
    for path, leaf in found:
        of_cache = caches.head_of(path) is not None
        number = not isinstance(leaf, torch.Tensor) or leaf.dim() == 0 and caches.tail_of(path) not in given
        if not (of_cache and number) and (kept_leaf := _plain_leaf(leaf)) is not None:
            results[path] = kept_leaf
    return dict(zip(trees.named(caches.as_results(results)), results.values()))


def _plain_leaf(leaf: Any) -> Any:
    if leaf is None or isinstance(leaf, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
        return leaf
    if isinstance(leaf, (bool, int, float, complex)):
        return torch.tensor(leaf)
    warnings.warn(f"a result that is a {type(leaf).__name__} is left out of the file: ONNX holds tensors",
                  WhenceWarning, stacklevel=2)
    return None


@contextmanager
def tensors_only(model: torch.nn.Module, args: Sequence[Any] | torch.Tensor,
                 kwargs: Mapping[str, Any] | None, parameters: bool = True) -> Iterator[Call]:
    """Inside the block ``model.forward`` takes the call's tensors, by position or identifier, and nothing else.

    Afterwards the model is what it was before, whatever ran it; without ``parameters`` all but what is in those.
    """
    call = opened(model.forward, args, kwargs)
    original, identifiers = model.forward, call.identifiers
    is_nested = any(trees.opened(each) is not None for each in call.arguments.values())
    tensor_paths = [path for path, name in call.names.items() if name in call.tensors]

    def forward(*given: Any, **by_name: Any) -> Any:
        tensors = {**dict(zip(identifiers, given)), **by_name}
        arguments = call.with_tensors([tensors[name] for name in identifiers])
        compares = is_nested and not torch.compiler.is_dynamo_compiling()  # which follows every line of this
        before = _tensors_by_path(arguments) if compares else {}
        positional, keywords = call.as_passed(arguments)
        result = original(*positional, **keywords)
        if compares:
            _warn_of_lost(before, _tensors_by_path(arguments), result)
        return plain(result, tensor_paths)

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


def _warn_of_lost(before: Mapping[trees.Path, Any], after: Mapping[trees.Path, Any], result: Any) -> None:
    """Warns of other tensors in the lists, dicts and objects of the call, except those that forward returns."""
    returned = {id(each) for each in trees.tensors_in(result)}
    lost = dict.fromkeys(path[0] for path in (*before, *after)
                         if before.get(path) is not after.get(path) and id(after.get(path)) not in returned)
    for name in lost:
        warnings.warn(f"forward changes what '{name}' holds; whoever runs the file will not see that: return what is "
                      "new, or work on a copy", WhenceWarning, stacklevel=2)


def trace(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> torch.jit.ScriptModule:
    """torch.jit.trace inside ``tensors_only``. What the model writes into its arguments and state is taken back."""
    with torch.no_grad(), state_restored(model):
        if not tensors:
            return torch.jit.trace(model, (), strict=False, check_trace=False)
        return torch.jit.trace(model, example_kwarg_inputs=trees.copied_apart(by_identifier(tensors)), strict=False,
                               check_trace=False)


def reloaded(traced: torch.jit.ScriptModule, tensors: Iterable[str]) -> Callable[..., Any]:
    """A trace as it comes out of its archive, which is what is exported: LibTorch drops some writes when it reads one.
    Takes the tensors in order."""
    archive = io.BytesIO()
    torch.jit.save(traced, archive)
    archive.seek(0)
    module, names = torch.jit.load(archive), list(map(trees.identifier, tensors))
    return lambda *given: module(**dict(zip(names, given)))


def by_identifier(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {trees.identifier(name): each for name, each in tensors.items()}


def save_inputs(inputs: Mapping[str, Any], path: Path) -> None:
    """Copies of them for LibTorch, which knows no classes of Python, and reads tensors of the newer dtypes (float8)
    only as its own pickler writes them."""
    given = trees.without_classes(trees.copied_apart(by_identifier(inputs)))
    storages = torch.storage._dtype_to_storage_type_map()
    if all(tensor.dtype in storages for tensor in trees.tensors_in(given)):
        torch.save(given, path)
    else:
        path.write_bytes(torch._C._pickle_save(given))
