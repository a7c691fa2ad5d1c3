"""Tests the score: exact, too high and wrong answers, and a full score for a file annotated with its truth."""

import onnx
import onnx.parser
import pytest

from accuracy import score
from accuracy.truth import Truth

A, B = "layer.0.a", "layer.0.b"

CLASSES = {
    # truth, module, modules, confidence -> class
    "right": ({A}, A, {A}, "matched", "exact"),
    "right of a fused node": ({A, B}, "layer.0", {A, B}, "matched", "exact"),
    "one of two": ({A, B}, A, {A}, "matched", "wrong"),
    "the ancestor of two unnamed modules": ({A, B}, "layer.0", {"layer.0"}, "matched", "set"),
    "one too many, with the same ancestor": ({A, B}, "layer.0", {A, B, "layer.0.c"}, "matched", "set"),
    "the parent": ({A}, "layer.0", {"layer.0"}, "ancestor", "high"),
    "the root": ({A}, "", {""}, "ancestor", "high"),
    "a sibling": ({A}, B, {B}, "matched", "wrong"),
    "a child": ({"layer.0"}, A, {A}, "matched", "wrong"),
    "a path with the same beginning": ({"layer.10"}, "layer.1", {"layer.1"}, "matched", "wrong"),
    "no module": ({A}, None, {None}, "none", "none"),
    "unattributed": ({A}, "", {""}, "unattributed", "none"),
}


@pytest.mark.parametrize("case", CLASSES)
def test_answers_are_classified(case):
    truth, module, modules, confidence, expected = CLASSES[case]
    answer = score.Answer(module, frozenset(modules), "", confidence, "")
    assert score.classify(frozenset(truth), answer) == expected


def test_a_file_annotated_with_its_truth_has_only_exact_nodes(tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
        g (float[2] x) => (float[2] z) { y = Relu(x) z = Exp(y) }""")
    truth = Truth({"y": frozenset({(A, 0), (B, 0)}), "z": frozenset({("", 0)})})
    onnx.save(model, tmp_path / "exported.onnx")
    truth.save(tmp_path / "exported.truth.json")
    score.write_truth(tmp_path, "exported", tmp_path / "annotated.onnx")
    result = score.score_file(truth, tmp_path / "annotated.onnx")
    assert (result.share("exact"), result.total(), result.nodes) == (100, 2, [])
