"""Transformations that change only names and order, so that the truth is transferred by name."""

import random

import onnx

from accuracy.graphs import all_graphs, all_nodes, outside_values


def strip(model: onnx.ModelProto) -> dict[str, str]:
    """Removes all metadata and doc_strings."""
    keys = {key: key for key, _ in all_nodes(model)}
    del model.metadata_props[:]
    model.ClearField("doc_string")
    for graph in all_graphs(model):
        graph.ClearField("doc_string")
        del graph.metadata_props[:]
        for part in [*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer]:
            part.ClearField("doc_string")
            del part.metadata_props[:]
    return keys


def rename_nodes(model: onnx.ModelProto) -> dict[str, str]:
    keys = strip(model)
    numbers = shuffled_numbers(len(keys))
    for number, (_, node) in zip(numbers, all_nodes(model), strict=True):
        node.name = f"n{number}"
    return keys


def rename_everything(model: onnx.ModelProto) -> dict[str, str]:
    """Renames nodes, values and initializers, and shuffles the nodes into another valid order. The model's inputs and
    outputs keep their names, which are needed to run it."""
    old_keys = list(rename_nodes(model))
    nodes = [node for _, node in all_nodes(model)]  # before the order changes
    graphs = list(all_graphs(model))
    interface = {value.name for value in [*model.graph.input, *model.graph.output]}
    names = list(dict.fromkeys(name for graph in graphs for name in defined(graph) if name not in interface))
    new = dict(zip(names, (f"v{number}" for number in shuffled_numbers(len(names))), strict=True))
    for graph in graphs:
        for part in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
            part.name = new.get(part.name, part.name)
        for tensor in graph.sparse_initializer:
            tensor.values.name = new.get(tensor.values.name, tensor.values.name)
        for node in graph.node:
            for field in (node.input, node.output):
                field[:] = [new.get(name, name) for name in field]
    by_node = {id(node): key for key, node in all_nodes(model)}
    keys = {old: by_node[id(node)] for old, node in zip(old_keys, nodes, strict=True)}
    for graph in graphs:
        shuffle(graph)
    return keys


def defined(graph: onnx.GraphProto) -> list[str]:
    names = [value.name for value in graph.input] + [tensor.name for tensor in graph.initializer]
    return names + [name for node in graph.node for name in node.output if name]


def shuffled_numbers(count: int) -> list[int]:
    numbers = list(range(count))
    random.Random(1).shuffle(numbers)
    return numbers


def shuffle(graph: onnx.GraphProto) -> None:
    """Puts the nodes into a random topological order."""
    generator = random.Random(2)
    producers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    waits = [{producers[name] for name in outside_values(node) if name in producers} for node in graph.node]
    users = [[] for _ in graph.node]
    for index, needed in enumerate(waits):
        for producer in needed:
            users[producer].append(index)
    ready = [index for index, needed in enumerate(waits) if not needed]
    order = []
    while ready:
        index = ready.pop(generator.randrange(len(ready)))
        order.append(index)
        for user in users[index]:
            waits[user].discard(index)
            if not waits[user]:
                ready.append(user)
    nodes = [graph.node[index] for index in order]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
