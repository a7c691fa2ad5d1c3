"""Converts calls in traces with a user's symbolic functions (torch.onnx.register_custom_op_symbolic).

Each call becomes a PyTorch graph of one node, which PyTorch converts with the user's function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .call_expansion import Call, Input, Keyword


def registered(opset: int) -> frozenset[str]:
    """Returns the operators for which the user registered a symbolic function at this opset: {"aten::gelu"}.

    Skips functions that torchvision registers when it is imported: whence has converters for its operators.
    """
    from torch.onnx._internal.torchscript_exporter import registration

    operators = set()
    for name in registration.registry.all_functions():
        group = registration.registry.get_function_group(name)
        if group is None or name.startswith(("torchvision::", "prim::")):
            continue
        version = registration._dispatch_opset_version(opset, group._functions)
        if version is not None and group._functions.overridden(version):
            operators.add(name)
    return frozenset(operators)


def part_of(call: Call, opset: int, custom_opsets: Mapping[str, int]) -> Any:
    """Returns an ONNX model of only this call, which PyTorch creates with the user's function. Raises E0302."""
    import onnx
    from torch.onnx._internal.torchscript_exporter import _globals, onnx_proto_utils

    kind = torch.onnx.OperatorExportTypes.ONNX
    state = _globals.GLOBALS
    original = state.export_onnx_opset_version, state.operator_export_type
    state.export_onnx_opset_version, state.operator_export_type = opset, kind
    try:
        graph = _graph(call)
        torch._C._jit_pass_erase_number_types(graph)  # numbers become tensors, as symbolic functions expect
        graph = torch._C._jit_pass_onnx(graph, kind)
        torch._C._jit_pass_dce_allow_deleting_nodes_with_side_effects(graph)
        proto = graph._export_onnx({}, opset, {}, False, kind, True, True, dict(custom_opsets), True, "", {})[0]
        return onnx.load_model_from_string(onnx_proto_utils._add_onnxscript_fn(proto, custom_opsets))
    except Exception as failure:  # the function is the user's
        raise call.failed(f"the function registered for {call.operator}", failure,
                          "fix it, or remove it with torch.onnx.unregister_custom_op_symbolic") from failure
    finally:
        state.export_onnx_opset_version, state.operator_export_type = original


def _graph(call: Call) -> torch._C.Graph:
    """Returns a PyTorch graph that contains only the call."""
    graph = torch._C.Graph()
    inputs = [graph.addInput(f"input.{index}").setType(_type(each)) for index, each in enumerate(call.inputs)]
    arguments = []
    for argument in call.schema.arguments:
        default = argument.default_value if argument.has_default_value() else None
        arguments.append(_argument(graph, call.arguments.get(argument.name, default), inputs, argument.type))
    node = graph.insertNode(graph.create(call.operator, arguments, len(call.outputs)))
    for output, each in zip(node.outputs(), call.outputs):
        graph.registerOutput(output.setType(_type(each)))
    return graph


def _argument(graph: torch._C.Graph, value: Any, inputs: list[Any], kind: Any) -> Any:
    if isinstance(value, Input):
        return inputs[value.index]
    if isinstance(value, (list, tuple)):
        kind = kind.getElementType() if isinstance(kind, torch._C.OptionalType) else kind
        items = [_argument(graph, each, inputs, None) for each in value]
        return graph.insertNode(graph.create("prim::ListConstruct", items, 1)).output().setType(kind)
    if isinstance(value, torch.dtype):  # TorchScript represents dtypes by numbers
        from torch.onnx._internal.torchscript_exporter._type_utils import JitScalarType
        value = int(JitScalarType.from_dtype(value))
    return graph.insertConstant(None if isinstance(value, Keyword) else value)


def _type(onnx_type: Any) -> torch._C.TensorType:
    """Returns TorchScript's type for an ONNX type; the general tensor type if the ONNX type is unknown."""
    from torch.onnx._internal.torchscript_exporter._type_utils import JitScalarType

    kind = torch._C.TensorType.get()
    if onnx_type is None or not onnx_type.tensor_type.elem_type:
        return kind
    tensor_type = onnx_type.tensor_type
    kind = kind.with_dtype(JitScalarType.from_onnx_type(tensor_type.elem_type).dtype())
    if tensor_type.HasField("shape"):
        kind = kind.with_sizes([dim.dim_value if dim.HasField("dim_value") else None for dim in tensor_type.shape.dim])
    return kind
