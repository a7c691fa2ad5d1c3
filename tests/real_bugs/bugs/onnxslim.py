"""Bugs of OnnxSlim, which removes and fuses nodes. Its step is a fusion pattern or one of its optimisations."""

import torch
from torch import nn
from torch.nn import functional as F

from bug import Bug
from roads import dynamo, torchscript

LAST = ("onnxslim==0.1.98",)
ISSUES = "https://github.com/inisis/OnnxSlim/issues/"
PULLS = "https://github.com/inisis/OnnxSlim/pull/"
PATTERNS = "https://github.com/inisis/OnnxSlim/blob/main/onnxslim/core/pattern/"


def slim(export, **options):
    """Returns a writer that exports a model and slims the file."""

    def write(model, inputs, path):
        import onnx
        import onnxslim

        export(model, inputs, path)
        onnx.save(onnxslim.slim(str(path), **options), path)

    return write


BY_TRACE = slim(torchscript(opset_version=17))
BY_DYNAMO = slim(dynamo())


def image():
    return (torch.randn(2, 3, 8, 8),)


class Stylizer(nn.Module):
    """A style transfer network, which reflects the border of an image."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.InstanceNorm2d(8, affine=True)
        self.pad = nn.ReflectionPad2d(1)
        self.blend = nn.Conv2d(8, 8, 3)
        self.decode = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        return self.decode(torch.relu(self.blend(self.pad(torch.relu(self.norm(self.encode(x)))))))


class BoardPolicy(nn.Module):
    """A policy for a board game, with a border of ones around the features of the board."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.border = nn.ConstantPad2d(1, 1.0)
        self.tower = nn.Conv2d(8, 8, 3)
        self.policy = nn.Conv2d(8, 1, 1)

    def forward(self, board):
        return self.policy(torch.relu(self.tower(self.border(torch.relu(self.stem(board)))))).flatten(1).softmax(1)


class WidenChannels(nn.Module):
    """A shortcut without parameters: new channels are zeros."""

    def forward(self, x):
        return F.pad(x, (0, 0, 0, 0, 2, 2))


class Widening(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.widen = WidenChannels()
        self.mix = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.relu(self.mix(self.widen(self.stem(x)))).mean((2, 3)))


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


class Crop(nn.Module):
    def forward(self, x):
        return F.pad(x, (-1, -1, -1, -1))


class Cropped(nn.Module):
    """A network that crops the border that a tiled image shares with its neighbours."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.crop = Crop()
        self.refine = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, tile):
        return self.head(torch.relu(self.refine(self.crop(torch.relu(self.stem(tile))))))


class FrequencyBias(nn.Module):
    def __init__(self, bands):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(bands))

    def forward(self, spectrogram):
        return spectrogram + self.bias


class FrequencyGain(nn.Module):
    def __init__(self, bands):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(bands) + 0.5)

    def forward(self, spectrogram):
        return spectrogram * self.gain


class KeywordSpotter(nn.Module):
    """Features of a spectrogram with as many bands as channels."""

    def __init__(self, per_band):
        super().__init__()
        self.local = nn.Conv2d(1, 8, 3, padding=1)
        self.bands = per_band(8)
        self.mix = nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(8, 4)

    def forward(self, spectrogram):
        return self.head(torch.relu(self.mix(torch.relu(self.bands(self.local(spectrogram))))).mean((2, 3)))


def spectrogram():
    return (torch.randn(2, 1, 12, 8),)


class Positions(nn.Module):
    def __init__(self, count, size):
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, count, size))

    def forward(self, patches):
        return patches + self.table


class PatchEncoder(nn.Module):
    """The first layers of a vision transformer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(12, 16, bias=False)
        self.position = Positions(6, 16)
        self.norm = nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 5)

    def forward(self, patches):
        x = self.position(self.embed(patches))
        return self.head((x + self.mlp(self.norm(x))).mean(1))


