"""`annotate --from` for graphs that a tool changed: fused into one node or function, and with equal constants merged."""

import json

import numpy as np
import onnx
from onnx import helper, numpy_helper

import command
from match.test_annotate_foreign import keys


def node(op_type: str, inputs: list[str], outputs: list[str], module: str | None = None, **attributes) -> onnx.NodeProto:
    made = helper.make_node(op_type, inputs, outputs, name=f"n_{outputs[0]}", **attributes)
    if module is not None:
        for key, value in (("module", module), ("confidence", "exact"), ("rule", "exported")):
            made.metadata_props.add(key=f"pkg.whence.{key}", value=value)
    return made


def save(path, nodes, constants=None, functions=()):
    shape = ["batch", 4]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, 1, shape) for name in ("x", "skip")],
        [helper.make_tensor_value_info("y", 1, shape)],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("fused", 1), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions))
    onnx.save(model, path)


def annotated(tmp_path) -> dict[str, dict[str, str]]:
    """Returns whence's keys of the tool's nodes, by their first result."""
    command.run("annotate", tmp_path / "after.onnx", "--from", tmp_path / "before.onnx", "-o", tmp_path / "out.onnx")
    return {each.output[0]: keys(each) for each in onnx.load(tmp_path / "out.onnx").graph.node}


def test_functions_that_share_a_name_are_told_apart_by_their_overload(tmp_path):
    save(tmp_path / "before.onnx", [node("Abs", ["x"], ["a"], "first"), node("Exp", ["a"], ["b"], "first"),
                                    node("Neg", ["b"], ["c"]), node("Tanh", ["c"], ["d"], "second"),
                                    node("Sigmoid", ["d"], ["e"], "second"), node("Add", ["e", "skip"], ["y"], "")])
    calls = [helper.make_node("Activation", [source], [result], domain="fused", overload=overload)
             for source, result, overload in (("x", "b", "1"), ("c", "e", "2"))]
    functions = [helper.make_function("fused", "Activation", [source], [result],
                                      [helper.make_node(first, [source], [inner]), helper.make_node(second, [inner], [result])],
                                      [helper.make_opsetid("", 18)], overload=overload)
                 for source, first, inner, second, result, overload in (("x", "Abs", "a", "Exp", "b", "1"),
                                                                        ("c", "Tanh", "d", "Sigmoid", "e", "2"))]
    save(tmp_path / "after.onnx", [calls[0], node("Neg", ["b"], ["c"]), calls[1], node("Add", ["e", "skip"], ["y"])],
         functions=functions)
    found = annotated(tmp_path)
    assert [found[name]["module"] for name in ("b", "e")] == ["first", "second"]


def test_nodes_that_read_a_merged_constant_stay_in_their_modules(tmp_path):
    def graph(constants):
        lines = []
        for layer, constant in zip(("a", "b"), constants, strict=True):
            lines += [node("ConstantOfShape", [constant], [f"ones_{layer}"], f"layers.{layer}"),
                      node("Add", ["x" if layer == "a" else "sum_a", f"ones_{layer}"], [f"sum_{layer}"], f"layers.{layer}")]
        return [*lines, node("Add", ["sum_b", "skip"], ["y"], "")]

    value = np.array([4])
    save(tmp_path / "before.onnx", graph(["size_a", "size_b"]), {"size_a": value, "size_b": value})
    nodes = graph(["size_a", "size_a"])
    for each in nodes:
        del each.metadata_props[:]
    save(tmp_path / "after.onnx", nodes, {"size_a": value})
    found = annotated(tmp_path)
    for layer in "ab":
        assert found[f"ones_{layer}"]["module"] == found[f"sum_{layer}"]["module"] == f"layers.{layer}"


def norm(source: str, result: str, module: str | None) -> list[onnx.NodeProto]:
    return [node("Pow", [source, "two"], [f"{result}_squares"], module),
            node("ReduceMean", [f"{result}_squares", "axis"], [f"{result}_mean"], module),
            node("Add", [f"{result}_mean", "epsilon"], [f"{result}_more"], module),
            node("Sqrt", [f"{result}_more"], [f"{result}_root"], module), node("Div", [source, f"{result}_root"], [f"{result}_unit"], module),
            node("Mul", [f"{result}_unit", f"{result}_scale"], [result], module)]


