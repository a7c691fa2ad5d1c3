"""Functions that call themselves, and functions whose inlined graph would exceed any memory."""

import resource
import subprocess

import onnx
import pytest
from onnx import helper

import command
from functions.graphs import node

DOMAIN = "some.domain"


def model(functions, path):
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    protos = [helper.make_function(DOMAIN, name, ["a"], ["b"], nodes, imports) for name, nodes in functions.items()]
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph([node("F0", ["x"], ["y"], domain=DOMAIN)], "g", value[:1], value[1:])
    onnx.save(helper.make_model(graph, functions=protos, opset_imports=imports, ir_version=10), path)
    return path


@pytest.fixture
def recursive(tmp_path):
    return model({"F0": [node("F1", ["a"], ["b"], domain=DOMAIN)], "F1": [node("F0", ["a"], ["b"], domain=DOMAIN)]},
                 tmp_path / "recursive.onnx")


@pytest.fixture
def bomb(tmp_path):
    """Saves functions that inline to 2 ** 40 nodes."""
    functions = {f"F{i}": [node(f"F{i + 1}", ["a"], ["m"], domain=DOMAIN), node(f"F{i + 1}", ["m"], ["b"], domain=DOMAIN)]
                 for i in range(40)}
    return model({**functions, "F40": [node("Relu", ["a"], ["b"])]}, tmp_path / "bomb.onnx")


def test_inlining_is_refused(recursive, bomb, tmp_path):
    for path, exit_code, code in ((recursive, 3, "E0204"), (bomb, 4, "E0306")):
        result = command.run("inline", "--all", path, "-o", tmp_path / "out.onnx", code=exit_code)
        assert code in result.stderr and not (tmp_path / "out.onnx").exists()


def test_views_terminate(recursive, bomb, tmp_path):
    for path in (recursive, bomb):
        command.run("report", path, "-o", tmp_path / "report.html")
        command.run("show", path)
        command.run("validate", path)


def test_a_function_defined_twice_is_refused(tmp_path):
    path = model({"F0": [node("Sin", ["a"], ["b"])]}, tmp_path / "m.onnx")
    file = onnx.load(path)
    file.functions.add().CopyFrom(file.functions[0])
    file.functions[1].node[0].op_type = "Cos"
    onnx.save(file, path)
    result = command.run("inline", "--all", path, "-o", tmp_path / "out.onnx", code=3)
    assert result.stderr.startswith("E0204") and "F0 is defined twice" in result.stderr and "; try: " in result.stderr
    assert not (tmp_path / "out.onnx").exists()


def test_a_value_with_two_producers_is_refused(tmp_path):
    """A node between the two producers reads the value, which makes its producer ambiguous."""
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "y")]
    nodes = [node("Sin", ["x"], ["s"], "a:Layer"), node("Neg", ["s"], ["y"], "a:Layer"),
             node("Cos", ["x"], ["s"], "a:Layer")]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", value[:1], value[1:]), ir_version=10,
                                opset_imports=[helper.make_opsetid("", 18)]), path)
    for arguments in (["functions", "--depth", "1"], ["functions", "--types", "Layer"], ["extract", "--module", "a"]):
        result = command.run(arguments[0], path, *arguments[1:], "-o", tmp_path / "out.onnx", code=3)
        assert result.stderr.startswith("E0204") and "two nodes produce the value 's'" in result.stderr
        assert not (tmp_path / "out.onnx").exists()


def test_a_long_vector_needs_little_memory(tmp_path):
    """Shape inference by onnx would allocate an object for each element."""
    length = 2 ** 32
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [length]) for name in ("x", "y")]
    graph = helper.make_graph([node("Add", ["x", "x"], ["y"])], "g", value[:1], value[1:])
    path, page = tmp_path / "m.onnx", tmp_path / "report.html"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    limit = 4 << 30
    subprocess.run([str(command.BINARY), "report", path, "-o", page], check=True, capture_output=True,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert page.exists()
