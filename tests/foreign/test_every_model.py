"""annotate, validate and strip over some thousand files of others: no crash, and nothing changed that was not asked."""

import re
from pathlib import Path

import onnx
import pytest

import command
from foreign.collections_of_models import batch, batches

# Documented ends: ok, findings, malformed, unsupported, security. Not: a signal, 70 for a bug, 2 for wrong options.
ENDS = {0, 1, 3, 4, 6}
ANNOTATED = {0, 1}

pytestmark = pytest.mark.parametrize("place, start", batches())


def run(subcommand: str, *arguments, target: Path | None = None) -> int:
    """The exit code, which must be a documented one; an error has a code, and writes nothing."""
    if target is not None:
        target.unlink(missing_ok=True)
        arguments = (*arguments, "-o", target)
    result = command.run(subcommand, *arguments, code=None)
    said = f"whence {subcommand} {' '.join(map(str, arguments))}\nexit {result.returncode}\n{result.stderr[-2000:]}"
    assert result.returncode in ENDS, said
    if result.returncode not in ANNOTATED:
        assert re.match(r"(E\d{4}|note:|warning:) ", result.stderr), said
        assert "try: " in result.stderr, said
        assert target is None or not target.exists(), said
    return result.returncode


def values(path: Path) -> list:
    """All that runs: what annotate must not touch. Names of nodes and metadata are its to change."""
    model = onnx.load(path, load_external_data=False)
    parts = [*model.graph.node]
    for function in model.functions:
        parts += function.node
    while parts:
        node = parts.pop()
        node.ClearField("name")
        node.ClearField("doc_string")
        del node.metadata_props[:]
        for attribute in node.attribute:
            for graph in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
                parts += graph.node
    del model.metadata_props[:]
    model.ClearField("ir_version")
    return [model.graph.SerializeToString(deterministic=True),
            *(function.SerializeToString(deterministic=True) for function in model.functions)]


def test_annotate_then_strip_gives_the_file_back(place, start, tmp_path):
    annotated, back = tmp_path / "annotated.onnx", tmp_path / "back.onnx"
    models, count = batch(place, start), 0
    for path in models:
        if run("annotate", path, target=annotated) in ANNOTATED:
            count += 1
            assert values(annotated) == values(path), path
            assert run("strip", annotated, target=back) == 0, path
            assert back.read_bytes() == path.read_bytes(), path
    assert count >= 0.95 * len(models)


def test_a_sidecar_of_another_model_is_no_reason_to_crash(place, start, small_export, tmp_path):
    for path in batch(place, start):
        run("annotate", path, "--sidecar", small_export[1], target=tmp_path / "annotated.onnx")


def test_validate_reads_every_model(place, start):
    for path in batch(place, start):
        assert run("validate", path) in ANNOTATED, path


def test_strip_leaves_a_file_that_nobody_annotated_as_it_is(place, start, tmp_path):
    target = tmp_path / "stripped.onnx"
    for path in batch(place, start)[::5]:
        assert run("strip", path, target=target) == 0, path
        assert target.read_bytes() == path.read_bytes(), path
