"""A function must not have the name of an operator that the file uses: its nodes would become calls of the function."""

import onnx
import pytest
from onnx import TensorProto, helper

import command
from functions import graphs
from functions.graphs import node

DOMAIN = "com.microsoft"  # operators of ONNX Runtime, which no file defines
MODULE = "a:Layer"


def of_class(name: str, *nodes: onnx.NodeProto) -> list:
    """Replaces the class `models.Layer` in the nodes' metadata."""
    for node in nodes:
        for entry in node.metadata_props:
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
    return of_class(f"{DOMAIN}.Gelu", node("Sin", [value], ["s"], MODULE), node("Neg", ["s"], [result], MODULE))


def gelu_after_module(path):
    save([*block("x", "p"), gelu("p", "y")], path)


def gelu_in_module(path):
    save(of_class(f"{DOMAIN}.Gelu", node("Sin", ["x"], ["s"], MODULE), gelu("s", "p", MODULE),
                  node("Neg", ["p"], ["y"], MODULE)), path)


def gelu_in_branch(path):
    def branch(body):
        return helper.make_graph([body], "branch", [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, [3])])

    always = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("", TensorProto.BOOL, [], [True]))
    save([*block("x", "p"), always, helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch(gelu("p", "b")),
                                                     else_branch=branch(helper.make_node("Abs", ["p"], ["b"])))], path)


def gelu_in_function(path):
    """A function from another tool stays unchanged. graphs.metadata() does not compare its body."""
    function = helper.make_function("other", "F", ["i"], ["o"], [gelu("i", "o")], [helper.make_opsetid(DOMAIN, 1)])
    save([*block("x", "p"), helper.make_node("F", ["p"], ["y"], name="f", domain="other")], path, [function],
         [helper.make_opsetid("other", 1)])


@pytest.mark.parametrize("write", [gelu_after_module, gelu_in_module, gelu_in_branch, gelu_in_function])
def test_an_operator_named_like_a_class_stays_an_operator(write, tmp_path):
    path, functions, flat = (tmp_path / f"{name}.onnx" for name in ("model", "functions", "flat"))
    write(path)
    report = command.run_json("functions", path, "-o", functions, "--modules", "a")
    assert [function["name"] for function in report["functions"]] == ["Gelu_a"]
    command.run("inline", functions, "-o", flat)
    assert graphs.metadata(onnx.load(flat)) == graphs.metadata(onnx.load(path))
    inputs = graphs.feeds(onnx.load(path))
    (expected,) = graphs.run(path, inputs)
    for file in (functions, flat):
        onnx.checker.check_model(onnx.load(file))
        assert (graphs.run(file, inputs)[0] == expected).all()


def test_annotate_preserves_the_names_of_functions(tmp_path):
    path, functions, annotated = (tmp_path / f"{name}.onnx" for name in ("model", "functions", "annotated"))
    gelu_after_module(path)
    command.run("functions", path, "-o", functions, "--modules", "a")
    command.run("annotate", functions, "-o", annotated)
    assert [function.name for function in onnx.load(annotated).functions] == ["Gelu_a"]


def test_a_class_in_the_domain_of_standard_operators_is_moved(tmp_path):
    """"ai.onnx" means the same as "", the domain of standard operators, so the call would be a standard operator."""
    path, functions = tmp_path / "model.onnx", tmp_path / "functions.onnx"
    save([*of_class("ai.onnx.Tanh", node("Sin", ["x"], ["s"], MODULE), node("Neg", ["s"], ["p"], MODULE)),
          node("Tanh", ["p"], ["y"])], path)
    command.run("functions", path, "-o", functions, "--modules", "a")
    assert [(function.domain, function.name) for function in onnx.load(functions).functions] == [("whence.modules", "Tanh")]
    inputs = graphs.feeds(onnx.load(path))
    assert (graphs.run(functions, inputs)[0] == graphs.run(path, inputs)[0]).all()