class Spread(nn.Module):
    """A layer of a graph network: averages each node with its neighbours."""

    def __init__(self, nodes, size):
        super().__init__()
        self.register_buffer("adjacency", torch.rand(nodes, nodes).softmax(-1))
        self.bias = nn.Parameter(torch.randn(size))

    def forward(self, features):
        return self.adjacency @ features + self.bias


class GraphNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 10)
        self.spread = Spread(10, 10)
        self.mix = nn.Linear(10, 10)
        self.head = nn.Linear(10, 3)

    def forward(self, features):
        return self.head(torch.relu(self.mix(torch.relu(self.spread(self.encode(features))))))


class FramesNorm(nn.Module):
    """Normalises the frames of a clip, which are stored in the channels, one by one."""

    def __init__(self, frames, channels):
        super().__init__()
        self.frames = frames
        self.norm = nn.GroupNorm(2, channels)

    def forward(self, x):
        b, _, h, w = x.shape
        return self.norm(x.reshape(b * self.frames, -1, h, w)).reshape(b, -1, h, w)


class ClipEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(6, 16, 3, padding=1)
        self.frames = FramesNorm(4, 4)
        self.mix = nn.Conv2d(16, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, clip):
        return self.head(torch.relu(self.mix(torch.relu(self.frames(self.stem(clip))))))


def clip():
    return (torch.randn(2, 6, 8, 8),)


class ImagePooling(nn.Module):
    """The branch of atrous spatial pyramid pooling that sees the whole image."""

    def __init__(self):
        super().__init__()
        self.project = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        return torch.relu(self.project(x.mean((2, 3), keepdim=True))) * torch.ones(1, 1, *x.shape[2:])


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.local = nn.Conv2d(8, 4, 3, padding=2, dilation=2)
        self.context = ImagePooling()
        self.classify = nn.Conv2d(8, 5, 1)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        return self.classify(torch.cat([torch.relu(self.local(x)), self.context(x)], 1))


class SharedHead(nn.Module):
    """A detection head that shares its convolution between the levels of a pyramid, but not the norms."""

    def __init__(self, levels):
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(levels))
        for norm in self.norms:
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)

    def forward(self, levels):
        return [torch.relu(norm(self.conv(level))) for norm, level in zip(self.norms, levels, strict=True)]


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.head = SharedHead(2)
        self.scores = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        fine = torch.relu(self.stem(x))
        return tuple(self.scores(each) for each in self.head([fine, torch.relu(self.down(fine))]))


class Focus(nn.Module):
    """The first layer of YOLOv5: moves pixels into channels."""

    def forward(self, x):
        return torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)


class FocusDetector(nn.Module):
    def __init__(self):
        super().__init__()
        self.colors = nn.Conv2d(3, 3, 1)
        self.focus = Focus()
        self.conv = nn.Conv2d(12, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        return self.head(F.silu(self.conv(self.focus(self.colors(x)))))


class Trim(nn.Module):
    """Drops the first frame of a window and what is behind its end."""

    def forward(self, x):
        return x[:, 1:].narrow(-2, 0, 5)


class Windows(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 8)
        self.trim = Trim()
        self.mix = nn.Conv1d(5, 5, 3, padding=1)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.relu(self.mix(self.trim(torch.tanh(self.encode(x))))))


