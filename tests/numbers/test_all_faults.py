"""``whence.accuracy(..., all_faults=True)``: faults behind the first one, found with PyTorch's results in its place."""

import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import command
import whence


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(11)
        self.layers = nn.ModuleList(nn.Linear(12, 12) for _ in range(6))
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(x), x.argmax(-1)


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stack")
    model, x = Stack().eval(), torch.randn(3, 12)
    whence.export(model, (x,), folder / "m.onnx")
    whence.record_values(model, (x,), folder / "m.values.safetensors", operations=True)
    return folder


def damaged(stack, tmp_path, modules, **options):
    model = onnx.load(stack / "m.onnx")
    for module in modules:
        bias = next(each for each in model.graph.initializer if each.name == f"{module}.bias")
        bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + 0.05, bias.name))
    onnx.save(model, tmp_path / "wrong.onnx", **options)
    return tmp_path / "wrong.onnx"


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("modules", [["layers.1"], ["layers.0", "layers.3"], ["layers.0", "layers.1", "layers.4", "head"]])
def test_every_fault_is_found_in_one_call(stack, tmp_path, modules, external):
    options = {"save_as_external_data": True, "size_threshold": 0, "location": "w.bin"} if external else {}
    path = damaged(stack, tmp_path, modules, **options)
    before = path.read_bytes()
    report = whence.accuracy(path, stack / "m.values.safetensors", sidecar=stack / "m.whence.json", all_faults=True)
    assert [each.module for each in report.faults] == modules and not report.notes
    assert all(each.operation == "aten::linear" for each in report.faults) and path.read_bytes() == before


def test_a_right_file_has_no_faults(stack):
    report = whence.accuracy(stack / "m.onnx", stack / "m.values.safetensors", all_faults=True)
    assert report.faults == () and report.first is None


def test_a_value_that_was_not_recorded_completely_is_stated(tmp_path):
    model, x = Stack().eval(), torch.randn(300, 12)
    whence.export(model, (x,), tmp_path / "m.onnx")
    whence.record_values(model, (x,), tmp_path / "m.values.safetensors")
    report = whence.accuracy(damaged(tmp_path, tmp_path, ["layers.0", "layers.3"]), tmp_path / "m.values.safetensors",
                             all_faults=True)
    assert [each.module for each in report.faults] == ["layers.0"] and any("full=" in each for each in report.notes)


def test_the_command_lists_all_faults(stack, tmp_path):
    path = damaged(stack, tmp_path, ["layers.2", "head"])
    result = command.run("accuracy", path, "--values", stack / "m.values.safetensors", "--sidecar", stack / "m.whence.json",
                         "--all")
    assert "first module that differs: layers.2" in result.stdout and "the next one: head, aten::linear" in result.stdout
