"""Records values of a TorchScript module by adding operators to its graphs that report each call of a module.

PyTorch calls no Python hooks inside a scripted module. Two operators enclose each call of a submodule's forward:
``whence_values::enter`` with the attribute's name and the argument tensors, and ``whence_values::leave`` with the
result tensors. The names of the open calls form the qualified name. Calls in branches and loops are recorded as they
happen.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class Listener:
    """Functions that are called when a call of a module begins and ends."""

    enter: Callable[[str, list[torch.Tensor]], None]
    leave: Callable[[list[torch.Tensor]], None]


class _Listeners(threading.local):
    """The listeners of one thread, the innermost last: two threads may record two models."""

    def __init__(self) -> None:
        self.stack: list[Listener] = []


_listeners = _Listeners()
_library: list[torch.library.Library] = []


def _define() -> None:
    """Defines the two operators. They are CONSERVATIVE, because TorchScript would drop operators without results."""
    if _library:
        return
    library = torch.library.Library("whence_values", "DEF")
    library.define("enter(str name, Tensor[] given) -> ()", alias_analysis="CONSERVATIVE")
    library.define("leave(Tensor[] results) -> ()", alias_analysis="CONSERVATIVE")
    for key in ("CompositeExplicitAutograd", "BackendSelect"):  # for lists with tensors, and for an empty list
        library.impl("enter", lambda name, given: _listeners.stack[-1].enter(name, given), key)
        library.impl("leave", lambda results: _listeners.stack[-1].leave(results), key)
    _library.append(library)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    _listeners.stack.append(listener)
    try:
        yield
    finally:
        _listeners.stack.pop()


def with_listeners(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """Returns a copy of ``module`` that reports its calls to the listener."""
    _define()
    archive = io.BytesIO()
    torch.jit.save(module, archive)  # other ways to copy a module share its graphs
    archive.seek(0)
    copy = torch.jit.load(archive)
    types: set[str] = set()
    for each in copy.modules():
        kind = each._c._type().qualified_name()
        if kind in types:
            continue  # modules of one class share graphs too
        types.add(kind)
        for name in each._c._method_names():
            for call in list(_calls(each._c._get_method(name).graph)):
                _add_listeners(each._c._get_method(name).graph, call)
    return copy


def class_of(module: torch.jit.ScriptModule) -> str:
    """Returns the Python class that a scripted module was made from: "torch.nn.modules.linear.Linear"."""
    name = module._c._type().qualified_name().removeprefix("__torch__.")
    return re.sub(r"\.___torch_mangle_\d+", "", name)


def _calls(block: Any) -> Iterator[torch._C.Node]:
    """Yields calls of a module's forward, including calls in branches and loops."""
    for node in block.nodes():
        for inner in node.blocks():
            yield from _calls(inner)
        # A trace names further calls of a module forward1, forward2.
        if node.kind() == "prim::CallMethod" and re.fullmatch(r"forward\d*", node.s("name")):
            yield node


def _attribute(call: torch._C.Node) -> str | None:
    """Returns the called module's name in the calling module: "layer.0"; None if it is not an attribute."""
    names = []
    value = next(call.inputs())
    while value.node().kind() == "prim::GetAttr":
        names.append(value.node().s("name"))
        value = next(value.node().inputs())
    return ".".join(reversed(names)) if names and value.node().kind() == "prim::Param" else None


def _add_listeners(graph: torch._C.Graph, call: torch._C.Node) -> None:
    name = _attribute(call)
    if name is None:
        return
    before = _Writer(graph, lambda node: node.insertBefore(call))
    before.write("whence_values::enter", [before.text(name), before.tensors(list(call.inputs())[1:])], 0)
    after = _Writer(graph, _each_after(call))
    after.write("whence_values::leave", [after.tensors(list(call.outputs()))], 0)


def _each_after(node: torch._C.Node) -> Callable[[torch._C.Node], None]:
    """Returns a function that inserts nodes one after another, starting after ``node``."""
    last = node

    def insert(new: torch._C.Node) -> None:
        nonlocal last
        new.insertAfter(last)
        last = new

    return insert


class _Writer:
    def __init__(self, graph: torch._C.Graph, insert: Callable[[torch._C.Node], None]) -> None:
        self._graph, self._put = graph, insert

    def write(self, kind: str, inputs: list[torch._C.Value], outputs: int = 1) -> torch._C.Node:
        node = self._graph.create(kind, inputs, outputs)
        self._put(node)
        return node

    def text(self, text: str) -> torch._C.Value:
        node = self.write("prim::Constant", [])
        node.s_("value", text)
        return _typed(node, torch._C.StringType.get())

    def tensors(self, values: list[torch._C.Value]) -> torch._C.Value:
        """Returns one list of all tensors in the values, tuples and lists. Dicts and optional tensors are left out."""
        single, lists = self._flattened(values)
        combined = _typed(self.write("prim::ListConstruct", single), torch._C.ListType.ofTensors())
        for each in lists:
            combined = _typed(self.write("aten::add", [combined, each]), torch._C.ListType.ofTensors())
        return combined

    def _flattened(self, values: list[torch._C.Value]) -> tuple[list[torch._C.Value], list[torch._C.Value]]:
        single, lists = [], []
        for value in values:
            kind = value.type().kind()
            if kind == "TensorType":
                single.append(value)
            elif kind == "ListType" and value.type().getElementType().kind() == "TensorType":
                lists.append(value)
            elif kind == "TupleType":
                elements = value.type().elements()
                node = self.write("prim::TupleUnpack", [value], len(elements))
                for element, each in zip(node.outputs(), elements):
                    element.setType(each)
                inner, more = self._flattened(list(node.outputs()))
                single += inner
                lists += more
        return single, lists


def _typed(node: torch._C.Node, kind: Any) -> torch._C.Value:
    value = next(node.outputs())
    value.setType(kind)
    return value
