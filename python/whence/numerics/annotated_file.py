"""Reads an annotated ONNX file: nodes with their origins, and producers and readers of values."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..base.optional_packages import import_optional
from ..base.node_keys import modules_in, operations_in, primary_in
from ..command.process import run_json
from ..errors import Diagnostic, error, require_path
from . import model_structure

_KEY, _TRACEBACK, _FX_NODE = "pkg.whence.", "pkg.torch.onnx.stack_trace", "pkg.torch.onnx.fx_node"
_FX_TARGET = re.compile(r"call_function\[target=torch\.ops\.(\w+)\.(\w+)")
_EXPORTER_KEYS = {"pkg.torch.onnx.name_scopes", "pkg.onnxscript.name_scopes", "namespace"}


@dataclass(frozen=True)
class Node:
    """One node of the main graph."""

    at: int
    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]   # including outer values that its subgraphs read
    outputs: tuple[str, ...]
    modules: tuple[str, ...]  # qualified names of its modules; empty if unknown
    primary: str              # the module of its main operation; "" if unknown
    call: int                 # call number of its module, or of the module that encloses its modules
    confidence: str           # exact, matched, inferred, ancestor, unattributed
    source: str               # "modeling_bert.py:88 forward"
    operations: tuple[int, ...]  # numbers of the recorded operations that it implements, ascending; empty if unknown
    quantized: bool           # its operator returns quantised integers

    @property
    def title(self) -> str:
        return self.name or f"{self.op_type} at {self.at}"


@dataclass
class File:
    path: str
    model: Any  # onnx.ModelProto without the content of large initializers
    nodes: list[Node]
    producer: dict[str, Node]
    readers: dict[str, list[Node]]
    constants: set[str] = field(default_factory=set)  # initializers, and values computed only from them
    sizes: set[str] = field(default_factory=set)      # values computed only from sizes of values
    random: set[str] = field(default_factory=set)     # values that depend on random numbers
    notes: tuple[str, ...] = ()                       # notes for the user about the origins
    has_exporter_origins: bool = False                # origins are from the exporter's metadata
    content: bytes | None = None                      # what runs instead: only the nodes in ``producer``, or the file
    # with ``supplied`` values
    unknown: set[int] = field(default_factory=set)  # nodes of bodies that belong to a module inside of theirs, if to another
    supplied: dict[str, Any] = field(default_factory=dict)  # tensors in the place of the file's values

    def load(self) -> Any:
        """Returns the onnx.ModelProto that runs, with the weights that are not in other files."""
        onnx = import_optional("onnx", "reading a model")
        return onnx.load(self.path, load_external_data=False) if self.content is None else \
            onnx.load_model_from_string(self.content)

    def data_inputs(self, node: Node) -> Iterator[str]:
        """Yields the node's inputs that depend on elements, not only sizes, of the graph's inputs."""
        return (name for name in node.inputs if name and name not in self.constants and name not in self.sizes)

    def position(self, value: str) -> int:
        """Returns the index of the node that computes the value, or for a constant, of its first reader."""
        if value in self.producer:
            return self.producer[value].at
        return min((node.at for node in self.readers.get(value, ())), default=len(self.nodes))

    def traceback(self, node: Node) -> str:
        """Returns the node's call stack in PyTorch's format; "" if the file has none."""
        return self._metadata(node, _TRACEBACK)

    def exporter_operation(self, node: Node) -> str:
        """Returns the operator that PyTorch's exporter states, "aten::cat"; "" if it states none."""
        found = _FX_TARGET.search(self._metadata(node, _FX_NODE))
        return "" if found is None else "::".join(found.groups())

    def _metadata(self, node: Node, key: str) -> str:
        return next((each.value for each in self.model.graph.node[node.at].metadata_props if each.key == key), "")

    def dequantised(self, value: str) -> list[str]:
        """Returns the names of the value after quantising and dequantising. QuantizeLinear may clip in place of a Relu
        that a tool removed."""
        return [name for quantise in self.readers.get(value, ()) if quantise.op_type == "QuantizeLinear"
                and quantise.inputs[0] == value for dequantise in self.readers.get(quantise.outputs[0], ())
                if dequantise.op_type == "DequantizeLinear" for name in dequantise.outputs if name]

    @cached_property
    def elements(self) -> dict[str, int]:
        """Returns the number of elements of each initializer."""
        return {each.name: math.prod(each.dims) for each in self.model.graph.initializer}

    @cached_property
    def scalars(self) -> dict[str, Any]:
        """Returns the initializers with one element that are stored in the file itself."""
        return {each.name: each for each in self.model.graph.initializer if self.elements[each.name] == 1
                and each.data_location != each.EXTERNAL}

    @property
    def inputs(self) -> list[str]:
        initializers = {each.name for each in self.model.graph.initializer}
        return [each.name for each in self.model.graph.input if each.name not in initializers]

    @property
    def outputs(self) -> list[str]:
        return [each.name for each in self.model.graph.output]


def read(path: str | os.PathLike[str], annotated: bool = True) -> File:
    """Reads the file. Raises WhenceError like ``model_structure``, and E0203 if ``annotated`` is true but no node has
    an origin."""
    require_path(path, "the model")
    model = model_structure.without_weights(path)
    try:
        nodes = [node_of(at, node) for at, node in enumerate(model.graph.node)]
    except (TypeError, UnicodeDecodeError):  # invalid UTF-8; the class depends on protobuf's version
        raise error("E0204", "corrupt_file", f"the metadata of {path} is not UTF-8", "check how it was written",
                    file=os.fspath(path)) from None
    notes: tuple[str, ...] = ()
    has_exporter_origins = annotated and not any(node.modules for node in nodes) and _has_exporter_keys(model)
    if has_exporter_origins:
        nodes, notes = _with_exporter_origins(path, nodes)
    if annotated and not any(node.modules for node in nodes):
        raise error("E0203", "wrong_kind", f"{path} is not annotated: no node has a module",
                    "annotate it: whence.annotate(path, sidecar), or export it with `whence export --annotate`",
                    file=os.fspath(path))
    return _file(path, model, nodes, notes, has_exporter_origins)


