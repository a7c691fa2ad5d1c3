"""Narrow and packed weights stay compact in the file: folding does not enlarge them, and results equal PyTorch's."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn import functional

import command


class Int8Linear(nn.Module):
    """Weight-only int8 with one scale per row."""

    def __init__(self, rows=48, columns=64):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 127, (rows, columns), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(rows, 1))
        self.inputs = (torch.randn(2, columns),)

    def forward(self, x):
        return functional.linear(x, self.weight.to(x.dtype) * self.scale)


class TinyInt8Linear(Int8Linear):
    """A weight so small that float32 would cost little; it must stay int8 anyway."""

    def __init__(self):
        super().__init__(12, 8)


class Int8Parameter(nn.Module):
    """Stores the integers as a parameter, like unwrapped torchao tensors, with zero points by group."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randint(0, 15, (32, 4, 16), dtype=torch.uint8), requires_grad=False)
        self.scale = nn.Parameter(torch.rand(32, 4, 1), requires_grad=False)
        self.zero = nn.Parameter(torch.randint(0, 15, (32, 4, 1), dtype=torch.uint8), requires_grad=False)
        self.inputs = (torch.randn(2, 3, 64),)

    def forward(self, x):
        weight = (self.weight.to(torch.float32) - self.zero.to(torch.float32)) * self.scale
        return functional.linear(x, weight.reshape(32, 64))


class Int8Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 127, (16, 8, 3, 3), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(16))
        self.inputs = (torch.randn(1, 8, 6, 6),)

    def forward(self, x):
        return functional.conv2d(x, self.weight.float() * self.scale.view(-1, 1, 1, 1), padding=1)


class Gptq(nn.Module):
    """Packs eight 4-bit numbers into an int32, with scales and zero points by group, like GPTQ and AWQ."""

    def __init__(self, inputs=64, outputs=32, group=16):
        super().__init__()
        word = (-2**31, 2**31 - 1)
        self.register_buffer("qweight", torch.randint(*word, (inputs // 8, outputs), dtype=torch.int32))
        self.register_buffer("qzeros", torch.randint(*word, (inputs // group, outputs // 8), dtype=torch.int32))
        self.register_buffer("scales", torch.rand(inputs // group, outputs) / 10)
        self.register_buffer("group", torch.arange(inputs) // group)
        self.register_buffer("shifts", torch.arange(0, 32, 4, dtype=torch.int32))
        self.inputs = (torch.randn(2, inputs),)

    def forward(self, x):
        zeros = torch.bitwise_right_shift(self.qzeros.unsqueeze(2), self.shifts) & 15
        weight = torch.bitwise_right_shift(self.qweight.unsqueeze(1), self.shifts.view(1, 8, 1)) & 15
        weight = weight.reshape(x.shape[-1], -1)
        zeros = zeros.reshape(self.scales.shape)
        return x @ ((weight - zeros[self.group]).to(x.dtype) * self.scales[self.group])


class Nibbles(nn.Module):
    """Packs two 4-bit numbers into a byte."""

    def __init__(self):
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 255, (64, 32), dtype=torch.uint8))
        self.register_buffer("scale", torch.rand(64, 1))
        self.inputs = (torch.randn(2, 64),)

    def forward(self, x):
        halves = torch.stack([self.packed & 15, self.packed // 16], -1).reshape(64, 64)
        return x @ ((halves.to(torch.float32) - 8) * self.scale)


class Palette(nn.Module):
    """Stores each weight as an index into sixteen numbers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("palette", torch.randn(16))
        self.register_buffer("choice", torch.randint(0, 15, (64, 64), dtype=torch.uint8))
        self.inputs = (torch.randn(2, 64),)

    def forward(self, x):
        return x @ self.palette[self.choice.long()]


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64).half(), requires_grad=False)
        self.inputs = (torch.randn(2, 64),)

    def forward(self, x):
        return x @ self.weight.float()


class Rotary(nn.Module):
    """Computes a table of angles from a few frequencies."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, 32) / 32))
        self.inputs = (torch.randn(1, 256, 32),)

    def forward(self, x):
        angles = torch.outer(torch.arange(x.shape[1]).float(), self.frequencies)
        return x * angles.cos() + x.flip(-1) * angles.sin()


class OuterProduct(nn.Module):
    """Computes a table as the product of two vectors, and expands a row."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.randn(96, 1))
        self.register_buffer("columns", torch.randn(1, 80))
        self.row = nn.Parameter(torch.randn(80))
        self.inputs = (torch.randn(96, 80),)

    def forward(self, x):
        return x * (self.rows * self.columns) + self.row.expand(96, 80).contiguous()


class Mask(nn.Module):
    """Converts a stored boolean mask to numbers to add."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.rand(80, 80) > 0.5)
        self.inputs = (torch.randn(80, 80),)

    def forward(self, x):
        return x + torch.where(self.mask, 0.0, -1000.0)


MODELS = [Int8Linear, TinyInt8Linear, Int8Parameter, Int8Convolution, Gptq, Nibbles, Palette, Half, Rotary,
          OuterProduct, Mask]
NARROW = {torch.int8: onnx.TensorProto.INT8, torch.uint8: onnx.TensorProto.UINT8, torch.int32: onnx.TensorProto.INT32,
          torch.float16: onnx.TensorProto.FLOAT16}
OPTIONS = {"optimised": [], "no-optimize": ["--no-optimize"], "no-fold": ["--no-fold"]}


def archive_of(model, form, folder):
    path = folder / f"m.{form}"
    if form == "pt2":
        torch.export.save(torch.export.export(model, model.inputs, strict=False), path)
    else:
        torch.jit.trace(model, model.inputs, check_trace=False).save(str(path))
    return path


def bytes_of(graph) -> int:
    return sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in graph.initializer)


@pytest.mark.parametrize("form", ["pt", "pt2"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("make", MODELS)
def test_the_file_is_no_larger_than_the_model(make, options, form, tmp_path):
    torch.manual_seed(0)
    model = make().eval()
    command.run("export", archive_of(model, form, tmp_path), "-o", tmp_path / "m.onnx", *OPTIONS[options])
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    size = sum(tensor.nbytes for tensor in [*model.parameters(), *model.buffers()])
    constants = 2048  # shapes, axes, bounds, positions
    assert bytes_of(onnx.load(tmp_path / "m.onnx").graph) <= size + constants
    stored = [(tensor.data_type, int(np.prod(tensor.dims)))
              for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer]
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.dtype in NARROW and tensor.numel() > 8:
            assert (NARROW[tensor.dtype], tensor.numel()) in stored, "a narrow weight was widened"
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    feeds = {value.name: tensor.numpy() for value, tensor in zip(session.get_inputs(), model.inputs, strict=True)}
    np.testing.assert_allclose(session.run(None, feeds)[0], model(*model.inputs).detach().numpy(), rtol=1e-4, atol=1e-4)
