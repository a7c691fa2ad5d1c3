"""whence attest on int8 files whose quantiser dropped, merged or measured something: honest files are accounted for, changed
ones are found."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
import whence
from onnx import numpy_helper
from torch import nn

import small_models as models
from test_attest import attest, edited, unaccounted


class Activations(nn.Module):
    """Activations that a quantiser drops, because its integers end at 0 and at 6."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU6(), nn.Conv2d(8, 4, 1))

    def forward(self, x):
        return self.layers(x)


class UnequalChannels(nn.Module):
    """A norm whose factors differ so much that the integers of the folded weight are like no parameter."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, bias=False), nn.BatchNorm2d(16)
        self.second, self.other = nn.Conv2d(16, 16, 3, groups=16, bias=False), nn.BatchNorm2d(16)
        with torch.no_grad():
            for norm in (self.norm, self.other):
                norm.running_var.copy_(10 ** (torch.rand(16) * 8 - 4))
                norm.running_mean.normal_()

    def forward(self, x):
        return self.other(self.second(self.norm(self.first(x)).relu()))


class Embedded(nn.Module):
    """A convolution that reads an embedding's integers."""

    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(50, 16), nn.Conv1d(16, 8, 3)

    def forward(self, x):
        return self.layer(self.table(x).transpose(1, 2)).relu()


class EqualBiases(nn.Module):
    """Layers whose biases are equal, as in a new model."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 1))
        for layer in self.layers[::2]:
            nn.init.constant_(layer.bias, 0.25)

    def forward(self, x):
        return self.layers(x)


class Repeated(nn.Module):
    """A layer that is called several times, with equal operations and numbers in its activation."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(16, 32), nn.Linear(32, 16), nn.LayerNorm(16)

    def forward(self, x):
        for _ in range(3):
            y = self.first(x)
            gate = 1.0 + torch.tanh(0.7978845608 * (y + 0.044715 * torch.pow(y, 3.0)))
            x = self.norm(self.second(0.5 * y * gate) + x)
        return x


def image():
    return torch.randn(1, 3, 12, 12)


INPUTS = {Activations: image, UnequalChannels: image, EqualBiases: image, Embedded: lambda: torch.randint(0, 50, (2, 9)),
          Repeated: lambda: torch.randn(2, 5, 16)}


@pytest.fixture(scope="module")
def quantised(tmp_path_factory):
    """Returns a function that makes the file of a quantiser from whence's export."""
    made = {}

    def make(kind, tool):
        if (kind, tool) not in made:
            folder = tmp_path_factory.mktemp(kind.__name__)
            torch.manual_seed(5)
            model, x = kind().eval(), INPUTS[kind]()
            files = SimpleNamespace(weights=models.save_weights(model, folder / "model.safetensors"),
                                    sidecar=folder / "model.whence.json", path=folder / "int8.onnx")
            whence.export(model, (x,), folder / "model.onnx", sidecar=files.sidecar)
            graph = onnx.load(folder / "model.onnx").graph
            models.TOOLS[tool](folder / "model.onnx", files.path, [{graph.input[0].name: x.numpy()}])
            made[kind, tool] = files
        return made[kind, tool]

    return make


CASES = [(Activations, "static"), (Activations, "static_operators"), (UnequalChannels, "dynamic"), (UnequalChannels, "static"),
         (Embedded, "dynamic"), (EqualBiases, "static"), (Repeated, "static_operators")]


@pytest.mark.parametrize("kind, tool", CASES)
def test_the_file_is_accounted_for(quantised, kind, tool):
    files = quantised(kind, tool)
    assert unaccounted(attest(files.path, files)) == ([], [])


@pytest.mark.parametrize("tool", ["static", "static_operators"])
def test_an_activation_that_the_integers_do_not_cut_off_is_missed(quantised, tmp_path, tool):
    files = quantised(Activations, tool)
    zeros = [name for name, numbers in models.numbers_of(files.path).items()
             if name.endswith("zero_point") and numbers.ndim == 0 and numbers == np.iinfo(numbers.dtype).min]
    assert zeros, "the quantiser dropped no activation"
    for name in zeros:
        def change(numbers):
            numbers[0] += 3  # negative numbers have integers now

        found = attest(edited(files.path, tmp_path / "changed.onnx", name, change), files, code=1)["predicate"]
        assert found["differences"] or any(node["verdict"] == "unaccounted" for node in found["nodes"])


@pytest.mark.parametrize("kind, tool", [case for case in CASES if case[0] is not Activations])
def test_one_changed_integer_is_found(quantised, tmp_path, kind, tool):
    files = quantised(kind, tool)
    for name, numbers in models.numbers_of(files.path).items():
        if numbers.size == 1 or numbers.dtype not in (np.int8, np.uint8):
            continue

        def change(integers):
            integers[3] += 1 if integers[3] < 100 else -1

        assert name in unaccounted(attest(edited(files.path, tmp_path / "changed.onnx", name, change), files, code=1))[0]


def test_a_bias_of_another_number_is_found(quantised, tmp_path):
    files = quantised(EqualBiases, "static")
    model = onnx.load(files.path)
    bias = next(tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.INT32 and tensor.dims)
    numbers = numpy_helper.to_array(bias).copy()
    numbers[2] += 1
    bias.CopyFrom(numpy_helper.from_array(numbers, bias.name))
    onnx.save(model, tmp_path / "changed.onnx")
    assert bias.name in unaccounted(attest(tmp_path / "changed.onnx", files, code=1))[0]


def test_exchanged_operands_of_quantised_sums_and_products_are_found(quantised, tmp_path):
    files = quantised(Repeated, "static_operators")
    constants = set(models.numbers_of(files.path))
    for op_type in ("QLinearAdd", "QLinearMul"):
        model = onnx.load(files.path)
        first, second = [node for node in model.graph.node if node.op_type == op_type and node.input[3] in constants][:2]
        first.input[3:6], second.input[3:6] = second.input[3:6], first.input[3:6]
        onnx.save(model, tmp_path / "changed.onnx")
        tensors, nodes = unaccounted(attest(tmp_path / "changed.onnx", files, code=1))
        assert {first.name, second.name} & set(nodes) or {first.input[3], second.input[3]} & set(tensors)
