"""whence attest: what stands between two products gives the same numbers as in the program, in any form."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
import whence
from onnx import helper, numpy_helper
from torch import nn

import onnx_tools
import small_models as models
from command import run

WIDTH, HEADS, STEPS = 16, 2, 6


class Tokens(nn.Module):
    """A layer with attention, a table of relative positions, a gate and pooled results."""

    def __init__(self):
        super().__init__()
        self.table, self.relative = nn.Embedding(20, WIDTH), nn.Embedding(2 * STEPS, HEADS)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norm, self.up, self.gate = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WIDTH)

    def heads(self, x):
        return x.view(x.shape[0], STEPS, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, ids, mask):
        x = self.table(ids) * 4.0
        y = self.norm(x)
        places = torch.arange(STEPS)
        scores = self.heads(self.query(y)) @ self.heads(self.key(y)).transpose(-1, -2) / 2.5
        scores = scores + self.relative(places[None] - places[:, None] + STEPS).permute(2, 0, 1)
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e4).softmax(-1)
        x = x + (scores @ self.heads(self.value(y))).transpose(1, 2).reshape(x.shape)
        x = x + nn.functional.gelu(self.gate(x)) * self.up(x)
        shown = mask.float()[..., None]
        return self.head(x), nn.functional.normalize((x * shown).sum(1) / shown.sum(1), dim=-1)


class Image(nn.Module):
    """Convolutions with a norm of groups, interpolation, pools and results along the picture."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.slope, self.second = nn.PReLU(8), nn.Conv2d(8, 8, 1)
        self.wider, self.head = nn.ConvTranspose2d(8, 8, 2, 2), nn.Linear(8, 4)

    def forward(self, x):
        x = self.slope(self.norm(self.first(x)))
        x = self.second(x) - nn.functional.max_pool2d(x, 3, 1, 1)
        y = self.wider(nn.functional.leaky_relu(x, 0.2))
        z = nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        y = nn.functional.pad(y * z.sigmoid(), (1, 1, 1, 1), mode="reflect")
        return self.head(y.mean((2, 3))), y.amax((2, 3))


class Blocks(nn.Module):
    """A picture with twice the height and width: its elements are channels of the last convolution."""

    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = nn.Conv2d(3, 8, 2, 2), nn.LeakyReLU(0.3), nn.Conv2d(8, 12, 1)

    def forward(self, x):
        x = self.act(self.first(x))
        return nn.functional.pixel_shuffle(self.last(x), 2).tanh()


class Seeds(nn.Module):
    """A picture made of a few numbers, with a norm that exporters fold into the convolution before it."""

    def __init__(self):
        super().__init__()
        self.seed, self.wider, self.norm = nn.Linear(5, 64), nn.ConvTranspose2d(4, 6, 2, 2), nn.BatchNorm2d(6)
        self.act, self.last = nn.LeakyReLU(0.3), nn.Conv2d(6, 3, 1)
        nn.init.uniform_(self.norm.running_mean)
        nn.init.uniform_(self.seed.bias, 0.5, 1)

    def forward(self, x):
        x = self.act(self.norm(self.wider(self.seed(x).view(2, 4, 4, 4))))
        return self.last(x).tanh()


class Steps(nn.Module):
    """Operators that are not computed, one after another, with a function after each; a product with a vector."""

    def __init__(self):
        super().__init__()
        self.first, self.mix = nn.Conv2d(3, 4, 1), nn.Parameter(torch.randn(4, 5))
        self.layer, self.row = nn.LSTM(8, 6, batch_first=True, bidirectional=True), nn.Parameter(torch.randn(12))

    def forward(self, x):
        places = torch.stack([x[:, 0], x[:, 1]], -1).cos()
        x = nn.functional.grid_sample(self.first(x).sin(), places, align_corners=False)
        x = nn.functional.interpolate(torch.sigmoid(x), scale_factor=2, mode="bicubic", align_corners=False)
        x = torch.einsum("bchw,ck,bh->bkw", nn.functional.elu(x), self.mix, x[:, 0, :, 0])
        x = self.layer(nn.functional.softplus(x))[0]
        return torch.tanh(torch.logsumexp(torch.erf(x), 1) @ self.row), torch.logsumexp(x, 2).exp()


def _inputs(name):
    torch.manual_seed(1)
    if name == "steps":
        return (torch.randn(2, 3, 4, 4),)
    if name == "seeds":
        return (torch.randn(2, 5),)
    if name == "blocks":
        return (torch.randn(2, 3, 8, 8),)
    if name == "image":
        return (torch.randn(2, 3, 8, 8),)
    return torch.randint(0, 20, (2, STEPS)), torch.ones(2, STEPS, dtype=torch.int64)