BUGS = [
    Bug("onnxslim-21", "zeros that two convolutions share become padding of one of them, and the other has no input",
        PULLS + "21", ("onnxslim==0.1.31", "loguru==0.7.2"), LAST, Scales, image, BY_TRACE, "scales.pad", "aten::pad",
        step="FusionPadConv", kind="does not run", merged=("scales.near", "scales.far")),
    Bug("onnxslim-53", "a reflected border before a convolution becomes zeros", PULLS + "53", ("onnxslim==0.1.40",),
        LAST, Stylizer, image, BY_TRACE, "pad", "aten::pad aten::reflection_pad2d", step="FusionPadConv",
        merged=("blend",)),
    Bug("onnxslim-53-constant", "a border of ones before a convolution becomes zeros", PULLS + "53",
        ("onnxslim==0.1.40",), LAST, BoardPolicy, image, BY_TRACE, "border", "aten::pad", step="FusionPadConv",
        merged=("tower",)),
    Bug("onnxslim-53-channels", "padded channels before a convolution are lost", PULLS + "53", ("onnxslim==0.1.40",),
        LAST, Widening, image, BY_TRACE, "widen", "aten::pad", step="FusionPadConv", kind="does not run",
        merged=("mix",)),
    Bug("onnxslim-crop", "a crop before a padded convolution is subtracted from its padding",
        PATTERNS + "fusion/padconv.py", ("onnxslim==0.1.60",), LAST, Cropped, image, BY_TRACE, "crop", "aten::pad",
        step="FusionPadConv", merged=("refine",)),
    Bug("onnxslim-conv_add", "a bias per column after a convolution is taken for one per channel",
        PATTERNS + "fusion/convadd.py", ("onnxslim==0.1.82",), LAST, lambda: KeywordSpotter(FrequencyBias), spectrogram,
        BY_TRACE, "bands", "aten::add", step="FusionConvAdd", merged=("local",)),
    Bug("onnxslim-conv_mul", "a gain per column after a convolution is taken for one per channel",
        PATTERNS + "fusion/convmul.py", LAST, LAST, lambda: KeywordSpotter(FrequencyGain), spectrogram, BY_TRACE,
        "bands", "aten::mul", slim(torchscript(opset_version=17), skip_fusion_patterns=["FusionConvMul"]),
        step="FusionConvMul", merged=("local",)),
    Bug("onnxslim-323", "a position table after a linear layer becomes a bias of a Gemm, which has no room for it",
        ISSUES + "323", ("onnxslim==0.1.82",), LAST, PatchEncoder, lambda: (torch.randn(2, 6, 12),), BY_TRACE,
        "position", "aten::add", step="FusionGemm", kind="does not run", merged=("embed",)),
    Bug("onnxslim-left_matmul",
        "a product with a constant matrix on its left becomes a Gemm with that matrix on its right",
        PATTERNS + "fusion/gemm.py", ("onnxslim==0.1.82",), LAST, GraphNetwork, lambda: (torch.randn(10, 6),), BY_TRACE,
        "spread", "aten::matmul", step="FusionGemm"),
    Bug("onnxslim-reshape_zero", "a size that a second reshape copies is copied from before the first one",
        PATTERNS + "elimination/reshape.py", ("onnxslim==0.1.82",), LAST, ClipEncoder, clip, BY_TRACE, "frames.norm",
        "aten::group_norm", step="EliminationReshape"),
    Bug("onnxslim-ones", "a product with ones that expands a tensor is removed",
        "https://github.com/inisis/OnnxSlim/blob/main/onnxslim/core/optimization/dead_node_elimination.py",
        ("onnxslim==0.1.82",), LAST, Segmenter, image, BY_TRACE, "context", "aten::mul", step="dead_node_elimination",
        kind="does not run"),
    Bug("onnxslim-shared_weight", "a convolution that two norms share gets the weights of one of them for both",
        PATTERNS + "fusion/convbn.py", ("onnxslim==0.1.82",), LAST, Detector, image, BY_DYNAMO, "head.norms.0",
        "aten::batch_norm", step="FusionConvBN", merged=("head.conv",)),
    Bug("onnxslim-277", "slices of slices with several users lose the first one", ISSUES + "277", ("onnxslim==0.1.82",),
        LAST, FocusDetector, image, BY_DYNAMO, "focus", "aten::slice", step="EliminationSlice"),
    Bug("onnxslim-slice_axis", "two slices of one axis become one that names the axis twice",
        PATTERNS + "elimination/slice.py", ("onnxslim==0.1.82",), LAST, Windows, lambda: (torch.randn(2, 8, 6),),
        BY_DYNAMO, "trim", "aten::narrow", step="EliminationSlice", kind="does not run"),
]
