"""Transformations that keep only a part of the recorded model, or add other nodes to it."""

import onnx
from onnx import TensorProto, helper

from accuracy import equal
from accuracy.graphs import all_nodes, outside_values, sorted_nodes
from accuracy.rename import strip


def extract(model: onnx.ModelProto, feeds: dict) -> dict[str, str]:
    """Extracts the middle half of the graph as a separate model, like onnx.utils.extract_model. Values computed in the
    first quarter become inputs."""
    strip(model)
    nodes = sorted_nodes(model.graph)
    values = equal.values(model, feeds)
    live = live_values(nodes, model)
    first = {name for node in nodes[:len(nodes) // 4] for name in node.output if name in live}
    last = next(name for node in nodes[3 * len(nodes) // 4:] for name in node.output if name in live)
    producers = {name: node for node in nodes for name in node.output}
    extracted, inputs, todo = set(), set(), [last]
    while todo:
        name = todo.pop()
        if name in first or name not in producers:
            inputs.add(name)
        elif id(producers[name]) not in extracted:
            extracted.add(id(producers[name]))
            todo += outside_values(producers[name])
    new_inputs = [value for value in model.graph.input if value.name in inputs]
    new_inputs += [value_info(name, values[name]) for name in sorted(inputs & first)]
    nodes = [node for node in model.graph.node if id(node) in extracted]
    graph = helper.make_graph(nodes, model.graph.name, new_inputs, [value_info(last, values[last])],
                              [tensor for tensor in model.graph.initializer if tensor.name in inputs])
    model.graph.CopyFrom(graph)
    return {key: key for key, _ in all_nodes(model)}


def live_values(nodes: list, model: onnx.ModelProto) -> set[str]:
    live = {value.name for value in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    for node in nodes:
        if any(value in live for value in outside_values(node)):
            live |= {name for name in node.output if name}
    return live


def value_info(name: str, value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def wrap(model: onnx.ModelProto, feeds: dict) -> dict[str, str]:
    """Adds nodes at both ends: scales floating-point inputs and turns the first output into probabilities."""
    keys, graph = strip(model), model.graph
    for value in graph.input:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            graph.initializer.append(helper.make_tensor(f"{value.name}_scale", TensorProto.FLOAT, [], [1 / 255]))
            inner = f"{value.name}_scaled"
            for node in graph.node:
                node.input[:] = [inner if name == value.name else name for name in node.input]
            graph.node.insert(0, helper.make_node("Mul", [value.name, f"{value.name}_scale"], [inner], name="scale"))
    output = graph.output[0].name
    graph.node.append(helper.make_node("Softmax", [output], ["probabilities"], name="probabilities", axis=-1))
    graph.output[0].name = "probabilities"
    return keys
