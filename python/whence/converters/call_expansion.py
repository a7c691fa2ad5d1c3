"""Replaces single calls in a file with the nodes that Python creates for them.

A symbolic function or a translation creates the nodes of one operator call in Python, from the call's arguments. The
command writes these calls as nodes that contain their arguments (`--keep-operator`), and this module replaces each node
with a part: an ONNX model of only this call. The part's nodes are named after the replaced node and have its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ..base.optional_packages import import_optional
from ..errors import WhenceError, error
from ..files.onnx_graphs import bodies, graphs

_PREFIX = "whence."


@dataclass(frozen=True)
class Input:
    """An argument that the graph computes."""

    index: int


@dataclass(frozen=True)
class Call:
    """A call of an operator, read from a node of the file."""

    node: Any
    arguments: Mapping[str, Any]  # by schema name; Input, torch.dtype, numbers, strings, None, and lists of these
    inputs: tuple[Any, ...]  # onnx.TypeProto of each, None if it is unknown
    outputs: tuple[Any, ...]

    @property
    def operator(self) -> str:
        return f"{self.node.domain.removeprefix(_PREFIX)}::{self.node.op_type}"

    @cached_property
    def overload(self) -> str:
        return next((each.s.decode() for each in self.node.attribute if each.name == "overload"), "")

    @property
    def keys(self) -> tuple[str, str]:
        """The names that a table may use for the operator, the most specific first."""
        return f"{self.operator}.{self.overload or 'default'}", self.operator

    @property
    def schema(self) -> Any:
        return next((each for each in torch._C._jit_get_schemas_for_operator(self.operator)
                     if each.overload_name == self.overload), None)

    def failed(self, what: str, failure: object, remedy: str) -> WhenceError:
        reason = f"{type(failure).__name__}: {failure}" if isinstance(failure, Exception) else str(failure)
        module = {"module": self.node.name.split("/")[-2]} if self.node.name.count("/") > 1 else {}
        return error("E0302", "converter_refused", f"{what} fails: {reason}", remedy, **module, op=self.keys[0])


Maker = Callable[[Call], Any]  # returns an onnx.ModelProto with the node's inputs and outputs


def expand(path: Path, makers: Mapping[str, Maker], custom_opsets: Mapping[str, int]) -> None:
    """Replaces the calls in the file with parts from ``makers``, {"aten::gelu": ..., "aten::add.Tensor": ...}.

    Raises WhenceError E0302 if a maker fails.
    """
    onnx = import_optional("onnx", "operators that Python converts")
    model = onnx.load(str(path), load_external_data=False)
    types, parts, replaced_inputs = _types(model), [], set()
    for graph in graphs(model.graph):
        nodes, before = [], len(parts)
        for node in graph.node:
            call = _call(node, types)
            make = call and next((makers[key] for key in call.keys if key in makers), None)
            if make:
                parts.append(make(call))
                nodes += _inserted_nodes(node, parts[-1], graph)
                replaced_inputs.update(node.input)
            else:
                nodes.append(node)
        if len(parts) > before:
            nodes = [type(node).FromString(node.SerializeToString()) for node in nodes]
            del graph.node[:]
            graph.node.extend(nodes)
    if parts:
        _drop_unread(model.graph, replaced_inputs)
        _declare(model, parts, custom_opsets)
        onnx.save_model(model, str(path))


def _types(model: Any) -> dict[str, Any]:
    import onnx

    types = {}
    for graph in graphs(model.graph):
        types |= {each.name: onnx.helper.make_tensor_type_proto(each.data_type, each.dims)
                  for each in graph.initializer}
        types |= {each.name: each.type for each in (*graph.value_info, *graph.input, *graph.output)}
    return types


def _call(node: Any, types: Mapping[str, Any]) -> Call | None:
    text = next((each.s for each in node.attribute if each.name == "arguments"), None)
    if not node.domain.startswith(_PREFIX) or not text:
        return None
    arguments = json.loads(text, object_hook=_argument)
    return Call(node, arguments, tuple(map(types.get, node.input)), tuple(map(types.get, node.output)))


def _argument(entry: dict[str, Any]) -> Any:
    """Decodes JSON objects with one key, which encode values that JSON lacks; see annotator/convert/custom_nodes.h."""
    if len(entry) == 1:
        (kind, value), = entry.items()
        if kind == "input" and isinstance(value, int):
            return Input(value)
        if kind == "dtype" and isinstance(value, str):
            return getattr(torch, value)
        if kind == "keyword":
            return Keyword(value)
        if kind == "complex" and isinstance(value, list):
            return complex(*value)
        if kind == "number":
            return float(value)
    return entry


class Keyword(str):
    """A device, layout or memory format."""


def _inserted_nodes(node: Any, part: Any, graph: Any) -> list[Any]:
    """Returns the part's nodes, named after the node that they replace, with its metadata."""
    import onnx

    names = dict(zip((each.name for each in part.graph.input), node.input))
    produced = {name for each in part.graph.node for name in each.output}
    for result, output in zip(part.graph.output, node.output):
        if not output:
            continue
        if result.name in produced and result.name not in names:
            names[result.name] = output
        else:  # an argument returned unchanged, or a result returned twice
            part.graph.node.append(onnx.helper.make_node("Identity", [result.name], [f"{result.name}.{output}"]))
            names[f"{result.name}.{output}"] = output

    def renamed(name: str) -> str:
        return names.setdefault(name, f"{node.name}/{name}") if name else ""

    _copy_values(part.graph, graph, renamed)
    return [_annotated(each, node, renamed, len(part.graph.node) > 1) for each in part.graph.node]


