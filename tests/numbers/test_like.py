"""``whence.accuracy(..., like=)``: errors that the file's precision explains are no differences."""

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import command
import whence


class Overflow(nn.Module):
    """Computes a variance of large numbers, which overflows in float16."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(13)
        self.stem, self.spread, self.head = nn.Linear(16, 16), Spread(), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.spread(self.stem(x))))


class Spread(nn.Module):
    def forward(self, x):
        return (x * 400).square() - 1e5


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """Returns the folder of a float16 file, its values in float32 and those of PyTorch in float16."""
    folder = tmp_path_factory.mktemp("half")
    model, x = Overflow().eval(), torch.randn(5, 16)
    whence.export(model.half(), (x.half(),), folder / "half.onnx")
    model.float()
    whence.record_values(model, (x,), folder / "m.values.safetensors", operations=True)
    whence.record_values(Overflow().eval().half(), (x.half(),), folder / "half.values.safetensors", operations=True)
    return folder


def measure(half, path="half.onnx", **options):
    return whence.accuracy(half / path, half / "m.values.safetensors", sidecar=half / "half.whence.json", **options)


def test_an_overflow_is_a_difference_from_float32_but_not_from_float16(half):
    first = measure(half).first
    assert first.module == "spread" and first.operation == "aten::square"
    assert first.ranges.startswith("from ") and "computed from values from -" in first.ranges
    assert measure(half, like=half / "half.values.safetensors").first is None
    assert measure(half, like="float16", model=Overflow().eval()).first is None


def test_a_fault_beyond_the_precision_is_named(half, tmp_path):
    model = onnx.load(half / "half.onnx")
    bias = next(each for each in model.graph.initializer if each.name == "stem.bias")
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + np.float16(0.5), bias.name))
    onnx.save(model, tmp_path / "wrong.onnx")
    report = measure(half, tmp_path / "wrong.onnx", like=half / "half.values.safetensors")
    assert report.first.module == "stem" and report.first.operation == "aten::linear"


def test_the_command_reads_values_of_the_precision(half):
    result = command.run("accuracy", half / "half.onnx", "--values", half / "m.values.safetensors",
                         "--like", half / "half.values.safetensors")
    assert "no module differs" in result.stdout


def test_values_of_another_model_and_formats_without_a_model_are_refused(half):
    with pytest.raises(whence.WhenceError) as raised:
        measure(half, like="float16")
    assert raised.value.code == "E0101"
    other = whence.record_values(nn.Sequential(nn.ReLU()), (torch.randn(2, 3),))
    with pytest.raises(whence.WhenceError) as raised:
        measure(half, like=other)
    assert raised.value.code == "E0206"
