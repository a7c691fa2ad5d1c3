"""Forms in which exporters and tools honestly write a program, and small changes of the same nodes and tensors."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
import whence
from onnx import numpy_helper
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import onnx_tools
import small_models as models
from test_attest import attest, unaccounted
from test_other_spellings import nodes_of


class Cosines(nn.Module):
    """The cosines of embeddings to all rows of their table."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(48, 24)

    def forward(self, ids):
        return F.normalize(self.table(ids), dim=-1) @ F.normalize(self.table.weight, dim=-1).t()


class Voxels(nn.Module):
    """A convolution whose weight is computed from its length and its direction, before a norm."""

    def __init__(self):
        super().__init__()
        self.project = weight_norm(nn.Conv3d(8, 12, 3, 2, 1))
        self.norm = nn.BatchNorm3d(12)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 1.5)

    def forward(self, x):
        return F.mish(self.norm(self.project(x)))


class Attention(nn.Module):
    """PyTorch's attention, whose biases are zeros before a training."""

    def __init__(self, is_trained=False):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        if is_trained:
            nn.init.normal_(self.attention.in_proj_bias)
            nn.init.normal_(self.attention.out_proj.bias)

    def forward(self, x):
        return self.attention(x, x, x)[0].tanh()


class Grid(nn.Module):
    """Multiplies a grid by a matrix for each input."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 4)
        self.register_buffer("grid", torch.rand(1, 16, 16, 2) * 2 - 1)

    def forward(self, x):
        return self.grid.reshape(1, -1, 2) @ self.project(x).view(-1, 2, 2)


class Selections(nn.Module):
    """An attention that selects query, key and value from one product."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        return ((q @ k.transpose(-1, -2)).softmax(-1) @ v).tanh()


class Function(nn.Module):
    """A function of a convolution."""

    def __init__(self, function):
        super().__init__()
        self.convolution = nn.Conv2d(3, 16, 3, padding=1)
        self.function = function

    def forward(self, x):
        return torch.tanh(self.function(self.convolution(x)))


