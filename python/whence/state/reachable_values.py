"""Finds the values that can be reached from a model, by name: its state, wherever it keeps it.

Reached are the attributes of modules and of other objects and those of their classes, and the elements of lists, dicts
and sets, at any depth; and what the code of forward names: globals, variables of closures, defaults, attributes of
classes and functions beside it, also in the functions that it calls by name. Of what is named, tensors and what holds
tensors already or comes to hold them, and numbers that are assigned to: a list in which a user notes what a model does
is not the model's. A global that only another object's method names is not reached.
"""

from __future__ import annotations

import collections
import dis
import enum
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
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

_OWN_PACKAGE = __name__.partition(".")[0]

# Classes of these hold nothing of a model's.
_CLASSES_OF_LIBRARIES = _LIBRARIES | {_OWN_PACKAGE}

_NO_STATE = (type, enum.Enum, types.ModuleType, types.BuiltinFunctionType, str, bytes)

_CONTAINERS = (dict, collections.OrderedDict, collections.defaultdict, list, tuple, set, collections.deque)

_STORE_GLOBAL, _STORE_ATTR = dis.opmap["STORE_GLOBAL"], dis.opmap["STORE_ATTR"]

# Names of the items of a value: those of a module's three dicts are attributes of the module.
_ELEMENTS, _ATTRIBUTES, _OF_MODULE = "elements", "attributes", "of a module"

Item = tuple[str | None, Any, Any]

# These read a class by `type` itself: a metaclass may answer with something else, or raise.
_namespace, _mro, _name = (type.__dict__[name].__get__ for name in ("__dict__", "__mro__", "__name__"))


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

    @property
    def namespace(self) -> Mapping[str, Any]:
        return _namespace_of(self.owner)


@dataclass(frozen=True)
class WithoutTensors:
    """A container or object that code names and that holds no tensors: state only if a run puts some into it."""

    value: Any


@dataclass(frozen=True)
class Slots:
    """The attributes of an object that are not in its __dict__."""

    owner: Any

    def values(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for kind in _mro(type(self.owner)):
            for name in _names_of_slots(kind):
                member = _namespace(kind).get(name)
                if isinstance(member, types.MemberDescriptorType):  # read past a property that covers it
                    with suppress(AttributeError):  # it is empty
                        found.setdefault(name, member.__get__(self.owner))
        return found


@dataclass(frozen=True)
class ClassAttributes:
    """The attributes that a class holds itself, not its bases, without those that Python gives to every class."""

    owner: type

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in _namespace(self.owner).items()
                if isinstance(name, str) and not (name.startswith("__") and name.endswith("__"))}

    def state(self) -> dict[str, Any]:
        """Without descriptors: methods, properties and slots compute what an object has, or hold it elsewhere."""
        return {name: value for name, value in self.values().items()
                if not any("__get__" in _namespace(kind) for kind in _mro(type(value)))}


def _namespace_of(owner: type | types.FunctionType) -> Mapping[str, Any]:
    return _namespace(owner) if isinstance(owner, type) else vars(owner)


def _names_of_slots(kind: type) -> list[str]:
    slots = _namespace(kind).get("__slots__", ())
    return [name for name in ((slots,) if isinstance(slots, str) else slots)
            if name not in ("__dict__", "__weakref__") and not name.startswith("__")]


def reached(model: Any, classes: Iterable[type] | None = None) -> Iterator[tuple[str | None, Any]]:
    """Tensors and numbers under each of their names, anything else once. A gradient has the name None.

    ``classes``: those whose attributes are reached, in place of the classes of what is found. With the classes of an
    earlier pass, in their order, what is still there has the name that it had, and an object that was made since does
    not bring all that its class has held for long.
    """
    seen: dict[int, Any] = {}
    kinds: dict[int, type] = {}  # by id, as are all others: a metaclass may define what is equal
    found = [] if classes is None else list(classes)
    known = {id(each) for each in found}
    stack: list[Item] = [("", model, _ELEMENTS)]
    # Not by recursion: a model may hold a chain of any length. Classes come last, so that the names which start at the
    # model are preferred.
    while stack or found:
        name, value, naming = stack.pop() if stack else ("", ClassAttributes(found.pop(0)), _ELEMENTS)
        if isinstance(value, NUMBERS):
            yield name, value
            continue
        is_tensor = isinstance(value, torch.Tensor)
        if isinstance(value, _NO_STATE) or id(value) in seen and not is_tensor:
            continue
        yield name, value
        if id(value) not in seen:
            seen[id(value)] = value
            kind = type(value.__self__) if isinstance(value, types.MethodType) else type(value)
            if classes is None and id(kind) not in kinds:
                kinds[id(kind)] = kind
                new = [each for each in _classes_with_state(kind) if id(each) not in known]
                known |= set(map(id, new))
                found += new
            stack += reversed(_of_tensor(name, value) if is_tensor else _of(name or "", value, naming))


