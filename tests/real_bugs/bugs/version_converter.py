"""Bugs of onnx's version converter. Its step is the adapter of an operator."""

import torch
from torch import nn

from bug import Bug
from roads import torchscript

LAST = ("onnx==1.23.2",)
ADAPTERS = "https://github.com/onnx/onnx/blob/main/onnx/version_converter/adapters/"


def convert(export, opset):
    """Returns a writer that exports a model and converts it to this opset."""

    def write(model, inputs, path):
        import onnx
        from onnx import version_converter

        export(model, inputs, path)
        onnx.save(version_converter.convert_version(onnx.load(path), opset), path)

    return write


class Decoder(nn.Module):
    """A segmentation network for images whose sides are not multiples of two."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.up = nn.Upsample(size=(11, 9))
        self.refine = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        return self.head(torch.relu(self.refine(self.up(torch.relu(self.down(torch.relu(self.stem(x))))))))


class Gated(nn.Module):
    """A gated layer, whose halves are a Split."""

    def __init__(self, size):
        super().__init__()
        self.project = nn.Linear(size, 2 * size)
        self.gate = nn.GLU()

    def forward(self, x):
        return self.gate(self.project(x))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.gated = Gated(16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 20)

    def forward(self, ids):
        x = self.embed(ids)
        return self.head(self.norm(x + self.gated(x)))


BUGS = [
    Bug("onnx-resize_10_11", "a Resize of opset 10 gets the coordinates of half a pixel of opset 11",
        ADAPTERS + "resize_10_11.h", LAST, LAST, Decoder, lambda: (torch.randn(2, 3, 11, 9),),
        convert(torchscript(opset_version=10), 13), "up", "aten::upsample_nearest2d", torchscript(opset_version=13),
        step="Resize_10_11"),
    Bug("onnx-split_17_18", "a Split into equal parts lacks their number, which opset 18 demands",
        ADAPTERS + "split_17_18.h", ("onnx==1.16.2",), LAST, Language, lambda: (torch.randint(0, 20, (2, 7)),),
        convert(torchscript(opset_version=13), 18), "gated.gate", "aten::glu", step="Split_17_18", kind="does not run"),
]
