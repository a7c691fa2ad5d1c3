"""Finds all values reachable from a model, with their names.

These are attributes of modules, of other objects and of the modules' classes, and elements of lists, dicts and sets, at
any depth. Globals, closure variables and contents of iterators are not reachable; writes to them are detected by a
second run of the model (``capture/lasting_writes.py``).
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

# Types of values that take part in computation and contain no other values.
NUMBERS = (bool, int, float, complex, type(None))

# Attributes of these libraries' objects are state of the process, not of the model.
_PROCESS_LIBRARIES = frozenset({"asyncio", "concurrent", "logging", "multiprocessing", "threading", "torch"})

# Classes of these packages contain no state of a model.
_LIBRARIES = sys.stdlib_module_names | {"numpy", "onnx", "onnxruntime", "onnxscript", "torch", __name__.partition(".")[0]}

_NO_STATE = (type, enum.Enum, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, str, bytes)

# How items of a dict are named: as elements, as attributes, or as attributes of a module, some of which are in three
# inner dicts.
_ELEMENTS, _ATTRIBUTES, _MODULE_ATTRIBUTES = "elements", "attributes", "module attributes"

Item = tuple[str | None, Any, str]


@dataclass(frozen=True)
class Slots:
    """The attributes of an object that are in slots, not in its __dict__."""

    owner: Any

    def values(self) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        for kind in type(self.owner).__mro__:
            for name in _names_of_slots(kind):
                member = vars(kind).get(name)
                if isinstance(member, types.MemberDescriptorType):  # bypasses a property that may hide it
                    with suppress(AttributeError):  # the slot is empty
                        attributes.setdefault(name, member.__get__(self.owner))
        return attributes


@dataclass(frozen=True)
class ClassAttributes:
    """The attributes of a module's class, without inherited and special ones."""

    owner: type

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self.owner).items() if not (name.startswith("__") and name.endswith("__"))}

    def state(self) -> dict[str, Any]:
        """Returns the attributes without descriptors (methods, properties and slots), which are not state."""
        return {name: value for name, value in self.values().items() if not hasattr(type(value), "__get__")}


def _names_of_slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    return [name for name in ((slots,) if isinstance(slots, str) else slots)
            if name not in ("__dict__", "__weakref__") and not name.startswith("__")]


def reachable(model: Any, classes: Iterable[type] | None = None) -> Iterator[tuple[str | None, Any]]:
    """Yields tensors and numbers under each of their names, and all other values once. A gradient has the name None.

    ``classes`` limits class attributes to those of these classes: a module created since an earlier call must not add
    attributes that its class had before. By default the classes of all modules are included.
    """
    seen: dict[int, Any] = {}
    kinds = dict.fromkeys(classes or ())
    stack: list[Item] = [("", model, _ELEMENTS)]
    # An explicit stack, because a model may contain chains too long for recursion. Classes come last: names from the
    # model take precedence.
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
                new_classes = [kind for kind in type(value).__mro__
                               if _package_of(kind) not in _LIBRARIES and id(kind) not in seen]
                seen |= {id(kind): kind for kind in new_classes}
                kinds |= dict.fromkeys(new_classes)
            stack += reversed(_tensor_items(name, value) if is_tensor else _items(name or "", value, naming))


def _package_of(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


def _tensor_items(name: str | None, tensor: torch.Tensor) -> list[Item]:
    if is_traceable_wrapper_subclass(tensor):
        return [(f"{name}.{each}", getattr(tensor, each), _ELEMENTS) for each in tensor.__tensor_flatten__()[0]]
    return [(None, tensor.grad, _ELEMENTS)] if tensor.is_leaf and tensor.grad is not None else []


def _items(name: str, value: Any, naming: str) -> list[Item]:
    if isinstance(value, torch.nn.Module):
        return _module_items(name, value)
    if isinstance(value, ClassAttributes):
        return [(f"{value.owner.__name__}.{key}", item, _ELEMENTS) for key, item in value.state().items()]
    if isinstance(value, Slots):
        return [(_attribute(name, key), item, _ELEMENTS) for key, item in value.values().items()]
    items: list[Item] = []
    if isinstance(value, dict):
        items += _dict_items(name, value, naming)
    elif isinstance(value, (list, tuple, collections.deque)):
        items += [(f"{name}[{index}]", item, _ELEMENTS) for index, item in enumerate(value)]
    elif isinstance(value, set):
        items += [(f"{name}[{item!r}]" if isinstance(item, NUMBERS) else name, item, _ELEMENTS) for item in value]
    if any(_package_of(kind) in _PROCESS_LIBRARIES for kind in type(value).__mro__):
        return items
    if getattr(value, "__dict__", None) is not None:  # even if empty, because a run may add attributes
        items.append((name, value.__dict__, _ATTRIBUTES))
    return [*items, (name, Slots(value), _ELEMENTS)] if any(map(_names_of_slots, type(value).__mro__)) else items


def _dict_items(name: str, value: dict[Any, Any], naming: str) -> list[Item]:
    items: list[Item] = [(None, key, _ELEMENTS) for key in value if not isinstance(key, (str, *NUMBERS))]
    for key, item in value.items():
        if naming == _MODULE_ATTRIBUTES and key in ("_parameters", "_buffers", "_modules"):
            items.append((name, item, _ATTRIBUTES))
        elif naming != _ELEMENTS or not name and isinstance(key, str):
            items.append((_attribute(name, key), item, _ELEMENTS))
        else:
            word = repr(key) if isinstance(key, (str, *NUMBERS)) else type(key).__name__
            items.append((f"{name}[{word}]", item, _ELEMENTS))
    return items


def _attribute(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _module_items(name: str, module: torch.nn.Module) -> list[Item]:
    """Returns the items of a module: none if it is uninitialised, because initialisation changes its class. Parameters
    of a scripted module are not attributes, so they are listed separately."""
    if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params():
        return []
    items: list[Item] = [(name, module.__dict__, _MODULE_ATTRIBUTES)]
    if isinstance(module, torch.jit.ScriptModule):
        tensors = [*module.named_parameters(), *module.named_buffers()]
        return [*((_attribute(name, key), tensor, _ELEMENTS) for key, tensor in tensors), *items]
    return items
