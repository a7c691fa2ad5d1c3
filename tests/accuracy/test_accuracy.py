"""The quick set: small models through the main transformations, compared with the floors. `make accuracy` runs all."""

import functools

import onnx
import pytest

import command
from accuracy import corpus, report, score
from accuracy.floors import FLOORS, PROMISED
from accuracy.graphs import all_nodes, metadata
from accuracy.transformations import BY_NAME

MODELS = ("shared_block", "unet", "distilbert", "lstm_tagger", "branches")
SOURCES = ("dynamo-18", "torchscript-18")
COMPARED = {"pkg.whence.module", "pkg.whence.modules", "pkg.whence.call", "pkg.whence.confidence"}


@pytest.fixture(scope="module")
def folder():
    return corpus.kept_folder("accuracy")


@functools.cache
def made(folder, model: str, source: str) -> None:
    corpus.make(folder, command.BINARY, model, [source], list(FLOORS["sidecar"]))
    assert not list((folder / model / source).glob("*.failed"))


@functools.cache
def scores(folder, source: str, given: str) -> dict:
    """Returns the score of every file of the quick set by (model, source, transformation)."""
    result = {}
    for model in MODELS:
        made(folder, model, source)
        for name in FLOORS[given]:
            row = score.score_row(command.BINARY, folder / model / source, BY_NAME[name], given)
            assert not row.failures, row.failures
            result[model, source, name] = row
    return result


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("given", FLOORS)
def test_modules_are_right_as_often_as_promised(folder, given, source):
    found = scores(folder, source, given)
    for name, floors in FLOORS[given].items():
        together = report.total(value for key, value in found.items() if key[2] == name)
        assert together.total() > 100
        reached = together.share("exact")
        assert reached >= floors[SOURCES.index(source)], f"{name}: {reached:.2f}\n{report.text(found, verbose=True)}"


@pytest.mark.parametrize("given", ["sidecar", "weights"])
@pytest.mark.parametrize("source", SOURCES)
def test_confidence_values_keep_their_promise(folder, source, given):
    found = scores(folder, source, given)
    together = report.total(found.values())
    for confidence, promised in PROMISED.items():
        right = together.kept(confidence)
        assert right >= promised, f"{confidence}: {right:.2f}\n{report.text(found, verbose=True)}"


@pytest.mark.parametrize("name", ["exported", "renamed"])
@pytest.mark.parametrize("model", ["shared_block", "unet"])
def test_traced_and_scripted_recordings_give_one_annotation(folder, tmp_path, model, name):
    made(folder, model, "dynamo-18")
    foreign, answers = folder / model / "dynamo-18" / f"{name}.onnx", []
    for recording in ["model", "scripted"]:
        target = tmp_path / f"{recording}.onnx"
        command.run("annotate", foreign, "-o", target, "--sidecar", folder / model / f"{recording}.whence.json")
        nodes = all_nodes(onnx.load(target))
        answers.append({key: {entry: value for entry, value in metadata(node).items() if entry in COMPARED}
                        for key, node in nodes})
    assert answers[0] == answers[1]
