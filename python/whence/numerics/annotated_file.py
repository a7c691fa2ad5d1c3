"""Origins: what an annotated ONNX file says of its nodes, and which values run between them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..command.process import run_json
from ..errors import Diagnostic, error, require_path
from . import without_weights

_KEY, _TRACEBACK = "pkg.whence.", "pkg.torch.onnx.stack_trace"
_KEYS_OF_PYTORCH = {"pkg.torch.onnx.name_scopes", "namespace"}


@dataclass(frozen=True)
class Node:
    """One node of the main graph."""

    at: int
    name: str
    op_type: str
    inputs: tuple[str, ...]   # also what its bodies read from around them
    outputs: tuple[str, ...]
    modules: tuple[str, ...]  # qualified names of the modules that it stands for; none where that is not known
    call: int                 # number of the module's call, or of that of the one around its modules
    confidence: str           # exact, matched, inferred, ancestor, unattributed
    source: str               # "modeling_bert.py:88 forward"
    operations: tuple[int, ...]  # recorded operations that it stands for, ascending; none where that is not known
    quantized: bool           # its results are integers that stand for real numbers

    @property
    def title(self) -> str:
        return self.name or f"{self.op_type} at {self.at}"


@dataclass
class File:
    path: str
    model: Any  # onnx.ModelProto, its large initializers without content
    nodes: list[Node]
    maker: dict[str, Node]
    readers: dict[str, list[Node]]
    constants: set[str] = field(default_factory=set)  # initializers and what is computed from them alone
    sizes: set[str] = field(default_factory=set)      # computed from the sizes of values, and from nothing in them
    random: set[str] = field(default_factory=set)     # random numbers have a part in them
    notes: tuple[str, ...] = ()                       # lines about the origins, for users
    by_pytorch: bool = False                          # they are read from PyTorch's own metadata

    def depends_on(self, node: Node) -> Iterator[str]:
        """The values that the node reads and that elements of the graph's inputs have a part in."""
        return (name for name in node.inputs if name and name not in self.constants and name not in self.sizes)

    def place(self, value: str) -> int:
        """The place in the order of nodes at which the value is there: its node's, or of a constant its first reader's."""
        if value in self.maker:
            return self.maker[value].at
        return min((node.at for node in self.readers.get(value, ())), default=len(self.nodes))

    def traceback(self, node: Node) -> str:
        """The source lines around ``node.source``, as PyTorch writes them down; "" where the file has none."""
        return next((each.value for each in self.model.graph.node[node.at].metadata_props if each.key == _TRACEBACK), "")

    def dequantised(self, value: str) -> list[str]:
        """The same value behind a QuantizeLinear, which may clip it: what a Relu did that a tool dropped for that."""
        return [name for quantise in self.readers.get(value, ()) if quantise.op_type == "QuantizeLinear"
                and quantise.inputs[0] == value for dequantise in self.readers.get(quantise.outputs[0], ())
                if dequantise.op_type == "DequantizeLinear" for name in dequantise.outputs if name]

    @cached_property
    def elements(self) -> dict[str, int]:
        """Numbers of elements of initializers."""
        return {each.name: math.prod(each.dims) for each in self.model.graph.initializer}

    @property
    def inputs(self) -> list[str]:
        held = {each.name for each in self.model.graph.initializer}
        return [each.name for each in self.model.graph.input if each.name not in held]

    @property
    def outputs(self) -> list[str]:
        return [each.name for each in self.model.graph.output]


