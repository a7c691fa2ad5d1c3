"""Tests `whence validate` on handmade files and exported models: coverage, thresholds, modules without nodes."""

import functools
import json

import jsonschema
import onnx
import pytest
import torch

import command
from models import zoo
from validate.onnx_files import chain, known, model, node


@functools.cache
def annotated(name: str) -> tuple[str, str]:
    """Returns the annotated ONNX file and the sidecar of a model from the zoo."""
    path, sidecar = zoo.folder() / f"{name}.annotated.onnx", zoo.folder() / f"{name}.annotated.whence.json"
    command.run("export", zoo.trace(name), "-o", path, "--annotate", "--inputs", zoo.inputs_file(name),
                "--sidecar-out", sidecar)
    return str(path), str(sidecar)


def schema(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((command.ROOT / "schema" / f"{name}.schema.json").read_text()))


def test_the_five_confidences_are_counted(tmp_path):
    words = ["exact", "exact", "matched", "inferred", "ancestor"]
    path = model(chain(*(known("a.b", word) for word in words), {}), tmp_path / "m.onnx")
    report = command.run_json("validate", path)
    assert report["coverage"] == {"nodes": 6, "exact": 2, "matched": 1, "inferred": 1, "ancestor": 1, "unattributed": 1,
                                  "covered": 4}
    assert report["nodes_without_module"] == [{"node": "n5", "op_type": "Relu"}]
    text = command.run("validate", path).stdout
    for word in ["exact", "matched", "inferred", "ancestor", "unattributed", "covered"]:
        assert word in text
    assert "33.3 %" in text and "66.7 %" in text


def test_modules_include_their_children(tmp_path):
    path = model(chain(known(""), known("a"), known("a.b"), known("ab")), tmp_path / "m.onnx")
    rows = {row["path"]: row["nodes"] for row in command.run_json("validate", path)["modules"]}
    assert rows == {"": 4, "a": 2, "a.b": 1, "ab": 1}


def test_a_fused_node_counts_once_for_each_module(tmp_path):
    fused = {**known("a"), "pkg.whence.modules": '["a.conv", "a.norm"]'}
    report = command.run_json("validate", model(chain(fused), tmp_path / "m.onnx"))
    assert {row["path"]: row["nodes"] for row in report["modules"]} == {"": 1, "a": 1, "a.conv": 1, "a.norm": 1}
    assert report["coverage"]["nodes"] == 1


def test_operators_are_counted_by_domain_and_type(tmp_path):
    nodes = [node("Relu", ["x"], "y", "a", known("a")), node("Gelu", ["y"], "z", "b", domain="com.microsoft")]
    rows = command.run_json("validate", model(nodes, tmp_path / "m.onnx"), code=1)["operators"]
    assert [(row["op_type"], row["exact"], row["unattributed"]) for row in rows] == [("Relu", 1, 0),
                                                                                    ("com.microsoft::Gelu", 0, 1)]


def test_v501_thresholds(tmp_path):
    path = model(chain(known("a"), known("a", "ancestor"), known("a", "matched"), {}), tmp_path / "m.onnx")
    command.run("validate", path, "--min-covered", "50", "--min", "exact=25", "--min", "matched=25")
    report = command.run_json("validate", path, "--min-covered", "75", "--min", "exact=25", code=1)
    assert report["shortfalls"] == [{"code": "V501", "subject": "", "what": "covered", "minimum": 75, "reached": 50,
                                     "nodes": 1, "modules": [], "message": "covered is 50 %, not 75 %", "allowed": False}]
    assert "V501 exact is 25 %, not 95 %" in command.run("validate", path, "--min", "exact=95", code=1).stdout


@pytest.mark.parametrize("threshold", ["exact", "exact=", "exact=101", "exact=-1", "sure=90", "exact=9x", "exact=nan"])
def test_invalid_thresholds_are_usage_errors(tmp_path, threshold):
    path = model(chain({}), tmp_path / "m.onnx")
    assert "E0101" in command.run("validate", path, "--min", threshold, code=2).stderr


def test_an_exported_model_is_covered_and_clean():
    path, sidecar = annotated("bert_tiny")
    report = command.run_json("validate", path, "--sidecar", sidecar, "--full")
    coverage = report["coverage"]
    assert coverage["nodes"] == len(onnx.load(path).graph.node)
    assert coverage["unattributed"] == 0 and coverage["exact"] + coverage["ancestor"] == coverage["nodes"]
    assert coverage["exact"] >= 0.95 * coverage["nodes"]


def test_stamps_with_a_sidecar_give_the_coverage_of_the_annotated_file(tmp_path):
    """The coverage of a file that is not annotated is computed from its stamps."""
    path, sidecar = annotated("bert_tiny")
    plain = tmp_path / "plain.onnx"
    command.run("export", zoo.trace("bert_tiny"), "-o", plain, "--inputs", zoo.inputs_file("bert_tiny"))
    assert command.run_json("validate", plain)["coverage"]["exact"] == 0
    reports = [command.run_json("validate", file, "--sidecar", sidecar) for file in (path, plain)]
    assert reports[0]["coverage"] == reports[1]["coverage"]
    assert reports[0]["modules"] == reports[1]["modules"]


