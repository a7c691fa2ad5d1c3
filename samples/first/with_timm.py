"""Exports a timm model with its layers, checks it against PyTorch, and extracts one stage: with_timm.py FOLDER"""

import sys

import timm
import torch
from shown import enter_output_folder, whence as command

import whence


def main() -> int:
    enter_output_folder()
    torch.manual_seed(0)

    model = timm.create_model("resnet18", pretrained=False).eval()  # yours: pretrained=True
    x = torch.randn(1, 3, 64, 64)
    whence.export(model, x, "resnet.onnx", dynamic_axes={"x": {0: "batch"}})
    verified = whence.verify("resnet.onnx", model, x)

    print(verified)
    command("show resnet.onnx --depth 2")
    command("explain resnet.onnx /layer3/layer3.0/Conv")
    command("extract resnet.onnx --module layer3 -o layer3.onnx")
    return 0 if verified.ok else 1


if __name__ == "__main__":
    sys.exit(main())
