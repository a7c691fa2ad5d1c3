"""Extracts one module from an exported model and compares it with PyTorch: layer.py FOLDER"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch

WHENCE = os.environ.get("WHENCE", "whence")


class Stage(torch.nn.Module):
    """A residual block. x: float32[n, channels, h, w] -> float32[n, channels, h, w]"""

    def __init__(self, channels: int):
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.norm(self.conv(x)))


class Network(torch.nn.Module):
    """x: float32[n, 3, h, w] -> float32[n, 10]"""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 16, 3, stride=2)
        self.stages = torch.nn.Sequential(*(Stage(16) for _ in range(4)))
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = Network().eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(model, (torch.randn(2, 3, 32, 32),), dynamic_shapes=({0: batch},))
    torch.export.save(program, folder / "network.pt2")
    subprocess.run([WHENCE, "export", folder / "network.pt2", "-o", folder / "network.onnx", "--annotate"], check=True)

    subprocess.run([WHENCE, "extract", folder / "network.onnx", "--module", "stages.2", "-o", folder / "stage.onnx"],
                   check=True)
    x = torch.randn(5, 16, 15, 15)
    session = onnxruntime.InferenceSession(folder / "stage.onnx", providers=["CPUExecutionProvider"])
    (graph_input,) = session.get_inputs()
    (result,) = session.run(None, {graph_input.name: x.numpy()})
    with torch.no_grad():
        difference = float(np.abs(result - model.stages[2](x).numpy()).max())
    print(f"stages.2, largest difference between ONNX Runtime and PyTorch: {difference:.2g}")
    return 0 if difference < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
