"""Queries on ONNX graphs of the corpus; nodes are identified by their first output.

A node's key is its first output; in a subgraph, prefixed with the key of the containing node and the attribute: `out`,
`loop_out:body/out`. Node names cannot be keys: optimisers drop and repeat them, and whence renames nodes.
"""

from collections.abc import Iterator

import onnx


def first_output(node: onnx.NodeProto) -> str:
    return next((name for name in node.output if name), "")


def subgraphs(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for index, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}.{index}", graph


def keyed(nodes, prefix: str = "") -> Iterator[tuple[str, onnx.NodeProto]]:
    for node in nodes:
        key = prefix + first_output(node)
        yield key, node
        for name, graph in subgraphs(node):
            yield from keyed(graph.node, f"{key}:{name}/")


def all_nodes(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    """Yields every node of the graph, of subgraphs and of local functions with its key."""
    yield from keyed(model.graph.node)
    for function in model.functions:
        yield from keyed(function.node, f"function {function.domain}:{function.name}/")


def all_graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    yield model.graph
    for _, node in all_nodes(model):
        for _, graph in subgraphs(node):
            yield graph


def metadata(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


def attributes(node: onnx.NodeProto) -> tuple:
    """Returns the node's attributes in comparable form, without graphs: their nodes are listed separately."""
    return tuple(sorted((attribute.name, attribute.SerializeToString(deterministic=True))
                        for attribute in node.attribute if not attribute.graphs and not attribute.HasField("g")))


def outside_values(node: onnx.NodeProto) -> list[str]:
    """Returns all values that the node reads: its inputs, and outer values that its subgraphs read."""
    names = [name for name in node.input if name]
    for _, graph in subgraphs(node):
        own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        own |= {name for inner in graph.node for name in inner.output}
        names += [name for inner in graph.node for name in outside_values(inner) if name not in own]
        names += [value.name for value in graph.output if value.name not in own]
    return names


def sorted_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Returns the main graph's nodes in topological order, which some tools do not write."""
    produced = {name for node in graph.node for name in node.output if name}
    done, waiting, result = set(), list(graph.node), []
    while waiting:
        ready = [node for node in waiting if all(name in done for name in outside_values(node) if name in produced)]
        assert ready, "the graph has a cycle"
        later = {id(node) for node in ready}
        waiting = [node for node in waiting if id(node) not in later]
        result += ready
        done |= {name for node in ready for name in node.output}
    return result


def dead_nodes(model: onnx.ModelProto) -> set[str]:
    """Returns keys of nodes that no output depends on, such as a quantiser's leftovers."""
    needed, dead = {value.name for value in model.graph.output}, set()
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            needed.update(outside_values(node))
        else:
            dead.add(first_output(node))
    return dead
