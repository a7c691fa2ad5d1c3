"""How nodes of an edited graph of onnx_ir relate to the nodes that they replaced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .node_origins import Source


def computed_again(dead: list[Any], added: list[Any]) -> list[Any]:
    """Returns the nodes between the new nodes' inputs and the dead nodes that others still read: the new nodes compute
    their results again. Returns nothing if the new nodes read other values than the ones before these nodes."""
    max_nodes = 32
    read = {value for node in added for value in node.inputs if value is not None and value.producer() not in added}
    found: list[Any] = []
    candidates = list(dead)
    while candidates and read:
        for value in candidates.pop().inputs:
            if value is None or value in read or value.is_initializer():
                continue
            node = value.producer()
            if node is None or node in added or len(found) == max_nodes:
                return []
            if node not in dead and node not in found:
                found.append(node)
                candidates.append(node)
    return found[::-1]


def moved_nodes(nodes: list[Any], sources: list[Source]) -> dict[Any, Source]:
    """Returns the replaced node of each node if they only changed places: Transpose(Relu(x)) became Relu(Transpose(x))."""
    before = {source.op_type: source for source in sources}
    after = {node.op_type: node for node in nodes}
    if len(nodes) < 2 or before.keys() != after.keys() or not len(before) == len(sources) == len(nodes):
        return {}
    return {node: before[op_type] for op_type, node in after.items()}


def are_equal(node: Any, other: Any) -> bool:
    return node.op_identifier() == other.op_identifier() and node.inputs == other.inputs and node.attributes == other.attributes


def has_equal_names(node: Any, other: Any) -> bool:
    def names(each: Any) -> list[str | None]:
        return [value.name if value is not None else None for value in (*each.inputs, *each.outputs)]

    return node.op_type == other.op_type and names(node) == names(other)


def passes_input_to_output(node: Any) -> bool:
    return (all(value is None or value.producer() is None for value in node.inputs)
            and all(output.is_graph_output() for output in node.outputs))


def bodies_of(node: Any) -> Iterator[Any]:
    """Yields the graphs in the node's attributes: the branches of an If, the body of a Loop."""
    for attribute in node.attributes.values():
        if attribute.type.name == "GRAPH":
            yield attribute.as_graph()
        elif attribute.type.name == "GRAPHS":
            yield from attribute.as_graphs()
