"""Norms and biases in forms that tools leave: channels by group, channels of zeros, products of integers."""

import json

import numpy as np
import onnx
import onnx_tools
import pytest
import torch
import whence
from onnx import numpy_helper
from torch import nn

import small_models as models
from command import run


class Grouped(nn.Module):
    """The weight of a transposed convolution has the channels of one group."""

    inputs = (1, 8, 5, 5)

    def __init__(self):
        super().__init__()
        self.up, self.norm = nn.ConvTranspose2d(8, 12, 3, stride=2, groups=2), nn.BatchNorm2d(12)

    def forward(self, x):
        return torch.relu(self.norm(self.up(x)))


class Pruned(nn.Module):
    """The norm has channels with the scale 0, of which the first is one."""

    inputs = (1, 3, 6, 6)

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)

    def forward(self, x):
        return torch.relu(self.norm(self.first(x)))


class Joined(nn.Module):
    """A norm of vectors after a linear layer, whose product a tool quantises."""

    inputs = (3, 16)

    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.head = nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 5)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.linear(x))))


class Attention(nn.Module):
    """Keys of another size: the biases of queries, keys and values are one parameter, and their weights are not."""

    inputs = (2, 4, 16)

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, kdim=12, vdim=12, batch_first=True)
        nn.init.normal_(self.attention.in_proj_bias)

    def forward(self, x):
        return self.attention(x, x[..., :12], x[..., :12], need_weights=False)[0]


class ScaledHeads(nn.Module):
    """The factor of the queries stands after the place of their only head; a tool multiplies it into weight and bias."""

    inputs = (1, 6, 16)

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def heads(self, x):
        return x.view(1, 6, 1, 16).transpose(1, 2)

    def forward(self, x):
        scores = (self.heads(self.query(x)) * 0.25) @ self.heads(self.key(x)).transpose(-1, -2)
        return scores.softmax(-1) @ self.heads(self.value(x))


def model_of(kind, seed=0):
    torch.manual_seed(seed)
    model = kind()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
                module.weight.uniform_(0.5, 2)
                module.bias.normal_()
        if kind is Pruned:
            model.norm.weight[torch.tensor([0, 3])] = 0
    return model.eval()


CASES = {
    "grouped": (Grouped, True, None),
    "grouped, onnxslim": (Grouped, False, onnx_tools.onnxslim),
    "pruned": (Pruned, True, None),
    "pruned, TorchScript": (Pruned, False, None),
    "joined, dynamic": (Joined, True, onnx_tools.dynamic_int8()),
    "joined, dynamic, channels": (Joined, True, onnx_tools.dynamic_int8(per_channel=True)),
    "scaled heads, onnxslim": (ScaledHeads, True, onnx_tools.onnxslim),
    "attention, static": (Attention, False, onnx_tools.static_int8("QDQ")),
}


def write(case, folder, seed):
    """Writes checkpoint, sidecar and the tool's file, and returns the latter."""
    kind, is_dynamo, tool = CASES[case]
    model, x = model_of(kind, seed), torch.randn(kind.inputs, generator=torch.Generator().manual_seed(1))
    models.save_weights(model, folder / f"{seed}.safetensors")
    with whence.record(folder / f"{seed}.whence.json"):
        torch.export.export(model, (x,)) if is_dynamo else torch.jit.trace(model, (x,))
    torch.onnx.export(model, (x,), folder / f"{seed}.exported.onnx", dynamo=is_dynamo, external_data=False,
                      **({"verbose": False} if is_dynamo else {"input_names": ["x"]}))
    if tool is None:
        return folder / f"{seed}.exported.onnx"
    tool(folder / f"{seed}.exported.onnx", folder / f"{seed}.onnx", [{"x": x.numpy()}])
    return folder / f"{seed}.onnx"


def attest(path, folder, code):
    report = json.loads(run("attest", path, "--weights", folder / "0.safetensors", "--sidecar", folder / "0.whence.json",
                            "--json", code=code).stdout)
    return {row["name"]: row["verdict"] for row in report["predicate"]["tensors"]}


