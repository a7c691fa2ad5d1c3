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

        # NumPy 2 lacks the methods' old names, which the converter calls.
        numpy.fromstring = lambda data, dtype: numpy.frombuffer(data, dtype).copy()
        EXPORT(model, inputs, path)
        operators = [*float16.DEFAULT_OP_BLOCK_LIST, *blocked]
        onnx.save(float16.convert_float_to_float16(onnx.load(path), keep_io_types=True, op_block_list=operators, **options), path)

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


class RootMeanSquare(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size) + 0.5)

    def forward(self, x):
        return x * torch.rsqrt((x ** 2).mean(-1, keepdim=True) + 1e-6) * self.weight


class LargeResidual(nn.Module):
    """A block of a language model whose residual stream has grown to some hundreds."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.norm = RootMeanSquare(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 5)
        with torch.no_grad():
            self.embed.weight *= 400

    def forward(self, ids):
        return self.head(self.mlp(self.norm(self.embed(ids))))


class MeanOfTokens(nn.Module):
    """Averages tokens by a mask."""

    def forward(self, x, mask):
        mask = mask.unsqueeze(-1).to(x.dtype)
        return (x * mask).sum(1) / mask.sum(1)


class SentenceEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.project = nn.Linear(16, 16)
        self.pool = MeanOfTokens()
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 4)
        with torch.no_grad():
            self.project.bias += 300

    def forward(self, ids):
        return self.head(self.norm(self.pool(self.project(self.embed(ids)), ids > 0)))


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


BUGS = [
    Bug("onnxconverter-common-295", "constants above 10,000 become 10,000", COMMON_ISSUES + "295", COMMON, COMMON, Weather,
        lambda: (torch.randn(2, 3, 6, 6),), common(), "units", "aten::add", common(max_finite_val=65504.0), step="Add",
        tolerance=ROUNDING),
    Bug("onnxconverter-common-323", "the squares of a norm overflow, and its result is zero", COMMON_ISSUES + "323", COMMON, COMMON,
        LargeResidual, tokens, common(), "norm", "aten::pow", common(("Pow", "ReduceMean", "Add", "Sqrt", "Div", "Reciprocal")),
        step="Pow", tolerance=ROUNDING),
    Bug("onnxruntime-21345", "the sum of many tokens overflows before it is divided by their number",
        "https://github.com/microsoft/onnxruntime/issues/21345", LAST, LAST, SentenceEncoder,
        lambda: (torch.randint(1, 20, (2, 300)),), runtime(), "pool", "aten::sum", runtime(("ReduceSum", "Div")), step="ReduceSum",
        kind="nan", tolerance=ROUNDING),
    Bug("onnxruntime-11384", "scores without a scale overflow, and their softmax is NaN",
        "https://github.com/microsoft/onnxruntime/issues/11384", LAST, LAST, Reranker, tokens, runtime(), "attention", "aten::matmul",
        runtime(("MatMul", "Softmax")), step="MatMul", kind="nan", tolerance=ROUNDING),
]
