"""Quantized models: integers and results equal PyTorch's, with QuantizeLinear and DequantizeLinear between layers.

A quantized input or output becomes three values, as in PyTorch's exporter: integers, scale and zero point."""

from pathlib import Path

import numpy
import onnx
import onnxruntime
import pytest
import torch
import torch.ao.nn.intrinsic.quantized as nniq
import torch.ao.nn.quantized as nnq
from torch import nn

from command import run

pytestmark = pytest.mark.filterwarnings("ignore")
F = nn.functional
INTEGERS = {torch.quint8: numpy.uint8, torch.qint8: numpy.int8, torch.qint32: numpy.int32}


class Float(nn.Module):
    """Two convolutions, a residual sum, a pooling and a linear layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.sum = torch.ao.nn.quantized.FloatFunctional()
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        x = self.first(x)
        x = self.sum.add(x, self.second(x))
        return self.head(torch.flatten(self.pool(F.max_pool2d(x, 2)), 1))


def quantize_statically(backend: str) -> nn.Module:
    torch.manual_seed(0)
    model = torch.ao.quantization.QuantWrapper(Float()).eval()
    torch.ao.quantization.fuse_modules(model.module, [["first.0", "first.1", "first.2"]], inplace=True)
    model.qconfig = torch.ao.quantization.get_default_qconfig(backend)
    torch.ao.quantization.prepare(model, inplace=True)
    for _ in range(4):
        model(torch.randn(2, 3, 8, 8))
    return torch.ao.quantization.convert(model)


def quantized_tensor(*shape: int, scale=0.05, zero_point=120, dtype=torch.quint8) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.quantize_per_tensor(torch.randn(*shape, generator=generator), scale, zero_point, dtype)


def unpack(tensor: torch.Tensor, scale=numpy.float64, zero_point=numpy.int64) -> list[numpy.ndarray]:
    if not tensor.is_quantized:
        return [tensor.numpy()]
    return [tensor.int_repr().numpy(), numpy.array(tensor.q_scale(), scale),
            numpy.array(tensor.q_zero_point(), zero_point or INTEGERS[tensor.dtype])]


def flat(result) -> list[torch.Tensor]:
    return [tensor for part in result for tensor in flat(part)] if isinstance(result, (tuple, list)) else [result]


def export_model(model, inputs: tuple, folder: Path, *options: str):
    archive = torch.jit.trace(model, inputs, check_trace=False)
    torch.jit.save(archive, folder / "model.pt")
    torch.save(inputs, folder / "inputs.pt")
    run("export", folder / "model.pt", "-o", folder / "model.onnx", "--inputs", folder / "inputs.pt", *options)
    graph = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(graph, full_check=True)
    return graph.graph, onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])


def compare(model, inputs: tuple, session, levels=0) -> None:
    """Compares every output. Integers may differ by `levels`, because kernels sum in different orders."""
    expected = [part for tensor in flat(model(*inputs)) for part in unpack(tensor, numpy.float32, None)]
    values = [part for tensor in inputs for part in unpack(tensor)]
    actual = session.run(None, dict(zip((value.name for value in session.get_inputs()), values, strict=True)))
    assert len(actual) == len(expected)
    for result, reference in zip(actual, expected, strict=True):
        assert result.dtype == reference.dtype and result.shape == reference.shape
        if numpy.issubdtype(result.dtype, numpy.integer):
            assert numpy.abs(result.astype(int) - reference.astype(int)).max() <= levels
        else:
            numpy.testing.assert_allclose(result, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["fbgemm", "qnnpack"])
def test_a_statically_quantized_model_equals_pytorch(backend, tmp_path):
    model = quantize_statically(backend)
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    graph, session = export_model(model, (x,), tmp_path)
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("Conv") == 2 and kinds.count("QuantizeLinear") >= 5
    weights = {tensor.name: tensor.data_type for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT8}
    assert len(weights) >= 3, "weights must stay 8-bit integers"
    actual = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    step = model.module.head.scale
    assert numpy.abs(actual - model(x).numpy()).max() <= 2.5 * step  # each layer rounds


LAYERS = {
    "linear": (nnq.Linear(4, 8), quantized_tensor(3, 4)),
    "conv1d": (nnq.Conv1d(4, 6, 3, stride=2), quantized_tensor(2, 4, 9)),
    "conv2d": (nnq.Conv2d(4, 6, 3, padding=1, groups=2), quantized_tensor(2, 4, 6, 6)),
    "conv2d_relu": (nniq.ConvReLU2d(4, 6, 3), quantized_tensor(2, 4, 6, 6)),
    "conv3d": (nnq.Conv3d(2, 4, 2), quantized_tensor(1, 2, 3, 3, 3)),
    "conv_transpose2d": (nnq.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), quantized_tensor(1, 4, 3, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_between_quantized_tensors_equals_pytorch(name, tmp_path):
    layer, x = LAYERS[name]
    torch.manual_seed(0)
    weight, bias = layer._weight_bias()
    layer.set_weight_bias(torch.quantize_per_tensor(torch.randn(weight.shape), 0.1, 0, torch.qint8),
                          torch.randn(bias.shape))
    layer.scale, layer.zero_point = 0.2, 100
    graph, session = export_model(layer, (x,), tmp_path)
    assert [value.name for value in graph.input][1:] == [graph.input[0].name + "_scale",
                                                         graph.input[0].name + "_zero_point"]
    compare(layer, (x,), session, levels=1)


ops = torch.ops.quantized
FUNCTIONS = {
    "add": lambda x, y: ops.add(x, y, 0.2, 100),
    "add_relu": lambda x, y: ops.add_relu(x, y, 0.2, 100),
    "mul": lambda x, y: ops.mul(x, y, 0.2, 100),
    "cat": lambda x, y: ops.cat([x, y], 1, 0.3, 90),
    "relu": lambda x, y: (torch.relu(x), y.dequantize()),
    "sigmoid": lambda x, y: torch.sigmoid(x),
    "view_and_pool": lambda x, y: F.max_pool1d(x.transpose(1, 2), 2).reshape(-1),
    "in_place": lambda x, y: (x.relu_().dequantize(), x),
    "requantized": lambda x, y: torch.quantize_per_tensor(x.dequantize() + y.dequantize(), 0.1, 3, torch.qint8),
    "list": lambda x, y: torch.dequantize([x, y]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operators_on_quantized_tensors_equal_pytorch(name, tmp_path):
    class Model(nn.Module):
        def forward(self, x, y):
            return FUNCTIONS[name](x, y)

    inputs = quantized_tensor(2, 4, 6), quantized_tensor(2, 4, 6, scale=0.1, zero_point=60)
    _, session = export_model(Model(), tuple(tensor.clone() for tensor in inputs), tmp_path)
    compare(Model(), inputs, session, levels=1)


def test_the_scale_of_an_input_is_an_input(tmp_path):
    class Model(nn.Module):
        def forward(self, x):
            return torch.dequantize(x)

    _, session = export_model(Model(), (quantized_tensor(2, 3),), tmp_path)
    compare(Model(), (quantized_tensor(2, 3, scale=0.3, zero_point=7),), session)


def test_a_scale_derived_from_an_input_is_refused(tmp_path):
    class Model(nn.Module):
        def forward(self, x):
            return ops.mul_scalar(x, 3.0)

    torch.jit.save(torch.jit.trace(Model(), (quantized_tensor(2, 3),)), tmp_path / "model.pt")
    torch.save((quantized_tensor(2, 3),), tmp_path / "inputs.pt")
    result = run("export", tmp_path / "model.pt", "-o", tmp_path / "model.onnx", "--inputs", tmp_path / "inputs.pt",
                 code=4)
    assert "E0301" in result.stderr and "quantized::mul_scalar" in result.stderr


class ByChannel(nn.Module):
    """A tensor quantized by channel, whose scales and zero points are not attributes."""

    def __init__(self, as_buffer):
        super().__init__()
        scales = torch.rand(6, generator=torch.Generator().manual_seed(0)) + 0.1
        weight = torch.randn(6, 6, generator=torch.Generator().manual_seed(1))
        table = torch.quantize_per_channel(weight, scales, torch.arange(6), 0, torch.qint8)
        if as_buffer:
            self.register_buffer("table", table)
        else:
            self.table = table

    def forward(self, x):
        return F.linear(x, self.table.dequantize())


@pytest.mark.parametrize("as_buffer", [False, True])
def test_an_attribute_quantized_by_channel_equals_pytorch(as_buffer, tmp_path):
    model, x = ByChannel(as_buffer), torch.randn(2, 6)
    _, session = export_model(model, (x,), tmp_path)
    compare(model, (x,), session)
