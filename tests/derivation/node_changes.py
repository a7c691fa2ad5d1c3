"""Changes of what the nodes of an ONNX graph compute, which leave all weights as they are: one function each.

A function returns None if the file has nothing to change in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from honest_graph import Change, Honest

ORDERED = {"Concat": slice(None), "Div": slice(None), "Sub": slice(None), "Where": slice(1, 3)}
STATING = {"Add", "Div", "Mul", "Pow", "Sub"}
FUNCTIONS = {"Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Reciprocal", "Sigmoid", "Softmax",
             "Sqrt", "Tanh"}  # without those that a quantiser may replace
RESULTS = {"Gelu", "LayerNormalization", "MatMul", "Sigmoid", "Softmax", "Tanh"}  # of several elements in each row
OTHER_ACTIVATIONS = {"Relu": "Sigmoid", "Tanh": "Sigmoid", "Sigmoid": "Tanh", "Softmax": "Hardmax", "Erf": "Tanh",
                     "Gelu": "Relu"}


def other_activation(honest: Honest) -> Change | None:
    node = _choose(honest, lambda node: node.op_type in OTHER_ACTIVATIONS)
    if node is None:
        return None
    text = f"{OTHER_ACTIVATIONS[node.op_type]} for {node.op_type}"
    node.op_type, node.domain = OTHER_ACTIVATIONS[node.op_type], ""
    del node.attribute[:]
    return _change(honest, node, text)


def exchanged_operands(honest: Honest) -> Change | None:
    """Reverses the operands of a node that computes from two different values or numbers."""
    def differ(node: NodeProto) -> bool:
        operands = list(node.input[ORDERED.get(node.op_type, slice(0))])
        constants = set(operands) & _constants(honest).keys()
        return operands[::-1] != operands and not (node.op_type == "Where" and len(constants) == len(operands))

    node = _choose(honest, differ)
    if node is None:
        return None
    places = ORDERED[node.op_type]
    node.input[places] = list(node.input[places])[::-1]
    return _change(honest, node, "exchanged operands of")


def other_number(honest: Honest) -> Change | None:
    """Gives a node the factor, term or exponent of another node, or 2, which is a size of most programs."""
    numbers = {name: tensor for name, tensor in _constants(honest).items()
               if tensor.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16) and int(np.prod(tensor.dims)) == 1
               and abs(float(numpy_helper.to_array(tensor).reshape(-1)[0])) > 1e-3}
    node = _choose(honest, lambda node: node.op_type in STATING and not numbers.keys().isdisjoint(node.input))
    if node is None:
        return None
    slot = next(i for i, name in enumerate(node.input) if name in numbers)
    number = numpy_helper.to_array(numbers[node.input[slot]])
    others = {float(numpy_helper.to_array(tensor).reshape(-1)[0]) for tensor in numbers.values()} | {2.0}
    others = sorted(other for other in others if abs(other - float(number.reshape(-1)[0])) > 0.1 * abs(other))
    if not others:
        return None
    other = float(honest.random.choice(others))
    text = f"{other} for {number.reshape(-1)[0]} in"
    node.input[slot] = _add(honest, np.full_like(number, other))
    return _change(honest, node, text)


def exchanged_parts(honest: Honest) -> Change | None:
    """Exchanges the first two parts of a Split where they are read."""
    node = next((node for node in honest.model.graph.node if node.op_type == "Split" and len(node.output) > 1), None)
    if node is None:
        return None
    change = _change(honest, node, "exchanged parts of")
    node.output[:2] = reversed(node.output[:2])
    return change


def other_part(honest: Honest) -> Change | None:
    """Lets a Slice start one element later."""
    constants = _constants(honest)
    node = _choose(honest, lambda node: node.op_type == "Slice" and node.input[1] in constants)
    if node is None:
        return None
    node.input[1] = _add(honest, numpy_helper.to_array(constants[node.input[1]]) + 1)
    return _change(honest, node, "one element later:")


def removed_function(honest: Honest) -> Change | None:
    """Lets the readers of a function read its operand."""
    node = _choose(honest, lambda node: node.op_type in FUNCTIONS and not _is_output(honest, node))
    if node is None:
        return None
    change = _change_of_readers(honest, node, "removed")
    _read_instead(honest, node.output[0], node.input[0])
    return change


def added_function(honest: Honest) -> Change | None:
    """Lets the readers of a result read its negative."""
    return _added(honest, "Neg", [], "negative of")


def reversed_elements(honest: Honest) -> Change | None:
    """Lets the readers of a result read the elements of its last axis from the last to the first."""
    numbers = (-1, np.iinfo(np.int64).min + 1, -1, -1)
    return _added(honest, "Slice", [np.array([number]) for number in numbers], "reversed elements of")


def _added(honest: Honest, op_type: str, numbers: list[np.ndarray], text: str) -> Change | None:
    node = _choose(honest, lambda node: node.op_type in RESULTS and not _is_output(honest, node))
    if node is None:
        return None
    value, name = node.output[0], f"added_{len(honest.model.graph.node)}"
    change = _change_of_readers(honest, node, text)
    _read_instead(honest, value, name)
    added = helper.make_node(op_type, [value, *(_add(honest, each) for each in numbers)], [name], name=name)
    honest.model.graph.node.insert(list(honest.model.graph.node).index(node) + 1, added)
    return Change(change.text, change.names | {name}, change.modules)


def _is_output(honest: Honest, node: NodeProto) -> bool:
    return any(output.name in node.output for output in honest.model.graph.output)


def _read_instead(honest: Honest, value: str, other: str) -> None:
    for reader in honest.model.graph.node:
        for slot, name in enumerate(reader.input):
            if name == value:
                reader.input[slot] = other


def _constants(honest: Honest) -> dict[str, TensorProto]:
    graph = honest.model.graph
    stated = {node.output[0]: attribute.t for node in graph.node if node.op_type == "Constant"
              for attribute in node.attribute if attribute.name == "value"}
    return {each.name: each for each in graph.initializer
            if honest.rows.get(each.name, {}).get("verdict") == "constant"} | stated


def _add(honest: Honest, numbers: np.ndarray) -> str:
    """Adds a tensor and returns its name."""
    name = f"changed_{len(honest.model.graph.initializer)}"
    honest.model.graph.initializer.append(numpy_helper.from_array(numbers, name))
    return name


def _choose(honest: Honest, condition: Callable[[NodeProto], bool]) -> NodeProto | None:
    """Returns one of the nodes that stand for recorded operations."""
    rows = _rows(honest)
    nodes = [node for node in honest.model.graph.node
             if rows.get(node.name, {}).get("verdict") == "operation" and rows[node.name]["modules"] and condition(node)]
    return nodes[honest.random.integers(len(nodes))] if nodes else None


def _rows(honest: Honest) -> dict[str, dict]:
    return {row["name"]: row for row in honest.predicate["nodes"]}


def _change(honest: Honest, node: NodeProto, text: str) -> Change:
    """Returns the change of one node, which may be noticed at the nodes that read it, or write what it reads."""
    makers = {each.name for each in honest.model.graph.node if set(each.output) & set(node.input)}
    names = {node.name, *node.input} | honest.readers(set(node.output)) | makers
    rows = _rows(honest)
    modules = set(_modules(rows, [node.name])) or set(_modules(rows, names))
    return Change(f"{text} {node.op_type} {node.name}", frozenset(names), frozenset(modules))


def _change_of_readers(honest: Honest, node: NodeProto, text: str) -> Change:
    """Returns a change of what the readers of a node read, which belong to other modules."""
    change = _change(honest, node, text)
    return Change(change.text, change.names, change.modules | frozenset(_modules(_rows(honest), change.names)))


def _modules(rows: dict[str, dict], names: list[str] | set[str]) -> Iterator[str]:
    return (module for name in names for module in rows.get(name, {}).get("modules", []))


CHANGES = {
    "another activation": other_activation, "exchanged operands": exchanged_operands, "another number": other_number,
    "exchanged parts": exchanged_parts, "another part": other_part,
    "removed function": removed_function, "added function": added_function, "reversed elements": reversed_elements,
}
