"""Bugs of ONNX Runtime's quantisers: errors far beyond eight bits. Its step is an operator's quantiser."""

import torch
from torch import nn
from torch.nn import functional as F

from bug import Bug
from roads import torchscript

OLD = ("onnxruntime==1.15.1", "numpy==1.26.4", "onnx==1.16.2")
LAST = ("onnxruntime==1.32.0",)
OPERATORS = "https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/python/tools/quantization/operators/"
PULLS = "https://github.com/microsoft/onnxruntime/pull/"
EXPORT = torchscript(opset_version=14)
ROUNDING = 0.03  # of eight bits, after a few layers


def static(exclude=(), qoperator=False, **options):
    """Returns a writer that exports a model and quantises it, calibrated with its inputs and seven others like them.

    exclude    the operators to leave in float
    """

    def write(model, inputs, path):
        import onnx
        from onnxruntime import quantization

        class Reader(quantization.CalibrationDataReader):
            def __init__(self, name):
                others = [torch.randn_like(inputs[0]) for _ in range(7)]
                self.feeds = iter([{name: each.numpy()} for each in [inputs[0], *others]])

            def get_next(self):
                return next(self.feeds, None)

        EXPORT(model, inputs, path)
        file = onnx.load(path)
        nodes = [node.name for node in file.graph.node if node.op_type in exclude]
        form = quantization.QuantFormat.QOperator if qoperator else quantization.QuantFormat.QDQ
        types = quantization.QuantType
        quantization.quantize_static(str(path), str(path), Reader(file.graph.input[0].name), quant_format=form,
                                     activation_type=types.QUInt8, weight_type=types.QInt8, nodes_to_exclude=nodes,
                                     **options)

    return write


def dynamic(**options):
    """Returns a writer that exports a model and quantises its weights."""

    def write(model, inputs, path):
        from onnxruntime import quantization

        EXPORT(model, inputs, path)
        quantization.quantize_dynamic(str(path), str(path), weight_type=quantization.QuantType.QInt8, **options)

    return write


def image():
    return (torch.randn(2, 3, 8, 8),)


class Normalise(nn.Module):
    """Divides features by a predicted strength, which is at least one."""

    def __init__(self, channels):
        super().__init__()
        self.strength = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return x / self.strength(x).clamp(min=1.0)


class GainControl(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.normalise = Normalise(8)
        self.mix = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        return self.head(torch.relu(self.mix(self.normalise(self.stem(x)))))


class Board(nn.Module):
    """A network for a board whose border is marked by a large value."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.border = nn.ConstantPad2d(1, 8.0)
        self.look = nn.Conv2d(8, 8, 3)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        return self.head(torch.relu(self.look(self.border(torch.relu(self.stem(x))))))


class SamePool(nn.Module):
    """Pools like a network from TensorFlow, whose padding is not symmetric."""

    def forward(self, x):
        return F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, 2)


class Ported(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.pool = SamePool()
        self.mix = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        return self.head(torch.relu(self.mix(self.pool(self.stem(x)))))


class SharedHead(nn.Module):
    """A head that sees two levels of a pyramid, whose features differ in size."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.scores = nn.Conv2d(8, 2, 1)

    def forward(self, fine, coarse):
        return self.scores(torch.relu(self.conv(fine))), self.scores(torch.relu(self.conv(coarse)))


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.head = SharedHead()
        with torch.no_grad():
            self.down.weight *= 0.02
            self.down.bias *= 0.02

    def forward(self, x):
        fine = torch.relu(self.stem(x))
        return self.head(fine, self.down(fine))


class CausalAttention(nn.Module):
    """Attention with a mask of the kind of transformers: the lowest number is added to what is in the future."""

    def __init__(self, size, length):
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.register_buffer("mask", torch.full((length, length), torch.finfo(torch.float32).min).triu(1))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 2 + self.mask
        return scores.softmax(-1) @ self.value(x)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 16)
        self.attention = CausalAttention(16, 8)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.attention(x)
        return self.head(x + self.mlp(x))


