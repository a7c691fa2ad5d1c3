"""Checks the promise of each confidence on models that once violated it: shifted windows, whose masks are computed from
constants; batch norms folded into convolutions; equal projections without names or bytes; values that nodes of several
layers read in the same way; new models, whose parameters are equal."""

import pytest

import command
from accuracy import corpus, report, score
from accuracy.floors import PROMISED
from accuracy.transformations import BY_NAME

# model: (source, files)
CASES = {
    "swin": ("torchscript-18", ["exported", "renamed", "ort-basic", "onnxslim"]),
    "frozen_norms": ("torchscript-18", ["exported", "ort-basic", "ort-extended", "onnxslim", "onnxsim"]),
    "gpt_neox": ("torchscript-18-dynamic", ["exported", "renamed"]),
    "llama_equal": ("dynamo-18", ["exported", "int8", "renamed+int8"]),
    "distilbert": ("dynamo-18", ["int8", "ort-extended+int8"]),
    "convnext": ("dynamo-18", ["ort-all", "ort-extended+int8"]),
    "new_layers": ("dynamo-18", ["exported", "renamed", "ort-extended"]),
}

# Minimum shares of exact and matched nodes, if below 0.8: because of ambiguous masks and sizes, and Reshapes around
# products of integers.
MIN_CERTAIN = {"swin": 0.55, "gpt_neox": 0.5, "distilbert": 0.75}


@pytest.fixture(scope="module")
def scores():
    folder, found = corpus.cached_folder("promises"), {}
    for model, (source, files) in CASES.items():
        corpus.make(folder, command.BINARY, model, [source], files)
        assert not list((folder / model / source).glob("*.failed"))
        for name in files:
            found[model, source, name] = score.score_row(command.BINARY, folder / model / source, BY_NAME[name],
                                                         "sidecar")
    return found


@pytest.mark.parametrize("confidence", PROMISED)
def test_a_confidence_keeps_its_promise(scores, confidence):
    together = report.total(scores.values())
    assert together.total() > 3000 and not together.failures
    assert together.fulfilled(confidence) >= PROMISED[confidence], report.text(scores, verbose=True)


@pytest.mark.parametrize("evidence", ["weights", "nothing"])
def test_equal_parameters_are_not_evidence(scores, evidence):
    """Uses the files that `scores` created."""
    model, (source, files) = "new_layers", CASES["new_layers"]
    folder = corpus.cached_folder("promises") / model / source
    found = {(model, source, name): score.score_row(command.BINARY, folder, BY_NAME[name], evidence) for name in files}
    together = report.total(found.values())
    assert together.total() > 300 and not together.failures
    for confidence, promised in PROMISED.items():
        assert together.fulfilled(confidence) >= promised, report.text(found, verbose=True)


@pytest.mark.parametrize("model", CASES)
def test_enough_nodes_are_certain(scores, model):
    together = report.total(found for key, found in scores.items() if key[0] == model)
    certain = sum(together.confidence[word].total() for word in ("exact", "matched"))
    assert certain >= MIN_CERTAIN.get(model, 0.8) * together.total(), report.text(scores, verbose=False)