MODELS = {"tokens": Tokens, "image": Image, "blocks": Blocks, "seeds": Seeds, "steps": Steps}
EXPORTERS = ("dynamo", "torchscript")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("between")

    def make(name, exporter):
        path = folder / f"{name}.{exporter}.onnx"
        sidecar, weights = path.with_suffix(".json"), path.with_suffix(".safetensors")
        if not path.exists():
            torch.manual_seed(0)
            model = MODELS[name]().eval()
            models.save_weights(model, weights)
            with whence.record(sidecar):
                torch.onnx.export(model, _inputs(name), path, dynamo=exporter == "dynamo", external_data=False)
        return SimpleNamespace(path=path, sidecar=sidecar, weights=weights)

    return make


def attest(file, change, tmp_path):
    """Returns the exit code for the file after a change of its graph."""
    model = onnx.load(file.path)
    change(model.graph)
    onnx.save(model, tmp_path / "changed.onnx")
    done = run("attest", tmp_path / "changed.onnx", "--weights", file.weights, "--sidecar", file.sidecar, code=None)
    return done.returncode


def last(graph, op_type, is_inner=False):
    """Returns the last node with an operator; inner: whose result other nodes read."""
    read = {name for node in graph.node for name in node.input}
    return [node for node in graph.node if node.op_type == op_type and (not is_inner or node.output[0] in read)][-1]


def read_instead(graph, value, other):
    for reader in graph.node:
        for slot, name in enumerate(reader.input):
            if name == value:
                reader.input[slot] = other


def removed(op_type, slot=0):
    """Returns a change: what reads the result of an operator reads its operand instead."""
    def change(graph):
        node = last(graph, op_type, is_inner=True)
        read_instead(graph, node.output[0], node.input[slot])
    return change


def inserted(op_type, after, **settings):
    def change(graph):
        node = last(graph, after, is_inner=True)
        read_instead(graph, node.output[0], "inserted")
        at = list(graph.node).index(node) + 1
        graph.node.insert(at, helper.make_node(op_type, [node.output[0]], ["inserted"], **settings))
    return change


def reversed_axis(after, axis):
    """Returns a change: the elements of a result along an axis are read from the last to the first."""
    def change(graph):
        node = last(graph, after, is_inner=True)
        read_instead(graph, node.output[0], "reversed")
        for name, number in {"from": -1, "to": np.iinfo(np.int64).min + 1, "along": axis, "by": -1}.items():
            graph.initializer.append(numpy_helper.from_array(np.array([number]), name))
        at = list(graph.node).index(node) + 1
        graph.node.insert(at, helper.make_node("Slice", [node.output[0], "from", "to", "along", "by"], ["reversed"]))
    return change


def replaced(op_type, by):
    def change(graph):
        last(graph, op_type).op_type = by
    return change


def passed_on(op_type):
    """Returns a change: the operator gives its operand as an output."""
    def change(graph):
        node = last(graph, op_type)
        node.op_type, node.domain = "Identity", ""
        del node.attribute[:]
        del node.input[1:]
    return change


def exchanged(op_type):
    def change(graph):
        node = last(graph, op_type)
        node.input[:2] = reversed(node.input[:2])
    return change


def turned_kernel(graph):
    name = last(graph, "ConvTranspose").input[1]
    tensor = next(each for each in graph.initializer if each.name == name)
    kernel = np.ascontiguousarray(numpy_helper.to_array(tensor).transpose(0, 1, 3, 2))
    tensor.CopyFrom(numpy_helper.from_array(kernel, name))


def other_shape(graph):
    """Reads the elements of a value in another shape with as many elements."""
    names = {name for node in graph.node if node.op_type == "Reshape" for name in node.input[1:]}
    stated = [each for each in graph.initializer if each.name in names]
    stated += [node.attribute[0].t for node in graph.node if node.op_type == "Constant" and node.output[0] in names]
    for each in stated:
        each.CopyFrom(numpy_helper.from_array(np.array([4, 4, 4, 2]), each.name))


def subtracted_bias(graph):
    node = last(graph, "Gemm")
    for each in list(node.attribute):
        if each.name == "beta":
            node.attribute.remove(each)
    node.attribute.append(helper.make_attribute("beta", -1.0))


def without_scales(graph):
    """Reads sums of integers where the program has numbers in floating point."""
    sums = {node.output[0] for node in graph.node if node.op_type == "Cast"}
    scaling = next(node for node in graph.node if node.op_type == "Mul" and sums & set(node.input))
    read_instead(graph, scaling.output[0], next(name for name in scaling.input if name in sums))


def read_twice(graph):
    node = last(graph, "Add")
    node.input[1] = node.input[0]


