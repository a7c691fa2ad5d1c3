"""Transfers truth through a tool on small graphs: before, after, and the modules that each new node represents."""

import numpy
import onnx
import onnx.parser
import pytest

from accuracy import carry
from accuracy.truth import Truth, modules

# The output of each node of `before` names its modules: `a_1` belongs to a, `ab_1` to a and b.
CASES = {
    "unchanged": (
        "a_1 = Relu(x)  b_1 = Exp(a_1)",
        "a_1 = Relu(x)  b_1 = Exp(a_1)",
        {"a_1": "a", "b_1": "b"}),
    "fused across modules": (
        "a_1 = Mul(x, c)  b_1 = Tanh(a_1)  b_2 = Exp(b_1)",
        "b_1 = Selu(x)  b_2 = Exp(b_1)",
        {"b_1": "a b", "b_2": "b"}),
    "absorbed by a kept node": (
        "a_1 = Relu(x)  b_1 = Gemm(a_1, w, c)",
        "b_1 = Gemm(x, w, c)",
        {"b_1": "a b"}),
    "a no-op removed": (
        "a_1 = Tanh(x)  b_1 = Identity(a_1)  c_1 = Exp(b_1)",
        "a_1 = Tanh(x)  c_1 = Exp(a_1)",
        {"a_1": "a", "c_1": "c"}),
    "equal nodes of two modules merged": (
        "a_1 = Tanh(x)  b_1 = Tanh(x)  c_1 = Add(a_1, b_1)",
        "a_1 = Tanh(x)  c_1 = Add(a_1, a_1)",
        {"a_1": None, "c_1": "c"}),
    "equal nodes of two modules that are both kept": (
        "a_1 = Tanh(x)  b_1 = Tanh(x)  c_1 = Mul(a_1, b_1)",
        "a_1 = Tanh(x)  b_1 = Tanh(x)  c_1 = Mul(a_1, b_1)",
        {"a_1": "a", "b_1": "b", "c_1": "c"}),
    "a no-op removed whose name passes to the node before it": (
        "a_1 = Tanh(x)  b_1 = Identity(a_1)  c_1 = Exp(b_1)",
        "b_1 = Tanh(x)  c_1 = Exp(b_1)",
        {"b_1": "a", "c_1": "c"}),
    "equal values under other names": (
        "a_1 = Tanh(x)  b_1 = Tanh(x)  c_1 = Mul(a_1, b_1)",
        "p = Tanh(x)  q = Tanh(x)  c_1 = Mul(p, q)",
        {"p": None, "q": None, "c_1": "c"}),
    "a node inserted": (
        "a_1 = Tanh(x)  b_1 = Exp(a_1)",
        "a_1 = Tanh(x)  new = Cast <to = 1> (a_1)  b_1 = Exp(new)",
        {"a_1": "a", "new": None, "b_1": "b"}),
    "one node replaced with several": (
        "a_1 = Tanh(x)  b_1 = Gemm(a_1, w, c)  c_1 = Exp(b_1)",
        "a_1 = Tanh(x)  new = MatMul(a_1, w)  b_1 = Add(new, c)  c_1 = Exp(b_1)",
        {"a_1": "a", "new": "b", "b_1": "b", "c_1": "c"}),
    "a fused node replaced with several": (
        "ab_1 = Gemm(x, w, c)  c_1 = Exp(ab_1)",
        "new = MatMul(x, w)  ab_1 = Add(new, c)  c_1 = Exp(ab_1)",
        {"new": "a b", "ab_1": "a b", "c_1": "c"}),
    "a value under another name": (
        "a_1 = Tanh(x)  b_1 = Exp(a_1)  c_1 = Sin(b_1)",
        "p = Tanh(x)  q = Exp(p)  c_1 = Sin(q)",
        {"p": "a", "q": "b", "c_1": "c"}),
    "computed in another shape": (
        "a_1 = Tanh(x)  b_1 = MatMul(a_1, w)  c_1 = Exp(b_1)",
        "a_1 = Tanh(x)  flat = Reshape(a_1, s)  p = MatMul(flat, w)  b_1 = Reshape(p, s)  c_1 = Exp(b_1)",
        {"a_1": "a", "flat": "b", "p": "b", "b_1": "b", "c_1": "c"}),
    "computed in another shape, after a kept product": (
        "a_1 = MatMul(x, v)  b_1 = MatMul(a_1, w)  c_1 = Exp(b_1)",
        "a_1 = MatMul(x, v)  flat = Reshape(a_1, s)  p = Gemm(flat, w)  b_1 = Reshape(p, s)  c_1 = Exp(b_1)",
        {"a_1": "a", "flat": "b", "p": "b", "b_1": "b", "c_1": "c"}),
    "two products merged, then split": (
        "a_1 = MatMul(x, w)  b_1 = MatMul(x, v)  c_1 = Add(a_1, b_1)",
        "new = MatMul(x, wv)  a_1, b_1 = Split <axis = 1> (new, half)  c_1 = Add(a_1, b_1)",
        {"new": "a b", "a_1": "a b", "c_1": "c"}),
    "a scaling folded into the product before it, which keeps its name": (
        "a_1 = MatMul(x, w)  b_1 = Mul(a_1, h)  c_1 = Exp(b_1)",
        "a_1 = MatMul(x, wh)  c_1 = Exp(a_1)",
        {"a_1": "a b", "c_1": "c"}),
}


def parse(body: str) -> onnx.ModelProto:
    lines = "\n".join(part.strip() for part in body.split("  "))
    last = body.split("  ")[-1].split(" = ")[0].strip()
    model = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[4, 4] x) => (float[4, 4] {last}) {{ {lines} }}""")
    generator = numpy.random.default_rng(0)
    w, v, c = (generator.standard_normal((4, 4)).astype(numpy.float32) for _ in range(3))
    h = generator.standard_normal(4).astype(numpy.float32)
    stored = {"h": h, "wh": w * h, "w": w, "v": v, "c": c, "wv": numpy.hstack([w, v]),
              "s": numpy.array([4, 4]), "half": numpy.array([4, 4])}
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in stored.items()
                                   if name in used)
    return model


@pytest.mark.parametrize("case", CASES)
def test_new_nodes_have_the_expected_truth(case):
    before, after, expected = CASES[case]
    old = parse(before)
    truth = Truth({node.output[0]: frozenset((letter, 0) for letter in node.output[0].split("_")[0])
                   for node in old.graph.node})
    x = numpy.random.default_rng(1).standard_normal((4, 4)).astype(numpy.float32)
    carried = carry.transfer(old, truth, parse(after), {"x": x})
    found = {key: " ".join(sorted(modules(calls))) for key, calls in carried.nodes.items()}
    found.update(dict.fromkeys(carried.unknown))
    assert found == expected
