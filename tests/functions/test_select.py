"""`whence select`: names of nodes by module, in the formats of other tools."""

import json

import onnx
import pytest

import command
import whence
from functions import graphs
from functions.graphs import node


@pytest.fixture
def path(tmp_path):
    """Saves nodes that are named after their outputs and have modules in whence's keys."""
    file = tmp_path / "model.onnx"
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["b"]), node("Exp", ["b"], ["c"]),
             node("Abs", ["c"], ["d"]), node("Relu", ["d"], ["y"])]
    for proto, module in zip(nodes, ["", "layers.0.norm", "layers.0", "layers.1.norm", "layers.10"],
                            strict=True):
        proto.metadata_props.add(key="pkg.whence.module", value=module)
        proto.metadata_props.add(key="pkg.whence.confidence", value="exact")
    graphs.model(nodes, [], {"x": [3]}, ["y"], file)
    return file


@pytest.mark.parametrize("options, expected", [
    ([], ["Relu_a", "Neg_b", "Exp_c", "Abs_d", "Relu_y"]),
    (["--modules", "layers.[0-1]"], ["Neg_b", "Exp_c", "Abs_d"]),
    (["--modules", "layers.*", "--not", "**.norm"], ["Exp_c", "Relu_y"]),
    (["--modules", "layers.[!0]*"], ["Abs_d", "Relu_y"]),
    (["--not", "layers.0"], ["Relu_a", "Abs_d", "Relu_y"]),
    (["--ops", "Relu,Exp"], ["Relu_a", "Exp_c", "Relu_y"]),
    (["--modules", "layers.1", "--modules", "layers.10", "--ops", "Relu"], ["Relu_y"]),
])
def test_globs_select_modules_and_their_submodules(path, options, expected):
    assert command.run("select", path, *options).stdout.split() == expected


@pytest.fixture
def typed(path):
    """Adds PyTorch's keys, which contain the class of every module."""
    model = onnx.load(path)
    types = {"": "my.Model", "layers.0": "my.Layer", "layers.0.norm": "torch.nn.LayerNorm", "layers.1": "my.Layer",
             "layers.1.norm": "my.RMSNorm", "layers.10": "my.Head"}
    for node in model.graph.node:
        whence_entries = [entry for entry in node.metadata_props if entry.key.startswith("pkg.whence.")]
        module = whence_entries[0].value
        del node.metadata_props[:]
        node.metadata_props.extend(whence_entries)
        scopes = [""] + [scope for scope in types if scope and (module + ".").startswith(scope + ".")]
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr([*scopes, "x"]))
        node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=repr([*(types[s] for s in scopes), "aten.x"]))
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("options, expected", [
    (["--types", "Layer"], ["Neg_b", "Exp_c", "Abs_d"]),
    (["--types", "my.RMSNorm,LayerNorm"], ["Neg_b", "Abs_d"]),
    (["--types", "Head", "--modules", "layers.1.norm"], ["Abs_d", "Relu_y"]),
    (["--types", "Layer", "--not", "**.norm"], ["Exp_c"]),
    (["--types", "Layer", "--ops", "Neg,Relu"], ["Neg_b"]),
])
def test_classes_select_modules_and_their_submodules(typed, options, expected):
    assert command.run("select", typed, *options).stdout.split() == expected


def test_an_unknown_class_is_an_error(typed):
    stderr = command.run("select", typed, "--types", "Layers", code=2).stderr
    assert stderr.startswith("E0101") and "Layer" in stderr
    assert whence.select(typed, types=["Head"]).names == ["Relu_y"]


@pytest.mark.parametrize("options", [[], ["--partial"], ["--format", "ort-quant"]])
def test_nodes_of_any_listed_operator_are_selected(path, options):
    """--ops MatMul,Gemm from the documentation works even if the file has only one of them."""
    assert "Relu_y" in command.run("select", path, "--ops", "Gemm,Relu", *options).stdout
    assert command.run("select", path, "--ops", "Gemm,MatMul", *options, code=2).stderr.startswith("E0101")


def test_output_formats(path):
    assert json.loads(command.run("select", path, "--modules", "layers.0", "--format", "ort-quant").stdout) == {
        "nodes_to_exclude": ["Neg_b", "Exp_c"]}
    assert json.loads(command.run("select", path, "--modules", "layers.0", "--format", "modules").stdout) == {
        "layers.0.norm": ["Neg_b"], "layers.0": ["Exp_c"]}
    assert command.run_json("select", path, "--modules", "layers.10")["nodes"] == [
        {"name": "Relu_y", "op_type": "Relu", "module": "layers.10", "modules": ["layers.10"], "primary": "layers.10", "confidence": "exact",
         "nested": False}]


@pytest.mark.parametrize("options, fragment", [
    (["--modules", "layer.0"], "layers.0"), (["--not", "norm"], "the nearest are"),
    (["--ops", "Rellu"], "Relu"), (["--format", "xml"], "modelopt, modelopt-autocast or graphsurgeon"),
])
def test_patterns_that_match_nothing_are_errors(path, options, fragment):
    result = command.run("select", path, *options, code=2)
    assert result.stderr.startswith("E0101") and fragment in result.stderr and result.stdout == ""


def test_a_pattern_may_be_the_name_of_a_module(path):
    model = onnx.load(path)
    module = next(entry for entry in model.graph.node[4].metadata_props if entry.key == "pkg.whence.module")
    module.value = "layers.x[0]"
    onnx.save(model, path)
    assert command.run("select", path, "--modules", "layers.x[0]").stdout.split() == ["Relu_y"]
    placed = command.run_json("place", path, "--rule", "cpu=layers.x[0]", "--default", "gpu")
    assert placed["devices"]


@pytest.mark.parametrize("arguments, example", [
    (["select", "--ops", "re:Re(lu"], "re:Conv|MatMul"), (["validate", "--min", "covered=9@op:re:Re("], "re:Conv|MatMul"),
    (["validate", "--allow", "re:V1("], "re:V1.."), (["select", "--modules", "re:la(yer"], "re:encoder"),
])
def test_an_invalid_expression_has_an_example_of_its_kind(path, arguments, example):
    error = command.run(arguments[0], path, *arguments[1:], code=2).stderr
    assert error.startswith("E0101") and "is not a pattern" in error and example in error


def test_nodes_without_names_cannot_be_listed(path):
    model_proto = onnx.load(path)
    model_proto.graph.node[2].name = ""
    onnx.save(model_proto, path)
    assert "`whence annotate`" in command.run("select", path, "--modules", "layers.0", code=2).stderr
