"""Finds the values that can be reached from a model, by name: its state, wherever it keeps it.

Reached are the attributes of modules and of other objects, and the elements of lists, dicts and sets, at any depth; and
what the code of forward names: globals, variables of closures, defaults, attributes of its class and of classes and
functions beside it, also in the functions that it calls by name. Of those, tensors and what holds tensors already, and numbers that are assigned to: a list in
which a user notes what a model does is not the model's. A global that only another object's method names is not
reached.
"""

from __future__ import annotations

import collections
import dis
import enum
import inspect
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# Values that compute, and hold nothing else.
NUMBERS = (bool, int, float, complex, type(None))

# Objects of these libraries hold the process together, not what a model computes.
_OF_THE_PROCESS = frozenset({"asyncio", "concurrent", "logging", "multiprocessing", "threading", "torch"})

# The code of these names nothing of a model's.
_LIBRARIES = sys.stdlib_module_names | {"numpy", "onnx", "onnxruntime", "onnxscript", "torch"}

_NO_STATE = (type, enum.Enum, types.ModuleType, types.BuiltinFunctionType, str, bytes)

_CONTAINERS = (dict, collections.OrderedDict, collections.defaultdict, list, tuple, set, collections.deque)

_STORE_GLOBAL, _STORE_ATTR = dis.opmap["STORE_GLOBAL"], dis.opmap["STORE_ATTR"]

# Names of the items of a value: those of a module's three dicts are attributes of the module.
_ELEMENTS, _ATTRIBUTES, _OF_MODULE = "elements", "attributes", "of a module"

Item = tuple[str | None, Any, Any]


@dataclass(frozen=True)
class GlobalVariable:
    """One that a function assigns to."""

    namespace: dict[str, Any]
    name: str


@dataclass(frozen=True)
class OwnedVariable:
    """An attribute that a class or a function holds, and the code of a function names."""

    owner: type | types.FunctionType
    name: str


@dataclass(frozen=True)
class Slots:
    """The attributes of an object that are not in its __dict__."""

    owner: Any

    def values(self) -> dict[str, Any]:
        names = (name for kind in type(self.owner).__mro__ for name in _names_of_slots(kind))
        return {name: getattr(self.owner, name) for name in names if hasattr(self.owner, name)}


def _names_of_slots(kind: type) -> list[str]:
    slots = kind.__dict__.get("__slots__", ())
    return [name for name in ((slots,) if isinstance(slots, str) else slots)
            if name not in ("__dict__", "__weakref__") and not name.startswith("__")]


def reached(model: Any) -> Iterator[tuple[str | None, Any]]:
    """Tensors and numbers under each of their names, anything else once. A gradient has the name None."""
    seen: dict[int, Any] = {}
    stack: list[Item] = [("", model, _ELEMENTS)]
    while stack:  # not by recursion: a model may hold a chain of any length
        name, value, naming = stack.pop()
        if isinstance(value, NUMBERS):
            yield name, value
            continue
        is_tensor = isinstance(value, torch.Tensor)
        if isinstance(value, _NO_STATE) or id(value) in seen and not is_tensor:
            continue
        yield name, value
        if id(value) not in seen:
            seen[id(value)] = value
            stack += reversed(_of_tensor(name, value) if is_tensor else _of(name or "", value, naming))


def _of_tensor(name: str | None, tensor: torch.Tensor) -> list[Item]:
    if is_traceable_wrapper_subclass(tensor):
        return [(f"{name}.{each}", getattr(tensor, each), _ELEMENTS) for each in tensor.__tensor_flatten__()[0]]
    return [(None, tensor.grad, _ELEMENTS)] if tensor.is_leaf and tensor.grad is not None else []


def _of(name: str, value: Any, naming: Any) -> list[Item]:
    if isinstance(value, torch.nn.Module):
        return _of_module(name, value)
    if isinstance(value, types.MethodType):
        return _of_function(value.__func__, type(value.__self__))
    if isinstance(value, types.FunctionType):
        return _of_function(value, naming if isinstance(naming, type) else None)
    if isinstance(value, types.CellType):
        return [(name, value.cell_contents, _ELEMENTS)] if _is_full(value) else []
    if isinstance(value, GlobalVariable):
        return [(name, value.namespace[value.name], _ELEMENTS)] if value.name in value.namespace else []
    if isinstance(value, OwnedVariable):
        return [(name, vars(value.owner)[value.name], _ELEMENTS)] if value.name in vars(value.owner) else []
    if isinstance(value, Slots):
        return [(_attribute(name, key), each, _ELEMENTS) for key, each in value.values().items()]
    held: list[Item] = []
    if isinstance(value, dict):
        held += _of_dict(name, value, naming)
    elif isinstance(value, (list, tuple, collections.deque)):
        held += [(f"{name}[{at}]", each, _ELEMENTS) for at, each in enumerate(value)]
    elif isinstance(value, set):
        held += [(f"{name}[{each!r}]" if isinstance(each, NUMBERS) else name, each, _ELEMENTS) for each in value]
    if any(kind.__module__.partition(".")[0] in _OF_THE_PROCESS for kind in type(value).__mro__):
        return held
    if getattr(value, "__dict__", None):
        held.append((name, value.__dict__, _ATTRIBUTES))
    return [*held, (name, Slots(value), _ELEMENTS)] if any(map(_names_of_slots, type(value).__mro__)) else held


