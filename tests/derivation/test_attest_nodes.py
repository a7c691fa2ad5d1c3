"""whence attest: nodes that do not compute what the program computes are found by structure alone, without numbers."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from command import run


def attest(path, files, code):
    done = run("attest", path, "--weights", files.weights, "--sidecar", files.sidecar, "--json", code=code)
    return json.loads(done.stdout)["predicate"]


def first(graph, op_type):
    return next(node for node in graph.node if node.op_type == op_type)


def set_attribute(node, name, value):
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def insert_after(graph, node, op_types, *more):
    """Puts nodes behind a node: its readers read the last one. `more`: further inputs of the first."""
    result, value = node.output[0], node.output[0] + "_before"
    node.output[0] = value
    at = list(graph.node).index(node) + 1
    for number, (domain, op_type) in enumerate(op_types):
        last = number + 1 == len(op_types)
        made = helper.make_node(op_type, [value, *(more if number == 0 else ())], [result if last else f"{result}_{number}"],
                                name=f"added_{number}", domain=domain)
        graph.node.insert(at + number, made)
        value = made.output[0]


def exchange(node):
    node.input[0], node.input[1] = node.input[1], node.input[0]


def constant(graph, number, name="added_number"):
    graph.initializer.append(numpy_helper.from_array(np.float32(number), name))
    return name


def as_value_float(graph):
    """A number of the program as an attribute of a Constant, with another value."""
    mean = first(graph, "Sub").input[1]
    graph.node.insert(0, helper.make_node("Constant", [], ["other_mean"], value_float=7.0))
    first(graph, "Sub").input[list(first(graph, "Sub").input).index(mean)] = "other_mean"


def skipped_layer(graph):
    """The readers of the last sum read the sum before it."""
    sums = [node for node in graph.node if node.op_type == "Add"]
    for node in graph.node:
        for slot, value in enumerate(node.input):
            if value == sums[-1].output[0]:
                node.input[slot] = sums[-2].output[0]


def exchanged_outputs(graph):
    left, right = graph.output
    names = left.name, right.name
    for node in graph.node:
        for slot, value in enumerate(node.output):
            if value in names:
                node.output[slot] = names[1 - names.index(value)]


def through_identity(graph):
    """A layer reads the weight of another one, through a node that changes nothing."""
    layers = [node for node in graph.node if node.op_type == "Gemm" and "blocks" in node.input[1]]
    graph.node.insert(0, helper.make_node("Identity", [layers[1].input[1]], ["borrowed"]))
    layers[0].input[1] = "borrowed"


def zeros_for_bias(graph):
    tensor = next(each for each in graph.initializer if each.name == "head.bias")
    tensor.CopyFrom(numpy_helper.from_array(np.zeros(5, np.float32), tensor.name))


def chosen_rows(graph):
    layer = next(node for node in graph.node if node.op_type == "Gemm" and "blocks" in node.input[1])
    graph.initializer.append(numpy_helper.from_array(np.arange(8)[::-1].copy(), "reverse"))
    graph.node.insert(0, helper.make_node("Gather", [layer.input[1], "reverse"], ["reversed"]))
    layer.input[1] = "reversed"


# Each is in a node, a parameter or a result that is reported.
CHANGES = {
    "epsilon": lambda graph: set_attribute(first(graph, "LayerNormalization"), "epsilon", 0.5),
    "axis": lambda graph: set_attribute(first(graph, "LayerNormalization"), "axis", 0),
    "factor of a product": lambda graph: set_attribute(first(graph, "Gemm"), "alpha", 0.5),
    "operands of a difference": lambda graph: exchange(first(graph, "Sub")),
    "operands of a quotient": lambda graph: exchange(first(graph, "Div")),
    "function": lambda graph: setattr(first(graph, "Tanh"), "op_type", "Sin"),
    "maximum for a difference of results": lambda graph: setattr(
        [node for node in graph.node if node.op_type == "Sub"][-1], "op_type", "Max"),
    "square": lambda graph: insert_after(graph, first(graph, "Tanh"), [("", "Mul")], first(graph, "Tanh").output[0] + "_before"),
    "bound that acts on rare values": lambda graph: insert_after(graph, first(graph, "Tanh"), [("", "Max")], constant(graph, 1)),
    "another domain": lambda graph: insert_after(graph, first(graph, "Tanh"), [("example", "Identity")]),
    "random numbers": lambda graph: insert_after(graph, first(graph, "Tanh"), [("", "Dropout")]),
    "conversion to integers": lambda graph: (
        insert_after(graph, first(graph, "Tanh"), [("", "Cast"), ("", "Cast")]),
        set_attribute(graph.node[[node.name for node in graph.node].index("added_0")], "to", onnx.TensorProto.INT32),
        set_attribute(graph.node[[node.name for node in graph.node].index("added_1")], "to", onnx.TensorProto.FLOAT)),
    "number in an attribute": as_value_float,
    "skipped layer": skipped_layer,
    "exchanged outputs": exchanged_outputs,
    "removed output": lambda graph: graph.output.pop(),
    "added output": lambda graph: graph.output.append(helper.make_tensor_value_info(first(graph, "Tanh").output[0], 1, None)),
    "weight of another layer through a node": through_identity,
    "zeros for a bias": zeros_for_bias,
    "bias left out": lambda graph: first(graph, "Gemm").input.pop(),
    "rows of a weight in another order": chosen_rows,
}


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_an_honest_file_is_accounted_for(files_of, exporter):
    files = files_of("pair")
    predicate = attest(files.export(exporter), files, code=0)
    assert predicate["differences"] == [] and not any("remark" in node for node in predicate["nodes"])


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_found(files_of, tmp_path, change):
    files = files_of("pair")
    model = onnx.load(files.export("dynamo"))
    CHANGES[change](model.graph)
    onnx.save(model, tmp_path / "changed.onnx")
    predicate = attest(tmp_path / "changed.onnx", files, code=1)
    found = [row["name"] for table in ("tensors", "nodes") for row in predicate[table] if row["verdict"] == "unaccounted"]
    absent = [row["name"] for row in predicate["absent"] if row.get("has_effect")]
    assert found or absent or predicate["differences"]


def test_the_remark_says_what_differs(files_of, tmp_path):
    files = files_of("pair")
    model = onnx.load(files.export("dynamo"))
    set_attribute(first(model.graph, "LayerNormalization"), "epsilon", 0.5)
    onnx.save(model, tmp_path / "changed.onnx")
    text = run("attest", tmp_path / "changed.onnx", "--weights", files.weights, "--sidecar", files.sidecar, code=1).stdout
    assert "epsilon is 0.5, in the program 1e-05" in text and "in blocks.0.norm" in text


def test_a_parameter_with_an_effect_that_is_absent_is_named(files_of, tmp_path):
    files = files_of("pair")
    model = onnx.load(files.export("dynamo"))
    zeros_for_bias(model.graph)
    onnx.save(model, tmp_path / "changed.onnx")
    text = run("attest", tmp_path / "changed.onnx", "--weights", files.weights, "--sidecar", files.sidecar, code=1).stdout
    assert "the file does not hold the parameter head.bias" in text


def test_tokens_that_are_exchanged_before_the_embedding_are_found(files_of, tmp_path):
    """A back door for one token, which no recorded input shows."""
    files = files_of("text")
    model = onnx.load(files.export("dynamo"))
    graph = model.graph
    ids = graph.input[0].name
    table = np.arange(100)
    table[42] = 7
    graph.initializer.append(numpy_helper.from_array(table, "exchanged"))
    embedding = next(node for node in graph.node if node.op_type == "Gather" and node.input[1] == ids)
    embedding.input[1] = "other_ids"
    graph.node.insert(0, helper.make_node("Gather", ["exchanged", ids], ["other_ids"], name="added"))
    onnx.save(model, tmp_path / "changed.onnx")
    predicate = attest(tmp_path / "changed.onnx", files, code=1)
    rows = [*predicate["tensors"], *predicate["nodes"]]
    assert {"added", "exchanged"} & {row["name"] for row in rows if row["verdict"] == "unaccounted"}


@pytest.mark.parametrize("what", ["attribute", "operator set"])
def test_what_the_file_states_twice_is_a_difference(files_of, tmp_path, what):
    """Runtimes use the first or the last, so that one file is several models."""
    files = files_of("text")
    model = onnx.load(files.export("dynamo"))
    if what == "attribute":
        softmax = next(node for node in model.graph.node if node.op_type == "Softmax")
        softmax.attribute.append(helper.make_attribute("axis", 1))
        expected = f"the node {softmax.name} states its attribute axis twice"
    else:
        model.opset_import.append(helper.make_opsetid("", 13))
        expected = "the file imports the operator set 'ai.onnx' twice"
    onnx.save(model, tmp_path / "twice.onnx")
    result = run("attest", tmp_path / "twice.onnx", "--weights", files.weights, "--sidecar", files.sidecar, "--json", code=1)
    assert expected in json.loads(result.stdout)["predicate"]["differences"]