def read(path: str | os.PathLike[str], annotated: bool = True) -> File:
    """Raises WhenceError: what ``without_weights`` raises, E0203 when no node says where it comes from, unless it need not
    be ``annotated``."""
    require_path(path, "the model")
    model = without_weights.without_weights(path)
    try:
        nodes = [_node(at, node) for at, node in enumerate(model.graph.node)]
    except (TypeError, UnicodeDecodeError):  # by protobuf's version, for text that is not UTF-8
        raise error("E0204", "corrupt_file", f"{path} has metadata that is not UTF-8", "check how it was written",
                    file=os.fspath(path)) from None
    notes: tuple[str, ...] = ()
    by_pytorch = annotated and not any(node.modules for node in nodes) and _has_keys_of_pytorch(model)
    if by_pytorch:
        nodes, notes = _stated_by_pytorch(path, nodes)
    if annotated and not any(node.modules for node in nodes):
        raise error("E0203", "wrong_kind", f"{path} is not annotated: no node says which module it is of",
                    "annotate it: whence.annotate(path, sidecar), or export it with `whence export --annotate`",
                    file=os.fspath(path))
    maker = {name: node for node in nodes for name in node.outputs if name}
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in dict.fromkeys(node.inputs):
            readers.setdefault(name, []).append(node)
    file = File(os.fspath(path), model, nodes, maker, readers, notes=notes, by_pytorch=by_pytorch)
    given = set(file.inputs)
    file.constants = {each.name for each in model.graph.initializer if each.name not in given}
    for node in nodes:
        if _draws(node, model) or any(name in file.random for name in node.inputs):
            file.random.update(node.outputs)
        if all(not name or name in file.constants for name in node.inputs) and not _draws(node, model):
            file.constants.update(node.outputs)
        elif node.op_type in ("Shape", "Size") or not any(True for _ in file.depends_on(node)):
            file.sizes.update(node.outputs)
    return file


def _has_keys_of_pytorch(model: Any) -> bool:
    return any(each.key in _KEYS_OF_PYTORCH for node in model.graph.node for each in node.metadata_props)


def _stated_by_pytorch(path: str | os.PathLike[str], nodes: list[Node]) -> tuple[list[Node], tuple[str, ...]]:
    """The nodes with the modules that PyTorch's own metadata names, as the command reads it; and what it notes of that."""
    report = run_json("select", path)
    stated = [each for each in report["nodes"] if not each["nested"]]
    return ([replace(node, modules=tuple(said["modules"]), confidence=said["confidence"])
             for node, said in zip(nodes, stated, strict=True)],
            tuple(str(Diagnostic.from_json(each)) for each in report.get("diagnostics", ())))


RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


def _draws(node: Node, model: Any) -> bool:
    """The node draws random numbers: also a Dropout that trains, which has a third input for that."""
    if node.op_type != "Dropout" or len(node.inputs) < 3 or not node.inputs[2]:
        return node.op_type in RANDOM
    training = next((each for each in model.graph.initializer if each.name == node.inputs[2]), None)
    return training is None or any((*training.int32_data, *training.raw_data))


def _node(at: int, proto: Any) -> Node:
    stated = {each.key: each.value for each in proto.metadata_props if each.key.startswith(_KEY)}
    modules = _modules(stated)
    call = stated.get(_KEY + "call", "0")
    return Node(at, proto.name, proto.op_type, (*proto.input, *_captured(proto)), tuple(proto.output), modules,
                int(call) if call.isdigit() else 0, stated.get(_KEY + "confidence", "unattributed"),
                stated.get(_KEY + "source", ""), _operations(stated.get(_KEY + "op", "")),
                proto.op_type.startswith("QLinear") or proto.op_type in _INTEGERS)


_INTEGERS = {"QuantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "QGemm"}


def _modules(stated: dict[str, str]) -> tuple[str, ...]:
    if _KEY + "modules" in stated:
        try:
            modules = json.loads(stated[_KEY + "modules"])
            if isinstance(modules, list) and modules and all(isinstance(each, str) for each in modules):
                return tuple(modules)
        except ValueError:
            pass  # damaged: the one module says less, and nothing wrong
    return (stated[_KEY + "module"],) if _KEY + "module" in stated else ()


def _operations(text: str) -> tuple[int, ...]:
    """``17``, ``fused:17,18``; of a node that several operations share, the first: it computes what that one does."""
    kind, _, numbers = text.rpartition(":")
    found = sorted(int(each) for each in numbers.split(",") if each.isdigit())
    return tuple(found[:1] if kind == "shared" else found)


def _captured(proto: Any) -> Iterator[str]:
    for attribute in proto.attribute:
        for body in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            yield from _read_from_around(body)


def _read_from_around(body: Any) -> Iterable[str]:
    own = {each.name for each in (*body.input, *body.initializer)} | {name for node in body.node for name in node.output}
    read: dict[str, None] = {}
    for node in body.node:
        read.update(dict.fromkeys((*node.input, *_captured(node))))
    read.update(dict.fromkeys(each.name for each in body.output))
    return [name for name in read if name and name not in own]
