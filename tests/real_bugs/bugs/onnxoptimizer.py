"""Bugs of onnxoptimizer and of onnxsim, which runs its passes. Its step is a pass."""

import torch
from torch import nn
from torch.nn import functional as F

from bug import Bug
from roads import dynamo, torchscript

OLD = ("onnxoptimizer==0.4.2",)
SIMPLIFIER_LAST = ("onnxsim==0.8.1",)
ISSUES = "https://github.com/onnx/optimizer/issues/"
PASSES = "https://github.com/onnx/optimizer/blob/main/onnxoptimizer/passes/"


def optimize(export, *passes):
    """Returns a writer that exports a model and runs these passes, or onnxoptimizer's default ones."""

    def write(model, inputs, path):
        import onnx
        import onnxoptimizer

        export(model, inputs, path)
        onnx.save(onnxoptimizer.optimize(onnx.load(path), list(passes) or None), path)

    return write


def optimize_without(export, name):
    """Returns a writer that runs onnxoptimizer's default passes but one."""

    def write(model, inputs, path):
        import onnx
        import onnxoptimizer

        export(model, inputs, path)
        passes = [each for each in onnxoptimizer.get_fuse_and_elimination_passes() if each != name]
        onnx.save(onnxoptimizer.optimize(onnx.load(path), passes), path)

    return write


def simplify(export, **options):
    """Returns a writer that exports a model and runs onnxsim."""

    def write(model, inputs, path):
        import onnx
        import onnxsim

        export(model, inputs, path)
        onnx.save(onnxsim.simplify(str(path), **options)[0], path)

    return write


OPSET_10 = torchscript(opset_version=10)
OPSET_17 = torchscript(opset_version=17)


def image():
    return (torch.randn(2, 3, 8, 8),)


class Smooth(nn.Module):
    """Averages pixels, with zeros only on the outermost border."""

    def __init__(self):
        super().__init__()
        self.pad = nn.ZeroPad2d(1)
        self.pool = nn.AvgPool2d(3, 2, padding=1, count_include_pad=False)

    def forward(self, x):
        return self.pool(self.pad(x))


class Erode(nn.Module):
    """Takes the largest of neighbouring distances, which are negative inside a shape."""

    def __init__(self):
        super().__init__()
        self.pad = nn.ZeroPad2d(1)
        self.pool = nn.MaxPool2d(3, 2)

    def forward(self, x):
        return self.pool(self.pad(-F.softplus(x)))


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


class Bordered(nn.Module):
    """A network for a grid whose outside counts as occupied."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Conv2d(3, 8, 1)
        self.outside = nn.ConstantPad2d(1, 0.5)
        self.look = nn.Conv2d(8, 8, 3)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, grid):
        return self.head(torch.relu(self.look(self.outside(torch.sigmoid(self.encode(grid))))))


class Squeeze(nn.Module):
    def forward(self, x):
        return x.squeeze(-1).squeeze(-1)


class Classifier(nn.Module):
    """A classifier of one image."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.body = nn.Conv2d(8, 8, 3, stride=2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.squeeze = Squeeze()
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.squeeze(self.pool(torch.relu(self.body(torch.relu(self.stem(x)))))))


class SelfAttention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(size, size, bias=False)
        self.value = nn.Linear(size, size, bias=False)
        self.out = nn.Linear(size, size)

    def forward(self, x):
        b, t, d = x.shape
        layers = (self.query, self.key, self.value)
        query, key, value = (layer(x).view(b, t, self.heads, -1).transpose(1, 2) for layer in layers)
        weights = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).softmax(-1)
        return self.out((weights @ value).transpose(1, 2).reshape(b, t, d))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.attention = SelfAttention(16, 4)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, ids):
        x = self.embed(ids)
        return self.head(x + self.attention(self.norm(x)))


