"""Renamed, shuffled and extracted files compute the same results, and every node can be found again."""

import numpy
import onnx
import onnx.parser
import pytest

from accuracy import cut, equal, rename
from accuracy.graphs import all_nodes, keyed

TEXT = """<ir_version: 10, opset_import: ["" : 18], metadata_props: ["from": "somewhere"]>
    g (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}, int64[1] axes = {0}> {
        [first] a = Tanh(x)
        [second] b = Mul(a, w)
        [sum] s = ReduceSum(b, axes)
        [zero] z = Constant <value = float[1] {0}> ()
        [more] c = Greater(s, z)
        [branch] d = If(c) <
            then_branch = yes () => (float[4] e) { [inner] e = Exp(b) },
            else_branch = no () => (float[4] f) { [other] h = Neg(b) [last] f = Sin(h) }>
        [third] k = Add(d, a)
        [fourth] y = Cos(k)
    }"""
FEEDS = {"x": numpy.array([0.1, 0.2, 0.3, 0.4], numpy.float32)}


def parse() -> onnx.ModelProto:
    return onnx.parser.parse_model(TEXT)


def operators(model: onnx.ModelProto) -> dict[str, str]:
    return {key: node.op_type for key, node in all_nodes(model)}


@pytest.mark.parametrize("change", [rename.strip, rename.rename_nodes, rename.rename_everything])
def test_renamed_models_compute_the_same_with_matching_keys(change):
    model, before = parse(), operators(parse())
    keys = change(model)
    onnx.checker.check_model(model, full_check=True)
    after = operators(model)
    assert set(keys) == set(before) and set(keys.values()) == set(after)
    assert {keys[key]: operator for key, operator in before.items()} == after
    assert numpy.array_equal(equal.values(model, FEEDS)["y"], equal.values(parse(), FEEDS)["y"])
    assert not model.metadata_props


def test_renaming_everything_keeps_only_inputs_and_outputs():
    model = parse()
    names = {name for _, node in all_nodes(model) for name in [*node.input, *node.output, node.name] if name}
    order = [node.op_type for node in model.graph.node]
    rename.rename_everything(model)
    remaining = {name for _, node in all_nodes(model) for name in [*node.input, *node.output, node.name] if name}
    assert names & remaining == {"x", "y"}
    assert [node.op_type for node in model.graph.node] != order


def test_an_extracted_part_computes_the_same_values():
    model, values = parse(), equal.values(parse(), FEEDS)
    keys = cut.extract(model, FEEDS)
    onnx.checker.check_model(model, full_check=True)
    assert set(keys) == {key for key, _ in all_nodes(model)} < {key for key, _ in all_nodes(parse())}
    assert [value.name for value in model.graph.input] == ["a"]
    found = equal.values(model, {"a": values["a"]})
    assert numpy.array_equal(found["d"], values["d"])


def test_wrapping_adds_nodes_at_both_ends():
    model = parse()
    keys = cut.wrap(model, FEEDS)
    onnx.checker.check_model(model, full_check=True)
    assert set(keys) == {key for key, _ in keyed(parse().graph.node)}
    assert [node.op_type for node in (model.graph.node[0], model.graph.node[-1])] == ["Mul", "Softmax"]
