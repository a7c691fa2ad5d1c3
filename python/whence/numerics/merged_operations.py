"""Finds the operation that a tool merged into another one, such as a Pad in the attributes of a Conv. If the result of
the merged node is wrong, that operation is the likely fault: the other one is what the node computes by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .annotated_file import File, Node
from .candidates import nodes_by_operation
from .recorded_program import RecordedProgram

# Operators that need no node of their own in any file: they rearrange, copy or convert, or do nothing in inference.
_FREE = {"alias", "clone", "contiguous", "copy", "detach", "dropout", "expand", "flatten", "item", "permute", "reshape",
         "size", "squeeze", "sym_size", "t", "to", "transpose", "type_as", "unflatten", "unsqueeze", "view", "view_as_real",
         "view_as_complex", "_to_copy", "lift_fresh_copy", "alpha_dropout", "feature_dropout", "chunk", "split", "unbind"}
# Operators whose merging leaves the fault to the product: a norm changes its weights, an activation follows it.
_FOLLOWING = {"batch_norm", "relu", "relu6", "leaky_relu", "elu", "gelu", "silu", "hardtanh", "hardswish", "hardsigmoid",
              "clamp", "clamp_min", "clamp_max", "sigmoid", "tanh"}
_MATRIX_PRODUCTS = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm")
_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "conv_transpose1d", "conv_transpose2d",
                 "conv_transpose3d")
# Operators with another name in ONNX.
_OPERATORS = {
    "AveragePool": ("avg_pool1d", "avg_pool2d", "avg_pool3d"), "Clip": ("clamp", "clamp_min", "clamp_max", "hardtanh"),
    "Concat": ("cat", "concat", "stack"), "Conv": _CONVOLUTIONS, "ConvTranspose": _CONVOLUTIONS, "FusedConv": _CONVOLUTIONS,
    "QLinearConv": _CONVOLUTIONS, "Gather": ("embedding", "index_select", "select"), "Gemm": _MATRIX_PRODUCTS,
    "MatMul": _MATRIX_PRODUCTS, "MaxPool": ("max_pool1d", "max_pool2d", "max_pool3d"), "Mod": ("remainder", "fmod"),
    "ReduceMax": ("amax", "max"), "ReduceMean": ("mean",), "ReduceMin": ("amin", "min"), "ReduceProd": ("prod",),
    "ReduceSum": ("sum",), "Slice": ("slice", "narrow"),
}


def operator_name(target: str) -> str:
    """Returns "add" for "aten::add_.Tensor"."""
    return target.rpartition("::")[2].split(".")[0].rstrip("_")


def merged_operation(file: File, nodes: Iterable[Node], program: RecordedProgram, includes_later: bool) -> int | None:
    """Returns the number of the only operation that the nodes compute beside those of their primary module; None if
    there are none or several. Ignores norms and activations. Includes operations without nodes that ``nodes``'
    operations read and, with ``includes_later``, those that read theirs."""
    nodes = list(nodes)
    operations = {number for node in nodes for number in node.operations if number < len(program.targets)}
    modules = {node.primary for node in nodes}
    if not operations or len(modules) != 1:
        return None
    has_nodes = _operations_with_nodes(file, program)
    found = _vanished(operations, dict(enumerate(program.read)), has_nodes, program)
    if includes_later:
        found |= _vanished(operations, _readers(program), has_nodes, program)
    merged = {number for number in operations | found if program.calls[number][0] not in modules
              and operator_name(program.targets[number]) not in _FOLLOWING}
    return merged.pop() if len(merged) == 1 else None


def nodes_before_merged(file: File, nodes: Iterable[Node], program: RecordedProgram) -> list[Node]:
    """Returns the nodes whose results ``nodes`` read instead of those of operations without nodes: a tool merged these
    operations into either."""
    nodes = list(nodes)
    operations = {number for node in nodes for number in node.operations if number < len(program.targets)}
    vanished = _vanished(operations, dict(enumerate(program.read)), _operations_with_nodes(file, program), program)
    read = {each for number in vanished for each in program.read[number]}
    producers = {file.producer[name].at: file.producer[name] for node in nodes for name in node.inputs if name in file.producer}
    return [each for each in producers.values() if each not in nodes and read.intersection(each.operations)]


def main_operation(nodes: Iterable[Node], program: RecordedProgram) -> str:
    """Returns the operator of the nodes' operations, if it is only one, or the only one that a single node's operator
    implements by itself; else an empty string. A node without operations implements one of its module."""
    nodes = list(nodes)
    numbers = {number for node in nodes for number in node.operations}
    if not numbers and len(nodes) == 1:
        numbers = {number for number, call in enumerate(program.calls) if call == (nodes[0].primary, nodes[0].call)}
        targets = set()
    else:
        targets = {program.targets[number] for number in numbers if number < len(program.targets)}
    own = {program.targets[number] for number in numbers if len(nodes) == 1 and number < len(program.targets)
           and _implements(nodes[0].op_type, operator_name(program.targets[number]))}
    return next((each.pop() for each in (targets, own) if len(each) == 1), "")


def _implements(op_type: str, operator: str) -> bool:
    """Returns true if the ONNX operator is the usual form of the operator: "CumSum" of "cumsum"."""
    return op_type.lower() == operator.replace("_", "") or operator in _OPERATORS.get(op_type, ())


def _operations_with_nodes(file: File, program: RecordedProgram) -> set[int]:
    """Returns the operations that nodes implement, or may implement: a node of their module states no operation."""
    stated = set(nodes_by_operation(file))
    modules = {module for node in file.nodes if not node.operations for module in node.modules}
    return stated | {number for number, (module, _) in enumerate(program.calls) if module in modules}


def _vanished(operations: set[int], neighbours: Mapping[int, Iterable[int]], has_nodes: set[int],
              program: RecordedProgram) -> set[int]:
    """Returns the operations without nodes next to ``operations``."""
    found: set[int] = set()
    visited, pending = set(operations), list(operations)
    while pending:
        for number in neighbours.get(pending.pop(), ()):
            if number in visited or number in has_nodes:
                continue
            visited.add(number)
            pending.append(number)
            if operator_name(program.targets[number]) not in _FREE:
                found.add(number)
    return found


def _readers(program: RecordedProgram) -> dict[int, list[int]]:
    readers: dict[int, list[int]] = {}
    for number, read in enumerate(program.read):
        for each in read:
            readers.setdefault(each, []).append(number)
    return readers
