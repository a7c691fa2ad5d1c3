"""whence attest on recordings of torch.jit.trace, which hold computed results as constants and no data of buffers: honest
files are accounted for, changed ones are found."""

import json
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
import whence
from torch import nn

import onnx_tools
import small_models as models
from command import run
from test_attest import attest, edited, unaccounted


class FrozenNorm(nn.Module):
    """A norm with its statistics in buffers, computed by plain arithmetic."""

    def __init__(self, channels):
        super().__init__()
        for name in ("weight", "bias", "mean", "variance"):
            self.register_buffer(name, torch.rand(channels) + 0.5)

    def forward(self, x):
        scale = self.weight * (self.variance + 1e-5).rsqrt()
        return x * scale + (self.bias - self.mean * scale)


class FrozenNorms(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), FrozenNorm(8), nn.ReLU(), nn.Linear(8, 8), FrozenNorm(8))

    def forward(self, x):
        return self.layers(x)


class Rotary(nn.Module):
    """Angles from frequencies that no checkpoint has, and from positions that are known at export."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", 1.0 / 100 ** (torch.arange(4) / 4), persistent=False)
        self.project = nn.Linear(8, 8)

    def forward(self, x):
        angles = torch.arange(x.shape[1], dtype=torch.float32)[:, None] * self.frequencies[None, :]
        angles = torch.cat((angles, angles), -1)
        rotated = torch.cat((-x[..., 4:], x[..., :4]), -1)
        return self.project(x * angles.cos() + rotated * angles.sin())


class RelativePositions(nn.Module):
    """A bias that an index, which no checkpoint has, gathers from a table."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(9, 2))
        self.register_buffer("index", (torch.arange(5)[:, None] - torch.arange(5)[None, :] + 4).view(-1), persistent=False)
        self.queries, self.keys = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        bias = self.table[self.index].view(5, 5, 2).permute(2, 0, 1).unsqueeze(0)
        queries, keys = (layer(x).view(-1, 5, 2, 4).transpose(1, 2) for layer in (self.queries, self.keys))
        return (queries @ keys.transpose(-1, -2) + bias).softmax(-1)


class LargeMask(nn.Module):
    """A mask of more than a megabyte that no checkpoint has, of which the model reads a corner."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(1100, 1100, dtype=torch.bool).tril(), persistent=False)
        self.queries, self.keys = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        scores = self.queries(x) @ self.keys(x).transpose(-1, -2)
        return scores.masked_fill(~self.mask[: x.shape[1], : x.shape[1]], -1e4).softmax(-1)


INPUTS = {FrozenNorms: (2, 6), Rotary: (1, 5, 8), RelativePositions: (1, 5, 8), LargeMask: (1, 5, 8)}


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Returns a function that makes the checkpoint, the recording of torch.jit.trace and the TorchScript exporter's file."""
    made = {}

    def make(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind.__name__)
            torch.manual_seed(3)
            model, x = kind().eval(), torch.randn(INPUTS[kind])
            files = SimpleNamespace(weights=models.save_weights(model, folder / "model.safetensors"), folder=folder, x=x,
                                    sidecar=folder / "model.whence.json", path=folder / "model.onnx")
            with whence.record(files.sidecar):
                torch.jit.trace(model, x, check_trace=False)
            torch.onnx.export(model, (x,), files.path, dynamo=False, input_names=["x"])
            made[kind] = files
        return made[kind]

    return make


def constants_of(path):
    import onnx

    graph = onnx.load(path).graph
    found = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    return {name: numbers for name, numbers in found.items() if numbers.dtype == np.float32 and numbers.size > 1}


@pytest.mark.parametrize("kind", INPUTS)
def test_the_exported_file_is_accounted_for(traced, kind):
    files = traced(kind)
    statement = attest(files.path, files)
    assert unaccounted(statement) == ([], [])


@pytest.mark.parametrize("kind", [FrozenNorms, RelativePositions])
def test_computed_results_name_their_parameters(traced, kind):
    files = traced(kind)
    texts = json.dumps([row.get("derivation") for row in attest(files.path, files)["predicate"]["tensors"]])
    assert ("table" if kind is RelativePositions else "layers.1.variance") in texts


@pytest.mark.parametrize("tool", ["onnxslim", "ort_basic", "float16", "static", "dynamic"])
@pytest.mark.parametrize("kind", INPUTS)
def test_files_of_tools_are_accounted_for(traced, kind, tool):
    files = traced(kind)
    target = files.folder / f"{tool}.onnx"
    models.TOOLS[tool](files.path, target, [{"x": files.x.numpy()}])
    assert unaccounted(attest(target, files)) == ([], [])


@pytest.mark.parametrize("kind", INPUTS)
def test_one_changed_element_of_each_constant_is_found(traced, tmp_path, kind):
    files = traced(kind)
    slim = tmp_path / "slim.onnx"  # constants become initializers
    onnx_tools.onnxslim(files.path, slim, [])
    assert unaccounted(attest(slim, files)) == ([], [])
    for name in constants_of(slim):
        def change(numbers):
            numbers.flat[1] += 0.01

        changed = edited(slim, tmp_path / "changed.onnx", name, change)
        assert unaccounted(attest(changed, files, code=1))[0] == [name]


def test_exchanged_results_of_norms_are_found(traced, tmp_path):
    import onnx

    files = traced(FrozenNorms)
    model = onnx.load(files.path)
    first, second = [node for node in model.graph.node if node.op_type == "Mul"]
    first.input[1], second.input[1] = second.input[1], first.input[1]
    onnx.save(model, tmp_path / "exchanged.onnx")
    assert set(unaccounted(attest(tmp_path / "exchanged.onnx", files, code=1))[0]) == {first.input[1], second.input[1]}


def test_new_statistics_are_computed(traced, tmp_path):
    import onnxruntime as ort

    files = traced(FrozenNorms)
    torch.manual_seed(9)
    model = FrozenNorms().eval()
    new = models.save_weights(model, tmp_path / "new.safetensors")
    run("refit", files.path, "--base", files.weights, "--sidecar", files.sidecar, "--weights", new, "-o", tmp_path / "new.onnx")
    [found] = ort.InferenceSession(tmp_path / "new.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": files.x.numpy()})
    np.testing.assert_allclose(found, model(files.x).detach().numpy(), atol=1e-5)


def test_a_changed_element_of_a_large_mask_is_found(traced):
    files = traced(LargeMask)
    path = files.folder / "dynamo.onnx"
    torch.manual_seed(3)
    program = torch.onnx.export(LargeMask().eval(), (files.x,), dynamo=True, optimize=False, verbose=False)
    program.save(str(path), external_data=False)
    assert unaccounted(attest(path, files)) == ([], [])
    model = onnx.load(path)
    [mask] = [each for each in model.graph.initializer if list(each.dims) == [1100, 1100]]
    changed = onnx.numpy_helper.to_array(mask).copy()
    changed[1, 3] = True
    mask.CopyFrom(onnx.numpy_helper.from_array(changed, mask.name))
    onnx.save(model, files.folder / "changed.onnx")
    tensors, nodes = unaccounted(attest(files.folder / "changed.onnx", files, code=1))
    assert mask.name in tensors + nodes
