"""whence attest on recurrent layers that PyTorch's exporter writes as one part for each step."""

import functools
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
import whence
from onnx import numpy_helper
from torch import nn

import small_models as models
from test_attest import attest, unaccounted

STEPS = 4


class Forward(nn.Module):
    """One layer, of any number of examples."""

    axes = {"x": {0: "examples"}}

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.RNN(16, 16, batch_first=True), nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.layer(x)[0])


class BothWays(nn.Module):
    """Two layers in both directions."""

    axes = None

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.RNN(16, 16, 2, nonlinearity="relu", bidirectional=True), nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.layer(x)[0])


INPUTS = {Forward: (2, STEPS, 16), BothWays: (STEPS, 2, 16)}
PLAIN = "exported"
CASES = [(kind, tool) for kind in INPUTS for tool in (PLAIN, "onnxslim", "ort_all", "float16", "dynamic", "blocks_of_4")]
CASES += [(Forward, "static"), (Forward, "static_channels")]


@pytest.fixture(scope="module")
def files_of_kind(tmp_path_factory):
    """Returns a function that makes the file of a tool from an export."""

    @functools.cache
    def make(kind, tool=PLAIN):
        folder = tmp_path_factory.mktemp(kind.__name__)
        torch.manual_seed(3)
        model, x = kind().eval(), torch.randn(INPUTS[kind])
        files = SimpleNamespace(weights=models.save_weights(model, folder / "model.safetensors"),
                                sidecar=folder / "model.whence.json", path=folder / "model.onnx")
        with whence.record(files.sidecar):
            torch.onnx.export(model, (x,), files.path, dynamo=True, verbose=False, external_data=False,
                              dynamic_shapes=kind.axes)
        if tool != PLAIN:
            graph = onnx.load(files.path).graph
            models.TOOLS[tool](files.path, folder / "tool.onnx", [{graph.input[0].name: x.numpy()}])
            files.path = folder / "tool.onnx"
        return files

    return make


@pytest.mark.parametrize("kind, tool", CASES)
def test_steps_are_accounted_for(files_of_kind, kind, tool):
    files = files_of_kind(kind, tool)
    assert not any(node.op_type == "RNN" for node in onnx.load(files.path).graph.node)
    assert unaccounted(attest(files.path, files)) == ([], [])


def nodes_of(graph, op_type):
    return [node for node in graph.node if node.op_type == op_type]


def joins_of(graph):
    """Returns the nodes that join all steps of a layer."""
    return [node for node in nodes_of(graph, "Concat") if len(node.input) == STEPS]


def exchange(node, one, other):
    node.input[one], node.input[other] = node.input[other], node.input[one]


def joins_in_another_order(graph):
    exchange(joins_of(graph)[-1], 1, 2)


def joins_a_step_twice(graph):
    joins = joins_of(graph)[-1]
    joins.input[1] = joins.input[2]


def reads_another_step(graph):
    one, other = [node for node in nodes_of(graph, "Squeeze") if "Slice" in {
        maker.op_type for maker in graph.node if node.input[0] in maker.output}][-2:]
    one.input[0], other.input[0] = other.input[0], one.input[0]


def reads_a_step_twice(graph):
    one, other = [node for node in nodes_of(graph, "Slice") if len(node.output) == 1 and len(node.input) == 4][-2:]
    one.input[1], one.input[2] = other.input[1], other.input[2]


def reads_an_older_state(graph):
    states = list(joins_of(graph)[0].input)
    readers = [node for node in nodes_of(graph, "MatMul") if node.input[0] == states[2]]
    readers[0].input[0] = states[1]


def starts_from_ones(graph):
    zeros = next(tensor for tensor in graph.initializer
                 if tensor.data_type == onnx.TensorProto.FLOAT and not numpy_helper.to_array(tensor).any())
    zeros.CopyFrom(numpy_helper.from_array(np.ones_like(numpy_helper.to_array(zeros)), zeros.name))


def reads_the_weight_transposed(graph):
    states = list(joins_of(graph)[0].input)
    name = next(node.input[1] for node in nodes_of(graph, "MatMul") if node.input[0] == states[1])
    weight = next(tensor for tensor in graph.initializer if tensor.name == name)
    turned = np.ascontiguousarray(numpy_helper.to_array(weight).T)
    weight.CopyFrom(numpy_helper.from_array(turned, name))


def exchanges_the_weights(graph):
    """Multiplies the input by the weight of the state, and the state by the weight of the input."""
    products = nodes_of(graph, "MatMul")[:STEPS + 1]
    names = {node.input[1] for node in products}
    assert len(names) == 2
    for node in products:
        node.input[1] = (names - {node.input[1]}).pop()


def one_step_has_another_bias(graph):
    states = list(joins_of(graph)[0].input)
    sums = nodes_of(graph, "Add")
    product = next(node for node in nodes_of(graph, "MatMul") if node.input[0] == states[1])
    added = next(node for node in sums if product.output[0] in node.input)
    biases = {name for node in sums for name in node.input if "bias_ih" in name}
    added.input[1] = biases.pop()


def exchanges_the_directions(graph):
    exchange(next(node for node in nodes_of(graph, "Concat") if len(node.input) == 2), 0, 1)


CHANGES = [joins_in_another_order, joins_a_step_twice, reads_another_step, reads_a_step_twice, reads_an_older_state,
           reads_the_weight_transposed]
PLANTED = [(kind, change) for kind in INPUTS for change in CHANGES]
PLANTED += [(Forward, starts_from_ones), (Forward, exchanges_the_weights), (Forward, one_step_has_another_bias),
            (BothWays, exchanges_the_directions)]


@pytest.mark.parametrize("kind, change", PLANTED)
def test_a_changed_step_is_found(files_of_kind, tmp_path, kind, change):
    files = files_of_kind(kind)
    model = onnx.load(files.path)
    change(model.graph)
    assert model != onnx.load(files.path)
    onnx.save(model, tmp_path / "changed.onnx")
    attest(tmp_path / "changed.onnx", files, code=1)
