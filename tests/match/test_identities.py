"""pkg.whence.id: an operation has the same identity in the files of four exporters at two opsets. diff uses it."""

import onnx
import pytest
import torch

import command
from accuracy.identities import agreeing, entries, exports, ids_of, shared


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x + torch.nn.functional.gelu(self.fc(x)) + torch.relu_(x * 2))


class Twice(torch.nn.Module):
    """Calls one block twice, and a second block once."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x):
        return self.second(self.first(self.first(x))).softmax(-1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    torch.manual_seed(0)
    return exports(Twice().eval(), torch.randn(2, 8), "x=float32[2,8]", tmp_path_factory.mktemp("identities"))


def test_identities_follow_the_code(files):
    """The expected identities were derived by hand from the classes Block and Twice."""
    block = {"/add/0", "/add/1", "/gelu/0", "/relu/0", "/mul/0"}
    block_calls = [f"{module}/{call}" for module, call in (("first", 0), ("first", 1), ("second", 0))]
    expected = {call + operation for call in block_calls for operation in block} | {"/0/softmax/0"}
    for module, call in (("first", 0), ("first", 1), ("second", 0)):
        expected |= {f"{module}.fc/{call}/linear/0", f"{module}.norm/{call}/layer_norm/0"}
    for name, path in files.items():
        assert {identity for node in onnx.load(path).graph.node for identity in ids_of(node)} == expected, name


def test_exporters_and_opsets_agree(files):
    assert len(files) == 8
    for first in files.values():
        for second in files.values():
            shared_count, all_nodes = shared(first, second)
            assert shared_count == all_nodes >= 20
            agreeing_count, common = agreeing(first, second)
            assert agreeing_count == common >= 6


def test_a_decomposed_operator_has_one_identity(files):
    nodes = [node for node in onnx.load(files["TorchScript 18"]).graph.node if ids_of(node) == ["second/0/gelu/0"]]
    assert len(nodes) > 3 and "Erf" in {node.op_type for node in nodes}


def test_diff_pairs_the_files_of_two_exporters(files):
    """Pairs all nodes except the Identity and Constant nodes of the TorchScript exporter."""
    for left, right in (("TorchScript 20", "dynamo 20"), ("whence .pt2 18", "TorchScript 20")):
        result = command.run_json("diff", files[left], files[right])
        unpaired = [node for node in result["changed_nodes"] if node["change"] in ("added", "removed", "moved")
                  and node["op_type"] not in ("Identity", "Constant")]
        assert not unpaired, unpaired
    decomposed = command.run_json("diff", files["whence .pt2 18"], files["whence .pt2 20"])
    gelus = [node for node in decomposed["changed_nodes"] if node["change"] == "fused"
             and node["op_type"] == "Gelu"]
    assert len(gelus) == 3 and all(any(old.startswith("Erf ") for old in node["fused"]) for node in gelus)


def test_diff_does_not_pair_equal_names_of_different_operations(tmp_path):
    from validate.onnx_files import ID, known, model, node

    def file(name, order):
        keys = {number: {**known("a"), ID: f"a/0/relu/{number}"} for number in (0, 1)}
        return model([node("Relu", ["x"], "v0", "n0", keys[order[0]]), node("Relu", ["v0"], "v1", "n1", keys[order[1]])],
                     tmp_path / name)

    result = command.run_json("diff", file("a.onnx", (0, 1)), file("b.onnx", (1, 0)))
    for change in ("renamed", "changed"):  # the two nodes exchanged their inputs
        names = [node["names"] for node in result["changed_nodes"] if node["change"] == change]
        assert sorted(names) == [["n0", "n1"], ["n1", "n0"]], change
    assert len(result["changed_nodes"]) == 4


def test_strip_removes_identities_and_from_copies_them(files, tmp_path):
    annotated = files["dynamo 20"]
    command.run("strip", annotated, "-o", tmp_path / "plain.onnx")
    assert not any("pkg.whence.id" in entries(node) for node in onnx.load(tmp_path / "plain.onnx").graph.node)
    command.run("annotate", tmp_path / "plain.onnx", "--from", annotated, "-o", tmp_path / "again.onnx")
    identities = {node.output[0]: ids_of(node) for node in onnx.load(tmp_path / "again.onnx").graph.node}
    assert identities == {node.output[0]: ids_of(node) for node in onnx.load(annotated).graph.node}
    command.run("annotate", tmp_path / "plain.onnx", "--from", annotated, "--keys", "id", "-o", tmp_path / "id.onnx")
    assert all(set(entries(node)) & {"pkg.whence.id", "pkg.whence.module"} == {"pkg.whence.id"}
               for node in onnx.load(tmp_path / "id.onnx").graph.node if ids_of(node))
