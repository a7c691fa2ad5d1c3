"""A timm model exported with its layers, checked against PyTorch, and one stage of it alone: with_timm.py FOLDER"""

import sys

import timm
import torch
from shown import folder_named_on_the_command_line, whence as command

import whence


def main() -> int:
    folder_named_on_the_command_line()
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
