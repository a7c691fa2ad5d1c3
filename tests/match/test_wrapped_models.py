"""Files of a wrapper around the recorded model. Nodes that prepare the model's inputs belong to no recorded module."""

import json
import re

import onnx
import pytest
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

import command
from accuracy import rename
from match.test_calls import keys


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8))
        self.body, self.head = torch.nn.Conv2d(8, 8, 3, stride=2), torch.nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.relu(self.body(torch.relu(self.stem(x)))).mean((2, 3)))


class Wrapper(torch.nn.Module):
    def __init__(self, model: torch.nn.Module, prepare):
        super().__init__()
        self.model, self.prepare = model, prepare

    def forward(self, x):
        return torch.softmax(self.model((self.prepare(x) - 0.4) / 0.25), -1).max(-1)


PREPARATIONS = {
    "normalised": (lambda x: x, torch.randn(1, 3, 16, 16)),
    "bytes": (lambda x: x.permute(0, 3, 1, 2).float() / 255, torch.randint(0, 255, (1, 16, 16, 3), dtype=torch.uint8)),
    "resized": (lambda x: torch.nn.functional.interpolate(x, size=(16, 16), mode="bilinear"), torch.randn(1, 3, 24, 24)),
}


@pytest.mark.parametrize("quantised", [False, True], ids=["plain", "int8"])
@pytest.mark.parametrize("preparation", PREPARATIONS)
def test_input_preparation_belongs_to_the_root(preparation, quantised, tmp_path):
    torch.manual_seed(3)
    model = Network().eval()
    model.stem[1].running_mean.normal_()
    model.stem[1].running_var.uniform_(0.5, 2)
    torch.jit.trace(model, torch.randn(1, 3, 16, 16)).save(tmp_path / "model.pt")
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json", "--input", "x=float32[1,3,16,16]")
    prepare, x = PREPARATIONS[preparation]
    torch.onnx.export(Wrapper(model, prepare).eval(), (x,), tmp_path / "plain.onnx", dynamo=False, opset_version=18)
    if quantised:
        quantize_dynamic(tmp_path / "plain.onnx", tmp_path / "int8.onnx", weight_type=QuantType.QUInt8)
    file = onnx.load(tmp_path / ("int8.onnx" if quantised else "plain.onnx"))
    rename.rename_everything(file)
    onnx.save(file, tmp_path / "plain.onnx")
    command.run("annotate", tmp_path / "plain.onnx", "--sidecar", tmp_path / "model.json", "-o", tmp_path / "out.onnx")
    nodes = list(onnx.load(tmp_path / "out.onnx").graph.node)
    assert keys(next(node for node in nodes if node.op_type in ("Conv", "ConvInteger")))["module"] == "stem"
    first = next(at for at, node in enumerate(nodes) if node.op_type in ("Conv", "DynamicQuantizeLinear"))
    before = [node for node in nodes[:first] if node.op_type not in ("Constant", "Reshape")]  # Reshapes of biases
    assert len(before) >= 2
    for node in before:
        assert (keys(node).get("module"), keys(node)["confidence"]) == ("", "ancestor"), node.op_type
        assert "modules" not in keys(node)


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.pool, self.act = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Sigmoid()
        self.down, self.up = torch.nn.Conv2d(8, 4, 1), torch.nn.Conv2d(4, 8, 1)

    def forward(self, x):
        return x * self.act(self.up(self.down(self.pool(x))))


class Squeezing(torch.nn.Module):
    """Convolutions with norms that a tool folds, and a scale for each channel."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(8, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8)
        self.act, self.scale = torch.nn.Hardswish(), Scale()
        self.last, self.end = torch.nn.Conv2d(8, 8, 1, bias=False), torch.nn.BatchNorm2d(8)

    def forward(self, x):
        return x + self.end(self.last(self.scale(self.act(self.norm(self.first(x))))))


class Twice(torch.nn.Module):
    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x) * self.model(x.flip(1))


def test_a_model_called_twice_has_no_wrong_module(tmp_path):
    torch.manual_seed(3)
    model, x = torch.nn.Sequential(Squeezing(), Squeezing()).eval(), torch.randn(1, 8, 12, 12)
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    torch.jit.trace(model, x).save(tmp_path / "model.pt")
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json", "--input", "input=float32[1,8,12,12]")
    torch.onnx.export(Twice(model).eval(), (x,), tmp_path / "plain.onnx", dynamo=False, opset_version=18)
    names = [node.name for node in onnx.load(tmp_path / "plain.onnx").graph.node]
    command.run("annotate", tmp_path / "plain.onnx", "--sidecar", tmp_path / "model.json", "-o", tmp_path / "out.onnx")
    matched = 0
    for name, node in zip(names, onnx.load(tmp_path / "out.onnx").graph.node, strict=True):
        if not name.startswith("/model/") or keys(node)["confidence"] != "matched":
            continue
        path = re.sub(r"_\d+/", "/", name).split("/")[2:-1]  # model.0, scale, up
        paths = json.loads(keys(node).get("modules", "[]")) or [keys(node)["module"]]
        assert ".".join(path).removeprefix("model.") in paths, name
        matched += 1
    assert matched >= 12
