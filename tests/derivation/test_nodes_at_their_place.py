"""whence attest: each node reads the operands, the parts of values and the numbers that the program has at its place."""

import json
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
import whence
from onnx import helper, numpy_helper
from torch import nn

import small_models as models
from command import run


class Places(nn.Module):
    """Two of everything, so that each could stand at the place of the other."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(16, 8)

    def forward(self, x):
        left, right = self.first(x.flip(1)).tanh(), self.second(x).sigmoid()
        chosen = torch.where(~(x > 0.125), left, right).cumsum(1)[:, [7, 1, 2, 3, 4, 5, 6, 0]]
        value, gate = self.last(torch.cat([left, right, chosen - right], 1)[:, 4:20]).chunk(2, 1)
        return (value * 0.25 + 0.75) * gate.cos() ** 3 - gate.clamp(-0.5, 0.625) / 3


EXPORTERS = {"dynamo": True, "torchscript": False}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Returns a function that exports the model, which was recorded with the exporter's tracing."""
    folder = tmp_path_factory.mktemp("places")
    torch.manual_seed(0)
    model, inputs = Places().eval(), (torch.randn(4, 8),)
    weights = models.save_weights(model, folder / "model.safetensors")

    def make(exporter):
        path, sidecar = folder / f"{exporter}.onnx", folder / f"{exporter}.whence.json"
        if not path.exists():
            with whence.record(sidecar):
                torch.onnx.export(model, inputs, path, dynamo=EXPORTERS[exporter], external_data=False)
        return SimpleNamespace(path=path, sidecar=sidecar, weights=weights)

    return make


def nodes(graph, op_type):
    return [node for node in graph.node if node.op_type == op_type]


def exchange(list_, one, other):
    list_[one], list_[other] = list_[other], list_[one]


def number(graph, name):
    """Returns the constant of this name: an initializer, or the tensor of a node."""
    stated = {node.output[0]: attribute.t for node in nodes(graph, "Constant") for attribute in node.attribute}
    return ({each.name: each for each in graph.initializer} | stated)[name]


def numbers(op_type, value):
    """Returns a change: a constant operand of an operator has another value."""
    def change(graph):
        names = {each.name for each in graph.initializer} | {node.output[0] for node in nodes(graph, "Constant")}
        node, slot = next((node, slot) for node in nodes(graph, op_type) for slot, name in enumerate(node.input)
                          if name in names and number(graph, name).data_type == onnx.TensorProto.FLOAT)
        old = numpy_helper.to_array(number(graph, node.input[slot]))
        graph.initializer.append(numpy_helper.from_array(np.full_like(old, value), "other_number"))
        node.input[slot] = "other_number"

    return change


def other_bound(graph):
    clip = nodes(graph, "Clip")[0]
    clip.input[2] = clip.input[1]


def other_integers(op_type, change):
    """Returns a change: an operator has other integers as its second operand."""
    def change_operand(graph):
        tensor = number(graph, nodes(graph, op_type)[0].input[1])
        tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor)), tensor.name))

    return change_operand


def lost_fractions(graph):
    """Truncates the numbers that were chosen by indices."""
    value = nodes(graph, "Sub")[0].input[0]
    maker = next(node for node in graph.node if value in node.output)
    maker.output[0] = "chosen"
    at = list(graph.node).index(maker) + 1
    graph.node.insert(at, helper.make_node("Cast", ["chosen"], ["truncated"], "truncates", to=onnx.TensorProto.INT32))
    graph.node.insert(at + 1, helper.make_node("Cast", ["truncated"], [value], to=onnx.TensorProto.FLOAT))


def later_start(graph):
    tensor = number(graph, nodes(graph, "Slice")[-1 if nodes(graph, "Split") else 1].input[1])
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + 1, tensor.name))


CHANGES = {
    "parts of Concat": lambda graph: exchange(nodes(graph, "Concat")[0].input, 0, 1),
    "branches of Where": lambda graph: exchange(nodes(graph, "Where")[0].input, 1, 2),
    "operands of Sub": lambda graph: exchange(nodes(graph, "Sub")[0].input, 0, 1),
    "start of Slice": later_start,
    "factor": numbers("Mul", 0.75),
    "divisor": numbers("Div", 4),
    "divisor for its reciprocal": numbers("Div", 1 / 3),
    "term": numbers("Add", 0.25),
    "exponent": numbers("Pow", 2),
    "exponent of which powers of negative numbers are none": numbers("Pow", 3.0000002),
    "threshold": numbers("Greater", 0.25),
    "axis": other_integers("CumSum", lambda axis: axis - 1),
    "fractions": lost_fractions,
    "bound": other_bound,
}


def attest(path, files, code):
    done = run("attest", path, "--weights", files.weights, "--sidecar", files.sidecar, "--json", code=code)
    return json.loads(done.stdout)["predicate"]


# Leaves out the clamp, though its input has other readers: that file computes something else.
WRONG_TOOLS = {"static_operators"}


@pytest.mark.parametrize("tool", [None, *(tool for tool in models.TOOLS if tool not in WRONG_TOOLS)])
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_an_honest_file_is_accounted_for(files, tmp_path, exporter, tool):
    given = files(exporter)
    path = tmp_path / "model.onnx" if tool else given.path
    if tool:
        name = onnx.load(given.path).graph.input[0].name
        models.TOOLS[tool](given.path, path, [{name: np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)}])
    attest(path, given, code=0)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_what_stands_at_another_place_is_found(files, tmp_path, exporter, change):
    given = files(exporter)
    model = onnx.load(given.path)
    CHANGES[change](model.graph)
    onnx.save(model, tmp_path / "changed.onnx")
    predicate = attest(tmp_path / "changed.onnx", given, code=1)
    assert [row for row in predicate["nodes"] if row["verdict"] == "unaccounted" and row.get("remark")]


def test_exchanged_halves_of_a_value_are_found(files, tmp_path):
    """TorchScript's exporter computes where the halves begin, so they are known in the other file only."""
    given = files("dynamo")
    model = onnx.load(given.path)
    exchange(nodes(model.graph, "Split")[0].output, 0, 1)
    onnx.save(model, tmp_path / "changed.onnx")
    remarks = {row.get("remark") for row in attest(tmp_path / "changed.onnx", given, code=1)["nodes"]}
    assert "reads elements 1:2 of 2, in the program 0:4 of 8" in remarks
