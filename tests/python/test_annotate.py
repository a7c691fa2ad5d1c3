"""whence.annotate: each keyword has the effect of the command's option."""

import onnx
import pytest
import torch
import whence


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def exported(tmp_path):
    """Returns a file from PyTorch's exporter, without metadata, and the sidecar of the model."""
    torch.manual_seed(0)
    file, sidecar = tmp_path / "net.onnx", tmp_path / "net.whence.json"
    with whence.record(sidecar):
        torch.onnx.export(Net().eval(), (torch.ones(2, 4),), str(file), dynamo=False)
    return file, sidecar


def nodes(path):
    return list(onnx.load(path).graph.node)


def keys(node):
    return {entry.key for entry in node.metadata_props}


def test_only_requested_keys_are_written(exported, tmp_path):
    file, sidecar = exported
    whence.annotate(file, sidecar, output=tmp_path / "out.onnx", keys=["module", "namespace"])
    for node in nodes(tmp_path / "out.onnx"):
        # A module is always written with its confidence.
        assert {"pkg.whence.module", "namespace", "pkg.whence.confidence"} <= keys(node)
        assert not {"pkg.whence.source", "pkg.torch.onnx.fx_node"} & keys(node)


def test_node_names_can_be_kept(exported, tmp_path):
    file, sidecar = exported
    model = onnx.load(file)
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    onnx.save(model, file)
    before = [node.name for node in nodes(file)]
    whence.annotate(file, sidecar, output=tmp_path / "kept.onnx", names=False)
    whence.annotate(file, sidecar, output=tmp_path / "named.onnx")
    assert [node.name for node in nodes(tmp_path / "kept.onnx")] == before
    assert [node.name for node in nodes(tmp_path / "named.onnx")] != before


def test_carry_writes_names_into_doc_strings(exported, tmp_path):
    file, sidecar = exported
    whence.annotate(file, sidecar, output=tmp_path / "out.onnx", carry=True)
    for node in nodes(tmp_path / "out.onnx"):
        assert node.doc_string.splitlines()[-1] == f"whence: {node.name}"


def test_types_as_functions(exported, tmp_path):
    file, sidecar = exported
    whence.annotate(file, sidecar, output=tmp_path / "out.onnx", functions="types=Block")
    assert [function.name for function in onnx.load(tmp_path / "out.onnx").functions] == ["Block"]
    assert [node.op_type for node in nodes(tmp_path / "out.onnx")] == ["Block"] * 3


def test_different_weights_are_matched_only_if_allowed(exported, tmp_path):
    _, sidecar = exported
    torch.manual_seed(1)
    other = tmp_path / "other.onnx"
    torch.onnx.export(Net().eval(), (torch.ones(2, 4),), str(other), dynamo=False, keep_initializers_as_inputs=False)
    model = onnx.load(other)
    for number, initializer in enumerate(model.graph.initializer):  # removes the names from the file
        for node in model.graph.node:
            node.input[:] = [f"w{number}" if name == initializer.name else name for name in node.input]
        initializer.name = f"w{number}"
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    onnx.save(model, other)
    with pytest.raises(whence.WhenceError) as refused:
        whence.annotate(other, sidecar, output=tmp_path / "refused.onnx")
    assert refused.value.code == "E0206" and not (tmp_path / "refused.onnx").exists()
    report = whence.annotate(other, sidecar, output=tmp_path / "out.onnx", allow_different_weights=True)
    assert report.matched + report.inferred + report.ancestor == report.nodes > 0


def test_unknown_key_is_refused(exported, tmp_path):
    file, sidecar = exported
    with pytest.raises(whence.WhenceError) as refused:
        whence.annotate(file, sidecar, output=tmp_path / "out.onnx", keys=["modul"])
    assert refused.value.code == "E0101" and not (tmp_path / "out.onnx").exists()