def without_zero_point(graph):
    made = {node.output[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    tensors = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    node = next(node for node in graph.node
                if node.op_type == "DequantizeLinear" and node.input[0] in made and tensors[node.input[2]].any())
    del node.input[2]


def other_zero_point(graph):
    """Gives the integers of a bias a zero point."""
    tensors = {each.name: each for each in graph.initializer}
    node = next(node for node in graph.node if node.op_type == "DequantizeLinear" and node.input[0] in tensors
                and tensors[node.input[0]].data_type == onnx.TensorProto.INT32)
    scale = numpy_helper.to_array(tensors[node.input[1]])
    graph.initializer.append(numpy_helper.from_array(np.full(scale.shape, 2, np.int32), "two"))
    node.input[2:] = ["two"]


CHANGES = {
    "tokens": {
        "no softmax": removed("Softmax"),
        "no gate": removed("Gelu"),
        "no sum": removed("Add"),
        "rounded scores": inserted("Floor", "Where"),
        "a function after softmax": inserted("Erf", "Softmax"),
        "a negated norm": inserted("Neg", "LayerNormalization"),
        "reversed tokens": reversed_axis("LayerNormalization", 1),
        "reversed scores": reversed_axis("Softmax", 3),
        "transposed scores": inserted("Transpose", "Softmax", perm=[0, 1, 3, 2]),
        "a difference for a product": replaced("Mul", "Sub"),
        "exchanged operands": exchanged("Div"),
    },
    "image": {
        "no interpolated factor": removed("Sigmoid"),
        "no activation": removed("LeakyRelu"),
        "a sum for a maximum": replaced("ReduceMax", "ReduceSum"),
        "transposed picture": inserted("Transpose", "MaxPool", perm=[0, 1, 3, 2]),
        "reversed picture": reversed_axis("Pad", 3),
        "a function of the padded picture": inserted("Exp", "Pad"),
        "a kernel with exchanged axes": turned_kernel,
    },
    "blocks": {"no last activation": passed_on("Tanh")},
    "seeds": {
        "no activation after a folded norm": removed("LeakyRelu"),
        "a subtracted bias": subtracted_bias,
        "another shape": other_shape,
    },
    "steps": {
        "no function before a choice of places": removed("Sin"),
        "no function of the places": removed("Cos"),
        "no function before interpolation": removed("Sigmoid"),
        "no function before a product of three": removed("Elu"),
        "no function before a recurrent layer": removed("Softplus"),
        "no function after a recurrent layer": removed("Erf"),
        "no last activation": passed_on("Tanh"),
        "no function of the last sum": passed_on("Exp"),
    },
}


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", MODELS)
def test_the_honest_file_is_accounted_for(name, exporter, files, tmp_path):
    assert attest(files(name, exporter), lambda graph: None, tmp_path) == 0


@pytest.mark.parametrize("name, change", [(name, change) for name in CHANGES for change in CHANGES[name]])
def test_a_change_is_found(name, change, files, tmp_path):
    assert attest(files(name, "torchscript"), CHANGES[name][change], tmp_path) == 1


TOOLS = {"float16": onnx_tools.float16(), "quantised": onnx_tools.static_int8("QOperator"),
         "qdq": onnx_tools.static_int8("QDQ"), "dynamic": onnx_tools.dynamic_int8(),
         "blocks of channels": onnx_tools.onnxruntime("ALL")}
CHANGES_OF_TOOLS = {
    ("blocks", "blocks of channels", "no last activation"): passed_on("Tanh"),
    ("seeds", "float16", "no activation after a folded norm"): removed("LeakyRelu"),
    ("seeds", "qdq", "no zero point"): without_zero_point,
    ("seeds", "qdq", "the zero point of a bias"): other_zero_point,
    ("steps", "dynamic", "no function before a recurrent layer"): removed("Softplus"),
    ("steps", "dynamic", "no last activation"): passed_on("Tanh"),
    ("steps", "float16", "no function before a product of three"): removed("Elu"),
    ("seeds", "dynamic", "sums without scales"): without_scales,
    ("seeds", "dynamic", "a value added to itself"): read_twice,
    ("blocks", "float16", "no last activation"): passed_on("Tanh"),
    ("blocks", "float16", "no activation"): removed("LeakyRelu"),
    ("blocks", "quantised", "no last activation"): passed_on("Tanh"),
    ("blocks", "quantised", "no activation"): removed("QLinearLeakyRelu"),
}


@pytest.fixture(scope="module")
def written(files, tmp_path_factory):
    def make(name, tool):
        file = files(name, "torchscript")
        path = tmp_path_factory.getbasetemp() / f"{name}.{tool}.onnx"
        if not path.exists():
            given = onnx.load(file.path).graph.input[0].name
            TOOLS[tool](file.path, path, [{given: _inputs(name)[0].numpy()}])
        return SimpleNamespace(path=path, sidecar=file.sidecar, weights=file.weights)

    return make


@pytest.mark.parametrize("name, tool", sorted({key[:2] for key in CHANGES_OF_TOOLS}))
def test_the_honest_file_of_a_tool_is_accounted_for(name, tool, written, tmp_path):
    assert attest(written(name, tool), lambda graph: None, tmp_path) == 0


@pytest.mark.parametrize("name, tool, change", CHANGES_OF_TOOLS)
def test_a_change_of_a_tools_file_is_found(name, tool, change, written, tmp_path):
    assert attest(written(name, tool), CHANGES_OF_TOOLS[name, tool, change], tmp_path) == 1
