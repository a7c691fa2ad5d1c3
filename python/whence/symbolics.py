"""Symbolic functions that a user registered with torch.onnx.register_custom_op_symbolic, in an export of a trace.

A symbolic function makes the nodes of one call of an operator, from the arguments of that call, in Python. So the
command writes such calls as nodes that hold their arguments, ``whence.aten::gelu`` with attribute ``approximate``, and
here each is made a PyTorch graph of one node, which PyTorch converts with the user's function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from .errors import error
from .running import needs

_PREFIX = "whence."


def registered(opset: int) -> frozenset[str]:
    """{"aten::gelu"}: the operators for which a user's function is the one of this opset.

    torchvision registers its own when it is imported; whence has converters for those.
    """
    from torch.onnx._internal.torchscript_exporter import registration

    found = set()
    for name in registration.registry.all_functions():
        group = registration.registry.get_function_group(name)
        if group is None or name.startswith(("torchvision::", "prim::")):
            continue
        version = registration._dispatch_opset_version(opset, group._functions)
        if version is not None and group._functions.overridden(version):
            found.add(name)
    return frozenset(found)


def expand(path: Path, operators: frozenset[str], opset: int, custom_opsets: Mapping[str, int]) -> None:
    """Writes what the users' functions make in the place of the calls in the file.

    Raises WhenceError E0302 where a function fails.
    """
    onnx = needs("onnx", "symbolic functions registered with torch.onnx")
    model = onnx.load(str(path), load_external_data=False)
    types = {each.name: each.type.tensor_type for graph in _graphs(model.graph)
             for each in (*graph.value_info, *graph.input, *graph.output)}
    types |= {each.name: onnx.helper.make_tensor_type_proto(each.data_type, each.dims).tensor_type
              for graph in _graphs(model.graph) for each in graph.initializer}
    made: list[Any] = []
    for graph in _graphs(model.graph):
        nodes = []
        for node in graph.node:
            name = f"{node.domain.removeprefix(_PREFIX)}::{node.op_type}"
            if node.domain.startswith(_PREFIX) and name in operators:
                part = onnx.load_model_from_string(_converted(name, node, types, opset, custom_opsets))
                nodes += _placed(node, part, graph)
                made.append(part)
            else:
                nodes.append(node)
        if made:
            nodes = [type(node).FromString(node.SerializeToString()) for node in nodes]
            del graph.node[:]
            graph.node.extend(nodes)
    if made:
        _declare(model, made, operators, custom_opsets)
        onnx.save_model(model, str(path))


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _converted(name: str, node: Any, types: Mapping[str, Any], opset: int, custom_opsets: Mapping[str, int]) -> bytes:
    """An ONNX model of the call alone, made by PyTorch with the user's function."""
    from torch.onnx._internal.torchscript_exporter import _globals, onnx_proto_utils

    kind = torch.onnx.OperatorExportTypes.ONNX
    state, kept = _globals.GLOBALS, (_globals.GLOBALS.export_onnx_opset_version, _globals.GLOBALS.operator_export_type)
    state.export_onnx_opset_version, state.operator_export_type = opset, kind
    try:
        graph = _call(name, node, types)
        torch._C._jit_pass_erase_number_types(graph)  # numbers become tensors, as symbolic functions expect them
        graph = torch._C._jit_pass_onnx(graph, kind)
        torch._C._jit_pass_dce_allow_deleting_nodes_with_side_effects(graph)
        proto = graph._export_onnx({}, opset, {}, False, kind, True, True, dict(custom_opsets), True, "", {})[0]
        return onnx_proto_utils._add_onnxscript_fn(proto, custom_opsets)
    except Exception as failure:  # the function is the user's
        raise error("E0302", "converter_refused", f"the function registered for {name} fails: {failure}",
                    "mend it, or torch.onnx.unregister_custom_op_symbolic it") from failure
    finally:
        state.export_onnx_opset_version, state.operator_export_type = kept


def _call(name: str, node: Any, types: Mapping[str, Any]) -> torch._C.Graph:
    """A graph of PyTorch that calls the operator as the node says."""
    import onnx

    given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    texts = {key: value.decode() if isinstance(value, bytes) else value for key, value in given.items()}
    graph, values = torch._C.Graph(), {}
    for argument, value in zip((each.decode() for each in given["inputs"]), node.input, strict=True):
        values[argument] = graph.addInput(f"input.{len(values)}").setType(_type(types.get(value)))
    overload = texts.get("overload", "")
    schema = next(each for each in torch._C._jit_get_schemas_for_operator(name) if each.overload_name == overload)
    arguments = [_argument(graph, each, values, texts) for each in schema.arguments]
    call = graph.insertNode(graph.create(name, arguments, len(node.output)))
    for output, value in zip(call.outputs(), node.output):
        graph.registerOutput(output.setType(_type(types.get(value))))
    return graph


