"""Tests that a file with modules as functions is shown like the flat file: a function's nodes count for every call."""

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
    sidecar, with_functions = path.parent / "bert.whence.json", path.parent / "functions.onnx"
    command.run("record", path.with_suffix(".pt2"), "-o", sidecar)
    report = command.run_json("functions", path, "-o", with_functions, "--depth", 9)
    assert len(report["functions"]) > 5 and len(onnx.load(with_functions).graph.node) < 10
    return path, with_functions, sidecar


def modules(path) -> Counter:
    """Counts the nodes of each module, including its descendants, by the file's metadata."""
    count = Counter()
    for node in onnx.load(path).graph.node:
        module = keys_of(node)["pkg.whence.module"]
        count[""] += 1
        while module:
            count[module] += 1
            module = module.rpartition(".")[0]
    return count


def test_show_prints_the_tree_of_the_flat_file(bert):
    flat, with_functions, _ = bert
    rows, flat_rows = ({row["path"]: row for row in command.run_json("show", file)["modules"]} for file in (with_functions, flat))
    assert {path: row["nodes"] for path, row in rows.items()} == modules(flat)
    for path, row in rows.items():  # tests/validate/test_show.py compares the flat file with the model
        assert row["parameters"] == flat_rows[path]["parameters"], path
    layer = zoo.MODELS["bert_tiny"].model().get_submodule("encoder.layer.1")
    assert rows["encoder.layer.1"]["parameters"] == sum(p.numel() for p in layer.parameters())
    assert command.run("diff", flat, with_functions, "--exit-code").stdout.endswith("no difference\n")


def test_coverage_counts_the_nodes_of_calls(bert):
    flat, with_functions, sidecar = bert
    report = command.run_json("validate", with_functions, "--sidecar", sidecar)
    assert report["findings"] == []
    assert {row["path"]: row["nodes"] for row in report["modules"]} == modules(flat)
    root = report["hierarchy"]["modules"][0]
    assert root["unknown"] == 0 and root["arrived"] + root["fused"] > 40
    assert {each["how"] for each in report["hierarchy"]["parameters"] if not each["arrived"]} <= {"unused", "folded"}


def test_a_broken_call_is_a_finding(bert, tmp_path):
    """Views cannot show the nodes of such a call and refuse the file."""
    model = onnx.load(bert[1])
    call = next(node for node in model.graph.node if node.domain)
    call.input.extend(["x"] * 50)
    onnx.save(model, tmp_path / "broken.onnx")
    report = command.run_json("validate", tmp_path / "broken.onnx", code=1)
    assert "V107" in {finding["code"] for finding in report["findings"]}
    assert "E0204" in command.run("show", tmp_path / "broken.onnx", code=3).stderr


def test_reports_and_drawings_contain_the_nodes_of_calls(bert, tmp_path):
    flat, with_functions, sidecar = bert
    nodes = len(onnx.load(flat).graph.node)
    assert command.run_json("report", with_functions, "--sidecar", sidecar, "-o", tmp_path / "r.html")["nodes"] == nodes
    assert command.run_json("graphml", with_functions, "-o", tmp_path / "r.graphml")["nodes"] == nodes
    command.run("report", with_functions, "-o", tmp_path / "with_functions.md")
    command.run("report", flat, "-o", tmp_path / "flat.md")
    operators = [(tmp_path / f"{name}.md").read_text().split("### Operators")[1] for name in ("with_functions", "flat")]
    assert operators[0] == operators[1]


@pytest.mark.parametrize("level", LEVELS)
def test_time_in_functions_counts_for_modules(bert, tmp_path, level):
    """The name of the weight that a node of the saved file reads gives the expected module."""
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
    for profile_report in (report, with_saved):
        assert profile_report["operator_time"] == sum(event["dur"] for event in kernels(path))
    assert with_saved["unattributed"] < 0.1 * report["operator_time"]
    if level == "plain":
        assert report["unattributed"] == 0


def test_nodes_in_functions_are_found_by_name_and_module(bert, tmp_path):
    flat, with_functions, _ = bert
    name = "/encoder/layer.1/attention/self/query/MatMul"
    assert command.run_json("explain", with_functions, name)["module"] == "encoder.layer.1.attention.self.query"
    output = command.run("select", with_functions, "--modules", "**.query", code=2).stderr
    assert "are in functions" in output and "whence inline" in output
    assert "no module of the file matches" in command.run("select", with_functions, "--modules", "nothing", code=2).stderr
    command.run("extract", with_functions, "--module", "encoder.layer.1.attention.self.query", "-o", tmp_path / "query.onnx")
    part = onnx.load(tmp_path / "query.onnx")
    onnx.checker.check_model(part, full_check=True)
    assert not part.functions and {node.op_type for node in part.graph.node} <= {"MatMul", "Add", "Gemm"}
    assert len(json.dumps(command.run("explain", with_functions, "/encoder").stdout)) < 5000