def test_modules_without_a_node_have_a_reason():
    path, sidecar = annotated("shared_block")
    report = command.run_json("validate", path, "-s", sidecar)
    without_node = {row["path"]: row["reason"] for row in report["modules_without_node"]}
    assert without_node == {"unused": "never_called", "tail.1": "computes_nothing"}
    path, sidecar = annotated("bert_tiny")
    without_node = {row["path"]: row for row in command.run_json("validate", path, "-s", sidecar)["modules_without_node"]}
    dropout = without_node["encoder.layer.0.output.dropout"]
    assert (dropout["reason"], dropout["operations"]) == ("eliminated", {"aten::dropout": 1})


class Grid(torch.nn.Module):
    def forward(self):
        return torch.arange(4) * 2


class Offset(torch.nn.Module):
    """Adds a value that depends on no input."""

    def __init__(self):
        super().__init__()
        self.grid = Grid()

    def forward(self, x):
        return x + self.grid()


def test_modules_folded_into_constants_are_listed(tmp_path):
    zoo.trace_module(Offset(), {"x": torch.ones(4)}).save(str(tmp_path / "m.pt"))
    path, sidecar = tmp_path / "m.onnx", tmp_path / "m.json"
    command.run("export", tmp_path / "m.pt", "-o", path, "--sidecar-out", sidecar, "--annotate")
    report = command.run_json("validate", path, "-s", sidecar)
    without_node = [(row["path"], row["reason"], row["operations"]) for row in report["modules_without_node"]]
    assert without_node == [("grid", "constant", {"aten::arange": 1, "aten::mul": 1})]


def test_without_a_sidecar_modules_without_nodes_are_unknown(tmp_path):
    assert command.run_json("validate", model(chain(known("a")), tmp_path / "m.onnx"))["modules_without_node"] is None


def test_v302_a_sidecar_of_another_model():
    path, other = annotated("bert_tiny")[0], annotated("shared_block")[1]
    report = command.run_json("validate", path, "-s", other, code=1)
    assert "V302" in [finding["code"] for finding in report["findings"]]


def test_v302_a_stamp_that_the_sidecar_lacks(tmp_path):
    path, sidecar = annotated("shared_block")
    proto = onnx.load(path)
    next(entry for entry in proto.graph.node[0].metadata_props if entry.key == "pkg.whence.op").value = "99999"
    onnx.save(proto, tmp_path / "m.onnx")
    report = command.run_json("validate", tmp_path / "m.onnx", "-s", sidecar, code=1)
    assert [finding["code"] for finding in report["findings"]] == ["V302"]


def test_v303_a_module_that_the_sidecar_lacks(tmp_path):
    path, sidecar = annotated("shared_block")
    proto = onnx.load(path)
    next(entry for entry in proto.graph.node[0].metadata_props if entry.key == "pkg.whence.module").value = "nowhere"
    onnx.save(proto, tmp_path / "m.onnx")
    report = command.run_json("validate", tmp_path / "m.onnx", "-s", sidecar, code=1)
    assert "V303" in [finding["code"] for finding in report["findings"]]


def test_json_follows_its_schema(tmp_path):
    path, sidecar = annotated("bert_tiny")
    nodes = [node("Relu", ["x"], "y"), node("Foo", ["y"], "z", "b", {"pkg.whence.op": "?"}, domain="gone")]
    wrong = model(nodes, tmp_path / "m.onnx")
    for arguments in [(path,), (path, "-s", sidecar, "--full"), (wrong, "--min-covered", "90", "--allow", "V101")]:
        schema("validate").validate(command.run_json("validate", *arguments, code=None))


def test_text_has_no_colour_without_a_terminal(tmp_path):
    path = model(chain(known("a"), {}), tmp_path / "m.onnx")
    assert "\033" not in command.run("validate", path).stdout


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    path = model([node("Relu", ["x"], "y", "\033[31mred", known("\033[2J"))], tmp_path / "m.onnx")
    for arguments in [("validate", path), ("show", path), ("explain", path, "y")]:
        # validate reports the name: V113
        text = command.run(*arguments, code=1 if arguments[0] == "validate" else 0).stdout
        assert "\033" not in text and "\\x1b" in text


def bad_files(folder) -> dict:
    """Returns the bytes of files that are not ONNX models, with the code of each error."""
    valid = onnx.load(model(chain({}, {}), folder / "whole.onnx")).SerializeToString()
    return {"empty": (b"", "E0201"), "truncated": (valid[:-7], "E0202"), "zip": (b"PK\x03\x04" + bytes(50), "E0203"),
            "json": (b'{"format": 1}', "E0203"), "text": (b"hello world, this is not a model", "E0203"),
            "no graph": (b"\x08\x0a", "E0203"), "zeros": (bytes(64), "E0203")}


@pytest.mark.parametrize("kind", ["empty", "truncated", "zip", "json", "text", "no graph", "zeros"])
@pytest.mark.parametrize("arguments", [("validate",), ("explain",), ("show",)])
def test_unreadable_files_exit_3(tmp_path, kind, arguments):
    content, code = bad_files(tmp_path)[kind]
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    extra = ["node"] if arguments == ("explain",) else []
    if arguments == ("show",) and kind == "json":
        code = "E02"  # read as a sidecar
    result = command.run(*arguments, path, *extra, code=3)
    assert code in result.stderr and "try:" in result.stderr
    assert json.loads(command.run(*arguments, path, *extra, "--json", code=3).stdout)["diagnostics"][0]["remedy"]


def test_missing_files_exit_2(tmp_path):
    for arguments in [("validate", tmp_path / "none.onnx"), ("show", tmp_path / "none.onnx"),
                      ("explain", tmp_path / "none.onnx", "n")]:
        assert "E0102" in command.run(*arguments, code=2).stderr
