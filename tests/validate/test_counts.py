"""Tests that every count of nodes by confidence agrees with the metadata on the nodes."""

import collections
import json

import onnx
import pytest
import torch
from torch import nn

import command
from validate.test_from import optimise

CONFIDENCES = ("exact", "matched", "inferred", "ancestor", "unattributed")


class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(6, 6)

    def forward(self, x):
        return torch.tanh(self.inner(x))


class Gated(torch.nn.Module):
    """PyTorch records no modules inside a cond, so the modules of these nodes are inferred."""

    def __init__(self):
        super().__init__()
        self.first, self.yes, self.no, self.last = torch.nn.Linear(6, 6), Half(), Half(), torch.nn.Linear(6, 2)

    def forward(self, x):
        x = torch.cond(x.sum() > 0, self.yes, self.no, (self.first(x),))
        return self.last(x)


def all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def keys(node) -> dict:
    return {entry.key: entry.value for entry in node.metadata_props}


def key_counts(path) -> dict:
    found = collections.Counter(keys(node).get("pkg.whence.confidence") for node in all_nodes(onnx.load(path).graph))
    assert None not in found
    return {confidence: found[confidence] for confidence in CONFIDENCES}


def counts_of(report: dict) -> dict:
    assert report["nodes"] == sum(report[confidence] for confidence in CONFIDENCES)
    return {confidence: report[confidence] for confidence in CONFIDENCES}


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    """Returns the exported file and its sidecar."""
    folder = tmp_path_factory.mktemp("gated")
    torch.manual_seed(1)
    torch.export.save(torch.export.export(Gated().eval(), (torch.randn(3, 6),)), folder / "gated.pt2")
    command.run("export", folder / "gated.pt2", "-o", folder / "gated.onnx", "--sidecar-out",
                folder / "gated.whence.json")
    return folder / "gated.onnx", folder / "gated.whence.json"


@pytest.fixture(scope="module")
def all_confidences(gated, tmp_path_factory):
    """Returns an annotated file that has each of the five confidences."""
    path = tmp_path_factory.mktemp("confidences") / "all.onnx"
    command.run("annotate", gated[0], "--sidecar", gated[1], "-o", path)
    model = onnx.load(path)
    for i, node in enumerate(all_nodes(model.graph)):
        if CONFIDENCES[i:i + 1] == ("unattributed",):  # these nodes have no module (V301)
            del node.metadata_props[:]
            node.metadata_props.add(key="pkg.whence.confidence", value="unattributed")
        for entry in node.metadata_props:
            if entry.key == "pkg.whence.confidence" and i < len(CONFIDENCES):
                entry.value = CONFIDENCES[i]
    onnx.save(model, path)
    assert all(key_counts(path).values())
    return path


def test_annotate_counts_its_metadata(gated, tmp_path):
    out = tmp_path / "out.onnx"
    report = command.run_json("annotate", gated[0], "--sidecar", gated[1], "-o", out)
    assert counts_of(report) == key_counts(out) and report["inferred"] > 0
    assert counts_of(command.run_json("validate", out)["coverage"]) == key_counts(out)
    output = command.run("annotate", gated[0], "--sidecar", gated[1], "-o", out).stdout
    confidences = ", ".join(f"{report[confidence]} {confidence}" for confidence in CONFIDENCES if report[confidence])
    assert f"{report['nodes']} nodes: {confidences}" in output


@pytest.mark.parametrize("how", ["again", "names", "from", "functions"])
def test_annotate_counts_old_metadata(gated, all_confidences, tmp_path, how):
    """The file is already annotated, completely or except for one node."""
    options = {"again": ["--sidecar", gated[1]], "names": [], "from": ["--from", all_confidences],
               "functions": ["--sidecar", gated[1], "--functions", "depth=1"]}[how]
    source, out = tmp_path / "source.onnx", tmp_path / "out.onnx"
    model = onnx.load(all_confidences)
    if how in ("names", "from"):
        del model.graph.node[-1].metadata_props[:]
    onnx.save(model, source)
    report = command.run_json("annotate", source, "-o", out, *options)
    assert counts_of(report) == counts_of(command.run_json("validate", out)["coverage"])
    if how != "functions":
        assert counts_of(report) == key_counts(out)


@pytest.mark.parametrize("source", ["sidecar", "from"])
def test_unattributed_nodes_stay_unattributed(gated, tmp_path, source):
    """annotate gives this confidence to nodes without a module. Later runs keep it even if they find a module."""
    full, part, out = (tmp_path / f"{name}.onnx" for name in ("full", "part", "out"))
    command.run("annotate", gated[0], "--sidecar", gated[1], "-o", full)
    model = onnx.load(full)
    del model.graph.node[0].metadata_props[:]
    model.graph.node[0].metadata_props.add(key="pkg.whence.confidence", value="unattributed")
    onnx.save(model, part)
    report = command.run_json("annotate", part, f"--{source}", gated[1] if source == "sidecar" else full, "-o", out)
    assert counts_of(report) == key_counts(out) == counts_of(command.run_json("validate", out)["coverage"])
    assert report["unattributed"] == 1


def test_confidence_is_written_with_any_selection_of_keys(gated, tmp_path):
    full, few = tmp_path / "full.onnx", tmp_path / "few.onnx"
    command.run("annotate", gated[0], "--sidecar", gated[1], "-o", full)
    report = command.run_json("annotate", gated[0], "--sidecar", gated[1], "-o", few, "--keys", "module,source")
    assert counts_of(report) == key_counts(full) == counts_of(command.run_json("validate", few)["coverage"])
    for node in all_nodes(onnx.load(few).graph):
        assert "pkg.whence.rule" not in keys(node) and keys(node)["pkg.whence.confidence"]


