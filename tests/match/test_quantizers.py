"""QuantizeLinear/DequantizeLinear pairs that a tool inserts after a value belong to the modules that read the value,
independently of the names of the pairs."""

import onnx
import pytest
import torch
from onnxruntime.quantization import CalibrationDataReader, quantize_dynamic, quantize_static

import command
import whence
from match.test_calls import keys


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.AvgPool2d(2)
        self.block = torch.nn.ModuleDict({"conv": torch.nn.Conv2d(3, 3, 3, padding=1), "short": torch.nn.Conv2d(3, 3, 1)})
        self.tail = torch.nn.Conv2d(3, 2, 1)

    def forward(self, x):
        x = self.stem(x)
        return self.tail(torch.sigmoid(self.block["conv"](x) + self.block["short"](x)))


class CalibrationInputs(CalibrationDataReader):
    def __init__(self):
        self.inputs = iter([{"x": torch.randn(1, 3, 16, 16).numpy()} for _ in range(2)])

    def get_next(self):
        return next(self.inputs, None)


@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.parametrize("option", ["--sidecar", "--from", "--weights", None])
def test_quantizer_pairs_belong_to_the_modules_that_read_them(dynamo, option, tmp_path):
    model, x = Residual().eval(), torch.randn(1, 3, 16, 16)
    with whence.record(tmp_path / "model.json"):
        torch.export.export(model, (x,))
    torch.onnx.export(model, (x,), tmp_path / "plain.onnx", dynamo=dynamo, input_names=["x"], verbose=False,
                      **({"external_data": False} if dynamo else {}))
    command.run("annotate", tmp_path / "plain.onnx", "--sidecar", tmp_path / "model.json", "-o", tmp_path / "known.onnx")
    torch.save(model.state_dict(), tmp_path / "model.bin")
    before = tmp_path / ("known.onnx" if option == "--from" else "plain.onnx")
    quantize_static(before, tmp_path / "qdq.onnx", CalibrationInputs())
    source = {"--sidecar": "model.json", "--from": "known.onnx", "--weights": "model.bin"}.get(option)
    command.run("annotate", tmp_path / "qdq.onnx", *([option, tmp_path / source] if option else []), "-o",
                tmp_path / "out.onnx")
    graph = onnx.load(tmp_path / "out.onnx").graph
    readers = {name: [node for node in graph.node if name in node.input] for node in graph.node for name in node.output}
    pooled = next(node for node in graph.node if node.op_type == "AveragePool").output[0]
    [quantize] = [node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] == pooled]
    for node in (quantize, *readers[quantize.output[0]]):
        metadata = keys(node)
        assert metadata.get("module", "") in {"block", ""} and metadata["confidence"] in {"ancestor", "unattributed"}
    squashed = next(node for node in graph.node if node.op_type == "Sigmoid").output[0]
    for node in [node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] == squashed]:
        assert keys(node).get("module", "") in {"tail", ""}


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = self.qkv(x).reshape(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def test_a_reshape_after_an_integer_matmul_keeps_its_module(tmp_path):
    """The quantiser inserts no Reshape, so each one comes from the model."""
    model, x = torch.nn.Sequential(Attention(), Attention()).eval(), torch.randn(2, 6, 32)
    with whence.record(tmp_path / "model.json"):
        torch.export.export(model, (x,))
    torch.onnx.export(model, (x,), tmp_path / "plain.onnx", dynamo=True, verbose=False, external_data=False)
    file = onnx.load(tmp_path / "plain.onnx")
    for node in file.graph.node:
        del node.metadata_props[:]
    onnx.save(file, tmp_path / "bare.onnx")
    quantize_dynamic(tmp_path / "bare.onnx", tmp_path / "int8.onnx")
    command.run("annotate", tmp_path / "int8.onnx", "--sidecar", tmp_path / "model.json", "-o", tmp_path / "out.onnx")
    nodes = onnx.load(tmp_path / "out.onnx").graph.node
    assert [node.op_type for node in nodes].count("MatMulInteger") == 4
    modules = [keys(node)["module"] for node in nodes if node.op_type == "Reshape"]
    assert len(modules) >= 4 and not [module for module in modules if module.endswith(("qkv", "out"))]
