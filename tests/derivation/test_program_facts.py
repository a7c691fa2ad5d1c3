"""Forms that only the recorded program explains: factors folded into products, operations without effect, padded layouts,
clamps by other operators. Each honest file is accounted for, and each changed one is found."""

import functools
import json

import numpy as np
import onnx
import onnx_tools
import pytest
import torch
import whence
from onnx import helper, numpy_helper
from torch import nn

import small_models as models
from command import run


class Factors(nn.Module):
    """A projection times a number, and one times a vector whose numbers differ much."""

    def __init__(self):
        super().__init__()
        self.query, self.output, self.other = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.scale = nn.Parameter(torch.logspace(-4, 1, 16))

    def forward(self, x):
        query = self.query(x).view(2, 4, 2, 8) * 0.3125
        return self.scale * self.output(torch.tanh(query.reshape(2, 4, 16))) + torch.tanh(self.other(x))


class Single(nn.Module):
    """Attention over one element: queries and keys have no effect."""

    def __init__(self, length=1):
        super().__init__()
        self.length = length
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        x = x[:, :self.length]
        scores = (self.query(x) @ self.key(x).transpose(1, 2) / 4.5).softmax(-1)
        return torch.tanh(scores @ self.value(x))


class Several(Single):
    def __init__(self):
        super().__init__(3)


class Frozen(nn.Module):
    """Norms with fixed statistics, which the model computes from buffers."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(3))
        for name in ("first", "second", "third"):
            self.register_buffer(f"{name}_factor", torch.rand(8) + 0.5)
            self.register_buffer(f"{name}_mean", torch.randn(8))

    def norm(self, x, name):
        factor = getattr(self, f"{name}_factor").reshape(1, -1, 1, 1).rsqrt()
        return x * factor + (0.5 - getattr(self, f"{name}_mean").reshape(1, -1, 1, 1) * factor)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x), "first"))
        z = torch.relu(self.norm(self.second(y), "second"))
        return torch.relu(self.norm(self.third(z), "third") + y)


class Branches(nn.Module):
    """Equal branches with norms, and a norm by groups whose scale and shift have the same sizes."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.Hardswish()) for _ in range(3))
        self.norm = nn.GroupNorm(4, 24)

    def forward(self, x):
        return self.norm(torch.cat([branch(x) for branch in self.branches], 1))


class Depthwise(nn.Module):
    """A depthwise convolution whose channels do not fill a block, a pooling without borders, and clamps."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(12, 12, 3, groups=12), nn.Conv2d(12, 12, 1)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x):
        y = self.pool(torch.relu(self.first(x))).clamp(0.125, 0.75)
        places = (x.mean((1, 2, 3)) * 9).long().clamp(min=1)
        return self.second(y), places


class Identity(nn.Module):
    """A weight that is nearly symmetric: its integers are the same transposed."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(16) + 0.01 * torch.randn(16, 16))
        self.head = nn.Linear(16, 16)

    def forward(self, x):
        return self.head(torch.tanh(nn.functional.linear(x, self.weight)))


