"""Finds the values that a model holds, by name.

These are attributes of modules and of other objects, attributes of the modules' classes, and elements of lists, dicts
and sets, at any depth. Globals, closure variables and the contents of iterators are not reached; a second run of the
model detects them (``capture/lasting_writes.py``).
"""

from __future__ import annotations

import collections
import enum
import sys
import types
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# Types of values that take part in computation and hold no other values.
NUMBERS = (bool, int, float, complex, type(None))

# Objects of these libraries belong to the process, not to the model's computation.
_OF_THE_PROCESS = frozenset({"asyncio", "concurrent", "logging", "multiprocessing", "threading", "torch"})

# Classes of these packages hold no state of a model.
_LIBRARIES = sys.stdlib_module_names | {"numpy", "onnx", "onnxruntime", "onnxscript", "torch", __name__.partition(".")[0]}

_NO_STATE = (type, enum.Enum, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, str, bytes)

# How items of a dict are named: as elements, as attributes, or as those of a module, in which three dicts hold
# attributes.
_ELEMENTS, _ATTRIBUTES, _OF_MODULE = "elements", "attributes", "of a module"

Item = tuple[str | None, Any, str]


@dataclass(frozen=True)
class Slots:
    """The attributes of an object that are not in its __dict__."""

    owner: Any

    def values(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for kind in type(self.owner).__mro__:
            for name in _names_of_slots(kind):
                member = vars(kind).get(name)
                if isinstance(member, types.MemberDescriptorType):  # read directly, as a property may hide it
                    with suppress(AttributeError):  # the slot is empty
                        found.setdefault(name, member.__get__(self.owner))
        return found


@dataclass(frozen=True)
class ClassAttributes:
    """The attributes of a module's class itself, without its bases' attributes and without those of every class."""

    owner: type

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self.owner).items() if not (name.startswith("__") and name.endswith("__"))}

    def state(self) -> dict[str, Any]:
        """Returns the attributes without descriptors, because methods, properties and slots hold no value of the
        class."""
        return {name: value for name, value in self.values().items() if not hasattr(type(value), "__get__")}


def _names_of_slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    return [name for name in ((slots,) if isinstance(slots, str) else slots)
            if name not in ("__dict__", "__weakref__") and not name.startswith("__")]


def reached(model: Any, classes: Iterable[type] | None = None) -> Iterator[tuple[str | None, Any]]:
    """Yields tensors and numbers under each of their names, and any other value once. A gradient has the name None.

    ``classes``: if given, only the attributes of these classes are reached, instead of the classes of all modules
    found: a module made after an earlier pass must not add its class's older attributes.
    """
    seen: dict[int, Any] = {}
    kinds = dict.fromkeys(classes or ())
    stack: list[Item] = [("", model, _ELEMENTS)]
    # An explicit stack instead of recursion, because a model may hold a chain of any length. Classes come last, so that
    # names from the model take precedence.
    while stack or kinds:
        if not stack:
            kind = next(iter(kinds))
            del kinds[kind]
            stack.append(("", ClassAttributes(kind), _ELEMENTS))
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
            if classes is None and isinstance(value, torch.nn.Module):
                new = [each for each in type(value).__mro__ if _package_of(each) not in _LIBRARIES and id(each) not in seen]
                seen |= {id(each): each for each in new}
                kinds |= dict.fromkeys(new)
            stack += reversed(_of_tensor(name, value) if is_tensor else _of(name or "", value, naming))


def _package_of(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


def _of_tensor(name: str | None, tensor: torch.Tensor) -> list[Item]:
    if is_traceable_wrapper_subclass(tensor):
        return [(f"{name}.{each}", getattr(tensor, each), _ELEMENTS) for each in tensor.__tensor_flatten__()[0]]
    return [(None, tensor.grad, _ELEMENTS)] if tensor.is_leaf and tensor.grad is not None else []


def _of(name: str, value: Any, naming: str) -> list[Item]:
    if isinstance(value, torch.nn.Module):
        return _of_module(name, value)
    if isinstance(value, ClassAttributes):
        return [(f"{value.owner.__name__}.{key}", each, _ELEMENTS) for key, each in value.state().items()]
    if isinstance(value, Slots):
        return [(_attribute(name, key), each, _ELEMENTS) for key, each in value.values().items()]
    held: list[Item] = []
    if isinstance(value, dict):
        held += _of_dict(name, value, naming)
    elif isinstance(value, (list, tuple, collections.deque)):
        held += [(f"{name}[{at}]", each, _ELEMENTS) for at, each in enumerate(value)]
    elif isinstance(value, set):
        held += [(f"{name}[{each!r}]" if isinstance(each, NUMBERS) else name, each, _ELEMENTS) for each in value]
    if any(_package_of(kind) in _OF_THE_PROCESS for kind in type(value).__mro__):
        return held
    if getattr(value, "__dict__", None) is not None:  # even if empty: a run may set the first attribute
        held.append((name, value.__dict__, _ATTRIBUTES))
    return [*held, (name, Slots(value), _ELEMENTS)] if any(map(_names_of_slots, type(value).__mro__)) else held


def _of_dict(name: str, value: dict[Any, Any], naming: str) -> list[Item]:
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
    """Returns a module's items. A scripted module has no attributes for its parameters; an uninitialised one changes
    class."""
    if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params():
        return []
    held: list[Item] = [(name, module.__dict__, _OF_MODULE)]
    if isinstance(module, torch.jit.ScriptModule):
        tensors = [*module.named_parameters(), *module.named_buffers()]
        return [*((_attribute(name, key), each, _ELEMENTS) for key, each in tensors), *held]
    return held
