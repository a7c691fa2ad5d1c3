"""The file lists the operations that the export folded, which have no nodes."""

import onnx
import pytest
import torch
from torch import nn

import command
from sidecar import Sidecar


class ConstantSubgraphs(nn.Module):
    """Computes a weight norm and an expression of a parameter, which depend on no input."""

    def __init__(self):
        super().__init__()
        self.linear = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return self.linear(x) * (self.scale.exp() + 1)


@pytest.mark.parametrize("extra, folded", [((), {"_weight_norm", "exp", "add"}), (("--no-optimize",), set()),
                                           (("--no-fold",), set())])
def test_folded_operations_are_listed(extra, folded, tmp_path):
    torch.export.save(torch.export.export(ConstantSubgraphs().eval(), (torch.randn(2, 4),)), tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--sidecar-out", tmp_path / "m.json", *extra)
    keys = {entry.key: entry.value for entry in onnx.load(tmp_path / "m.onnx").metadata_props}
    numbers = set()
    for part in filter(None, keys.get("pkg.whence.folded", "").split(",")):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    operations = Sidecar(tmp_path / "m.json").operations()
    assert {operations[number]["target"].removeprefix("aten::") for number in numbers} == folded
