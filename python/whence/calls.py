"""Makes a call of a model one that both of PyTorch's tracers accept: tensors in order, tensors out.

Keyword arguments, nested ones, arguments that are no tensors (flags, numbers, None) and results that are dataclasses
are everyday in transformers, and neither tracer takes them all as they are. The model's ``forward`` is replaced for the
time of the trace by one that takes the tensors alone. The module itself stays what it is, so no path of a submodule
changes.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import nested
from .errors import WhenceWarning, error
from .surroundings import log


@dataclass(frozen=True)
class Call:
    """The arguments of one call of ``forward``, opened to their leaves."""

    arguments: dict[str, Any]           # by name, in the order of forward's signature; *args is one of them, a tuple
    tensors: dict[str, torch.Tensor]    # the inputs of the exported file
    constants: dict[str, Any]           # leaves that are fixed in it
    order: tuple[str, ...]              # all leaves
    close: nested.Close
    signature: inspect.Signature

    def with_tensors(self, tensors: Mapping[str, Any]) -> tuple[tuple, dict]:
        """args and kwargs of the same call with other tensors."""
        filled = {**self.constants, **tensors}
        arguments = self.close(iter([filled[name] for name in self.order]))
        positional: list = []
        keywords: dict[str, Any] = {}
        by_position = True
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional += arguments.pop(name, ())
            elif name not in arguments:
                by_position = False  # it has its default; what follows goes by name
            elif parameter.kind is parameter.POSITIONAL_ONLY or by_position and self._before_variadic(name):
                positional.append(arguments.pop(name))
            else:
                keywords[name] = arguments.pop(name)
        return tuple(positional), keywords | arguments

    def default_of(self, name: str) -> Any:
        """Of an argument that was not given."""
        parameter = self.signature.parameters.get(name)
        return parameter.default if parameter is not None else inspect.Parameter.empty

    def _before_variadic(self, name: str) -> bool:
        kinds = {each.name: each.kind for each in self.signature.parameters.values()}
        later = list(kinds)[list(kinds).index(name):]
        return any(kinds[each] is inspect.Parameter.VAR_POSITIONAL for each in later) \
            and kinds[name] is not inspect.Parameter.KEYWORD_ONLY


def split(args: Any, kwargs: Mapping[str, Any] | None, signature: inspect.Signature) -> tuple[tuple, dict]:
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
    positional, keywords = split(args, kwargs, signature)
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
    found, close = nested.flatten(arguments)
    order = nested.named([path for path, _ in found])
    by_name = dict(zip(order, (leaf for _, leaf in found)))
    tensors = {name: leaf for name, leaf in by_name.items() if isinstance(leaf, torch.Tensor)}
    constants = {name: leaf for name, leaf in by_name.items() if name not in tensors}
    for name, leaf in constants.items():
        nested.refuse_hidden_tensors(leaf, name)
    return Call(arguments, tensors, constants, tuple(order), close, signature)


_SIGNATURE = "_whence_signature"  # of a module that was made of a function


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
    """Of a scripted module's forward, with its defaults."""
    return model.__dict__.get(_SIGNATURE) or _signature(model.forward.schema.arguments[1:])


def _signature(arguments: Sequence[torch._C.Argument]) -> inspect.Signature:
    return inspect.Signature([
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY if each.kwarg_only else
                          inspect.Parameter.POSITIONAL_OR_KEYWORD,
                          default=each.default_value if each.has_default_value() else inspect.Parameter.empty)
        for each in arguments])


def plain(output: Any) -> Any:
    """A result as tracers take it: a tensor, a tuple of them, or a dict of tensors, which names them.

    None is left out, as PyTorch does. Numbers become tensors; anything else is told and left out.
    """
    if dataclasses.is_dataclass(output) and not isinstance(output, dict):
        output = {each.name: getattr(output, each.name) for each in dataclasses.fields(output)}
    if isinstance(output, Mapping):
        kept = {key: plain(value) for key, value in output.items() if value is not None}
        if all(isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in kept.items()):
            return kept
    if nested.opened(output) is None:
        return _plain_leaf(output)
    return tuple(each for each in map(_plain_leaf, nested.leaves(output)) if each is not None)


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
                 kwargs: Mapping[str, Any] | None) -> Iterator[Call]:
    """Inside the block ``model.forward`` takes the call's tensors, by position or name, and nothing else."""
    call = opened(model.forward, args, kwargs)
    original = model.forward

    def forward(*given, **by_name):
        positional, keywords = call.with_tensors({**dict(zip(call.tensors, given)), **by_name})
        keys = _keys_of_dicts((positional, keywords))
        result = original(*positional, **keywords)
        _warn_of_changed_inputs(keys, _keys_of_dicts((positional, keywords)))
        return plain(result)

    # Stacks are to begin with the user's code: PyTorch leaves frames of this file out of them, and so does whence.
    forward.__code__ = forward.__code__.replace(co_filename=torch.nn.modules.module.__file__, co_name="_call_impl")
    forward.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in call.tensors])
    overridden = model.__dict__.get("forward")
    model.forward = forward
    try:
        yield call
    finally:
        if overridden is None:
            del model.forward
        else:
            model.forward = overridden


def _keys_of_dicts(value: Any) -> list[list]:
    """The keys of every dict in it. What an argument holds is opened in the same order before and after a call."""
    inside = nested.opened(value)
    if inside is None:
        return []
    own = [list(value)] if isinstance(value, dict) else []
    return own + [keys for _, child in inside[0] for keys in _keys_of_dicts(child)]


def _warn_of_changed_inputs(before: list[list], after: list[list]) -> None:
    if before != after:
        warnings.warn("forward changes the keys of a dict that it is given; whoever runs the file will not see that: "
                      "return what was added, or work on a copy", WhenceWarning, stacklevel=2)


def trace(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> torch.jit.ScriptModule:
    """torch.jit.trace inside ``tensors_only``. What the model writes into its arguments and state is taken back."""
    with torch.no_grad(), state_kept(model):
        if not tensors:
            return torch.jit.trace(model, (), strict=False, check_trace=False)
        return torch.jit.trace(model, example_kwarg_inputs=nested.copied(dict(tensors)), strict=False,
                               check_trace=False)


def save_inputs(inputs: Mapping[str, Any], path: Path) -> None:
    """Copies of them for LibTorch, which knows no classes of Python, and reads tensors of the newer dtypes (float8)
    only as its own pickler writes them."""
    given = nested.without_classes(nested.copied(dict(inputs)))
    storages = torch.storage._dtype_to_storage_type_map()
    if all(tensor.dtype in storages for tensor in nested.tensors_in(given)):
        torch.save(given, path)
    else:
        path.write_bytes(torch._C._pickle_save(given))


@contextmanager
def state_kept(model: torch.nn.Module) -> Iterator[None]:
    """After the block buffers, and tensors, numbers and None that are plain attributes, are what they were, with the
    contents that they had: models count, cache and accumulate in them."""
    held = [(values, name, value, *_content(value)) for module in model.modules()
            for values in (module._buffers, vars(module)) for name, value in values.items()
            if value is None or isinstance(value, (torch.Tensor, int, float))]
    try:
        yield
    finally:
        with torch.no_grad():
            for values, name, value, version, before in held:
                if before is not None and value._version != version:
                    value.copy_(before)
                values[name] = value


def _content(value: Any) -> tuple[int, torch.Tensor | None]:
    """A tensor's version, and a copy; nobody can write to one of inference mode."""
    if not isinstance(value, torch.Tensor) or value.is_inference():
        return 0, None
    return value._version, value.detach().clone()
