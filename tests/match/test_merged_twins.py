"""A node merged from equal nodes of two modules belongs to both, in whence's own export and in a foreign file."""

import json

import onnx
import pytest
import torch

import command
import whence
from accuracy import rename
from match.test_calls import keys


class Branch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.proj(torch.sin(torch.softmax(x, -1)))


class Branches(torch.nn.Module):
    def __init__(self, swapped: bool):
        super().__init__()
        self.left, self.right, self.swapped = Branch(), Branch(), swapped

    def forward(self, x):
        if self.swapped:
            return self.right(x) - self.left(x)
        return self.left(x) - self.right(x)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("renamed", [False, True], ids=["as exported", "renamed"])
def test_a_merged_node_has_both_modules(renamed, swapped, tmp_path):
    model, x = Branches(swapped).eval(), torch.randn(4, 8)
    with whence.record(tmp_path / "model.json"):
        torch.export.export(model, (x,))
    torch.onnx.export(model, (x,), tmp_path / "plain.onnx", dynamo=False, opset_version=17)
    file = onnx.load(tmp_path / "plain.onnx")
    if renamed:
        rename.rename_everything(file)
        onnx.save(file, tmp_path / "plain.onnx")
    assert [node.op_type for node in file.graph.node].count("Softmax") == 1
    command.run("annotate", tmp_path / "plain.onnx", "--sidecar", tmp_path / "model.json", "-o", tmp_path / "out.onnx")
    by_operator = {node.op_type: (node.name, keys(node)) for node in onnx.load(tmp_path / "out.onnx").graph.node}
    for operator in ("Softmax", "Sin"):
        name, metadata = by_operator[operator]
        assert sorted(json.loads(metadata["modules"])) == ["left", "right"]
        assert (metadata["module"], metadata["confidence"]) == ("", "matched")
        output = command.run("explain", tmp_path / "out.onnx", name).stdout
        assert "left" in output and "right" in output
    assert "modules" not in by_operator["Sub"][1]


def test_separate_nodes_have_one_module_each(tmp_path):
    """whence's export does not merge the two Softmax nodes."""
    model, x = Branches(False).eval(), torch.randn(4, 8)
    with whence.record(tmp_path / "model.json"):
        torch.export.export(model, (x,))
    whence.export(model, (x,), tmp_path / "model.onnx")
    file = onnx.load(tmp_path / "model.onnx")
    for node in file.graph.node:
        del node.metadata_props[:]
    del file.metadata_props[:]
    rename.rename_everything(file)
    onnx.save(file, tmp_path / "plain.onnx")
    command.run("annotate", tmp_path / "plain.onnx", "--sidecar", tmp_path / "model.json", "-o", tmp_path / "out.onnx")
    softmaxes = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "Softmax"]
    assert sorted(metadata["module"] for metadata in softmaxes) == ["left", "right"]
    assert not [metadata for metadata in softmaxes if "modules" in metadata]


class Masks(torch.nn.Module):
    """Each head converts the same boolean mask to a float mask."""

    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(6, 6)

    def forward(self, x, mask):
        return self.proj(x) * mask.to(torch.float32)


class Heads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Masks(), Masks()

    def forward(self, x, mask):
        return self.first(x, mask) + self.second(x, mask)


def test_a_node_merged_by_whence_has_both_modules(tmp_path):
    """show counts the merged node once, in the module around both."""
    whence.export(Heads().eval(), (torch.randn(2, 6), torch.rand(2, 6) > 0.5), tmp_path / "model.onnx")
    [cast] = [node for node in onnx.load(tmp_path / "model.onnx").graph.node if node.op_type == "Cast"]
    metadata = keys(cast)
    assert json.loads(metadata["modules"]) == ["first", "second"] and (metadata["module"], metadata["confidence"]) == ("", "exact")
    output = command.run("explain", tmp_path / "model.onnx", cast.name).stdout
    assert "first" in output and "second" in output
    rows = {row["path"]: row for row in command.run_json("show", tmp_path / "model.onnx")["modules"]}
    assert rows[""]["nodes"] == len(onnx.load(tmp_path / "model.onnx").graph.node)
