"""Bugs of converters to float16: values that overflow, and constants that are clamped. Their step is an operator."""

import torch
from torch import nn

from bug import Bug
from roads import torchscript

COMMON = ("onnxconverter-common==1.16.0",)
LAST = ("onnxruntime==1.32.0",)
COMMON_ISSUES = "https://github.com/microsoft/onnxconverter-common/issues/"
EXPORT = torchscript(opset_version=15)
ROUNDING = 5e-3  # of float16, after a few layers


def common(blocked=(), **options):
    """Returns a writer that exports a model and converts it with onnxconverter-common."""

    def write(model, inputs, path):
        import numpy
        import onnx
        from onnxconverter_common import float16

        numpy.fromstring = lambda data, dtype: numpy.frombuffer(data, dtype)  # NumPy 2 refuses it
        EXPORT(model, inputs, path)
        operators = [*float16.DEFAULT_OP_BLOCK_LIST, *blocked]
        done = float16.convert_float_to_float16(onnx.load(path), keep_io_types=True, op_block_list=operators, **options)
        onnx.save(done, path)

    return write


def runtime(blocked=()):
    """Returns a writer that exports a model and converts it with ONNX Runtime's tools."""

    def write(model, inputs, path):
        import onnx
        from onnxruntime.transformers import float16

        EXPORT(model, inputs, path)
        operators = [*float16.DEFAULT_OP_BLOCK_LIST, *blocked]
        onnx.save(float16.convert_float_to_float16(onnx.load(path), keep_io_types=True, op_block_list=operators), path)

    return write


class Denormalise(nn.Module):
    """Gives predictions their physical units: geopotential, in m2/s2."""

    def __init__(self, channels):
        super().__init__()
        self.register_buffer("mean", torch.full((channels, 1, 1), 54000.0))
        self.register_buffer("deviation", torch.full((channels, 1, 1), 3300.0))

    def forward(self, x):
        return x * self.deviation + self.mean


class Weather(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Conv2d(3, 8, 3, padding=1)
        self.process = nn.Conv2d(8, 8, 3, padding=1)
        self.decode = nn.Conv2d(8, 1, 1)
        self.units = Denormalise(1)

    def forward(self, x):
        return self.units(self.decode(torch.relu(self.process(torch.relu(self.encode(x))))))


class UnscaledAttention(nn.Module):
    """Attention without a scale, like T5's."""

    def __init__(self, size):
        super().__init__()
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(size, size, bias=False)
        self.value = nn.Linear(size, size, bias=False)

    def forward(self, x):
        return (self.query(x) @ self.key(x).transpose(1, 2)).softmax(-1) @ self.value(x)


class Reranker(nn.Module):
    """A model whose residual stream has grown to some hundreds, so that its scores have a million."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.attention = UnscaledAttention(16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 1)
        with torch.no_grad():
            self.embed.weight *= 250

    def forward(self, ids):
        return self.head(self.norm(self.attention(self.embed(ids))).mean(1))


def tokens():
    return (torch.randint(1, 20, (2, 7)),)


FLOAT_SCORES = ("MatMul", "Softmax")

BUGS = [
    Bug("onnxconverter-common-295", "constants above 10,000 become 10,000", COMMON_ISSUES + "295", COMMON, COMMON,
        Weather, lambda: (torch.randn(2, 3, 6, 6),), common(), "units", "aten::add", common(max_finite_val=65504.0),
        step="Add", tolerance=ROUNDING),
    Bug("onnxconverter-common-round_trip",
        "a value between two operators that stay in float32 is cast to float16 and overflows",
        "https://github.com/microsoft/onnxconverter-common/pull/288",
        ("onnxconverter-common==1.14.0", "onnx==1.18.0", "numpy==1.26.4"), COMMON, Reranker, tokens,
        common(FLOAT_SCORES), "attention", "aten::matmul", step="MatMul", kind="nan", tolerance=ROUNDING),
    Bug("onnxruntime-21345", "a value between two operators that stay in float32 is cast to float16 and overflows",
        "https://github.com/microsoft/onnxruntime/issues/21345", LAST, COMMON, Reranker, tokens, runtime(FLOAT_SCORES),
        "attention", "aten::matmul", common(FLOAT_SCORES), step="MatMul", kind="nan", tolerance=ROUNDING),
]