def _classes_with_state(kind: type) -> list[type]:
    """The class and its bases, but for those of libraries, and for classes of objects that are not a model's."""
    own = [each for each in _mro(kind) if _package_of(each) not in _CLASSES_OF_LIBRARIES]
    return [] if not issubclass(kind, (torch.nn.Module, torch.Tensor)) and _is_of_the_process(kind) else own


def _is_of_the_process(kind: type) -> bool:
    return any(_package_of(each) in _OF_THE_PROCESS for each in _mro(kind))


def _package_of(kind: type) -> str:
    try:
        return str(type.__dict__["__module__"].__get__(kind)).partition(".")[0]
    except AttributeError:  # it was deleted
        return ""


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
    if isinstance(value, (GlobalVariable, OwnedVariable)):
        return [(name, value.namespace[value.name], _ELEMENTS)] if value.name in value.namespace else []
    if isinstance(value, WithoutTensors):
        return []
    if isinstance(value, ClassAttributes):
        return [(f"{_name(value.owner)}.{key}", each, _ELEMENTS) for key, each in value.state().items()]
    if isinstance(value, Slots):
        return [(_attribute(name, key), each, _ELEMENTS) for key, each in value.values().items()]
    held: list[Item] = []
    if isinstance(value, dict):
        held += _of_dict(name, value, naming)
    elif isinstance(value, (list, tuple, collections.deque)):
        held += [(f"{name}[{at}]", each, _ELEMENTS) for at, each in enumerate(value)]
    elif isinstance(value, set):
        held += [(f"{name}[{each!r}]" if isinstance(each, NUMBERS) else name, each, _ELEMENTS) for each in value]
    if _is_of_the_process(type(value)):
        return held
    if getattr(value, "__dict__", None) is not None:  # an empty one, too: a run may set the first attribute
        held.append((name, value.__dict__, _ATTRIBUTES))
    return [*held, (name, Slots(value), _ELEMENTS)] if any(map(_names_of_slots, _mro(type(value)))) else held


def _of_dict(name: str, value: dict[str, Any], naming: Any) -> list[Item]:
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
    if package == _OWN_PACKAGE:  # a wrapper of this package in place of a user's forward
        return [(name, cell.cell_contents, owner) for name, cell in cells
                if _is_full(cell) and isinstance(cell.cell_contents, (types.FunctionType, types.MethodType))]
    held: list[Item] = [(name, cell, _ELEMENTS) for name, cell in cells if _is_full(cell) and (
        isinstance(cell.cell_contents, NUMBERS) or _may_be_state(cell.cell_contents, function))]
    held += [(name, WithoutTensors(cell.cell_contents), _ELEMENTS) for name, cell in cells
             if _is_full(cell) and _may_become_state(cell.cell_contents, function)]
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
        method = None if owner is None else _unwrapped(inspect.getattr_static(owner, name, None))
        if isinstance(method, types.FunctionType):  # other attributes of the class are reached with the class
            named.append((f"{_name(owner)}.{name}", method))
    held += [(name, WithoutTensors(value), _ELEMENTS) for name, value in named if _may_become_state(value, function)]
    return held + [(name, value, owner if isinstance(value, types.FunctionType) else _ELEMENTS)
                   for name, value in named if _may_be_state(value, function)]


def _owned(name: str, owner: Any, names: list[str], function: types.FunctionType) -> list[Item]:
    """The state that a class or a function beside ``function`` holds in attributes of these names."""
    if not isinstance(owner, (type, types.FunctionType)) or owner.__module__ != function.__module__:
        return []
    assigned = _assigned_in(function.__code__, _STORE_ATTR)
    held = _namespace_of(owner)
    return [(f"{name}.{each}", OwnedVariable(owner, each), _ELEMENTS) for each in names if (
        each in assigned and isinstance(held.get(each), NUMBERS)  # or is not there yet
        or isinstance(held.get(each), torch.Tensor) or _is_container(held.get(each)) and holds_tensors(held[each]))]


def _unwrapped(attribute: Any) -> Any:
    """The function of a method of any kind, or the attribute itself."""
    if isinstance(attribute, (staticmethod, classmethod)):
        return attribute.__func__
    return attribute.fget if isinstance(attribute, property) else attribute


def _may_be_state(value: Any, function: types.FunctionType) -> bool:
    """Returns false for what belongs to libraries, such as their registries and loggers."""
    if isinstance(value, (torch.Tensor, torch.nn.Module, types.FunctionType, types.MethodType)):
        return True
    return _is_of_user(value, function) and holds_tensors(value)


def _may_become_state(value: Any, function: types.FunctionType) -> bool:
    of_another_kind = (torch.Tensor, torch.nn.Module, types.FunctionType, types.MethodType)
    return not isinstance(value, of_another_kind) and _is_of_user(value, function) and not holds_tensors(value)


def _is_of_user(value: Any, function: types.FunctionType) -> bool:
    return _is_container(value) or type(value).__module__ == function.__module__


def _is_container(value: Any) -> bool:
    return any(type(value) is kind for kind in _CONTAINERS)  # not `in`: a metaclass may define what is equal


def holds_tensors(value: Any) -> bool:
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
