"""Runs the subcommands that need no PyTorch, from the recording of a torch.export archive to a profile by module. Every
build of the command is tested with this sequence."""

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(6, 6)
        self.norm = torch.nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(x + torch.nn.functional.gelu(self.dense(x)))


def save_archive(path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(Block(), Block()).eval()
    torch.export.save(torch.export.export(model, (torch.randn(3, 6),)), path)


def strip_names(source: Path, target: Path) -> None:
    """Writes the file without node names and metadata, like some tools."""
    model = onnx.load(source)
    del model.metadata_props[:]
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
        del node.metadata_props[:]
    onnx.save(model, target)


def measure(model: Path, profile: Path) -> None:
    """Runs the model in ONNX Runtime and writes its profile."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(profile.with_suffix(""))
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        session.run(None, {session.get_inputs()[0].name: torch.randn(3, 6).numpy()})
    Path(session.end_profiling()).rename(profile)


def check(whence: Callable[..., str], folder: Path) -> dict[str, bytes]:
    """Returns the written files. `whence` runs the command in the folder and returns its output."""
    save_archive(folder / "m.pt2")
    whence("record", "m.pt2", "-o", "m.whence.json")
    whence("export", "m.pt2", "-o", "plain.onnx", "--sidecar-out", "exported.whence.json")
    strip_names(folder / "plain.onnx", folder / "foreign.onnx")
    annotated = json.loads(whence("annotate", "foreign.onnx", "--sidecar", "m.whence.json", "-o", "m.onnx", "--json"))
    assert annotated["matched"] == annotated["nodes"] > 4
    coverage = json.loads(whence("validate", "m.onnx", "--json"))["coverage"]
    assert coverage["covered"] == coverage["nodes"]
    text = whence("show", "m.onnx")
    assert "Block" in text and "LayerNorm" in text
    name = next(node.name for node in onnx.load(folder / "m.onnx").graph.node if node.op_type == "LayerNormalization")
    assert "torch.nn.modules.normalization.LayerNorm" in whence("explain", "m.onnx", name)
    assert "Block" in whence("functions", "m.onnx", "--types", "Block", "-o", "functions.onnx")
    measure(folder / "m.onnx", folder / "profile.json")
    measured = json.loads(whence("profile", "m.onnx", "--profile", "profile.json", "--json"))
    assert {row["path"] for row in measured["modules"]} >= {"0.dense", "1.norm"}
    whence("report", "m.onnx", "-o", "m.html")
    written = ("plain.onnx", "m.whence.json", "m.onnx", "functions.onnx")
    contents = {name: (folder / name).read_bytes() for name in written}
    assert len((folder / "m.html").read_bytes()) > 10_000
    return contents

