"""A function never gets the name of an operator that the file uses, because the operator's nodes would become calls."""

import onnx
import pytest
from onnx import TensorProto, helper

import command
from functions import graphs
from functions.graphs import node

DOMAIN = "com.microsoft"  # built into ONNX Runtime; no file defines its operators
OWN = "a:Layer"


def of_class(name: str, *nodes: onnx.NodeProto) -> list:
    """Replaces the class `models.Layer` in the nodes' metadata."""
    for each in nodes:
        for entry in each.metadata_props:
            entry.value = entry.value.replace("models.Layer", name)
    return list(nodes)


def save(nodes: list, path, functions=(), imports=()):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "y"))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1), *imports]
    onnx.save(helper.make_model(helper.make_graph(nodes, "graph", [x], [y]), functions=list(functions),
                                opset_imports=opsets, ir_version=10), path)


def gelu(value: str, result: str, *modules: str) -> onnx.NodeProto:
    return node("Gelu", [value], [result], *modules, domain=DOMAIN)


def block(value: str, result: str) -> list:
    return of_class(f"{DOMAIN}.Gelu", node("Sin", [value], ["s"], OWN), node("Neg", ["s"], [result], OWN))


def next_to_module(path):
    save([*block("x", "p"), gelu("p", "y")], path)


def in_module(path):
    save(of_class(f"{DOMAIN}.Gelu", node("Sin", ["x"], ["s"], OWN), gelu("s", "p", OWN),
                  node("Neg", ["p"], ["y"], OWN)), path)


def in_a_branch(path):
    def branch(body):
        return helper.make_graph([body], "branch", [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, [3])])

    always = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("", TensorProto.BOOL, [], [True]))
    save([*block("x", "p"), always, helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch(gelu("p", "b")),
                                                     else_branch=branch(helper.make_node("Abs", ["p"], ["b"])))], path)


def in_a_function(path):
    """A function of another tool stays unchanged; graphs.metadata() does not compare its body."""
    function = helper.make_function("other", "F", ["i"], ["o"], [gelu("i", "o")], [helper.make_opsetid(DOMAIN, 1)])
    save([*block("x", "p"), helper.make_node("F", ["p"], ["y"], name="f", domain="other")], path, [function],
         [helper.make_opsetid("other", 1)])


@pytest.mark.parametrize("write", [next_to_module, in_module, in_a_branch, in_a_function])
def test_an_operator_with_the_name_of_a_class_stays_an_operator(write, tmp_path):
    path, functions, flat = (tmp_path / f"{name}.onnx" for name in ("model", "functions", "flat"))
    write(path)
    report = command.run_json("functions", path, "-o", functions, "--modules", "a")
    assert [each["name"] for each in report["functions"]] == ["Gelu_a"]
    command.run("inline", functions, "-o", flat)
    assert graphs.metadata(onnx.load(flat)) == graphs.metadata(onnx.load(path))
    inputs = graphs.feeds(onnx.load(path))
    (expected,) = graphs.run(path, inputs)
    for file in (functions, flat):
        onnx.checker.check_model(onnx.load(file))
        assert (graphs.run(file, inputs)[0] == expected).all()


def test_annotating_again_keeps_the_names_distinct(tmp_path):
    path, functions, again = (tmp_path / f"{name}.onnx" for name in ("model", "functions", "again"))
    next_to_module(path)
    command.run("functions", path, "-o", functions, "--modules", "a")
    command.run("annotate", functions, "-o", again)
    assert [each.name for each in onnx.load(again).functions] == ["Gelu_a"]


def test_a_class_in_the_standard_operators_domain(tmp_path):
    """"ai.onnx" means the domain "", so readers would treat the call as a standard operator."""
    path, functions = tmp_path / "model.onnx", tmp_path / "functions.onnx"
    save([*of_class("ai.onnx.Tanh", node("Sin", ["x"], ["s"], OWN), node("Neg", ["s"], ["p"], OWN)),
          node("Tanh", ["p"], ["y"])], path)
    command.run("functions", path, "-o", functions, "--modules", "a")
    assert [(each.domain, each.name) for each in onnx.load(functions).functions] == [("whence.modules", "Tanh")]
    inputs = graphs.feeds(onnx.load(path))
    assert (graphs.run(functions, inputs)[0] == graphs.run(path, inputs)[0]).all()
