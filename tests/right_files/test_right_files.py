"""whence names no module of right files that PyTorch's exporter and ONNX Runtime's tools write; `make right-files` has more
models and tools."""

import math

import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import right_files  # first, because it sets the search path
from results import MINIMUM, difference
from right_models import MODELS
from rounded_runs import allowed_error
from right_tools import TOOLS

QUICK_MODELS = ("attention", "lstm", "residual", "sample_nearest", "codebook", "experts", "large_activations", "floor", "diagonal",
                "log_softmax")
QUICK_TOOLS = ("onnxruntime-extended", "onnxruntime-all", "float16", "int8-dynamic", "int8-qdq", "int8-qoperator", "int4-matmul")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("right_files")


@pytest.mark.parametrize("name", QUICK_MODELS)
def test_no_module_of_a_right_file_is_named(name, folder):
    exported = right_files.export(name, "torchscript", folder)
    judged = [right_files.judge(each) for each in (exported, *(right_files.change(exported, tool) for tool in QUICK_TOOLS))
              if not each.refused]
    right = [each for each in judged if each.is_right]
    assert len(right) >= 5, [(each.name, each.error, each.allowed) for each in judged]
    assert {each.name: each.alarm for each in map(right_files.ask, right) if each.alarm} == {}


def test_a_wrong_file_is_not_right_and_named(folder):
    """The corpus is no proof if anything counts as right, or if nothing is named."""
    file = right_files.export("residual", "torchscript", folder / "wrong")
    model = onnx.load(file.path)
    bias = next(each for each in model.graph.initializer if each.name == "depthwise.bias")
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + 1, bias.name))
    onnx.save(model, file.path)
    file = right_files.judge(file)
    assert not file.is_right and file.error > 10 * file.allowed
    assert "depthwise" in right_files.ask(file).alarm


@pytest.mark.parametrize("number_format", MINIMUM)
def test_the_allowed_error_grows_with_rounding_and_jumps(number_format):
    torch.manual_seed(0)
    layers, x = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)), torch.randn(64, 16)
    smooth = allowed_error(layers, (x,), number_format)
    jumping = allowed_error(nn.Sequential(layers, _Floor()), (x,), number_format)
    assert smooth < {"float32": 1e-3, "float16": 0.01, "8 bits": 0.2, "4 bits": 1.0}[number_format]
    assert jumping > smooth or number_format == "float32"


class _Floor(nn.Module):
    def forward(self, x):
        return torch.floor(x * 64)


def test_a_difference_is_measured():
    expected = torch.tensor([3.0, 4.0, math.inf])
    assert difference(expected, expected.clone()) == 0
    assert difference(expected, torch.tensor([3.0, 4.5, math.inf])) == pytest.approx(0.1)
    assert difference(expected, torch.tensor([3.0, 4.0, 1.0])) == math.inf
    assert difference(expected, expected[None]) == math.inf


def test_every_format_and_tool_is_known():
    assert {each.number_format for each in TOOLS.values()} == set(MINIMUM)
    assert set(QUICK_MODELS) <= set(MODELS) and set(QUICK_TOOLS) <= set(TOOLS)
    assert not any(TOOLS[each].pins for each in QUICK_TOOLS)