class Equals(nn.Module):
    """Layers of the same sizes, one after the other."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


INPUTS = {Factors: (2, 4, 16), Single: (2, 3, 16), Several: (2, 3, 16), Frozen: (1, 8, 6, 6), Branches: (1, 8, 6, 6),
          Depthwise: (2, 12, 7, 7), Identity: (2, 3, 16), Equals: (3, 16)}
TOOLS = {"onnxslim": onnx_tools.onnxslim, "onnxsim": onnx_tools.onnxsim, "dynamic": onnx_tools.dynamic_int8(shapes=False),
         "ort_all": onnx_tools.onnxruntime("ALL"), "ort_extended": onnx_tools.onnxruntime("EXTENDED"),
         "blocks_of_4_qdq": onnx_tools.blocks("QDQ", block_size=32, bits=4, is_symmetric=True),
         "blocks_of_4_qdq_asymmetric": onnx_tools.blocks("QDQ", block_size=16, bits=4, is_symmetric=False)}


class Files:
    def __init__(self, folder):
        self.folder = folder

    @functools.cache
    def model(self, kind):
        torch.manual_seed(0)
        model = kind().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.8 + 0.4 * torch.rand_like(parameter))
            for module in model.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.running_mean.normal_()
                    module.running_var.uniform_(0.5, 2)
                if isinstance(module, (nn.BatchNorm2d, nn.GroupNorm)):
                    module.weight.uniform_(0.5, 2)
                    module.bias.normal_()
        models.save_weights(model, self.folder / f"{kind.__name__}.safetensors")
        return model

    @functools.cache
    def exported(self, kind, is_dynamo):
        model, x = self.model(kind), torch.randn(INPUTS[kind], generator=torch.Generator().manual_seed(1))
        name = f"{kind.__name__}.{is_dynamo}"
        with whence.record(self.folder / f"{name}.whence.json"):
            torch.export.export(model, (x,)) if is_dynamo else torch.jit.trace(model, (x,))
        torch.onnx.export(model, (x,), self.folder / f"{name}.onnx", dynamo=is_dynamo, external_data=False,
                          **({"verbose": False} if is_dynamo else {"input_names": ["x"]}))
        return self.folder / f"{name}.onnx"

    @functools.cache
    def path(self, kind, is_dynamo, *tools):
        path = self.exported(kind, is_dynamo)
        for tool in tools:
            target = path.with_suffix(f".{tool}.onnx")
            TOOLS[tool](path, target, [])
            path = target
        return path

    def attest(self, kind, is_dynamo, path, code):
        result = run("attest", path, "--weights", self.folder / f"{kind.__name__}.safetensors", "--sidecar",
                     self.folder / f"{kind.__name__}.{is_dynamo}.whence.json", "--json", code=code)
        return json.loads(result.stdout)["predicate"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("facts"))


HONEST = [(Factors, "onnxslim"), (Factors, "onnxslim", "dynamic"), (Single, "onnxsim"), (Several, "onnxsim"),
          (Frozen, "ort_all"), (Frozen,), (Branches, "ort_extended"), (Branches,), (Depthwise,), (Depthwise, "ort_all"),
          (Identity, "blocks_of_4_qdq"), (Identity, "blocks_of_4_qdq_asymmetric"), (Equals, "dynamic"), (Equals, "onnxslim")]


@pytest.mark.parametrize("is_dynamo", [True, False], ids=["dynamo", "torchscript"])
@pytest.mark.parametrize("case", HONEST, ids=lambda case: ".".join([case[0].__name__, *case[1:]]))
def test_honest_files_are_accounted_for(files, case, is_dynamo):
    kind, *tools = case
    files.attest(kind, is_dynamo, files.path(kind, is_dynamo, *tools), 0)


# ---- changed files

def tensor(model, name):
    return next(each for each in model.graph.initializer if each.name == name)


def put(model, name, numbers):
    tensor(model, name).CopyFrom(numpy_helper.from_array(np.ascontiguousarray(numbers), name))


def numbers(model, name):
    return numpy_helper.to_array(tensor(model, name))


def nodes(model, op_type, inputs=1):
    return [node for node in model.graph.node if node.op_type == op_type and len(node.input) >= inputs]


def exchange(one, other, slot):
    one.input[slot], other.input[slot] = other.input[slot], one.input[slot]


def unscaled_bias(model):
    gemm = next(node for node in nodes(model, "Gemm", 3) if node.input[1].endswith("_weight_fused"))
    put(model, gemm.input[2], numbers(model, gemm.input[2]) / np.float32(0.3125))


def scaled_twice(model):
    gemm = next(node for node in nodes(model, "Gemm", 3) if node.input[1].endswith("_weight_fused"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.3125), "again"))
    result = gemm.output[0]
    gemm.output[0] = "once"
    model.graph.node.insert(list(model.graph.node).index(gemm) + 1,
                            helper.make_node("Mul", ["once", "again"], [result], "again"))


def scaled_weight(model):
    gemm = next(node for node in nodes(model, "Gemm", 3) if node.input[1].endswith("_weight_fused"))
    for name in gemm.input[1:3]:
        put(model, name, numbers(model, name) * np.float32(1.25))


def scores_of_one(model):
    """Gives every element the same weight, as if there were only one."""
    softmax = nodes(model, "Softmax")[0]
    softmax.op_type = "Hardmax"


def no_activation(model):
    node = [node for node in model.graph.node if any(each.name == "activation" for each in node.attribute)][1]
    for attribute in node.attribute:
        if attribute.name == "activation":
            node.attribute.remove(attribute)
            break


def exchanged_weights(model):
    convs = nodes(model, "Conv", 3)
    exchange(convs[1], convs[2], 1)


def exchanged_parts_of_norm(model):
    exchange(nodes(model, "Mul")[-1], nodes(model, "Add")[-1], 1)


def other_bias(model):
    biased = [node for node in [*nodes(model, "Add"), *nodes(model, "Gemm")] if node.input[-1].endswith("bias")
              or node.input[0].endswith("bias")]
    slots = [next(i for i, name in enumerate(node.input) if name.endswith("bias")) for node in biased]
    biased[0].input[slots[0]] = biased[1].input[slots[1]]


def no_bias(model):
    name = next(each.name for each in model.graph.initializer if each.name.endswith("bias"))
    put(model, name, np.zeros_like(numbers(model, name)))


def bound(model):
    node = nodes(model, "Clip", 3)[0]
    model.graph.initializer.append(numpy_helper.from_array(np.float32(1), "bound"))
    node.input[2] = "bound"


def integer_bound(model):
    node = next(node for node in model.graph.node if node.op_type in ("Max", "Clip") and any(
        each.name in node.input and each.data_type == onnx.TensorProto.INT64 for each in model.graph.initializer))
    slot = next(i for i, name in enumerate(node.input) if any(each.name == name for each in model.graph.initializer))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros_like(numbers(model, node.input[slot])), "integer"))
    node.input[slot] = "integer"


def borders(model):
    node = nodes(model, "AveragePool")[0]
    for attribute in list(node.attribute):
        if attribute.name in ("pads", "count_include_pad"):
            node.attribute.remove(attribute)
    node.attribute.extend([helper.make_attribute("pads", [1, 1, 0, 0]), helper.make_attribute("count_include_pad", 1)])


def other_integer(model):
    name = next(each.name for each in model.graph.initializer if each.data_type == onnx.TensorProto.INT4)
    changed = tensor(model, name)
    changed.raw_data = bytes([changed.raw_data[0] ^ 1]) + changed.raw_data[1:]


CHANGED = [(unscaled_bias, True, Factors, "onnxslim"), (scaled_twice, True, Factors, "onnxslim"),
           (scaled_weight, True, Factors, "onnxslim"), (scores_of_one, True, Several, "onnxsim"),
           (no_activation, True, Frozen, "ort_all"),
           (exchanged_weights, True, Branches, "ort_extended"), (exchanged_weights, False, Branches, "ort_extended"),
           (exchanged_parts_of_norm, True, Branches), (other_bias, True, Equals, "dynamic"),
           (other_bias, True, Equals), (no_bias, True, Equals, "dynamic"), (bound, True, Depthwise),
           (integer_bound, True, Depthwise), (borders, True, Depthwise), (other_integer, True, Identity, "blocks_of_4_qdq")]


@pytest.mark.parametrize("case", CHANGED, ids=lambda case: f"{case[0].__name__}-{'.'.join([case[2].__name__, *case[3:]])}")
def test_changed_files_are_found(files, tmp_path, case):
    change, is_dynamo, kind, *tools = case
    path = files.path(kind, is_dynamo, *tools)
    files.attest(kind, is_dynamo, path, 0)
    model = onnx.load(path)
    change(model)
    onnx.save(model, tmp_path / "changed.onnx")
    predicate = files.attest(kind, is_dynamo, tmp_path / "changed.onnx", 1)
    named = [row["name"] for row in [*predicate["tensors"], *predicate["nodes"]] if row["verdict"] == "unaccounted"]
    assert named or predicate["differences"]


def test_new_weights_are_folded_with_the_same_number(files, tmp_path):
    """The factor of the program stays, and the factor that is a parameter is the new one."""
    path = files.path(Factors, True, "onnxslim")
    old = files.folder / "Factors.safetensors"
    torch.manual_seed(7)
    new = Factors().eval()
    models.save_weights(new, tmp_path / "new.safetensors")
    run("refit", path, "--base", old, "--weights", tmp_path / "new.safetensors", "--sidecar",
        files.folder / "Factors.True.whence.json", "-o", tmp_path / "refitted.onnx")
    refitted = models.numbers_of(tmp_path / "refitted.onnx")
    fused = next(name for name in refitted if name.endswith("_weight_fused") and refitted[name].shape == (16, 16))
    candidates = [new.query.weight * 0.3125, new.output.weight * new.scale[:, None]]
    assert any(np.allclose(refitted[fused], each.detach().numpy(), rtol=1e-6) for each in candidates)
