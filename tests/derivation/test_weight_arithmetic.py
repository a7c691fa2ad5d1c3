"""whence attest on nodes that compute a weight from a parameter and a number, where the program's forms have the result."""

from types import SimpleNamespace

import onnx
import pytest
import torch
import whence
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import small_models as models
from test_attest import attest, unaccounted

SIZE = 16


class Norm(nn.Module):
    """The norm of Gemma: the weight is stored without 1."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(SIZE) / 4)

    def forward(self, x):
        scaled = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (scaled * (1.0 + self.weight.float())).type_as(x)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm, self.last = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE), Norm(), Norm()

    def forward(self, x):
        return self.last(self.second(self.norm(self.first(x))))


def written(model):
    """Returns the file as mobius writes it: a RMSNormalization reads the sum of the weight and 1."""
    nodes, tensors, value = [], [numpy_helper.from_array(torch.tensor(1.0).numpy(), "one")], "x"
    for layer, norm in (("first", "norm"), ("second", "last")):
        for name in ("weight", "bias"):
            parameter = getattr(getattr(model, layer), name).detach()
            tensors.append(numpy_helper.from_array(parameter.T.contiguous().numpy(), f"{layer}.{name}"))
        tensors.append(numpy_helper.from_array(getattr(model, norm).weight.detach().numpy(), f"{norm}.weight"))
        nodes += [helper.make_node("MatMul", [value, f"{layer}.weight"], [f"{layer}.product"]),
                  helper.make_node("Add", [f"{layer}.product", f"{layer}.bias"], [f"{layer}.sum"]),
                  helper.make_node("Add", [f"{norm}.weight", "one"], [f"{norm}.scale"], f"{norm}.Add"),
                  helper.make_node("RMSNormalization", [f"{layer}.sum", f"{norm}.scale"], [norm], epsilon=1e-6)]
        value = norm
    sizes = [2, SIZE]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
                              [helper.make_tensor_value_info("last", TensorProto.FLOAT, sizes)], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(1)
    model = Layers().eval()
    made = SimpleNamespace(weights=models.save_weights(model, folder / "model.safetensors"),
                           sidecar=folder / "model.whence.json", path=folder / "model.onnx")
    with whence.record(made.sidecar):
        torch.jit.trace(model, (torch.randn(2, SIZE),), check_trace=False)
    onnx.save(written(model), made.path)
    return made


def test_the_file_is_accounted_for(files):
    assert unaccounted(attest(files.path, files)) == ([], [])


def another_number(graph):
    one = next(tensor for tensor in graph.initializer if tensor.name == "one")
    one.CopyFrom(numpy_helper.from_array(torch.tensor(1.25).numpy(), "one"))


def a_product(graph):
    next(node for node in graph.node if node.name == "norm.Add").op_type = "Mul"


def weights_of_other_norms(graph):
    first, second = (node for node in graph.node if node.name.endswith(".Add"))
    first.input[0], second.input[0] = second.input[0], first.input[0]


@pytest.mark.parametrize("change", [another_number, a_product, weights_of_other_norms])
def test_another_weight_is_found(files, tmp_path, change):
    model = onnx.load(files.path)
    change(model.graph)
    onnx.save(model, tmp_path / "changed.onnx")
    attest(tmp_path / "changed.onnx", files, code=1)
