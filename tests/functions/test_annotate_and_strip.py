"""`whence annotate` and `whence strip` on files with modules as functions."""

import onnx
import pytest
import torch

import command
from functions import graphs
from models import zoo


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """Returns a folder with the export plain.onnx, annotated.onnx, functions.onnx and the sidecar bert.json."""
    folder = tmp_path_factory.mktemp("bert")
    torch.export.save(zoo.program("bert_tiny"), folder / "bert.pt2")
    command.run("export", folder / "bert.pt2", "-o", folder / "plain.onnx", "--sidecar-out", folder / "bert.json")
    command.run("annotate", folder / "plain.onnx", "--sidecar", folder / "bert.json", "-o", folder / "annotated.onnx")
    command.run("functions", folder / "annotated.onnx", "--depth", 9, "-o", folder / "functions.onnx")
    return folder


def names_and_metadata(path) -> list:
    return sorted((node.op_type, node.name, tuple(sorted((e.key, e.value) for e in node.metadata_props)))
                  for node in onnx.load(path).graph.node)


def test_strip_restores_the_original_graph(bert, tmp_path):
    report = command.run_json("strip", bert / "functions.onnx", "-o", tmp_path / "stripped.onnx")
    model_proto = onnx.load(tmp_path / "stripped.onnx")
    assert report["stripped"] == len(model_proto.graph.node) and not model_proto.functions
    assert names_and_metadata(tmp_path / "stripped.onnx") == names_and_metadata(bert / "plain.onnx")
    assert model_proto.ir_version == onnx.load(bert / "plain.onnx").ir_version
    graphs.assert_same_results(bert / "plain.onnx", tmp_path / "stripped.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stripped.onnx"]


def test_annotate_does_not_change_an_annotated_file(bert, tmp_path):
    for file in ("annotated.onnx", "functions.onnx"):
        command.run("annotate", bert / file, "-o", tmp_path / file)
        assert (tmp_path / file).read_bytes() == (bert / file).read_bytes()
        assert command.run_json("validate", tmp_path / file, "--sidecar", bert / "bert.json")["findings"] == []


def test_annotate_preserves_functions(bert, tmp_path):
    command.run("functions", bert / "annotated.onnx", "--types", "BertLayer,BertSelfAttention", "-o",
                tmp_path / "few.onnx")
    report = command.run_json("annotate", tmp_path / "few.onnx", "--sidecar", bert / "bert.json", "-o",
                              tmp_path / "again.onnx")
    assert {function["name"]: function["calls"] for function in report["functions"]["functions"]} == {
        "BertLayer": 2, "BertSelfAttention": 2}
    assert report["exact"] + report["ancestor"] == report["nodes"] == len(onnx.load(bert / "plain.onnx").graph.node)
    graphs.assert_same_results(bert / "plain.onnx", tmp_path / "again.onnx")


def test_a_file_with_functions_is_a_reference_for_annotate(bert, tmp_path):
    """As a reference, a file with functions is as good as the flat annotated file."""
    model = onnx.load(bert / "annotated.onnx")
    modules = {node.output[0]: {e.key: e.value for e in node.metadata_props}["pkg.whence.module"]
               for node in model.graph.node}
    for number, node in enumerate(model.graph.node):
        del node.metadata_props[:]
        node.name = f"n{number}"
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "bare.onnx")
    command.run("annotate", tmp_path / "bare.onnx", "--from", bert / "functions.onnx",
                "-o", tmp_path / "annotated.onnx")
    annotated = {node.output[0]: {e.key: e.value for e in node.metadata_props}.get("pkg.whence.module")
             for node in onnx.load(tmp_path / "annotated.onnx").graph.node}
    wrong_modules = {value: (annotated[value], module) for value, module in modules.items() if annotated[value] != module}
    assert len(wrong_modules) <= len(modules) // 50, wrong_modules