def _copy_values(part: Any, graph: Any, renamed: Callable[[str], str]) -> None:
    for value in part.initializer:
        graph.initializer.add().CopyFrom(value)
        graph.initializer[-1].name = renamed(value.name)
    existing = {each.name for each in (*graph.value_info, *graph.input, *graph.output)}
    for value in part.value_info:
        if renamed(value.name) not in existing:
            graph.value_info.add().CopyFrom(value)
            graph.value_info[-1].name = renamed(value.name)


def _annotated(new_node: Any, node: Any, renamed: Callable[[str], str], several: bool) -> Any:
    new_node.name = f"{node.name}/{new_node.op_type}" if several else node.name
    _rename(new_node, renamed)
    for inserted in (new_node, *(inner for graph in bodies(new_node) for inner in graph.node)):
        del inserted.metadata_props[:]
        inserted.metadata_props.extend(node.metadata_props)
    return new_node


def _rename(node: Any, renamed: Callable[[str], str]) -> None:
    """Renames the node's values, also inside branches and loops, which may read renamed values of the graph around
    them."""
    node.input[:] = map(renamed, node.input)
    node.output[:] = map(renamed, node.output)
    for graph in bodies(node):
        for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
            value.name = renamed(value.name)
        for inner in graph.node:
            inner.input[:] = map(renamed, inner.input)
            inner.output[:] = map(renamed, inner.output)


def _drop_unread(outermost: Any, candidates: set[str]) -> None:
    """Removes nodes, initializers and types that are no longer read. ``candidates`` are the inputs of replaced nodes;
    adds the values from which they were computed."""
    readers: dict[str, int] = {}
    for graph in graphs(outermost):
        for name in (*(each.name for each in graph.output), *(name for node in graph.node for name in node.input)):
            readers[name] = readers.get(name, 0) + 1
    for graph in reversed(list(graphs(outermost))):
        for node in reversed(list(graph.node)):
            if candidates.issuperset(node.output) and not any(readers.get(name) for name in node.output) and not any(
                    each.HasField("g") for each in node.attribute):
                candidates.update(node.input)
                for name in node.input:
                    readers[name] -= 1
                graph.node.remove(node)
        inputs = {each.name for each in graph.input}
        for value in [each for each in graph.initializer if each.name in candidates and not readers.get(each.name)]:
            if value.name not in inputs:
                graph.initializer.remove(value)
        value_infos = [each for each in graph.value_info if each.name not in candidates or readers.get(each.name)]
        if len(value_infos) < len(graph.value_info):
            value_infos = [type(each).FromString(each.SerializeToString()) for each in value_infos]
            del graph.value_info[:]
            graph.value_info.extend(value_infos)


def _declare(model: Any, parts: list[Any], custom_opsets: Mapping[str, int]) -> None:
    """Declares the domains and functions of the parts, and removes domains that are no longer used."""
    declared = {(each.domain, each.name) for each in model.functions}
    for function in (each for part in parts for each in part.functions):
        if (function.domain, function.name) not in declared:
            declared.add((function.domain, function.name))
            model.functions.add().CopyFrom(function)
    used = {node.domain for graph in graphs(model.graph) for node in graph.node}
    used |= {node.domain for function in model.functions for node in function.node} | {""}
    versions = {each.domain: each.version for part in parts for each in part.opset_import} | {
        each.domain: each.version for each in model.opset_import} | dict(custom_opsets)
    del model.opset_import[:]
    for domain in sorted(used & set(versions)):
        model.opset_import.add(domain=domain, version=versions[domain])
