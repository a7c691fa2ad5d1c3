"""Runs annotate, validate and strip on thousands of files from other projects: no crash, no unrequested change."""

import re
from pathlib import Path

import onnx
import pytest

import command
from foreign.model_collections import batch, batches

# Documented exit codes: ok, findings, malformed, unsupported, security. Excluded: signals, 70 (bug), 2 (wrong options).
EXIT_CODES = {0, 1, 3, 4, 6}
ANNOTATED = {0, 1}

pytestmark = pytest.mark.parametrize("collection, start", batches())


def run(subcommand: str, *arguments, target: Path | None = None) -> int:
    """Returns the exit code, which must be documented. An error has a code and writes no file."""
    if target is not None:
        target.unlink(missing_ok=True)
        arguments = (*arguments, "-o", target)
    result = command.run(subcommand, *arguments, code=None)
    output = f"whence {subcommand} {' '.join(map(str, arguments))}\nexit {result.returncode}\n{result.stderr[-2000:]}"
    assert result.returncode in EXIT_CODES, output
    if result.returncode not in ANNOTATED:
        assert re.match(r"(E\d{4}|note:|warning:) ", result.stderr), output
        assert "try: " in result.stderr, output
        assert target is None or not target.exists(), output
    return result.returncode


def relevant_content(path: Path) -> list:
    """Returns everything that determines the results. annotate may change only node names and metadata."""
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


def test_strip_reverses_annotate(collection, start, tmp_path):
    annotated, back = tmp_path / "annotated.onnx", tmp_path / "back.onnx"
    models, count = batch(collection, start), 0
    for path in models:
        if run("annotate", path, target=annotated) in ANNOTATED:
            count += 1
            assert relevant_content(annotated) == relevant_content(path), path
            assert run("strip", annotated, target=back) == 0, path
            assert back.read_bytes() == path.read_bytes(), path
    assert count >= 0.95 * len(models)


def test_a_sidecar_of_another_model_causes_no_crash(collection, start, small_export, tmp_path):
    for path in batch(collection, start):
        run("annotate", path, "--sidecar", small_export[1], target=tmp_path / "annotated.onnx")


def test_validate_reads_every_model(collection, start):
    for path in batch(collection, start):
        assert run("validate", path) in ANNOTATED, path


def test_strip_does_not_change_a_file_without_annotation(collection, start, tmp_path):
    target = tmp_path / "stripped.onnx"
    for path in batch(collection, start)[::5]:
        assert run("strip", path, target=target) == 0, path
        assert target.read_bytes() == path.read_bytes(), path