def _of_dict(name: str, value: dict, naming: Any) -> list[Item]:
    held: list[Item] = [(None, key, _ELEMENTS) for key in value if not isinstance(key, (str, *NUMBERS))]
    for key, each in value.items():
        if naming == _OF_MODULE and key in ("_parameters", "_buffers", "_modules"):
            held.append((name, each, _ATTRIBUTES))
        elif naming != _ELEMENTS or not name and isinstance(key, str):
            held.append((_attribute(name, key), each, _ELEMENTS))
        else:
            word = repr(key) if isinstance(key, (str, *NUMBERS)) else type(key).__name__
            held.append((f"{name}[{word}]", each, _ELEMENTS))
    return held


def _attribute(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _of_module(name: str, module: torch.nn.Module) -> list[Item]:
    """A scripted one has its parameters in no attribute. One that is uninitialised is another class after a call."""
    if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params():
        return []
    held: list[Item] = [(name, module.__dict__, _OF_MODULE)]
    if isinstance(module, torch.jit.ScriptModule):
        tensors = [*module.named_parameters(), *module.named_buffers()]
        return [*((_attribute(name, key), each, _ELEMENTS) for key, each in tensors), *held]
    forward = inspect.getattr_static(type(module), "forward", None)
    return [*held, ("forward", forward, type(module))] if isinstance(forward, types.FunctionType) else held


def _of_function(function: types.FunctionType, owner: type | None) -> list[Item]:
    """``owner``: the class of its first argument, of which it may name methods."""
    package = str(function.__module__).partition(".")[0]
    if package in _LIBRARIES:
        return []
    names = _names_in(function.__code__)
    cells = list(zip(function.__code__.co_freevars, function.__closure__ or ()))
    if package == __package__:  # a wrapper of this package in place of a user's forward
        return [(name, cell.cell_contents, owner) for name, cell in cells
                if _is_full(cell) and isinstance(cell.cell_contents, (types.FunctionType, types.MethodType))]
    held: list[Item] = [(name, cell, _ELEMENTS) for name, cell in cells if _is_full(cell) and (
        isinstance(cell.cell_contents, NUMBERS) or _may_be_state(cell.cell_contents, function))]
    held += [(name, GlobalVariable(function.__globals__, name), _ELEMENTS) for name in _assigned_in(function.__code__)]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    named = [(function.__name__, each) for each in defaults]
    for name in names:
        value = function.__globals__.get(name)
        held += _owned(name, value, names, function)
        if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] not in _LIBRARIES:
            named += [(f"{name}.{each}", vars(value)[each]) for each in names if each in vars(value)]
        else:
            named.append((name, value))
        if owner is not None:
            named.append((f"{owner.__name__}.{name}", _unwrapped(inspect.getattr_static(owner, name, None))))
    return held + [(name, value, owner if isinstance(value, types.FunctionType) else _ELEMENTS)
                   for name, value in named if _may_be_state(value, function)]


def _owned(name: str, owner: Any, names: list[str], function: types.FunctionType) -> list[Item]:
    """The state that a class or a function beside ``function`` holds in attributes of these names."""
    if not isinstance(owner, (type, types.FunctionType)) or owner.__module__ != function.__module__:
        return []
    assigned = _assigned_in(function.__code__, _STORE_ATTR)
    return [(f"{name}.{each}", OwnedVariable(owner, each), _ELEMENTS) for each in names if each in vars(owner) and (
        isinstance(vars(owner)[each], torch.Tensor) or each in assigned and isinstance(vars(owner)[each], NUMBERS)
        or type(vars(owner)[each]) in _CONTAINERS and _holds_tensors(vars(owner)[each]))]


def _unwrapped(attribute: Any) -> Any:
    """The function of a method of any kind, or the attribute itself."""
    if isinstance(attribute, (staticmethod, classmethod)):
        return attribute.__func__
    return attribute.fget if isinstance(attribute, property) else attribute


def _may_be_state(value: Any, function: types.FunctionType) -> bool:
    """Returns false for what belongs to libraries, such as their registries and loggers."""
    if isinstance(value, (torch.Tensor, torch.nn.Module, types.FunctionType, types.MethodType)):
        return True
    return (type(value) in _CONTAINERS or type(value).__module__ == function.__module__) and _holds_tensors(value)


def _holds_tensors(value: Any) -> bool:
    """At any depth, in containers and attributes."""
    seen: dict[int, Any] = {}
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, torch.Tensor):
            return True
        if isinstance(each, (*NUMBERS, *_NO_STATE)) or id(each) in seen:
            continue
        seen[id(each)] = each
        if isinstance(each, dict):
            stack += each.values()
        elif isinstance(each, _CONTAINERS):
            stack += each
        stack += getattr(each, "__dict__", {}).values()
    return False


def _is_full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _names_in(code: types.CodeType) -> list[str]:
    inner = [name for each in code.co_consts if isinstance(each, types.CodeType) for name in _names_in(each)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _assigned_in(code: types.CodeType, operation: int = _STORE_GLOBAL) -> list[str]:
    """The globals that it assigns to, or the attributes."""
    names = [name for each in code.co_consts if isinstance(each, types.CodeType)
             for name in _assigned_in(each, operation)]
    if operation in code.co_code[::2]:  # asked first, for most have none, and to read all takes long
        names += [each.argval for each in dis.get_instructions(code) if each.opcode == operation]
    return names