@pytest.mark.parametrize("confidence", [None, "certain", "EXACT"])
def test_a_module_without_a_valid_confidence_is_an_ancestor(gated, tmp_path, confidence):
    """This includes nodes with a stamp, which has no confidence."""
    full, bare, out = tmp_path / "full.onnx", tmp_path / "bare.onnx", tmp_path / "out.onnx"
    command.run("annotate", gated[0], "--sidecar", gated[1], "-o", full)
    model = onnx.load(full)
    for node in all_nodes(model.graph):
        entries = [(entry.key, entry.value) for entry in node.metadata_props if entry.key != "pkg.whence.confidence"]
        del node.metadata_props[:]
        for key, value in entries + [("pkg.whence.confidence", confidence)] * (confidence is not None):
            node.metadata_props.add(key=key, value=value)
    onnx.save(model, bare)
    coverage = counts_of(command.run_json("validate", bare, code=0 if confidence is None else 1)["coverage"])
    assert coverage["ancestor"] == sum(coverage.values()) > 0
    report = command.run_json("annotate", gated[0], "--from", bare, "-o", out)
    assert counts_of(report)["ancestor"] == sum(counts_of(report).values())


def test_reports_have_the_same_counts(all_confidences, tmp_path):
    expected = key_counts(all_confidences)
    covered = expected["exact"] + expected["matched"] + expected["inferred"]
    coverage = command.run_json("validate", all_confidences)["coverage"]
    assert counts_of(coverage) == expected and coverage["covered"] == covered
    command.run("report", all_confidences, "-o", tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    for confidence, count in [*expected.items(), ("**covered**", covered)]:
        assert f"| {confidence} | {count} | " in text
    command.run("report", all_confidences, "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    at = page.index('"coverage":')
    assert json.loads(page[page.index("[", at):page.index("]", at) + 1]) == list(expected.values())


def test_the_python_package_has_the_same_counts(gated, tmp_path, monkeypatch):
    monkeypatch.setenv("WHENCE", str(command.BINARY))
    monkeypatch.syspath_prepend(str(command.ROOT / "python"))
    import whence
    report = whence.annotate(gated[0], gated[1], output=tmp_path / "out.onnx")
    expected = key_counts(tmp_path / "out.onnx")
    assert {confidence: getattr(report, confidence) for confidence in CONFIDENCES} == expected
    coverage = whence.validate(tmp_path / "out.onnx").coverage
    assert {confidence: getattr(coverage, confidence) for confidence in CONFIDENCES} == expected


@pytest.mark.parametrize("annotated", [True, False], ids=["after annotate", "before annotate"])
def test_an_operator_of_a_runtime_is_not_exact(small_export, annotated, tmp_path):
    """ONNX Runtime's optimisers copy the metadata of only one of the nodes that they fuse."""
    model, sidecar = small_export
    if annotated:
        command.run("annotate", model, "--sidecar", sidecar, "-o", tmp_path / "annotated.onnx")
        model = tmp_path / "annotated.onnx"
    fused = onnx.load(model)
    nodes = len(fused.graph.node)
    fused.graph.node[0].domain, fused.graph.node[0].op_type = "com.microsoft", "FusedGemm"
    fused.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    onnx.save(fused, tmp_path / "fused.onnx")
    command.run("annotate", tmp_path / "fused.onnx", "--sidecar", sidecar, "-o", tmp_path / "again.onnx")
    for path in [tmp_path / "again.onnx", *([tmp_path / "fused.onnx"] if annotated else [])]:
        found = command.run_json("validate", path, "--sidecar", sidecar, code=None)["coverage"]
        assert found["exact"] == nodes - 1 and found["inferred"] == 1
    if not annotated:
        assert key_counts(tmp_path / "again.onnx")["inferred"] == 1


def test_an_operator_of_a_runtime_keeps_the_confidence_that_annotate_wrote(tmp_path):
    """Every count and every later run uses the metadata that annotate wrote for a fused node, until a tool changes the
    node's operator."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Conv2d(16, 24, 3), nn.ReLU()).eval()
    x = torch.randn(1, 8, 12, 12)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    command.run("record", tmp_path / "model.pt2", "-o", tmp_path / "model.json")
    torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=False, opset_version=17)
    optimise(tmp_path / "model.onnx", tmp_path / "optimised.onnx")
    out, again, derived = (tmp_path / f"{name}.onnx" for name in ("out", "again", "derived"))
    report = command.run_json("annotate", tmp_path / "optimised.onnx", "--sidecar", tmp_path / "model.json", "-o", out)
    fused = [node for node in onnx.load(out).graph.node if node.domain.startswith("com.microsoft")]
    assert {keys(node)["pkg.whence.operator"] for node in fused} == {f"{node.domain}::{node.op_type}" for node in fused}
    assert "matched" in {keys(node)["pkg.whence.confidence"] for node in fused}
    command.run("annotate", out, "--sidecar", tmp_path / "model.json", "-o", again)
    command.run("annotate", tmp_path / "optimised.onnx", "--from", out, "-o", derived)
    for path in (out, again, derived):
        assert counts_of(report) == key_counts(path) == counts_of(command.run_json("validate", path)["coverage"])

    other = onnx.load(out)
    for node in other.graph.node:
        if node.domain.startswith("com.microsoft"):
            node.op_type = "FusedGemm"
    onnx.save(other, tmp_path / "other.onnx")
    coverage = command.run_json("validate", tmp_path / "other.onnx", code=None)["coverage"]
    assert coverage["inferred"] == len(fused) and coverage["matched"] == report["matched"] - len(fused)
