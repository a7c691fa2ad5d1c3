"""whence attest on what models of real libraries do: parameters that are equal before a training, layers that no output
reads, biases that a later operation adds, poolings that round up, parts of a parameter that the file computes."""

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


class Residual(nn.Module):
    """Branches with a scale of zeros in their last norm, and factors for each channel that are equal in all blocks."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.first, self.second = (nn.Conv2d(8, 8, 1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(2))
        self.scaled = nn.ModuleList(nn.Conv2d(8, 8, 1) for _ in range(2))
        self.scales = nn.ParameterList(torch.full((8, 1, 1), 0.1) for _ in range(2))
        for norm in self.norms:
            nn.init.zeros_(norm.weight)
        for layer in self.scaled:
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        x = self.stem(x).relu()
        for convolution, norm in zip((self.first, self.second), self.norms, strict=True):
            x = x + norm(convolution(x))
        for layer, scale in zip(self.scaled, self.scales, strict=True):
            x = x + layer(x) * scale
        return x


class Unread(nn.Module):
    """A norm whose result is not used, a bias after the head, and a pooling that rounds up."""

    def __init__(self):
        super().__init__()
        self.convolution, self.unused, self.head = nn.Conv2d(3, 8, 3), nn.LayerNorm(5), nn.Linear(8, 5, bias=False)
        self.register_buffer("added", torch.randn(1, 5))

    def forward(self, x):
        pooled = nn.functional.max_pool2d(self.convolution(x), 3, 2, ceil_mode=True).flatten(2).transpose(1, 2)
        logits = self.head(pooled)
        self.unused(logits)
        return logits + self.added


class Positions(nn.Module):
    """Scores of relative positions that a table of integers chooses, and a bias without its middle."""

    def __init__(self):
        super().__init__()
        self.queries, self.table = nn.Linear(16, 16), nn.Parameter(torch.randn(16, 16))
        self.key, self.bias = nn.Linear(16, 16), nn.Parameter(torch.randn(24))
        self.out = nn.Linear(16, 24, bias=False)

    def forward(self, x):
        bias = self.bias.clone()
        bias[8:16] = 0
        scores = self.queries(x) @ self.key(self.table[2:14].unsqueeze(0)).transpose(-1, -2)
        places = torch.arange(x.shape[1])
        index = (places[:, None] - places[None, :] + 6).clamp(0, 11).expand(x.shape[0], -1, -1)
        return nn.functional.linear(torch.gather(scores, -1, index) @ x, self.out.weight, bias)


class Rectified(nn.Module):
    """A depth, which is not negative: a quantiser drops the Relu before the output."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        return self.last(self.first(x).tanh()).relu().squeeze(1)


class Halves(nn.Module):
    """Halves of a table of angles that no checkpoint has, larger than the constants of a program usually are."""

    def __init__(self):
        super().__init__()
        self.register_buffer("angles", torch.randn(64, 32), persistent=False)
        self.project = nn.Linear(16, 16)

    def forward(self, x):
        sine, cosine = self.angles.chunk(2, -1)
        return self.project(x * cosine + x.flip(-1) * sine)


class Same(nn.Module):
    """Convolutions whose padding TorchScript's exporter states by a word."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 4, padding="same"), nn.Conv2d(8, 4, 3, padding="valid")

    def forward(self, x):
        return self.second(self.first(x).relu())


# Recordings of TorchScript do not say which buffers a checkpoint lacks.
EXPORTERS = {Halves: ["dynamo"]}
INPUTS = {Same: (2, 3, 9, 9), Halves: (2, 64, 16), Rectified: (2, 3, 8, 8), Residual: (2, 3, 6, 6), Unread: (2, 3, 10, 10), Positions: (2, 9, 16)}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns a function that gives the files of a model by exporter."""
    folder, made = tmp_path_factory.mktemp("library"), {}

    def make(kind, exporter):
        if (kind, exporter) not in made:
            torch.manual_seed(0)
            model, x = kind().eval(), torch.randn(INPUTS[kind])
            name = folder / f"{kind.__name__}.{exporter}"
            with whence.record(name.with_suffix(".whence.json")), torch.no_grad():
                torch.jit.trace(model, x) if exporter == "torchscript" else torch.export.export(model, (x,))
            path = name.with_suffix(".onnx")
            torch.onnx.export(model, (x,), path, dynamo=exporter == "dynamo", input_names=["x"],
                              **({"external_data": False, "verbose": False} if exporter == "dynamo" else {}))
            weights = models.save_weights(model, name.with_suffix(".safetensors"))
            made[kind, exporter] = SimpleNamespace(path=path, weights=weights, x=x,
                                                   sidecar=name.with_suffix(".whence.json"))
        return made[kind, exporter]

    return make


