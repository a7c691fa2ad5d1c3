"""Bugs of ONNX Runtime's graph optimisations, in the optimised files that it saves. Its step is a graph transformer."""

import torch
from torch import nn
from torch.nn import functional as F

from bug import Bug
from roads import torchscript

# ONNX Runtime before 1.19 was built for NumPy 1.
OLD = ("onnxruntime==1.15.1", "numpy==1.26.4")
LAST = ("onnxruntime==1.32.0",)
ISSUES = "https://github.com/microsoft/onnxruntime/issues/"
PULLS = "https://github.com/microsoft/onnxruntime/pull/"


def optimize(export):
    """Returns a writer that exports a model and saves the file that ONNX Runtime optimises it to, with its contrib
    operators but without those for one machine."""

    def write(model, inputs, path):
        import onnxruntime

        export(model, inputs, path)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])

    return write


BY_TRACE = optimize(torchscript(opset_version=17))
BY_TRACE_15 = optimize(torchscript(opset_version=15))


def series():
    return (torch.randn(2, 8, 6),)


class TimeNorm(nn.Module):
    """Normalises each feature over time."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size) + 0.5)
        self.bias = nn.Parameter(torch.randn(size))

    def forward(self, x):
        x = x - x.mean(1, keepdim=True)
        return x / torch.sqrt((x ** 2).mean(1, keepdim=True) + 1e-5) * self.weight + self.bias


class WindowNorm(nn.Module):
    """Normalises a window as a whole."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size) + 0.5)
        self.bias = nn.Parameter(torch.randn(size))

    def forward(self, x):
        x = x - x.mean((1, 2), keepdim=True)
        return x / torch.sqrt((x ** 2).mean((1, 2), keepdim=True) + 1e-5) * self.weight + self.bias


class TimePower(nn.Module):
    """Divides each feature by its root mean square over time."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size) + 0.5)

    def forward(self, x):
        return x * torch.rsqrt((x ** 2).mean(1, keepdim=True) + 1e-6) * self.weight


class Forecast(nn.Module):
    """A forecast from a window of a series, with a norm between its layers."""

    def __init__(self, norm):
        super().__init__()
        self.encode = nn.Linear(6, 16)
        self.norm = norm(16)
        self.mix = nn.Conv1d(8, 4, 3, padding=1)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(torch.relu(self.mix(self.norm(torch.tanh(self.encode(x))))))


class PadThenMaximum(nn.Module):
    def __init__(self):
        super().__init__()
        self.pad = nn.ZeroPad2d(1)
        self.pool = nn.MaxPool2d(3, 2)

    def forward(self, x):
        return self.pool(self.pad(F.logsigmoid(x)))


class PadThenAverage(nn.Module):
    """Averages pixels, with zeros only on the outermost border."""

    def __init__(self):
        super().__init__()
        self.pad = nn.ZeroPad2d(1)
        self.pool = nn.AvgPool2d(3, 2, padding=1, count_include_pad=False)

    def forward(self, x):
        return self.pool(self.pad(x))


class Reduced(nn.Module):
    """A network that halves its resolution in a module."""

    def __init__(self, reduce):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.reduce = reduce
        self.mix = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        return self.head(torch.relu(self.mix(self.reduce(self.stem(x)))))


def image():
    return (torch.randn(2, 3, 8, 8),)


BUGS = [
    Bug("onnxruntime-15844", "a norm over time becomes one over features", PULLS + "15844", OLD, LAST,
        lambda: Forecast(TimeNorm), series, BY_TRACE_15, "norm", "aten::mean", step="LayerNormFusion"),
    Bug("onnxruntime-15844-two_axes", "a norm over time and features becomes one over features", PULLS + "15844", OLD,
        LAST, lambda: Forecast(WindowNorm), series, BY_TRACE_15, "norm", "aten::mean", step="LayerNormFusion"),
    Bug("onnxruntime-15844-rms", "a root mean square over time becomes one over features", PULLS + "15844", OLD, LAST,
        lambda: Forecast(TimePower), series, BY_TRACE_15, "norm", "aten::mean", step="SimplifiedLayerNormFusion"),
    Bug("onnxruntime-18136", "zeros before a maximum of negative numbers become minus infinity", PULLS + "18136",
        ("onnxruntime==1.17.3", "numpy==1.26.4"), LAST, lambda: Reduced(PadThenMaximum()), image, BY_TRACE,
        "reduce.pad", "aten::pad", step="Pad_Fusion", merged=("reduce.pool",)),
    Bug("onnxruntime-22177", "zeros before an average that leaves its own padding out of the count are not counted",
        ISSUES + "22177", ("onnxruntime==1.19.2",), LAST, lambda: Reduced(PadThenAverage()), image, BY_TRACE,
        "reduce.pool", "aten::avg_pool2d", step="Pad_Fusion", merged=("reduce.pad",)),
]
