"""A recording with dynamic sizes matches as much of a file as a recording with fixed sizes. If several modules read a
size, whence exports one node for it and PyTorch one node per module. The expected modules come from PyTorch's node
names."""

import onnx
import pytest
import torch
from torch import nn

import command


class Attention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        batch, time = x.size(0), x.size(1)
        heads = self.query(x).view(batch, time, 2, -1).transpose(1, 2)
        weights = torch.softmax(heads @ heads.transpose(-1, -2), -1)
        return self.out((weights @ heads).transpose(1, 2).reshape(batch, time, -1))


class Positions(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.table = nn.Embedding(32, width)
        self.register_buffer("numbers", torch.arange(32)[None])

    def forward(self, ids, x):
        return x + self.table(self.numbers[:, : ids.size(1)].expand(ids.size(0), ids.size(1)))


class Reader(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.words, self.positions = nn.Embedding(50, width), Positions(width)
        self.layers = nn.ModuleList([Attention(width) for _ in range(3)])

    def forward(self, ids):
        x = self.positions(ids, self.words(ids))
        mask = torch.ones(ids.size(0), ids.size(1), 1)
        for layer in self.layers:
            x = x + layer(x) * mask
        return x


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, ids = tmp_path_factory.mktemp("recorded"), torch.randint(0, 50, (2, 7))
    torch.manual_seed(0)
    model = Reader().eval()
    torch.jit.trace(model, ids).save(folder / "m.pt")
    torch.save((ids,), folder / "in.pt")
    torch.onnx.export(model, (ids,), folder / "m.onnx", dynamo=False, input_names=["ids"], do_constant_folding=False,
                      dynamic_axes={"ids": {0: "batch", 1: "time"}})
    command.run("record", folder / "m.pt", "--inputs", folder / "in.pt", "-o", folder / "fixed.json")
    command.run("export", folder / "m.pt", "--inputs", folder / "in.pt", "--dynamic", "ids:0=batch,1=time",
                "-o", folder / "own.onnx", "--sidecar-out", folder / "dynamic.json")
    return folder


def annotated_modules(folder, recording: str) -> list[tuple[str, str, str]]:
    """Returns (expected module, annotated module, confidence) of the nodes that PyTorch named."""
    command.run("annotate", folder / "m.onnx", "--sidecar", folder / f"{recording}.json", "-o", folder / "out.onnx")
    rows = []
    for before, node in zip(onnx.load(folder / "m.onnx").graph.node, onnx.load(folder / "out.onnx").graph.node, strict=True):
        keys = {entry.key: entry.value for entry in node.metadata_props}
        if before.name.startswith("/"):
            truth = ".".join(before.name.split("/")[1:-1])
            rows.append((truth, keys["pkg.whence.module"], keys["pkg.whence.confidence"]))
    return rows


def test_a_recording_with_dynamic_sizes_matches_as_much(folder):
    fixed, dynamic = annotated_modules(folder, "fixed"), annotated_modules(folder, "dynamic")
    for truth, module, confidence in fixed + dynamic:
        if confidence == "ancestor":
            assert module == "" or f"{truth}.".startswith(f"{module}."), (truth, module)
        else:
            assert module == truth, (truth, module, confidence)
    matched = [sum(confidence == "matched" for *_, confidence in rows) for rows in (fixed, dynamic)]
    assert matched[0] > 100 and matched[1] >= 0.95 * matched[0], matched
