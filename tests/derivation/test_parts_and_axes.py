"""Parts of parameters, axes that sums keep, and parameters that are read twice: honest forms of them, and changed ones."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
import whence
from onnx import numpy_helper
from safetensors.numpy import load_file
from torch import nn

import small_models as models
from test_attest import attest, unaccounted
from test_other_spellings import nodes_of

EXPORTERS = ("dynamo", "torchscript")


class FirstPositions(nn.Module):
    """Multiplies by the first of the positions in each head, and by later ones."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(4, 31, 8))

    def forward(self, x):
        return x @ self.positions[:, :12].transpose(1, 2), x @ self.positions[:, 20:27].transpose(1, 2)


class Shares(nn.Module):
    """Divides a square result by its sums along an axis, which it keeps or adds again."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 4)

    def forward(self, x):
        y = self.project(x).sigmoid()
        return y / y.sum(1).unsqueeze(1), y / y.amax(1, keepdim=True)


class Snake(nn.Module):
    """Reads one parameter twice: as it is, and with a number added that its integers do not show."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 6)
        self.frequency = nn.Parameter(torch.rand(6) + 0.5)

    def forward(self, x):
        y = self.project(x)
        return y + torch.sin(self.frequency * y) ** 2 / (self.frequency + 1e-9)


INPUTS = {FirstPositions: (2, 4, 5, 8), Shares: (4, 8), Snake: (4, 8)}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns a function that makes the checkpoint, the recording and the file of an exporter."""
    made = {}

    def make(kind, exporter):
        if (kind, exporter) not in made:
            folder = tmp_path_factory.mktemp(f"{kind.__name__}_{exporter}")
            torch.manual_seed(3)
            model, x = kind().eval(), torch.randn(INPUTS[kind])
            files = SimpleNamespace(weights=models.save_weights(model, folder / "model.safetensors"), x=x,
                                    sidecar=folder / "model.whence.json", path=folder / "model.onnx")
            with whence.record(files.sidecar):
                torch.onnx.export(model, (x,), files.path, dynamo=exporter == "dynamo", input_names=["x"])
            onnx.save(onnx.load(files.path), files.path)  # without a file for data, so that tools can write elsewhere
            made[kind, exporter] = files
        return made[kind, exporter]

    return make


def findings(model, files, tmp_path):
    onnx.save(model, tmp_path / "changed.onnx")
    return unaccounted(attest(tmp_path / "changed.onnx", files, code=1))


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", INPUTS)
def test_exported_files_are_accounted_for(exported, kind, exporter):
    files = exported(kind, exporter)
    assert unaccounted(attest(files.path, files)) == ([], [])


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind, tool", [(FirstPositions, "onnxslim"), (Shares, "onnxslim"), (Snake, "static")])
def test_files_of_tools_are_accounted_for(exported, tmp_path, kind, exporter, tool):
    files = exported(kind, exporter)
    models.TOOLS[tool](files.path, tmp_path / "tool.onnx", [{"x": files.x.numpy()}])
    assert unaccounted(attest(tmp_path / "tool.onnx", files)) == ([], [])


@pytest.mark.parametrize("change", ["other positions", "one element"])
def test_other_parts_of_a_parameter_are_found(exported, tmp_path, change):
    files = exported(FirstPositions, "dynamo")
    model = onnx.load(files.path)
    part = next(tensor for tensor in model.graph.initializer if tensor.dims and set(tensor.dims) == {4, 12, 8})
    numbers = numpy_helper.to_array(part).copy()
    is_turned = numbers.shape[2] == 12
    if change == "one element":
        numbers[1, 2, 3] += 1e-6
    else:
        positions = load_file(files.weights)["positions"][:, 1:13]
        numbers = np.ascontiguousarray(positions.transpose(0, 2, 1) if is_turned else positions)
    part.CopyFrom(numpy_helper.from_array(numbers, part.name))
    assert findings(model, files, tmp_path)[0] == [part.name]


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMax"])
def test_axes_that_are_kept_or_not_unlike_the_program_are_found(exported, tmp_path, op_type):
    files = exported(Shares, "torchscript")
    model = onnx.load(files.path)
    [node] = nodes_of(model, op_type)
    keeps = next(each for each in node.attribute if each.name == "keepdims")
    keeps.i = 1 - keeps.i
    assert node.name in findings(model, files, tmp_path)[1]


def test_a_changed_integer_of_a_parameter_that_is_read_twice_is_found(exported, tmp_path):
    files = exported(Snake, "torchscript")
    models.TOOLS["static"](files.path, tmp_path / "static.onnx", [{"x": files.x.numpy()}])
    model = onnx.load(tmp_path / "static.onnx")
    integers = next(tensor for tensor in model.graph.initializer if tensor.name.startswith("frequency") and list(tensor.dims) == [6])
    numbers = numpy_helper.to_array(integers).copy()
    numbers[2] -= 1
    integers.CopyFrom(numpy_helper.from_array(numbers, integers.name))
    assert integers.name in findings(model, files, tmp_path)[0]