class FramesNorm(nn.Module):
    """Normalises the frames of a clip, which are stored in the channels, one by one."""

    def __init__(self, frames, channels):
        super().__init__()
        self.frames = frames
        self.norm = nn.GroupNorm(2, channels)

    def forward(self, x):
        b, _, h, w = x.shape
        return self.norm(x.reshape(b * self.frames, -1, h, w)).reshape(b, -1, h, w)


class VideoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(6, 12, 3, padding=1)
        self.frames = FramesNorm(3, 4)
        self.mix = nn.Conv2d(12, 8, 3, padding=1)
        self.head = nn.Linear(8, 2)

    def forward(self, clip):
        return self.head(torch.relu(self.mix(torch.relu(self.frames(self.stem(clip))))).mean((2, 3)))


class Contrast(nn.Module):
    """Subtracts the largest value of each channel."""

    def forward(self, x):
        return x - x.amax(3).amax(2)[:, :, None, None]


class Heatmaps(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.contrast = Contrast()
        self.mix = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        return self.head(torch.relu(self.mix(self.contrast(self.stem(x)).exp())))


BUGS = [
    Bug("onnxoptimizer-269", "zeros before an average that leaves its own padding out of the count are counted with it",
        ISSUES + "269", OLD, OLD, lambda: Reduced(Smooth()), image, optimize(dynamo()), "reduce.pool",
        "aten::avg_pool2d", optimize_without(dynamo(), "fuse_pad_into_pool"), step="fuse_pad_into_pool",
        merged=("reduce.pad",)),
    Bug("onnxoptimizer-max_pool", "zeros before a maximum of negative numbers become minus infinity",
        PASSES + "fuse_pad_into_pool.h", OLD, OLD, lambda: Reduced(Erode()), image, optimize(dynamo()), "reduce.pad",
        "aten::pad", optimize_without(dynamo(), "fuse_pad_into_pool"), step="fuse_pad_into_pool",
        merged=("reduce.pool",)),
    Bug("onnxoptimizer-pad_value", "a border of another value than zero becomes zeros, in opset 10",
        PASSES + "fuse_pad_into_conv.h", OLD, OLD, Bordered, image, optimize(OPSET_10), "outside", "aten::pad",
        optimize_without(OPSET_10, "fuse_pad_into_conv"), step="fuse_pad_into_conv", merged=("look",)),
    Bug("onnxoptimizer-253", "squeezes of two last axes drop the batch", ISSUES + "253", OLD, OLD, Classifier,
        lambda: (torch.randn(1, 3, 8, 8),), optimize(dynamo()), "squeeze", "aten::squeeze",
        optimize_without(dynamo(), "fuse_consecutive_squeezes"), step="fuse_consecutive_squeezes", kind="does not run"),
    Bug("onnxoptimizer-qkv", "three products become one and a Split in the form of opset 13, in a file of opset 11",
        PASSES + "fuse_qkv.h", ("onnxoptimizer==0.3.8",), ("onnxoptimizer==0.3.13",), Encoder,
        lambda: (torch.randint(0, 20, (2, 6)),), optimize(torchscript(opset_version=11), "fuse_qkv"), "attention",
        "aten::linear", step="fuse_qkv", kind="does not run"),
    Bug("onnxsim-idempotent", "a size that a second reshape copies is copied from before the first one",
        PASSES + "eliminate_consecutive_idempotent_ops.h", ("onnxsim==0.6.5",), SIMPLIFIER_LAST, VideoEncoder,
        lambda: (torch.randn(2, 6, 8, 8),), simplify(OPSET_17), "frames.norm", "aten::group_norm",
        step="eliminate_consecutive_idempotent_ops"),
    Bug("onnxsim-reduce", "a reduction that kept its axes already is given them again",
        PASSES + "fuse_consecutive_reduce_unsqueeze.h", SIMPLIFIER_LAST, SIMPLIFIER_LAST, Heatmaps, image,
        simplify(OPSET_17), "contrast", "aten::amax",
        simplify(OPSET_17, skipped_optimizers=["fuse_consecutive_reduce_unsqueeze"]),
        step="fuse_consecutive_reduce_unsqueeze", kind="does not run"),
]