def changed(tensor):
    """Returns the tensor with one element that differs more than by rounding."""
    numbers = numpy_helper.to_array(tensor).copy()
    at = np.unravel_index(np.abs(numbers.astype(np.float64)).argmax(), numbers.shape)
    if np.issubdtype(numbers.dtype, np.floating):
        numbers[at] *= np.float32(1.0001)
    else:
        numbers[at] += 1 if numbers[at] <= 0 else -1
    return numpy_helper.from_array(numbers, tensor.name)


@pytest.mark.parametrize("case", CASES)
def test_all_is_accounted_for_and_one_element_is_not(tmp_path, case):
    path = write(case, tmp_path, 0)
    verdicts = attest(path, tmp_path, 0)
    assert {"exact", "bounded"} & set(verdicts.values())
    model = onnx.load(path)
    for tensor in [each for each in model.graph.initializer if verdicts[each.name] in ("exact", "bounded")]:
        if np.prod(tensor.dims) < 5:
            continue
        kept = onnx.TensorProto()
        kept.CopyFrom(tensor)
        tensor.CopyFrom(changed(tensor))
        onnx.save(model, tmp_path / "changed.onnx")
        assert attest(tmp_path / "changed.onnx", tmp_path, 1)[tensor.name] == "unaccounted", tensor.name
        tensor.CopyFrom(kept)


@pytest.mark.parametrize("case", ["grouped", "pruned", "joined, dynamic"])
def test_new_weights_are_folded_like_the_old_ones(tmp_path, case):
    path, new = write(case, tmp_path, 0), write(case, tmp_path, 1)
    run("refit", path, "--base", tmp_path / "0.safetensors", "--weights", tmp_path / "1.safetensors", "--sidecar",
        tmp_path / "0.whence.json", "-o", tmp_path / "refitted.onnx")
    found, expected = models.numbers_of(tmp_path / "refitted.onnx"), models.numbers_of(new)
    assert found.keys() == expected.keys()
    for name, numbers in expected.items():
        np.testing.assert_allclose(found[name], numbers, rtol=1e-5, atol=1e-6, err_msg=name)


class Chain(nn.Module):
    """Small convolutions, of which each arithmetic of a folded norm gives some."""

    inputs = (1, 6, 8, 8)

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)) for _ in range(12))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def write_chain(exporter, tool, folder, seed):
    model, x = model_of(Chain, seed), torch.randn(Chain.inputs)
    models.save_weights(model, folder / f"{seed}.safetensors")
    exported = folder / f"{seed}.exported.onnx"
    with whence.record(folder / f"{seed}.whence.json"):
        torch.export.export(model, (x,))
    if exporter == "whence":
        whence.export(model, (x,), exported)
    else:
        torch.onnx.export(model, (x,), exported, dynamo=True, external_data=False, verbose=False)
    if tool is None:
        return exported
    tool(exported, folder / f"{seed}.onnx", [{"x": x.numpy()}])
    return folder / f"{seed}.onnx"


@pytest.mark.parametrize("tool", [None, onnx_tools.dynamic_int8()], ids=["exported", "dynamic"])
@pytest.mark.parametrize("exporter", ["whence", "dynamo"])
def test_all_norms_are_folded_in_the_arithmetic_of_one_tool(tmp_path, exporter, tool):
    """One layer alone does not always say which: new weights would then be rounded otherwise than by the tool."""
    old, new = (write_chain(exporter, tool, tmp_path, seed) for seed in (0, 1))
    run("refit", old, "--base", tmp_path / "0.safetensors", "--weights", tmp_path / "1.safetensors", "--sidecar",
        tmp_path / "0.whence.json", "-o", tmp_path / "refitted.onnx")
    found, expected = models.numbers_of(tmp_path / "refitted.onnx"), models.numbers_of(new)
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name].tobytes() != expected[name].tobytes()] == []