def of_model(path: str, model: Any) -> File:
    """Returns the file at ``path`` with another graph, which runs in its place. Its weights may be in the files of
    ``path``."""
    nodes = [node_of(at, node) for at, node in enumerate(model.graph.node)]
    notes: tuple[str, ...] = ()
    has_exporter_origins = not any(node.modules for node in nodes) and _has_exporter_keys(model)
    if has_exporter_origins:
        with tempfile.TemporaryDirectory(prefix="whence-") as folder:
            copy = Path(folder) / "model.onnx"
            copy.write_bytes(model.SerializeToString())
            nodes, notes = _with_exporter_origins(copy, nodes)
    return replace(_file(path, model, nodes, notes, has_exporter_origins), content=model.SerializeToString())


def with_nodes(file: File, nodes: list[Node]) -> File:
    """Returns the file with other origins of its nodes."""
    return replace(_file(file.path, file.model, nodes, file.notes, file.has_exporter_origins), content=file.content)


def _file(path: str | os.PathLike[str], model: Any, nodes: list[Node], notes: tuple[str, ...],
          has_exporter_origins: bool) -> File:
    producer = {name: node for node in nodes for name in node.outputs if name}
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in dict.fromkeys(node.inputs):
            readers.setdefault(name, []).append(node)
    file = File(os.fspath(path), model, nodes, producer, readers, notes=notes, has_exporter_origins=has_exporter_origins)
    inputs = set(file.inputs)
    file.constants = {each.name for each in model.graph.initializer if each.name not in inputs}
    for node in nodes:
        if _is_random(node, model) or any(name in file.random for name in node.inputs):
            file.random.update(node.outputs)
        if all(not name or name in file.constants for name in node.inputs) and not _is_random(node, model):
            file.constants.update(node.outputs)
        elif node.op_type in ("Shape", "Size") or not any(True for _ in file.data_inputs(node)):
            file.sizes.update(node.outputs)
    return file


def is_annotated(path: str | os.PathLike[str]) -> bool:
    """Returns true if every node has whence's keys. Raises WhenceError like ``read``."""
    require_path(path, "the model")
    return all(any(each.key == _KEY + "confidence" for each in node.metadata_props)
               for node in model_structure.without_weights(path).graph.node)


def annotated_copy(path: str | os.PathLike[str], folder: Path, *options: object) -> Path:
    """Writes a copy with origins to ``folder``, by ``whence annotate`` with the options. Raises WhenceError like
    ``whence.annotate``."""
    copy = folder / Path(path).name
    copy_data = ("--copy-data",) if model_structure.external_weights(path) else ()
    run_json("annotate", path, *options, "-o", copy, *copy_data)
    return copy


def _has_exporter_keys(model: Any) -> bool:
    return any(each.key in _EXPORTER_KEYS for node in model.graph.node for each in node.metadata_props)


def _with_exporter_origins(path: str | os.PathLike[str], nodes: list[Node]) -> tuple[list[Node], tuple[str, ...]]:
    """Adds modules to the nodes, which the command reads from the exporter's metadata. Also returns the command's
    diagnostics."""
    report = run_json("select", path)
    rows = [entry for entry in report["nodes"] if not entry["nested"]]
    return ([replace(node, modules=tuple(row["modules"]), primary=row["primary"], confidence=row["confidence"])
             for node, row in zip(nodes, rows, strict=True)],
            tuple(str(Diagnostic.from_json(entry)) for entry in report.get("diagnostics", ())))


RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


def _is_random(node: Node, model: Any) -> bool:
    """Returns true if the node draws random numbers. Dropout does if its third input, the training mode, is true."""
    if node.op_type != "Dropout" or len(node.inputs) < 3 or not node.inputs[2]:
        return node.op_type in RANDOM
    training = next((each for each in model.graph.initializer if each.name == node.inputs[2]), None)
    return training is None or any((*training.int32_data, *training.raw_data))


def node_of(at: int, proto: Any) -> Node:
    keys = {each.key: each.value for each in proto.metadata_props if each.key.startswith(_KEY)}
    operations, is_shared = operations_in(keys)
    call = keys.get(_KEY + "call", "0")
    return Node(at, proto.name, proto.op_type, proto.domain, (*proto.input, *_outer_inputs(proto)), tuple(proto.output), modules_in(keys),
                primary_in(keys), int(call) if call.isdigit() else 0, keys.get(_KEY + "confidence", "unattributed"),
                keys.get(_KEY + "source", ""), operations[:1] if is_shared else operations,
                proto.op_type.startswith("QLinear") or proto.op_type in _INTEGERS)


_INTEGERS = {"QuantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "QGemm"}


def _outer_inputs(proto: Any) -> Iterator[str]:
    for attribute in proto.attribute:
        for body in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            yield from _outer_values(body)


def _outer_values(body: Any) -> Iterable[str]:
    inner = {each.name for each in (*body.input, *body.initializer)} \
        | {name for node in body.node for name in node.output}
    names: dict[str, None] = {}
    for node in body.node:
        names.update(dict.fromkeys((*node.input, *_outer_inputs(node))))
    names.update(dict.fromkeys(each.name for each in body.output))
    return [name for name in names if name and name not in inner]
