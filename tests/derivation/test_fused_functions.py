"""Fused operators and other functions of the same family in the place of the recorded ones."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import whence
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file

from command import run

WIDTH = 16
ACTIVATIONS = {"gelu": lambda x: torch.nn.functional.gelu(x), "elu": lambda x: torch.nn.functional.elu(x),
               "selu": lambda x: torch.nn.functional.selu(x), "silu": lambda x: torch.nn.functional.silu(x),
               "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1)}
HONEST = {"gelu": ("Gelu", "com.microsoft", {}), "elu": ("Elu", "", {"alpha": 1.0}), "selu": ("Selu", "", {}),
          "silu": ("QuickGelu", "com.microsoft", {"alpha": 1.0}), "softmax": ("Softmax", "", {"axis": -1}),
          "log_softmax": ("LogSoftmax", "", {"axis": -1})}
OTHER = {"gelu": ("QuickGelu", "com.microsoft", {}), "elu": ("Selu", "", {}), "selu": ("Elu", "", {"alpha": 1.0}),
         "silu": ("QuickGelu", "com.microsoft", {}), "softmax": ("LogSoftmax", "", {"axis": -1}),
         "log_softmax": ("Softmax", "", {"axis": -1})}


class Block(torch.nn.Module):
    """A residual block of a transformer."""

    def __init__(self, activation):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.up, self.down = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(3 * WIDTH, WIDTH)
        self.norm, self.last_norm = torch.nn.LayerNorm(WIDTH, eps=1e-6), torch.nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = torch.nn.Linear(WIDTH, 8, bias=False)

    def forward(self, x):
        total = x + self.down(self.activation(self.up(self.norm(x))))
        return self.head(self.last_norm(total)), total


def graph_of(model, function):
    weights = {name: each.detach().numpy() for name, each in model.state_dict().items()}
    name, domain, settings = function
    nodes = [
        helper.make_node("LayerNormalization", ["x", "norm.weight", "norm.bias"], ["first"], epsilon=1e-6, axis=-1),
        helper.make_node("MatMul", ["first", "up.weight_t"], ["up"]),
        helper.make_node("Add", ["up", "up.bias"], ["raised"]),
        helper.make_node(name, ["raised"], ["active"], domain=domain, **settings),
        helper.make_node("MatMul", ["active", "down.weight_t"], ["down"]),
        helper.make_node("SkipLayerNormalization",
                         ["x", "down", "last_norm.weight", "last_norm.bias", "down.bias"], ["last", "", "", "total"],
                         domain="com.microsoft", epsilon=1e-6, name="last_norm"),
        helper.make_node("MatMul", ["last", "head.weight_t"], ["y"]),
    ]
    used = {each for node in nodes for each in node.input}
    tensors = {name + "_t": np.ascontiguousarray(each.T) for name, each in weights.items() if each.ndim == 2} | weights
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 5, size])
              for name, size in (("x", WIDTH), ("y", 8), ("total", WIDTH))]
    graph = helper.make_graph(nodes, "main", values[:1], values[1:],
                              [numpy_helper.from_array(each, name) for name, each in tensors.items() if name in used])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21),
                                                                  helper.make_opsetid("com.microsoft", 1)])


class Recorded:
    def __init__(self, folder, activation):
        torch.manual_seed(5)
        self.folder, self.model, self.x = folder, Block(activation).eval(), torch.randn(2, 5, WIDTH)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
            with whence.record(folder / "model.whence.json"):
                torch.export.export(self.model, (self.x,))
        save_file({name: each.contiguous() for name, each in self.model.state_dict().items()}, folder / "w.safetensors")

    def attest(self, model, code):
        onnx.save(model, self.folder / "model.onnx")
        done = run("attest", self.folder / "model.onnx", "--weights", self.folder / "w.safetensors", "--sidecar",
                   self.folder / "model.whence.json", "--json", code=code)
        return json.loads(done.stdout)["predicate"]

    def error(self, model):
        """Returns the largest difference from PyTorch in ONNX Runtime."""
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        expected = self.model(self.x)[0].detach().numpy()
        return np.abs(session.run(["y"], {"x": self.x.numpy()})[0] - expected).max()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_fused_norms_and_activations_are_accounted_for(activation, tmp_path):
    recorded = Recorded(tmp_path, activation)
    model = graph_of(recorded.model, HONEST[activation])
    assert recorded.error(model) < 1e-4
    recorded.attest(model, 0)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_another_function_of_the_family_is_found(activation, tmp_path):
    recorded = Recorded(tmp_path, activation)
    model = graph_of(recorded.model, OTHER[activation])
    assert recorded.error(model) > 1e-3
    recorded.attest(model, 1)


def norm_of(model):
    return next(node for node in model.graph.node if node.op_type == "SkipLayerNormalization")


def read_the_sum(model):
    next(node for node in model.graph.node if node.output[0] == "y").input[0] = "total"


CHANGES = {
    "the weight of another norm": lambda model: norm_of(model).input.__setitem__(2, "norm.weight"),
    "the shift of another norm": lambda model: norm_of(model).input.__setitem__(3, "norm.bias"),
    "another bias": lambda model: norm_of(model).input.__setitem__(4, "last_norm.bias"),
    "no bias": lambda model: norm_of(model).input.__setitem__(4, ""),
    "no shift": lambda model: norm_of(model).input.__setitem__(3, ""),
    "another value": lambda model: norm_of(model).input.__setitem__(0, "first"),
    "a value twice": lambda model: norm_of(model).input.__setitem__(0, "down"),
    "the sum for the norm": read_the_sum,
    "no epsilon": lambda model: norm_of(model).ClearField("attribute"),
    "a norm that keeps the mean": lambda model: setattr(norm_of(model), "op_type", "SkipSimplifiedLayerNormalization"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_a_fused_norm_are_found(change, tmp_path):
    recorded = Recorded(tmp_path, "gelu")
    model = graph_of(recorded.model, HONEST["gelu"])
    CHANGES[change](model)
    recorded.attest(model, 1)
