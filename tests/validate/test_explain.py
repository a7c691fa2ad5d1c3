"""Tests `whence explain`: a node's module, call, source line and evidence."""

import onnx
import pytest

import command
from validate.onnx_files import chain, known, model, node
from validate.test_coverage import annotated, schema


def nodes_of(path: str, op_type: str) -> list:
    return [node for node in onnx.load(path, load_external_data=False).graph.node if node.op_type == op_type]


def test_a_node_is_explained_with_its_sidecar():
    path, sidecar = annotated("bert_tiny")
    name = next(node.name for node in onnx.load(path).graph.node
                if any(entry.value == "encoder.layer.1.intermediate.dense" for entry in node.metadata_props))
    report = command.run_json("explain", path, name, "--sidecar", sidecar)
    schema("explain").validate(report)
    assert report["module"] == "encoder.layer.1.intermediate.dense"
    assert report["type"] == "torch.nn.modules.linear.Linear"
    assert report["confidence"] == "exact" and report["call"] == "0"
    operation = report["operations"][0]
    assert operation["op"] == "aten::linear"
    assert [call["module"] for call in operation["scope"]] == [
        "encoder", "encoder.layer.1", "encoder.layer.1.intermediate", "encoder.layer.1.intermediate.dense"]
    assert any("modeling_bert.py" in frame for frame in operation["source"])


def test_metadata_suffices_without_a_sidecar():
    path, _ = annotated("bert_tiny")
    report = command.run_json("explain", path, nodes_of(path, "Tanh")[0].name)
    schema("explain").validate(report)
    assert report["module"] is not None and report["source"] and report["operations"] == []
    assert {"pkg.whence.module", "pkg.whence.op", "namespace"} <= {entry["key"] for entry in report["evidence"]}


@pytest.mark.parametrize("confidence, python, hint", [
    ("inferred", False, True), ("ancestor", False, True), ("exact", False, False), ("inferred", True, False)])
def test_an_inferred_module_from_cpp_has_a_remedy(confidence, python, hint, tmp_path):
    """The remedy is a ModuleScope in forward, which exists only in C++."""
    keys = {"op": "3", "module": "block", "confidence": confidence, "rule": "stamp"}
    relu = node("Relu", ["x"], "y", "n0", {f"pkg.whence.{key}": value for key, value in keys.items()} |
                ({"pkg.torch.onnx.stack_trace": 'File "/net.py", line 3, in forward'} if python else {}))
    report = command.run_json("explain", model([relu], tmp_path / "m.onnx"), "n0")
    assert report["module"] == "block" and ("whence::ModuleScope" in report["reason"]) == hint


def test_repeated_calls_are_distinct():
    path, sidecar = annotated("shared_block")
    calls = set()
    for entry in onnx.load(path).graph.node:
        report = command.run_json("explain", path, entry.name, "-s", sidecar)
        if report["module"] == "block.linear":
            calls.add(report["call"])
    assert calls == {"0", "1", "2"}


def test_a_value_name_selects_its_producer(tmp_path):
    path = model([node("Relu", ["x"], "y", "", known("a.b"))], tmp_path / "m.onnx")
    assert command.run_json("explain", path, "y")["module"] == "a.b"


def test_a_node_without_metadata_has_a_remedy(tmp_path):
    path = model(chain({}), tmp_path / "m.onnx")
    report = command.run_json("explain", path, "n0")
    schema("explain").validate(report)
    assert (report["confidence"], report["module"]) == ("unattributed", None)
    assert "whence annotate" in report["reason"]


def test_a_stamp_needs_the_sidecar(tmp_path):
    path = model(chain({"pkg.whence.op": "0"}), tmp_path / "m.onnx")
    assert "--sidecar" in command.run_json("explain", path, "n0")["reason"]


def test_a_fused_node_lists_its_modules(tmp_path):
    keys = {**known("a"), "pkg.whence.modules": '["a.conv", "a.norm"]', "pkg.whence.op": "fused:1,2"}
    path = model(chain(keys), tmp_path / "m.onnx")
    assert command.run_json("explain", path, "n0")["modules"] == ["a.conv", "a.norm"]
    text = command.run("explain", path, "n0").stdout
    assert "a.conv" in text and "a.norm" in text and "in place of 2 recorded operations" in text


def test_the_error_for_an_unknown_node_suggests_the_nearest():
    path, _ = annotated("bert_tiny")
    name = onnx.load(path).graph.node[5].name
    error = command.run("explain", path, name[:-1] + "x", code=2).stderr
    assert "E0105" in error and name in error


def test_ambiguous_names_are_refused(tmp_path):
    path = model([node("Relu", ["x"], "y", "same"), node("Relu", ["y"], "z", "same")], tmp_path / "m.onnx")
    error = command.run("explain", path, "same", code=2).stderr
    assert "2 nodes" in error and "y" in error


def test_a_sidecar_of_another_model_is_refused():
    path, sidecar = annotated("bert_tiny")[0], annotated("shared_block")[1]
    assert "E0206" in command.run("explain", path, "anything", "-s", sidecar, code=3).stderr
