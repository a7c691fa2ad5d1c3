"""Bugs of onnxscript's optimiser and fusions for ONNX Runtime, on files of PyTorch's exporters. Its step is a rule."""

import torch
from torch import nn
from torch.nn import functional as F

from bug import Bug
from roads import dynamo, optimized, torchscript

LAST = ("onnxscript==0.7.2",)
RULES = "https://github.com/microsoft/onnxscript/blob/main/onnxscript/rewriter/"


def for_runtime(export):
    """Returns a writer that fuses the file of another one for ONNX Runtime."""

    def write(model, inputs, path):
        import onnx_ir
        from onnxscript.rewriter.ort_fusions import optimize_for_ort

        export(model, inputs, path)
        done = optimize_for_ort(onnx_ir.load(path))
        onnx_ir.save(done[0] if isinstance(done, tuple) else done, path)

    return write


class Saturate(nn.Module):
    """Keeps activations within what a sensor can show."""

    def forward(self, x):
        return torch.clamp(torch.clamp(x, 0.0, 3.0), 0.1, 2.0)


class Camera(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.saturate = Saturate()
        self.mix = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        return self.head(torch.relu(self.mix(self.saturate(self.stem(x)))))


class ShiftedGelu(nn.Module):
    """An activation with a trained threshold."""

    def __init__(self):
        super().__init__()
        self.threshold = nn.Parameter(torch.rand(1))

    def forward(self, x):
        return F.gelu(x + self.threshold)


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 16)
        self.activate = ShiftedGelu()
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.norm(self.activate(self.encode(x))))


class TwoScales(nn.Module):
    """Sees a padded image with two kernels."""

    def __init__(self):
        super().__init__()
        self.pad = nn.ZeroPad2d(1)
        self.near = nn.Conv2d(8, 8, 1)
        self.far = nn.Conv2d(8, 8, 3)

    def forward(self, x):
        x = self.pad(x)
        return self.far(x) + self.near(x)[:, :, 1:-1, 1:-1]


class Scales(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.scales = TwoScales()
        self.mix = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        return self.head(torch.relu(self.mix(torch.relu(self.scales(self.stem(x))))))


class Alibi(nn.Module):
    """Attention with a penalty for distance."""

    def __init__(self, size, heads, length):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.out = nn.Linear(size, size)
        self.register_buffer("penalty", -torch.arange(float(length)))

    def forward(self, x):
        b, t, d = x.shape
        layers = (self.query, self.key, self.value)
        query, key, value = (layer(x).view(b, t, self.heads, -1).transpose(1, 2) for layer in layers)
        weights = (query @ key.transpose(-1, -2) / 4 + self.penalty).softmax(-1)
        return self.out((weights @ value).transpose(1, 2).reshape(b, t, d))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 16)
        self.attention = Alibi(16, 4, 8)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.encode(x)
        return self.head(self.norm(x + self.attention(x)))


def image():
    return (torch.randn(2, 3, 8, 8),)


def series():
    return (torch.randn(2, 8, 6),)


BUGS = [
    Bug("onnxscript-clip", "two Clips lose their bounds, in a file of opset 10, where those are attributes",
        RULES + "rules/common/_fuse_relus_clips.py", LAST, LAST, Camera, image,
        optimized(torchscript(opset_version=10)), "saturate", "aten::clamp", torchscript(opset_version=10),
        step="FuseSuccessiveClip"),
    Bug("onnxscript-bias_gelu", "a number before a Gelu becomes a bias per feature", RULES + "ort_fusions/bias_gelu.py",
        LAST, LAST, Shifted, series, for_runtime(dynamo()), "activate", "aten::add", dynamo(), step="bias_gelu",
        kind="does not run"),
    Bug("onnxscript-pad", "a crop of a padded image is removed", RULES + "rules/common/_collapse_slices.py",
        ("onnxscript==0.5.0", "onnx-ir==0.1.7"), LAST, Scales, image, optimized(torchscript(opset_version=11)), "scales",
        "aten::slice", step="collapse_slice", kind="does not run"),
    Bug("onnxscript-sdpa", "attention with a penalty keeps an operator that only a later fusion knows",
        RULES + "ort_fusions/sdpa.py", ("torch==2.9.1", "onnxscript==0.5.0", "onnx_ir==0.1.12"), LAST, Encoder, series,
        for_runtime(dynamo()), "attention", "aten::softmax", step="sdpa", kind="does not run"),
]
