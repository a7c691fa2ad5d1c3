"""Tests unannotated files from PyTorch's exporter: all commands read PyTorch's keys in the same way and report it."""

import ast
import json
import os
import warnings

import onnx
import onnxruntime
import pytest
import torch

import command
from validate.onnx_files import known, model, node
from views.view_files import keys_of

SCOPES, CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
LINE = "origins are read from the exporter's own metadata"


class Cell(torch.nn.Module):
    """A convolution into which the exporter folds the norm after it."""

    def __init__(self, channels: int, kernel: int):
        super().__init__()
        self.mix = torch.nn.Conv2d(channels, channels, kernel, padding=kernel // 2, bias=kernel > 1)
        self.scale = torch.nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.nn.functional.silu(self.scale(self.mix(x)))


class Reader(torch.nn.Module):
    """Two cells, an attention, and an embedding that shares its weight with the last layer."""

    def __init__(self):
        super().__init__()
        self.cells = torch.nn.Sequential(Cell(4, 3), Cell(4, 1))
        self.words = torch.nn.Embedding(11, 4)
        self.look = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm = torch.nn.LayerNorm(4)
        self.out = torch.nn.Linear(4, 11, bias=False)
        self.out.weight = self.words.weight

    def forward(self, image, words):
        seen = self.cells(image).flatten(2).transpose(1, 2)
        return self.out(self.norm(self.look(self.words(words), seen, seen, need_weights=False)[0]))


EXAMPLE = (torch.linspace(-1, 1, 2 * 4 * 5 * 5).reshape(2, 4, 5, 5), torch.tensor([[1, 2, 3], [10, 0, 5]]))


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """Returns the model and the folder with PyTorch's file and the sidecar."""
    folder = tmp_path_factory.mktemp("reader")
    torch.manual_seed(3)
    network = Reader()
    for cell in network.cells:
        torch.nn.init.uniform_(cell.scale.running_mean), torch.nn.init.uniform_(cell.scale.running_var, 0.5, 2)
    network.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(network, EXAMPLE)
        torch.onnx.export(program, f=str(folder / "m.onnx"), dynamo=True, external_data=False, verbose=False)
    torch.export.save(program, folder / "m.pt2")
    command.run("record", folder / "m.pt2", "-o", folder / "m.json")
    return network, folder


def selection(path, *options) -> list[dict]:
    return command.run_json("select", path, *options)["nodes"]


def test_each_node_has_pytorchs_module_or_an_ancestor(reader):
    _, folder = reader
    nodes = onnx.load(folder / "m.onnx").graph.node
    names = {name for name, _ in reader[0].named_modules()}
    for proto, metadata in zip(nodes, selection(folder / "m.onnx"), strict=True):
        if SCOPES not in keys_of(proto):  # added without keys by the exporter's optimiser
            assert metadata["confidence"] == "unattributed"
            continue
        *_, module, _ = ast.literal_eval(keys_of(proto)[SCOPES])
        assert metadata["confidence"] in ("inferred", "ancestor") and metadata["module"] in names
        assert module in metadata["modules"] or metadata["confidence"] == "ancestor" and module.startswith(metadata["module"])


def test_a_convolution_has_the_module_of_its_folded_norm_too(reader):
    _, folder = reader
    convolutions = [metadata for metadata in selection(folder / "m.onnx") if metadata["op_type"] == "Conv"]
    assert [metadata["modules"] for metadata in convolutions] == [[f"cells.{i}.mix", f"cells.{i}.scale"] for i in range(2)]
    assert [(metadata["module"], metadata["confidence"]) for metadata in convolutions] == [
        ("cells.0", "inferred"), ("cells.1", "inferred")]


def test_a_shared_parameter_leaves_only_the_common_ancestor(reader):
    """The shared weight is stored under the name of one of the two layers."""
    _, folder = reader
    table, = (proto for proto in onnx.load(folder / "m.onnx").graph.node
              if proto.op_type == "Gather" and proto.input[0].endswith(".weight"))
    explained = command.run_json("explain", folder / "m.onnx", table.name)
    owner = table.input[0].rpartition(".")[0]
    if owner == "words":
        assert (explained["module"], explained["confidence"]) == ("words", "inferred")
    else:
        assert (owner, explained["module"], explained["confidence"]) == ("out", "", "ancestor")
        assert explained["source"] is None


def test_explain_uses_pytorchs_keys(reader):
    _, folder = reader
    norm, = (proto for proto in onnx.load(folder / "m.onnx").graph.node if proto.op_type == "LayerNormalization")
    explained = command.run_json("explain", folder / "m.onnx", norm.name)
    assert (explained["module"], explained["confidence"]) == ("norm", "inferred")
    assert explained["type"] == "torch.nn.modules.normalization.LayerNorm"
    assert explained["source"].startswith("normalization.py:") and explained["source"].endswith(" forward")
    assert "the exporter's own metadata" in explained["reason"] and "annotate" in explained["reason"]


def commands(folder) -> dict[str, list]:
    path, out = folder / "m.onnx", folder / "out"
    return {"show": ["show", path], "select": ["select", path, "--modules", "look"],
            "place": ["place", path, "--rule", "gpu=cells", "--default", "cpu"],
            "diff": ["diff", path, path], "report": ["report", path, "-o", f"{out}.md"],
            "validate": ["validate", path, "--min-covered", "90"],
            "dot": ["dot", path, "-o", f"{out}.dot"], "graphml": ["graphml", path, "-o", f"{out}.graphml"],
            "model-explorer": ["model-explorer", path, "-o", f"{out}.json"],
            "functions": ["functions", path, "--modules", "look", "-o", f"{out}.onnx"],
            "extract": ["extract", path, "--module", "cells.1", "-o", f"{out}.part.onnx"]}


@pytest.mark.parametrize("name", ["show", "select", "place", "diff", "report", "validate", "dot", "graphml",
                                  "model-explorer", "functions", "extract"])
def test_every_command_reads_pytorchs_keys_and_reports_it_once(reader, name):
    _, folder = reader
    result = command.run(*commands(folder)[name])
    assert result.stderr.count(LINE) == (2 if name == "diff" else 1), result.stderr  # once per file
    assert "whence annotate" in result.stderr


def test_an_annotated_file_has_no_note(reader, tmp_path):
    _, folder = reader
    command.run("annotate", folder / "m.onnx", "--sidecar", folder / "m.json", "-o", tmp_path / "m.onnx")
    for name, arguments in commands(folder).items():
        arguments[arguments.index(folder / "m.onnx")] = tmp_path / "m.onnx"
        if name in ("show", "select", "validate", "report"):
            assert LINE not in command.run(*arguments, code=None).stderr


def test_show_and_extract_agree_on_a_modules_nodes(reader, tmp_path):
    _, folder = reader
    rows = {row["path"]: row for row in command.run_json("show", folder / "m.onnx")["modules"]}
    report = command.run_json("extract", folder / "m.onnx", "--module", "cells.1", "-o", tmp_path / "part.onnx")
    assert report["nodes"] == rows["cells.1"]["nodes"] == len(onnx.load(tmp_path / "part.onnx").graph.node)
    # A fused node cannot be extracted for only one of its modules.
    error = command.run("extract", folder / "m.onnx", "--module", "cells.1.scale", "-o", tmp_path / "n.onnx", code=None)
    assert error.returncode != 0 and not (tmp_path / "n.onnx").exists()


def test_naming_agrees_with_coverage(reader):
    _, folder = reader
    report = command.run_json("validate", folder / "m.onnx")
    attributed = report["coverage"]["nodes"] - report["coverage"]["unattributed"]
    assert report["naming"]["full_hierarchies"] == attributed > 30


def test_a_profile_of_the_file_is_summed_by_module(reader, tmp_path):
    _, folder = reader
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "run")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), options)
    feed = {argument.name: each.numpy() for argument, each in zip(session.get_inputs(), EXAMPLE, strict=True)}
    for _ in range(3):
        session.run(None, feed)
    result = command.run("profile", folder / "m.onnx", "--profile", session.end_profiling(), "--json")
    assert LINE in result.stderr
    rows = {row["path"]: row for row in json.loads(result.stdout)["modules"]}
    assert rows["look"]["total"] > 0 and rows["cells.0"]["total"] > 0


