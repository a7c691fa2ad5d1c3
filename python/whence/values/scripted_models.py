"""Records values of a TorchScript module by adding operators to its graphs that report each module call.

PyTorch calls no Python hooks inside a scripted module. Two operators enclose each call of a submodule's forward:
``whence_values::enter`` takes the attribute's name and the argument tensors, ``whence_values::leave`` the result
tensors. The names of all open calls form the qualified name. Calls in branches and loops are recorded when they run.
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
    """Functions to run at the begin and end of each module call."""

    enter: Callable[[str, list[torch.Tensor]], None]
    leave: Callable[[list[torch.Tensor]], None]


class _Listeners(threading.local):
    """The listeners of one thread, innermost last. Several threads may record models at the same time."""

    def __init__(self) -> None:
        self.stack: list[Listener] = []


_listeners = _Listeners()
_library: list[torch.library.Library] = []


def _define() -> None:
    """Defines the two operators, as CONSERVATIVE because TorchScript removes other operators without results."""
    if _library:
        return
    library = torch.library.Library("whence_values", "DEF")
    library.define("enter(str name, Tensor[] arguments) -> ()", alias_analysis="CONSERVATIVE")
    library.define("leave(Tensor[] results) -> ()", alias_analysis="CONSERVATIVE")
    for key in ("CompositeExplicitAutograd", "BackendSelect"):  # for lists with tensors, and for empty lists
        library.impl("enter", lambda name, arguments: _listeners.stack[-1].enter(name, arguments), key)
        library.impl("leave", lambda results: _listeners.stack[-1].leave(results), key)
    _library.append(library)


@contextmanager
def active_listener(listener: Listener) -> Iterator[None]:
    _listeners.stack.append(listener)
    try:
        yield
    finally:
        _listeners.stack.pop()


def with_listeners(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """Returns a copy of ``module`` that reports its calls to the listener."""
    _define()
    archive = io.BytesIO()
    torch.jit.save(module, archive)  # a copy made otherwise would share the graphs
    archive.seek(0)
    copy = torch.jit.load(archive)
    types: set[str] = set()
    for submodule in copy.modules():
        kind = submodule._c._type().qualified_name()
        if kind in types:
            continue  # modules of one class share graphs
        types.add(kind)
        for name in submodule._c._method_names():
            for call in list(_calls(submodule._c._get_method(name).graph)):
                _add_listeners(submodule._c._get_method(name).graph, call)
    return copy


def class_of(module: torch.jit.ScriptModule) -> str:
    """Returns the Python class of a scripted module, such as "torch.nn.modules.linear.Linear"."""
    name = module._c._type().qualified_name().removeprefix("__torch__.")
    return re.sub(r"\.___torch_mangle_\d+", "", name)


def _calls(block: Any) -> Iterator[torch._C.Node]:
    """Yields calls of forward, including those in branches and loops."""
    for node in block.nodes():
        for inner in node.blocks():
            yield from _calls(inner)
        # In a trace, later calls of a module are named forward1, forward2.
        if node.kind() == "prim::CallMethod" and re.fullmatch(r"forward\d*", node.s("name")):
            yield node


def _attribute(call: torch._C.Node) -> str | None:
    """Returns the called module's attribute path in the calling module, such as "layer.0"; None if it has none."""
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
    after = _Writer(graph, _inserter_after(call))
    after.write("whence_values::leave", [after.tensors(list(call.outputs()))], 0)


def _inserter_after(node: torch._C.Node) -> Callable[[torch._C.Node], None]:
    """Returns a function that inserts nodes after ``node``, in the order of its calls."""
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
        """Combines all tensors in the values, tuples and lists in one list. Leaves out dicts and optional tensors."""
        single, lists = self._flattened(values)
        combined = _typed(self.write("prim::ListConstruct", single), torch._C.ListType.ofTensors())
        for tensors in lists:
            combined = _typed(self.write("aten::add", [combined, tensors]), torch._C.ListType.ofTensors())
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
                for element, element_type in zip(node.outputs(), elements):
                    element.setType(element_type)
                inner, more = self._flattened(list(node.outputs()))
                single += inner
                lists += more
        return single, lists


def _typed(node: torch._C.Node, kind: Any) -> torch._C.Value:
    value = next(node.outputs())
    value.setType(kind)
    return value
