"""A file with modules as functions is shown like the flat file: the nodes of a function count for every call."""

import json
from collections import Counter

import onnx
import onnxruntime
import pytest

import command
from functions.conftest import Exports
from models import zoo
from views.test_profile import LEVELS, kernels, profile
from views.view_files import keys_of


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """Returns the flat file, the file with every module as a function, and the sidecar."""
    path = Exports("whence", tmp_path_factory)("bert_tiny")
    sidecar, cut = path.parent / "bert.whence.json", path.parent / "functions.onnx"
    command.run("record", path.with_suffix(".pt2"), "-o", sidecar)
    report = command.run_json("functions", path, "-o", cut, "--depth", 9)
    assert len(report["functions"]) > 5 and len(onnx.load(cut).graph.node) < 10
    return path, cut, sidecar


def modules(path) -> Counter:
    """Counts the nodes of each module and its descendants, by the file's metadata."""
    count = Counter()
    for node in onnx.load(path).graph.node:
        module = keys_of(node)["pkg.whence.module"]
        count[""] += 1
        while module:
            count[module] += 1
            module = module.rpartition(".")[0]
    return count


def test_the_tree_is_that_of_the_flat_file(bert):
    flat, cut, _ = bert
    rows, same = ({row["path"]: row for row in command.run_json("show", file)["modules"]} for file in (cut, flat))
    assert {path: row["nodes"] for path, row in rows.items()} == modules(flat)
    for path, row in rows.items():  # tests/validate/test_show.py compares the flat file with the model
        assert row["parameters"] == same[path]["parameters"], path
    layer = zoo.MODELS["bert_tiny"].model().get_submodule("encoder.layer.1")
    assert rows["encoder.layer.1"]["parameters"] == sum(p.numel() for p in layer.parameters())
    assert command.run("diff", flat, cut, "--exit-code").stdout.endswith("no difference\n")


def test_coverage_counts_the_nodes_of_calls(bert):
    flat, cut, sidecar = bert
    report = command.run_json("validate", cut, "--sidecar", sidecar)
    assert report["findings"] == []
    assert {row["path"]: row["nodes"] for row in report["modules"]} == modules(flat)
    root = report["hierarchy"]["modules"][0]
    assert root["unknown"] == 0 and root["arrived"] + root["fused"] > 40
    assert {each["how"] for each in report["hierarchy"]["parameters"] if not each["arrived"]} <= {"unused", "folded"}


def test_a_broken_call_is_a_finding(bert, tmp_path):
    """Although the nodes of the call are unknown."""
    model = onnx.load(bert[1])
    call = next(node for node in model.graph.node if node.domain)
    call.input.extend(["x"] * 50)
    onnx.save(model, tmp_path / "broken.onnx")
    report = command.run_json("validate", tmp_path / "broken.onnx", code=1)
    assert "V107" in {finding["code"] for finding in report["findings"]}
    assert "E0204" in command.run("show", tmp_path / "broken.onnx", code=3).stderr


def test_reports_and_drawings_hold_the_nodes(bert, tmp_path):
    flat, cut, sidecar = bert
    nodes = len(onnx.load(flat).graph.node)
    assert command.run_json("report", cut, "--sidecar", sidecar, "-o", tmp_path / "r.html")["nodes"] == nodes
    assert command.run_json("graphml", cut, "-o", tmp_path / "r.graphml")["nodes"] == nodes
    command.run("report", cut, "-o", tmp_path / "cut.md")
    command.run("report", flat, "-o", tmp_path / "flat.md")
    operators = [(tmp_path / f"{name}.md").read_text().split("### Operators")[1] for name in ("cut", "flat")]
    assert operators[0] == operators[1]


@pytest.mark.parametrize("level", LEVELS)
def test_time_in_functions_counts_for_modules(bert, tmp_path, level):
    """The weight that a node of the saved file reads identifies the node."""
    entry = zoo.MODELS["bert_tiny"]
    session = onnxruntime.InferenceSession(str(bert[1]), providers=["CPUExecutionProvider"])
    feeds = dict(zip([each.name for each in session.get_inputs()],
                     [value.numpy() for value in entry.inputs(entry.first).values()], strict=True))
    path, saved = profile(bert[1], tmp_path, level, feeds)
    optimised = onnx.load(saved)
    weights = {tensor.name for tensor in optimised.graph.initializer}
    truth = {node.name: name.removesuffix(".T").removesuffix(".weight") for node in optimised.graph.node
             for name in node.input if name in weights and ".weight" in name and node.op_type in ("MatMul", "Gemm")}
    assert len(truth) >= 12 and all("_inlfunc_" in name for name in truth)
    report = command.run_json("profile", bert[1], "--ort-profile", path)
    found = {node["name"]: node["module"] for node in report["nodes"]}
    assert {name: found[name] for name in truth} == truth
    with_saved = command.run_json("profile", bert[1], "--ort-profile", path, "--optimized", saved)
    for each_report in (report, with_saved):
        assert each_report["operator_time"] == sum(event["dur"] for event in kernels(path))
    assert with_saved["unattributed"] < 0.1 * report["operator_time"]
    if level == "plain":
        assert report["unattributed"] == 0


def test_nodes_in_functions_are_found_by_name_and_module(bert, tmp_path):
    flat, cut, _ = bert
    name = "/encoder/layer.1/attention/self/query/MatMul"
    assert command.run_json("explain", cut, name)["module"] == "encoder.layer.1.attention.self.query"
    output = command.run("select", cut, "--modules", "**.query", code=2).stderr
    assert "are in functions" in output and "whence inline" in output
    assert "no module of the file matches" in command.run("select", cut, "--modules", "nothing", code=2).stderr
    command.run("extract", cut, "--module", "encoder.layer.1.attention.self.query", "-o", tmp_path / "query.onnx")
    part = onnx.load(tmp_path / "query.onnx")
    onnx.checker.check_model(part, full_check=True)
    assert not part.functions and {node.op_type for node in part.graph.node} <= {"MatMul", "Add", "Gemm"}
    assert len(json.dumps(command.run("explain", cut, "/encoder").stdout)) < 5000
