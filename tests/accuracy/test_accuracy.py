"""Compares small models after the main transformations with the floors. `make accuracy` runs the complete corpus."""

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
    return corpus.cached_folder("accuracy")


@functools.cache
def make_files(folder, model: str, source: str) -> None:
    corpus.make(folder, command.BINARY, model, [source], list(FLOORS["sidecar"]))
    assert not list((folder / model / source).glob("*.failed"))


@functools.cache
def scores(folder, source: str, evidence: str) -> dict:
    """Returns the score of every file of the quick set by (model, source, transformation)."""
    result = {}
    for model in MODELS:
        make_files(folder, model, source)
        for name in FLOORS[evidence]:
            row = score.score_row(command.BINARY, folder / model / source, BY_NAME[name], evidence)
            assert not row.failures, row.failures
            result[model, source, name] = row
    return result


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("evidence", FLOORS)
def test_the_share_of_exact_nodes_reaches_its_floor(folder, evidence, source):
    found = scores(folder, source, evidence)
    for name, floors in FLOORS[evidence].items():
        together = report.total(value for key, value in found.items() if key[2] == name)
        assert together.total() > 100
        reached = together.share("exact")
        assert reached >= floors[SOURCES.index(source)], f"{name}: {reached:.2f}\n{report.text(found, verbose=True)}"


@pytest.mark.parametrize("evidence", ["sidecar", "weights"])
@pytest.mark.parametrize("source", SOURCES)
def test_confidence_values_keep_their_promise(folder, source, evidence):
    found = scores(folder, source, evidence)
    together = report.total(found.values())
    for confidence, promised in PROMISED.items():
        right = together.fulfilled(confidence)
        assert right >= promised, f"{confidence}: {right:.2f}\n{report.text(found, verbose=True)}"


@pytest.mark.parametrize("name", ["exported", "renamed"])
@pytest.mark.parametrize("model", ["shared_block", "unet"])
def test_traced_and_scripted_recordings_give_the_same_annotation(folder, tmp_path, model, name):
    make_files(folder, model, "dynamo-18")
    exported_file, answers = folder / model / "dynamo-18" / f"{name}.onnx", []
    for recording in ["model", "scripted"]:
        target = tmp_path / f"{recording}.onnx"
        command.run("annotate", exported_file, "-o", target, "--sidecar", folder / model / f"{recording}.whence.json")
        nodes = all_nodes(onnx.load(target))
        answers.append({key: {entry: value for entry, value in metadata(node).items() if entry in COMPARED}
                        for key, node in nodes})
    assert answers[0] == answers[1]
