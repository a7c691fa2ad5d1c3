"""Records values of a TorchScript module: its graphs get nodes that tell which module is called, and with what.

Hooks of Python are not called within a scripted module. Each call of a submodule's forward gets two operators around it,
``whence_values::enter`` with the attribute's name and the tensors that are given, and ``whence_values::leave`` with those
that it returns; the names on the way are the qualified name. Calls in branches and loops are recorded as they happen.
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
    """Those of one thread, the innermost last: two threads may record two models."""

    def __init__(self) -> None:
        self.stack: list[Listener] = []


_listeners = _Listeners()
_library: list[torch.library.Library] = []


def _define() -> None:
    """The two operators. Conservative: TorchScript would drop what returns nothing."""
    if _library:
        return
    library = torch.library.Library("whence_values", "DEF")
    library.define("enter(str name, Tensor[] given) -> ()", alias_analysis="CONSERVATIVE")
    library.define("leave(Tensor[] results) -> ()", alias_analysis="CONSERVATIVE")
    for key in ("CompositeExplicitAutograd", "BackendSelect"):  # with tensors, and with an empty list
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


def telling(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """A module like ``module`` that tells of its calls; the module itself is not changed."""
    _define()
    archive = io.BytesIO()
    torch.jit.save(module, archive)  # copies of a module share its graphs
    archive.seek(0)
    other = torch.jit.load(archive)
    done: set[str] = set()
    for each in other.modules():
        kind = each._c._type().qualified_name()
        if kind in done:
            continue  # and so do modules of one class
        done.add(kind)
        for name in each._c._method_names():
            for call in list(_calls(each._c._get_method(name).graph)):
                _tell_of(each._c._get_method(name).graph, call)
    return other


def class_of(module: torch.jit.ScriptModule) -> str:
    """The Python class that a scripted module was made of: "torch.nn.modules.linear.Linear"."""
    name = module._c._type().qualified_name().removeprefix("__torch__.")
    return re.sub(r"\.___torch_mangle_\d+", "", name)


def _calls(block: Any) -> Iterator[torch._C.Node]:
    """Calls of a module's forward, those in branches and loops too."""
    for node in block.nodes():
        for inner in node.blocks():
            yield from _calls(inner)
        # A trace calls further calls of a module forward1, forward2.
        if node.kind() == "prim::CallMethod" and re.fullmatch(r"forward\d*", node.s("name")):
            yield node


def _attribute(call: torch._C.Node) -> str | None:
    """The called module's name in the one that calls: "layer.0"; None where it is not an attribute."""
    names = []
    value = next(call.inputs())
    while value.node().kind() == "prim::GetAttr":
        names.append(value.node().s("name"))
        value = next(value.node().inputs())
    return ".".join(reversed(names)) if names and value.node().kind() == "prim::Param" else None


def _tell_of(graph: torch._C.Graph, call: torch._C.Node) -> None:
    name = _attribute(call)
    if name is None:
        return
    before = _Writer(graph, lambda node: node.insertBefore(call))
    before.write("whence_values::enter", [before.text(name), before.tensors(list(call.inputs())[1:])], 0)
    behind = _Writer(graph, _each_after(call))
    behind.write("whence_values::leave", [behind.tensors(list(call.outputs()))], 0)


def _each_after(node: torch._C.Node) -> Callable[[torch._C.Node], None]:
    """Puts the first node behind ``node``, and each further one behind the one before."""
    last = node

    def put(new: torch._C.Node) -> None:
        nonlocal last
        new.insertAfter(last)
        last = new

    return put


class _Writer:
    def __init__(self, graph: torch._C.Graph, put: Callable[[torch._C.Node], None]) -> None:
        self._graph, self._put = graph, put

    def write(self, kind: str, inputs: list[torch._C.Value], outputs: int = 1) -> torch._C.Node:
        node = self._graph.create(kind, inputs, outputs)
        self._put(node)
        return node

    def text(self, text: str) -> torch._C.Value:
        node = self.write("prim::Constant", [])
        node.s_("value", text)
        return _typed(node, torch._C.StringType.get())

    def tensors(self, values: list[torch._C.Value]) -> torch._C.Value:
        """One list of the tensors among values, in tuples and lists too. Of dicts and optional tensors there are none."""
        single, lists = self._opened(values)
        together = _typed(self.write("prim::ListConstruct", single), torch._C.ListType.ofTensors())
        for each in lists:
            together = _typed(self.write("aten::add", [together, each]), torch._C.ListType.ofTensors())
        return together

    def _opened(self, values: list[torch._C.Value]) -> tuple[list[torch._C.Value], list[torch._C.Value]]:
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
                inner, more = self._opened(list(node.outputs()))
                single += inner
                lists += more
        return single, lists


def _typed(node: torch._C.Node, kind: Any) -> torch._C.Value:
    value = next(node.outputs())
    value.setType(kind)
    return value