def test_accuracy_reads_pytorchs_keys(reader):
    import whence

    network, folder = reader
    os.environ.setdefault("WHENCE", str(command.BINARY))
    values = whence.record_values(network, EXAMPLE)
    report = whence.accuracy(folder / "m.onnx", values)
    assert report.clean and report.of("norm").status == "equal"
    assert any(LINE in note for note in report.notes)


def test_one_of_pytorchs_keys_suffices(tmp_path):
    """A key without PyTorch's form is another tool's and ignored: viewers accept any path under `namespace`."""
    nodes = [node("Relu", ["x"], "a", "a", {"namespace": ": Net/deep.0: nn.Deep/relu: aten.relu.default"}),
             node("Relu", ["a"], "b", "b", {"namespace": "deep/0/relu"}),
             node("Relu", ["b"], "c", "c", {SCOPES: "['', 'deep', 'relu_1']"}),
             node("Relu", ["c"], "d", "d", {CLASSES: "['Net', 'nn.Deep', 'aten.relu.default']"})]
    metadata = selection(model(nodes, tmp_path / "m.onnx"))
    assert [(each["module"], each["confidence"]) for each in metadata] == [
        ("deep.0", "inferred"), ("", "unattributed"), ("deep", "inferred"), ("", "unattributed")]


def test_whences_keys_take_precedence(tmp_path):
    keys = {SCOPES: "['', 'first', 'relu']"}
    nodes = [node("Relu", ["x"], "a", "a", {**keys, **known("second", "matched")}),
             node("Relu", ["a"], "b", "b", {**keys, "pkg.whence.confidence": "unattributed"}),
             node("Relu", ["b"], "c", "c", keys)]
    path = model(nodes, tmp_path / "m.onnx")
    assert [(each["module"], each["confidence"]) for each in selection(path)] == [
        ("second", "matched"), ("", "unattributed"), ("first", "inferred")]
    assert f"for 1 of 3 nodes, {LINE}" in command.run("show", path).stderr