def _argument(graph: torch._C.Graph, argument: Any, values: Mapping[str, Any], texts: Mapping[str, Any]) -> Any:
    name = argument.name
    if name in values:
        return values[name]
    parts = sorted((key for key in values if key.startswith(f"{name}.")), key=lambda key: int(key.rsplit(".", 1)[1]))
    if parts:
        return _list(graph, [values[part] for part in parts], argument.type)
    value = texts.get(name, argument.default_value if argument.has_default_value() else None)
    if str(argument.type) in ("bool", "Optional[bool]") and value is not None:
        value = bool(value)
    if name == "dtype" and isinstance(value, str):  # whence calls it "float32", TorchScript has numbers for it
        from torch.onnx._internal.torchscript_exporter._type_utils import JitScalarType
        value = int(JitScalarType.from_dtype(getattr(torch, value)))
    if isinstance(value, (list, tuple)):
        return _list(graph, [graph.insertConstant(each) for each in value], argument.type)
    return graph.insertConstant(value)


def _list(graph: torch._C.Graph, items: list, kind: Any) -> Any:
    kind = kind.getElementType() if isinstance(kind, torch._C.OptionalType) else kind
    return graph.insertNode(graph.create("prim::ListConstruct", items, 1)).output().setType(kind)


def _type(known: Any) -> torch._C.TensorType:
    """Of an ONNX tensor type; of any kind where nothing is known."""
    from torch.onnx._internal.torchscript_exporter._type_utils import JitScalarType

    kind = torch._C.TensorType.get()
    if known is None or not known.elem_type:
        return kind
    import onnx

    kind = kind.with_dtype(JitScalarType.from_onnx_type(onnx.TensorProto.DataType.Value(
        onnx.TensorProto.DataType.Name(known.elem_type))).dtype())
    if known.HasField("shape"):
        kind = kind.with_sizes([each.dim_value if each.HasField("dim_value") else None for each in known.shape.dim])
    return kind


def _placed(node: Any, part: Any, graph: Any) -> list[Any]:
    """The part's nodes, named after the node that they stand for, with what is said of it."""
    import onnx

    names = dict(zip((each.name for each in part.graph.input), node.input))
    made = {name for each in part.graph.node for name in each.output}
    for result, output in zip(part.graph.output, node.output):
        if result.name in made and result.name not in names:
            names[result.name] = output
        else:  # an argument given back as it is, or one result twice
            part.graph.node.append(onnx.helper.make_node("Identity", [result.name], [f"{result.name}.{output}"]))
            names[f"{result.name}.{output}"] = output

    def placed(name: str) -> str:
        return names.setdefault(name, f"{node.name}/{name}") if name else ""

    for value in part.graph.initializer:
        graph.initializer.add().CopyFrom(value)
        graph.initializer[-1].name = placed(value.name)
    for value in part.graph.value_info:
        graph.value_info.add().CopyFrom(value)
        graph.value_info[-1].name = placed(value.name)
    return [_moved(each, node, placed, len(part.graph.node) > 1) for each in part.graph.node]


def _moved(new: Any, node: Any, placed: Callable[[str], str], several: bool) -> Any:
    new.name = f"{node.name}/{new.op_type}" if several else node.name
    new.input[:] = map(placed, new.input)
    new.output[:] = map(placed, new.output)
    del new.metadata_props[:]
    new.metadata_props.extend(node.metadata_props)
    return new


def _declare(model: Any, made: list[Any], operators: frozenset[str], custom_opsets: Mapping[str, int]) -> None:
    """The domains and functions of what was placed, and no longer those of the calls."""
    used = {node.domain for graph in _graphs(model.graph) for node in graph.node}
    imports = {each.domain: each.version for each in model.opset_import if not each.domain.startswith(_PREFIX)}
    for part in made:
        imports |= {each.domain: custom_opsets.get(each.domain, each.version) for each in part.opset_import
                    if each.domain and each.domain in used}
        known = {(each.domain, each.name) for each in model.functions}
        for function in part.functions:
            if (function.domain, function.name) not in known:
                model.functions.add().CopyFrom(function)
    kept = {each.domain: each.version for each in model.opset_import if each.domain in used} | imports
    del model.opset_import[:]
    for domain, version in kept.items():
        model.opset_import.add(domain=domain, version=version)