def series():
    return (3 * torch.randn(2, 8, 6),)


class Pruned(nn.Module):
    """A network with two channels whose weights were pruned, so that only their biases are left."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.pruned = nn.Conv2d(8, 8, 3, padding=1)
        self.mix = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 4, 1)
        with torch.no_grad():
            self.pruned.weight[[3, 5]] *= 1e-7
            self.pruned.bias[[3, 5]] = torch.tensor([1.5, 2.0])

    def forward(self, x):
        return self.head(torch.relu(self.mix(torch.relu(self.pruned(torch.relu(self.stem(x)))))))


class Experts(nn.Module):
    """A linear layer for each of two streams, as one product of stacked matrices."""

    def __init__(self, streams, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(streams, size, size) / 4)

    def forward(self, x):
        return torch.bmm(x, self.weight)


class Streams(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 16)
        self.experts = Experts(2, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.experts(torch.relu(self.encode(x))))))


class Speech(nn.Module):
    """A network that reads frames of speech in order."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 16)
        self.read = nn.LSTM(16, 16, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.norm(self.read(torch.relu(self.encode(x)))[0]))


BUGS = [
    Bug("onnxruntime-quantizer-clip",
        "a Clip whose lower bound is above zero is removed, because its output has a range",
        OPERATORS + "activation.py", LAST, LAST, GainControl, image, static(), "normalise", "aten::clamp",
        static(exclude=("Clip",)), step="QDQRemovableActivation", tolerance=ROUNDING),
    Bug("onnxruntime-quantizer-pad", "a border of a constant gets another value, in the form of quantised operators",
        OPERATORS + "pad.py", LAST, LAST, Board, image, static(qoperator=True), "border", "aten::pad", static(),
        step="QPad", tolerance=ROUNDING),
    Bug("onnxruntime-quantizer-pad_infinity",
        "a border of minus infinity becomes a finite number that is not the lowest", OPERATORS + "pad.py", LAST, LAST,
        Ported, image, static(), "pool", "aten::pad", static(exclude=("Pad",)), step="QDQPad", tolerance=ROUNDING),
    Bug("onnxruntime-7982", "a bias of a shared convolution is quantised for the first of its inputs only",
        PULLS + "7982", LAST, LAST, Pyramid, image, static(qoperator=True), "head.conv", "aten::conv2d", static(),
        step="QLinearConv", tolerance=ROUNDING),
    Bug("olive-1597", "a mask of the lowest numbers leaves no range for the scores that it is added to",
        "https://github.com/microsoft/Olive/pull/1597", LAST, LAST, Decoder, series, static(), "attention", "aten::add",
        static(exclude=("Add", "Softmax")), step="QDQOperatorBase", tolerance=ROUNDING),
    Bug("onnxruntime-22020", "a bias of a channel with tiny weights overflows its 32 bits", PULLS + "22020", OLD, LAST,
        Pruned, image, static(per_channel=True), "pruned", "aten::conv2d", step="QDQConv", tolerance=ROUNDING),
    Bug("onnxruntime-quantizer-stacked", "stacked matrices get a scale for each row, which the product cannot take",
        OPERATORS + "matmul.py", LAST, LAST, Streams, lambda: (torch.randn(2, 8, 6),), dynamic(per_channel=True),
        "experts", "aten::bmm", dynamic(), step="MatMulInteger", kind="does not run", tolerance=ROUNDING),
    Bug("onnxruntime-quantizer-lstm", "a quantised LSTM keeps an attribute that its operator lacks",
        OPERATORS + "lstm.py", OLD, LAST, Speech, lambda: (torch.randn(2, 8, 6),), dynamic(), "read", "aten::lstm",
        step="LSTMQuant", kind="does not run", tolerance=ROUNDING),
]
