"""Builds a model of some nodes of a file that runs alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from ..base.optional_packages import import_optional
from . import model_structure
from .annotated_file import File, Node
from .ort_session import value_info


def with_constants(file: File, nodes: list[Node]) -> list[Node]:
    """Adds the nodes that compute constants which the nodes read."""
    added = {node.at: node for node in nodes}
    pending = [name for node in nodes for name in node.inputs]
    while pending:
        name = pending.pop()
        node = file.producer.get(name)
        if node is not None and name in file.constants and node.at not in added:
            added[node.at] = node
            pending += node.inputs
    return [added[at] for at in sorted(added)]


def inputs_of(file: File, nodes: list[Node]) -> list[str]:
    """Returns the values that the nodes read and do not compute, without weights."""
    computed = {name for node in nodes for name in node.outputs}
    return list(dict.fromkeys(name for node in nodes for name in node.inputs
                              if name and name not in computed and name not in file.elements))


def model_of(file: File, nodes: list[Node], inputs: Mapping[str, torch.Tensor],
             outputs: Mapping[str, torch.Tensor | None], declared: bool = False) -> Any:
    """Returns an onnx.ModelProto of the nodes with their weights and without their metadata. A runtime infers the type of
    an output whose tensor is None. Inputs take the place of values that the nodes compute. ``declared`` keeps the types
    that the file declares for computed values, which may be wrong.
    """
    from onnx.external_data_helper import uses_external_data

    onnx = import_optional("onnx", "reading a model")
    read = {name for node in nodes for name in node.inputs}
    complete = model_structure.without_weights(file.path, read) if file.content is None else file.load()
    model = onnx.ModelProto(ir_version=complete.ir_version, producer_name=complete.producer_name,
                            producer_version=complete.producer_version)
    model.opset_import.extend(complete.opset_import)
    model.functions.extend(complete.functions)
    model.graph.name = "piece"
    for node in nodes:
        proto = model.graph.node.add()
        proto.CopyFrom(complete.graph.node[node.at])
        proto.output[:] = [f"{name}.replaced" if name in inputs else name for name in node.outputs]
        del proto.metadata_props[:]
        proto.doc_string = ""
    for tensor in complete.graph.initializer:
        if tensor.name not in read:
            continue
        weights = model.graph.initializer.add()
        weights.CopyFrom(tensor)
        if uses_external_data(weights):
            model_structure.embed(weights, os.path.dirname(os.path.abspath(file.path)))
    model.graph.input.extend(value_info(name, tensor) for name, tensor in inputs.items())
    types = {each.name: each for each in (*complete.graph.value_info, *complete.graph.output)} if declared else {}
    computed = {name for node in nodes for name in node.outputs}
    model.graph.value_info.extend(each for name, each in types.items()
                                  if name in computed and name not in inputs and name not in outputs)
    model.graph.output.extend(types.get(name, onnx.ValueInfoProto(name=name)) if tensor is None else value_info(name, tensor)
                              for name, tensor in outputs.items())
    return model


def without_rounding(model: Any) -> Any:
    """Returns a copy of the model in which pairs of a QuantizeLinear and a DequantizeLinear with the same step only clip
    to their range."""
    onnx = import_optional("onnx", "reading a model")
    unrounded = type(model)()
    unrounded.CopyFrom(model)
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer if not each.external_data}
    quantised = {node.output[0]: node for node in model.graph.node if node.op_type == "QuantizeLinear"}
    for node in unrounded.graph.node:
        source = quantised.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        bounds = None if source is None else _common_range(source, node, constants)
        if bounds is not None:
            names = [f"{node.output[0]}.{each}" for each in ("lowest", "highest")]
            unrounded.graph.initializer.extend(map(onnx.numpy_helper.from_array, bounds, names))
            node.CopyFrom(onnx.helper.make_node("Clip", [source.input[0], *names], list(node.output)))
    return unrounded


def _common_range(quantise: Any, dequantise: Any, constants: Mapping[str, Any]) -> list[Any] | None:
    """Returns the smallest and the largest number that both nodes represent, as arrays, and a step more: a zero point is
    rounded, too. Returns None if their steps or zero points differ or are not single numbers."""
    import numpy

    found = [[constants.get(name) for name in node.input[1:]] for node in (quantise, dequantise)]
    if any(len(each) != 2 or any(array is None or array.size != 1 for array in each) for each in found) or found[0] != found[1]:
        return None
    step, zero = found[0]
    if zero.dtype.kind not in "iu":
        return None
    limits = numpy.iinfo(zero.dtype)
    return [((each - zero.astype(numpy.int64)) * step).astype(step.dtype).reshape(()) for each in (limits.min - 1, limits.max + 1)]
