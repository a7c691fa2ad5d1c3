"""Writes a small network and the files for an agent's tasks: network.py FOLDER"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import torch


class Block(torch.nn.Module):
    """x: float32[n, width] -> float32[n, width], with `inner` units between two linear layers."""

    def __init__(self, width: int, inner: int):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, inner)
        self.down = torch.nn.Linear(inner, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.gelu(self.up(self.norm(x)))
        return x + self.down(hidden)  # residual connection


class Network(torch.nn.Module):
    """x: float32[n, 16] -> float32[n, 10]. The second block is wider."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Linear(16, 64)
        self.blocks = torch.nn.ModuleList([Block(64, 128), Block(64, 4096), Block(64, 128)])
        self.head = torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Spectral(torch.nn.Module):
    """Runs an operator that has no converter."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh(x @ x.transpose(-1, -2))


class Unsupported(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Linear(16, 16)
        self.spectrum = Spectral()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.spectrum(self.embed(x))


def change(source: Path, target: Path, edit) -> None:
    model = onnx.load(source)
    edit(model)
    onnx.save(model, target)


def scale_weight(model: onnx.ModelProto) -> None:
    """Scales a weight of blocks.2.up, as a faulty conversion might."""
    (node,) = [node for node in model.graph.node if node.name == "/blocks.2/up/MatMul" or (
        node.op_type in ("Gemm", "MatMul") and "blocks" in node.name and "2/up" in node.name.replace(".", "/"))]
    (weight,) = [each for each in model.graph.initializer if each.name == node.input[1]]
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * np.float32(1.5), weight.name))


def lose_metadata(model: onnx.ModelProto) -> None:
    """Removes metadata and names from the nodes of one block, like a tool that creates new nodes."""
    for number, node in enumerate(model.graph.node):
        if "2/" in node.name.replace(".", "/"):
            node.name = f"n{number}"
            del node.metadata_props[:]


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    x = torch.randn(64, 16)
    torch.export.save(torch.export.export(Network().eval(), (x,)), folder / "model.pt2")
    torch.export.save(torch.export.export(Unsupported().eval(), (x,)), folder / "new_model.pt2")
    np.savez(folder / "inputs.npz", x=x.numpy())
    return 0


if __name__ == "__main__":
    sys.exit(main())