# Two weights of zeros with a norm each are one tensor, whose integers are called those of the first. A quantised constant
# that the file computes with is not evaluated.
TOOLS = {Same: [None, "onnxslim", "ort_all", "static"], Halves: [None, "onnxslim", "ort_all", "float16", "dynamic", "static"],
         Rectified: [None, "ort_all", "static"], Residual: [None, "onnxslim", "ort_basic", "float16"], Unread: [None, "onnxslim", "ort_all", "float16", "dynamic", "static"],
         Positions: [None, "onnxslim", "ort_all", "float16", "dynamic"]}
CASES = [(kind, exporter, tool) for kind in INPUTS for exporter in EXPORTERS.get(kind, ["dynamo", "torchscript"])
         for tool in TOOLS[kind]]


@pytest.mark.parametrize(("kind", "exporter", "tool"), CASES)
def test_honest_files_are_accounted_for(exported, tmp_path, kind, exporter, tool):
    files = exported(kind, exporter)
    path = files.path if tool is None else tmp_path / "tool.onnx"
    if tool is not None:
        models.TOOLS[tool](files.path, path, [{"x": files.x.numpy()}])
    assert unaccounted(attest(path, files)) == ([], [])


def set_attribute(op_type, name, value):
    def change(model):
        [attribute] = [each for node in model.graph.node if node.op_type == op_type for each in node.attribute
                       if each.name == name]
        attribute.CopyFrom(onnx.helper.make_attribute(name, value))
    return change


def set_numbers(condition, change_numbers):
    """Changes the first constant whose numbers fulfil the condition, wherever the file states it."""
    def change(model):
        tensors = [*model.graph.initializer, *(attribute.t for node in model.graph.node if node.op_type == "Constant"
                                               for attribute in node.attribute if attribute.name == "value")]
        tensor = next(each for each in tensors if condition(numpy_helper.to_array(each)))
        numbers = change_numbers(numpy_helper.to_array(tensor).copy())
        tensor.CopyFrom(numpy_helper.from_array(numbers, tensor.name))
    return change


def off_by_one(numbers):
    numbers.reshape(-1)[3] += 1
    return numbers


def lowest_integer(model):
    """Lets the integers of the last quantiser end below 0."""
    quantiser = [node for node in model.graph.node if node.op_type == "QuantizeLinear"][-1]
    for tensor in model.graph.initializer:
        if tensor.name == quantiser.input[2]:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + np.uint8(40), tensor.name))


CHANGES = {
    ("Halves", "another angle"): ("onnxslim", set_numbers(lambda a: a.shape == (64, 16), off_by_one)),
    ("Rectified", "negative depths"): ("static", lowest_integer),
    ("Residual", "a zero that is none"): (None, set_numbers(lambda a: a.shape == (8, 8, 1, 1) and not a.any(),
                                                            lambda a: a + np.float32(0.25))),
    ("Residual", "another factor"): ("onnxslim", set_numbers(lambda a: a.shape == (8, 8, 1, 1) and a.any(), np.negative)),
    ("Unread", "windows at another place"): (None, set_attribute("MaxPool", "strides", [2, 1])),
    ("Unread", "no window at the end"): (None, set_attribute("MaxPool", "ceil_mode", 0)),
    ("Unread", "another bias"): ("onnxslim", set_numbers(lambda a: a.size == 5, off_by_one)),
    ("Positions", "another position"): (None, set_numbers(lambda a: a.dtype == np.int64 and a.size >= 81, off_by_one)),
}


@pytest.mark.parametrize(("kind", "change"), CHANGES)
def test_changes_are_found(exported, tmp_path, kind, change):
    tool, apply = CHANGES[kind, change]
    files = exported(next(each for each in INPUTS if each.__name__ == kind), "dynamo")
    path = files.path
    if tool is not None:
        path = tmp_path / "tool.onnx"
        models.TOOLS[tool](files.path, path, [{"x": files.x.numpy()}])
    model = onnx.load(path)
    apply(model)
    onnx.save(model, tmp_path / "changed.onnx")
    attest(tmp_path / "changed.onnx", files, code=1)


@pytest.mark.parametrize(("before", "after"), [("SAME_UPPER", "SAME_LOWER"), ("VALID", "SAME_UPPER")])
def test_another_padding_is_found(exported, tmp_path, before, after):
    files = exported(Same, "torchscript")
    model = onnx.load(files.path)
    [attribute] = [each for node in model.graph.node for each in node.attribute
                   if each.name == "auto_pad" and each.s.decode() == before]
    attribute.s = after.encode()
    onnx.save(model, tmp_path / "changed.onnx")
    attest(tmp_path / "changed.onnx", files, code=1)


def test_a_part_of_a_bias_that_is_not_zero_is_found(exported, tmp_path):
    files = exported(Positions, "torchscript")
    model = onnx.load(files.path)
    scatter = [node for node in model.graph.node if node.op_type == "ScatterND"]
    assert scatter
    set_numbers(lambda a: a.dtype == np.float32 and not a.any() or a.dtype == np.int64 and a.size == 8,
                lambda a: a + a.dtype.type(1))(model)
    onnx.save(model, tmp_path / "changed.onnx")
    attest(tmp_path / "changed.onnx", files, code=1)
