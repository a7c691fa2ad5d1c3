"""whence attest on files with ONNX Runtime's blocks of channels: a value that is read in another layout than it has is found."""

from types import SimpleNamespace

import onnx
import pytest
import torch
import whence
from torch import nn

import small_models as models
from test_attest import attest, unaccounted

REORDERINGS = ("ReorderInput", "ReorderOutput")


@pytest.fixture(scope="module")
def blocked(tmp_path_factory):
    """A convolution that is computed in blocks, between two operators that are not."""
    folder, x = tmp_path_factory.mktemp("blocks"), torch.randn(1, 3, 6, 6)
    torch.manual_seed(0)
    model = nn.Sequential(nn.ConvTranspose2d(3, 16, 2, stride=2), nn.Conv2d(16, 16, 3), nn.Flatten(), nn.Linear(1600, 4)).eval()
    with whence.record(folder / "model.whence.json"):
        torch.export.export(model, (x,))
    torch.onnx.export(model, (x,), folder / "plain.onnx", dynamo=True, external_data=False, verbose=False)
    models.TOOLS["ort_all"](folder / "plain.onnx", folder / "blocks.onnx", [])
    return SimpleNamespace(path=folder / "blocks.onnx", sidecar=folder / "model.whence.json",
                           weights=models.save_weights(model, folder / "model.safetensors"))


def test_files_with_blocks_are_accounted_for(blocked):
    operators = {node.op_type for node in onnx.load(blocked.path).graph.node}
    assert operators.issuperset(REORDERINGS)
    assert unaccounted(attest(blocked.path, blocked)) == ([], [])


@pytest.mark.parametrize("op_type", REORDERINGS)
def test_a_missing_reordering_is_found(blocked, tmp_path, op_type):
    model = onnx.load(blocked.path)
    [node] = [node for node in model.graph.node if node.op_type == op_type]
    model.graph.node.remove(node)
    for reader in model.graph.node:
        reader.input[:] = [node.input[0] if each == node.output[0] else each for each in reader.input]
    onnx.save(model, tmp_path / "changed.onnx")
    statement = attest(tmp_path / "changed.onnx", blocked, code=1)
    assert any("blocks of channels" in each.get("remark", "") for each in statement["predicate"]["nodes"])
