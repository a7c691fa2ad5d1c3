"""Bugs of onnxscript's optimiser and of the rules of its rewriter, which the dynamo exporter runs on each file."""

import torch
from torch import nn
from torch.nn import functional as F

from bug import Bug
from roads import dynamo, optimized, torchscript

OLD = ("torch==2.9.1", "onnxscript==0.5.0", "onnx_ir==0.1.12")
V056 = ("torch==2.9.1", "onnxscript==0.5.6", "onnx_ir==0.1.12")
NEW = ("torch==2.13.0",)
ISSUES = "https://github.com/microsoft/onnxscript/issues/"
PULLS = "https://github.com/microsoft/onnxscript/pull/"


def image():
    return (torch.randn(2, 3, 16, 16),)


def settle(model):
    """Gives the norms of a model the statistics of a trained one."""
    for each in model.modules():
        if isinstance(each, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.uniform_(each.running_mean, -0.5, 0.5)
            nn.init.uniform_(each.running_var, 0.5, 2)
            nn.init.uniform_(each.weight, 0.5, 1.5)
            nn.init.uniform_(each.bias, -0.5, 0.5)


class SplitPrediction(nn.Module):
    """Splits the channels of a prediction: four for the box, four for its mask, one for the score."""

    def forward(self, x):
        box, mask, score = x.split(4, dim=1)
        return box, mask, score


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.SiLU(),
                                      nn.Conv2d(8, 8, 3, padding=1), nn.SiLU())
        self.predict = nn.Conv2d(8, 9, 1)
        self.split = SplitPrediction()

    def forward(self, x):
        box, mask, score = self.split(self.predict(self.backbone(x)))
        return box.exp(), mask.tanh(), score.sigmoid()


class DepthwiseUpsampling(nn.Module):
    """A decoder that learns its upsampling, one kernel per channel."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.up = nn.ConvTranspose2d(6, 6, 2, stride=2, groups=6, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Conv2d(6, 2, 1)
        settle(self)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.up(torch.relu(self.stem(x))))))


class ScaledLinear(nn.Module):
    """A linear layer with half of its bias, as in networks with tuned learning rates."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight, beta=0.5)


class TabularNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 12)
        self.second = ScaledLinear(12, 12)
        self.norm = nn.BatchNorm1d(12)
        self.head = nn.Linear(12, 3)
        settle(self)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.second(torch.relu(self.first(x))))))


class Crop(nn.Module):
    """Removes the border of an image."""

    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        return F.pad(x, (-self.width,) * 4)


class CroppedNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.crop = Crop(2)
        self.conv = nn.Conv2d(6, 6, 3)
        self.head = nn.Conv2d(6, 2, 1)

    def forward(self, x):
        return self.head(torch.relu(self.conv(self.crop(torch.relu(self.stem(x))))))


class TwoDomains(nn.Module):
    """A network for two kinds of images: shared convolutions, a norm for each kind."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.photo_norm = nn.BatchNorm2d(6)
        self.sketch_norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 4)
        settle(self)

    def forward(self, photo, sketch):
        a = torch.relu(self.photo_norm(self.conv(photo)))
        b = torch.relu(self.sketch_norm(self.conv(sketch)))
        return self.head(a.mean((2, 3))), self.head(b.mean((2, 3)))


class Branches(nn.Module):
    """Two learnt upsamplings of the same features."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.small = nn.ConvTranspose2d(6, 4, 2, stride=2, bias=False)
        self.small_norm = nn.BatchNorm2d(4)
        self.large = nn.ConvTranspose2d(6, 4, 4, stride=2, padding=1, bias=False)
        self.large_norm = nn.BatchNorm2d(4)
        self.head = nn.Conv2d(8, 2, 1)
        settle(self)

    def forward(self, x):
        h = torch.relu(self.stem(x))
        return self.head(torch.relu(torch.cat([self.small_norm(self.small(h)), self.large_norm(self.large(h))], 1)))


class ResidualBlock(nn.Module):
    """The block of a residual network that changes the number of channels."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=2, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        h = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(h)) + self.downsample(x))


class ResidualNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.block = ResidualBlock(6, 8)
        self.head = nn.Linear(8, 4)
        settle(self)

    def forward(self, x):
        return self.head(self.block(torch.relu(self.stem(x))).mean((2, 3)))


BUGS = [
    Bug("onnxscript-2857", "splits of a size that does not divide the axis become equal splits", ISSUES + "2857", OLD,
        NEW, Detector, image, dynamo(), "split", "aten::split", step="constant folding of SplitToSequence",
        kind="shape"),
    Bug("onnxscript-2867", "a batch norm is folded into a grouped transposed convolution along the wrong axis",
        ISSUES + "2867", OLD, NEW, DepthwiseUpsampling, image, dynamo(), "up", "aten::conv_transpose2d",
        step="FuseBatchNormIntoConvTranspose", kind="does not run", merged=("norm",)),
    Bug("onnxscript-3027", "a batch norm is folded into a Gemm as if its beta were one", PULLS + "3027", OLD, NEW,
        TabularNetwork, lambda: (torch.randn(4, 6),), dynamo(), "second", "aten::addmm", step="FuseBatchNormIntoGemm",
        merged=("norm",)),
    Bug("onnxscript-2841", "a crop becomes negative padding of the convolution", PULLS + "2841", OLD, NEW,
        CroppedNetwork, image, dynamo(), "crop", "aten::pad", step="FuseConvPad", kind="does not run",
        merged=("conv",)),
    Bug("onnxscript-2883", "two batch norms after one convolution are folded into the same weights", PULLS + "2883",
        OLD, NEW, TwoDomains, lambda: (*image(), *image()), dynamo(), "conv", "aten::conv2d",
        step="FuseBatchNormIntoConv", merged=("photo_norm", "sketch_norm")),
    Bug("pytorch-166797", "two convolutions of the same value get one bias when batch norms are folded into them",
        "https://github.com/pytorch/pytorch/issues/166797", V056, NEW, ResidualNetwork, image, dynamo(), "block.conv1",
        "aten::conv2d", step="FuseBatchNormIntoConv", merged=("block.norm1",)),
    Bug("pytorch-166797-transposed",
        "two transposed convolutions of the same value get one bias when batch norms are folded into them",
        "https://github.com/pytorch/pytorch/issues/166797", OLD, NEW, Branches, image,
        optimized(torchscript(opset_version=18)), "small", "aten::conv_transpose2d",
        step="FuseBatchNormIntoConvTranspose", merged=("small_norm",)),
]