FUNCTIONS = {
    "gather": lambda y: y.gather(-1, y[..., :3].argsort(-1)),
    "atan2": lambda y: torch.atan2(y[:, :1], y[:, 1:]),
}
MODELS = {
    "cosines": (Cosines, lambda: torch.randint(0, 48, (2, 5))),
    "voxels": (Voxels, lambda: torch.randn(1, 8, 8, 8, 8)),
    "attention": (Attention, lambda: torch.randn(5, 8)),
    "trained attention": (lambda: Attention(is_trained=True), lambda: torch.randn(5, 8)),
    "grid": (Grid, lambda: torch.randn(3, 8)),
    "selections": (Selections, lambda: torch.randn(2, 5, 8)),
} | {name: (lambda function=function: Function(function), lambda: torch.randn(1, 3, 8, 8))
     for name, function in FUNCTIONS.items()}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns a function that makes the checkpoint, the recording and the file of an exporter."""
    made = {}

    def make(name, exporter):
        if (name, exporter) not in made:
            folder = tmp_path_factory.mktemp("exported")
            torch.manual_seed(3)
            kind, make_input = MODELS[name]
            model, x = kind().eval(), make_input()
            files = SimpleNamespace(weights=models.save_weights(model, folder / "model.safetensors"), x=x,
                                    sidecar=folder / "model.whence.json", path=folder / "model.onnx")
            if exporter == "whence":
                whence.export(model, (x,), files.path, sidecar=files.sidecar)
            else:
                with whence.record(files.sidecar), torch.no_grad():
                    torch.onnx.export(model, (x,), files.path, dynamo=exporter == "dynamo", input_names=["x"])
                onnx.save(onnx.load(files.path), files.path)  # without a file for data
            made[name, exporter] = files
        return made[name, exporter]

    return make


def findings(model, files, tmp_path):
    """Returns the tensors and the nodes of a changed model that are not accounted for."""
    onnx.save(model, tmp_path / "changed.onnx")
    return unaccounted(attest(tmp_path / "changed.onnx", files, code=1))


def change(model, name, function):
    """Replaces a tensor by what a function makes of its numbers."""
    tensor = next(each for each in model.graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array(function(numpy_helper.to_array(tensor).copy()), name))


HONEST = [("cosines", "whence"), ("cosines", "dynamo"), ("voxels", "whence"), ("attention", "torchscript"),
          ("trained attention", "torchscript"), ("grid", "torchscript"),
          ("selections", "torchscript"), ("selections", "dynamo"), ("selections", "whence"),
          *((name, exporter) for name in FUNCTIONS for exporter in ("torchscript", "whence"))]


@pytest.mark.parametrize("name, exporter", HONEST)
def test_exported_files_are_accounted_for(exported, name, exporter):
    files = exported(name, exporter)
    assert unaccounted(attest(files.path, files)) == ([], [])


def test_another_computation_of_a_weight_is_found(exported, tmp_path):
    files = exported("cosines", "whence")
    model = onnx.load(files.path)
    [node] = [node for node in nodes_of(model, "Div") if node.input[0] == "table.weight"]
    node.op_type = "Mul"
    assert findings(model, files, tmp_path) != ([], [])


@pytest.fixture
def in_blocks(exported, tmp_path):
    files = exported("cosines", "dynamo")
    onnx_tools.blocks(block_size=16, bits=4, is_symmetric=True)(files.path, tmp_path / "blocks.onnx", [])
    return files, tmp_path / "blocks.onnx"


def test_a_computed_weight_in_blocks_of_four_bits_is_accounted_for(in_blocks):
    files, path = in_blocks
    assert unaccounted(attest(path, files)) == ([], [])


def test_one_changed_integer_of_four_bits_is_found(in_blocks, tmp_path):
    files, path = in_blocks
    model = onnx.load(path)
    [node] = nodes_of(model, "MatMulNBits")

    def change_first(integers):
        integers.reshape(-1)[0] ^= 1
        return integers

    change(model, node.input[1], change_first)
    assert node.input[1] in findings(model, files, tmp_path)[0]


def test_a_changed_length_of_a_weight_is_found(exported, tmp_path):
    files = exported("voxels", "whence")
    model = onnx.load(files.path)
    [node] = nodes_of(model, "Conv")

    def lengthen(weight):
        weight[3] *= 1.001
        return weight

    change(model, node.input[1], lengthen)
    assert node.input[1] in findings(model, files, tmp_path)[0]


def test_another_bias_of_an_attention_is_found(exported, tmp_path):
    files = exported("trained attention", "torchscript")
    model = onnx.load(files.path)
    bias = next(each.name for each in model.graph.initializer if each.name.endswith("out_proj.bias"))
    node = next(each for each in nodes_of(model, "Add") if len(each.input) == 2)
    node.input[0] = bias
    assert node.name in findings(model, files, tmp_path)[1]


@pytest.fixture
def quantised_grid(exported, tmp_path):
    files = exported("grid", "torchscript")
    models.TOOLS["static"](files.path, tmp_path / "static.onnx", [{"x": files.x.numpy()}])
    return files, tmp_path / "static.onnx"


def test_integers_of_a_buffer_are_accounted_for(quantised_grid):
    files, path = quantised_grid
    assert unaccounted(attest(path, files)) == ([], [])


def test_one_changed_integer_of_a_buffer_is_found(quantised_grid, tmp_path):
    files, path = quantised_grid
    model = onnx.load(path)
    integers = next(each.name for each in model.graph.initializer if int(np.prod(each.dims)) == 512)

    def change_one(numbers):
        numbers.reshape(-1)[100] ^= 1
        return numbers

    change(model, integers, change_one)
    assert integers in findings(model, files, tmp_path)[0]


def set_attribute(node, name, function):
    attribute = next(each for each in node.attribute if each.name == name)
    value = function(onnx.helper.get_attribute_value(attribute))
    attribute.CopyFrom(onnx.helper.make_attribute(name, value))


def sort_downwards(model):
    [node] = nodes_of(model, "TopK")
    set_attribute(node, "largest", lambda largest: 1 - largest)


def constant_of(model, node, slot):
    return next(each for each in nodes_of(model, "Constant") if each.output[0] == node.input[slot])


def set_constant(model, node, slot, number):
    [value] = constant_of(model, node, slot).attribute
    array = numpy_helper.to_array(value.t)
    value.t.CopyFrom(numpy_helper.from_array(np.full_like(array, number)))


def turn_less(model):
    node = next(each for each in nodes_of(model, "Add"))
    set_constant(model, node, 1, 3)


def turn_others(model):
    [node] = nodes_of(model, "Greater")
    node.op_type = "Less"


CHANGES = {"gather": [sort_downwards], "atan2": [turn_less, turn_others]}


@pytest.mark.parametrize("name, plant", [(name, plant) for name, plants in CHANGES.items() for plant in plants])
def test_changes_of_functions_are_found(exported, tmp_path, name, plant):
    files = exported(name, "torchscript")
    model = onnx.load(files.path)
    plant(model)
    onnx.save(model, tmp_path / "changed.onnx")
    attest(tmp_path / "changed.onnx", files, code=1)


@pytest.fixture(params=["torchscript", "dynamo", "whence"])
def with_split(exported, tmp_path, request):
    """Returns a file in which ONNX Runtime or the exporter selects by one Split."""
    files = exported("selections", request.param)
    models.TOOLS["ort_all"](files.path, tmp_path / "split.onnx", [])
    return files, tmp_path / "split.onnx"


def test_selections_by_one_split_are_accounted_for(with_split):
    files, path = with_split
    assert unaccounted(attest(path, files)) == ([], [])


def test_an_exchanged_selection_is_found(with_split, tmp_path):
    files, path = with_split
    model = onnx.load(path)
    [node] = nodes_of(model, "Split")
    node.output[1], node.output[2] = node.output[2], node.output[1]
    assert findings(model, files, tmp_path)[1] != []
