"""whence attest: a node computes the function of its operation, and recurrent layers read what the program's read."""

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

WIDTH = 8


class Functions(nn.Module):
    """Activations between layers, a sum and a difference."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        left = nn.functional.elu(self.first(x))
        right = nn.functional.hardsigmoid(self.second(x))
        return (left + right).sigmoid() * (left.tanh() - right).amax(1, keepdim=True)


class Layers(nn.Module):
    """Recurrent layers of square weights, of which one starts from a parameter."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(2 * WIDTH, WIDTH, batch_first=True)
        self.rnn = nn.RNN(WIDTH, WIDTH, batch_first=True)
        self.start = nn.Parameter(torch.randn(1, 1, WIDTH))

    def forward(self, x):
        y, (_, cells) = self.lstm(x)
        z, last = self.gru(y, self.start.expand(1, x.shape[0], WIDTH).contiguous())
        return self.rnn(z + y[..., :WIDTH])[0].tanh(), cells[-1].sigmoid(), last


MODELS = {"functions": (Functions, (4, WIDTH)), "layers": (Layers, (2, 5, WIDTH))}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")

    def make(name):
        path, sidecar = folder / f"{name}.onnx", folder / f"{name}.whence.json"
        weights = folder / f"{name}.safetensors"
        if not path.exists():
            torch.manual_seed(0)
            kind, sizes = MODELS[name]
            model = kind().eval()
            models.save_weights(model, weights)
            with whence.record(sidecar):
                torch.onnx.export(model, (torch.randn(sizes),), path, dynamo=False, external_data=False)
        return SimpleNamespace(path=path, sidecar=sidecar, weights=weights)

    return make


def attest(file, change, tmp_path):
    """Returns the exit code for the file after a change of its graph."""
    model = onnx.load(file.path)
    change(model.graph)
    onnx.save(model, tmp_path / "changed.onnx")
    done = run("attest", tmp_path / "changed.onnx", "--weights", file.weights, "--sidecar", file.sidecar, code=None)
    return done.returncode


def nodes(graph, op_type):
    return [node for node in graph.node if node.op_type == op_type]


def insert(op_type, after, place=0, **settings):
    """Returns a change: an operator computes what the readers of another one read."""
    def change(graph):
        node = nodes(graph, after)[place]
        value = node.output[0]
        for reader in graph.node:
            for slot, name in enumerate(reader.input):
                if name == value:
                    reader.input[slot] = "inserted"
        at = list(graph.node).index(node) + 1
        graph.node.insert(at, helper.make_node(op_type, [value], ["inserted"], **settings))
    return change


def replace(op_type, by):
    def change(graph):
        node = nodes(graph, op_type)[0]
        node.op_type = by
        del node.attribute[:]
    return change


def weight(op_type, slot, function):
    """Returns a change of a weight of an operator."""
    def change(graph):
        name = nodes(graph, op_type)[0].input[slot]
        tensor = next(each for each in graph.initializer if each.name == name)
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(function(numpy_helper.to_array(tensor))), name))
    return change


def read(op_type, slot, value, place=0):
    """Returns a change: an operator reads another value."""
    def change(graph):
        node = nodes(graph, op_type)[place]
        node.input[slot] = value(graph) if callable(value) else value
    return change


def rolled(graph):
    """The directions of the first LSTM change their places."""
    graph.initializer.append(numpy_helper.from_array(np.array([1, 0]), "exchanged"))
    value = nodes(graph, "LSTM")[0].output[0]
    for reader in graph.node:
        if value in reader.input:
            reader.input[list(reader.input).index(value)] = "rolled"
    at = list(graph.node).index(nodes(graph, "LSTM")[0]) + 1
    graph.node.insert(at, helper.make_node("Gather", [value, "exchanged"], ["rolled"], axis=1))


def activated_state(graph):
    """A layer does not start from zeros."""
    layer = nodes(graph, "RNN")[0]
    graph.node.insert(list(graph.node).index(layer), helper.make_node("Sigmoid", [layer.input[5]], ["activated"]))
    nodes(graph, "RNN")[0].input[5] = "activated"


def hidden_states(graph):
    """The hidden states of the last LSTM stand for its cells."""
    hidden, cells = nodes(graph, "LSTM")[1].output[1:3]
    for node in graph.node:
        if cells in node.input:
            node.input[list(node.input).index(cells)] = hidden


def not_transposed(graph):
    """The numbers of both directions are not side by side."""
    value = nodes(graph, "LSTM")[0].output[0]
    node = next(node for node in nodes(graph, "Transpose") if node.input[0] == value)
    node.op_type = "Identity"
    del node.attribute[:]


CHANGES = {
    "functions": {
        "an activation beside a complete one": insert("HardSwish", "HardSigmoid"),
        "a part beside a complete one": insert("Erf", "Sigmoid"),
        "a part alone": replace("Elu", "Exp"),
        "an activation for its part": replace("Tanh", "Gelu"),
        "a difference for a sum": replace("Add", "Sub"),
        "a sum for a difference": replace("Sub", "Add"),
    },
    "layers": {
        "an activation before a layer": insert("Tanh", "Transpose"),
        "an activation after a layer": insert("Relu", "RNN"),
        "an activation of a state": activated_state,
        "no state": read("GRU", 5, ""),
        "the state of another layer": read("RNN", 5, lambda graph: nodes(graph, "GRU")[0].output[1]),
        "a transposed weight": weight("RNN", 1, lambda w: w.transpose(0, 2, 1)),
        "a transposed recurrent weight": weight("RNN", 2, lambda w: w.transpose(0, 2, 1)),
        "reversed rows": weight("RNN", 1, lambda w: w[:, ::-1]),
        "gates in another order": weight("GRU", 2, lambda w: np.roll(w, WIDTH, 1)),
        "exchanged directions": rolled,
        "directions that are not joined": not_transposed,
        "hidden states for cells": hidden_states,
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_the_honest_file_is_accounted_for(name, files, tmp_path):
    assert attest(files(name), lambda graph: None, tmp_path) == 0


@pytest.mark.parametrize("name, change", [(name, change) for name in CHANGES for change in CHANGES[name]])
def test_a_change_is_found(name, change, files, tmp_path):
    assert attest(files(name), CHANGES[name][change], tmp_path) == 1