def test_a_fused_node_has_the_modules_of_all_nodes_between_its_values(tmp_path):
    """The tool also names a result that nothing reads like a value of another module, which it removed."""
    random = np.random.default_rng(5)
    weights = {name: random.normal(size=(4, 4)).astype(np.float32) for name in ("w", "v")}
    constants = {"two": np.array(2, np.float32), "axis": np.array([-1]), "epsilon": np.array(1e-6, np.float32), **weights,
                 "n_scale": random.normal(size=4).astype(np.float32)}
    save(tmp_path / "before.onnx",
         [node("Tanh", ["skip"], ["val_0"], "other"), node("Neg", ["val_0"], ["h"], "other"),
          node("MatMul", ["x", "w"], ["p"], "block.first"), node("Add", ["p", "h"], ["s"], "block"),
          *norm("s", "n", "block.norm"), node("MatMul", ["n", "v"], ["q"], "block.second"), node("Add", ["q", "s"], ["y"], "block")],
         constants)
    fused = node("SkipSimplifiedLayerNormalization", ["p", "h", "n_scale"], ["n", "val_0", "", "s"], domain="com.microsoft", epsilon=1e-6)
    save(tmp_path / "after.onnx",
         [node("MyTanhNeg", ["skip"], ["h"], domain="com.microsoft"), node("MatMul", ["x", "w"], ["p"]), fused,
          node("MatMul", ["n", "v"], ["q"]), node("Add", ["q", "s"], ["y"])], constants)
    found = annotated(tmp_path)["n"]
    assert json.loads(found["modules"]) == ["block", "block.norm"] and found["confidence"] in ("matched", "inferred")
    assert (found["module"], found["primary"]) == ("block", "block.norm")


def test_a_product_has_the_modules_of_the_transpose_and_the_pad_that_it_absorbed(tmp_path):
    random = np.random.default_rng(6)
    constants = {"w": random.normal(size=(4, 4)).astype(np.float32), "pads": np.array([0, 0, 1, 0, 0, 1]),
                 "zero": np.array([0])}
    before = [node("Exp", ["x"], ["e"], "first"), node("Transpose", ["e"], ["t"], "turned", perm=[1, 0]),
              node("Gemm", ["t", "w"], ["g"], "product"), node("Tanh", ["g"], ["h"], "last"),
              node("Unsqueeze", ["h", "zero"], ["u"], "last"), node("Pad", ["u", "pads"], ["p"], "padded"),
              node("AveragePool", ["p"], ["a"], "pool", kernel_shape=[3], count_include_pad=1), node("Squeeze", ["a", "zero"], ["y"], "last")]
    save(tmp_path / "before.onnx", before, constants)
    after = [node("Exp", ["x"], ["e"]), node("Gemm", ["e", "w"], ["g"], transA=1), node("Tanh", ["g"], ["h"]),
             node("Unsqueeze", ["h", "zero"], ["u"]),
             node("AveragePool", ["u"], ["a"], kernel_shape=[3], count_include_pad=1, pads=[1, 1]), node("Squeeze", ["a", "zero"], ["y"])]
    save(tmp_path / "after.onnx", after, constants)
    found = annotated(tmp_path)
    assert json.loads(found["g"]["modules"]) == ["turned", "product"]
    assert json.loads(found["a"]["modules"]) == ["padded", "pool"]


def test_nodes_that_became_a_constant_are_not_in_the_node_that_reads_it(tmp_path):
    constants = {"first": np.array([0]), "four": np.array([4])}
    end = [node("Mul", ["c", "x"], ["m"], "scaled"), node("Add", ["m", "skip"], ["y"], "")]
    save(tmp_path / "before.onnx", [node("Shape", ["x"], ["s"], "size"), node("Gather", ["s", "first"], ["g"], "size"),
                                    node("Cast", ["g"], ["c"], "cast", to=1), *end], constants)
    for each in end:
        del each.metadata_props[:]
    save(tmp_path / "after.onnx", [node("Cast", ["four"], ["c"], to=1), *end], constants)
    assert annotated(tmp_path)["m"]["module"] == "scaled" and "modules" not in annotated(tmp_path)["m"]
