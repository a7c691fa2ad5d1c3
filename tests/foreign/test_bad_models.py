"""Tests files with one fault each: subcommands exit with a documented code, and an error keeps the output file."""

import json
import re

import pytest

import command
from foreign import bad_models

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
NAMES = [function.__name__ for function in bad_models.MODELS]


def write_model(name: str, folder):
    return getattr(bad_models, name)(folder / "model.onnx")


def run(expected: set, subcommand: str, *arguments) -> int:
    result = command.run(subcommand, *arguments, code=None)
    assert result.returncode in expected, f"exit {result.returncode}\n{result.stderr}"
    assert not CONTROL.search(result.stdout + result.stderr), "a name was printed without escapes"
    if result.returncode > 1:
        assert re.match(r"E\d{4} ", result.stderr) and "try: " in result.stderr, result.stderr
    return result.returncode


@pytest.mark.parametrize("options", ["no sidecar", "sidecar"])
@pytest.mark.parametrize("name", NAMES)
def test_annotate_keeps_the_output_on_an_error(name, options, small_export, tmp_path):
    path, target = write_model(name, tmp_path), tmp_path / "target.onnx"
    target.write_text("what was there before")
    source = ["--sidecar", small_export[1]] if options == "sidecar" else []
    expected = bad_models.MODELS[getattr(bad_models, name)]
    # A file may also be refused because it does not match the sidecar.
    code = run(expected | ({2, 3} if source else set()), "annotate", path, "-o", target, *source)
    if code > 1:
        assert target.read_text() == "what was there before"
        return
    back = tmp_path / "back.onnx"
    run({0}, "strip", target, "-o", back)
    assert back.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("subcommand", ["validate", "show", "diff"])
@pytest.mark.parametrize("name", NAMES)
def test_reading_subcommands_exit_with_a_documented_code(name, subcommand, tmp_path):
    path = write_model(name, tmp_path)
    run({0, 1, 3, 4, 6}, subcommand, path, *([path] if subcommand == "diff" else []))
    result = command.run(subcommand, path, *([path] if subcommand == "diff" else []), "--json", code=None)
    json.loads(result.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_strip_does_not_change_a_file_without_annotation(name, tmp_path):
    path, target = write_model(name, tmp_path), tmp_path / "target.onnx"
    if run({0, 3, 4, 6}, "strip", path, "-o", target) == 0:
        assert target.read_bytes() == path.read_bytes()
    else:
        assert not target.exists()


@pytest.mark.parametrize("table, column", [("operations", "scope"), ("operations", "stack"), ("scopes", "module"),
                                           ("scopes", "parent"), ("values", "dtype"), ("parameters", "name")])
@pytest.mark.parametrize("number", [10**9, -7, 2**63 - 1])
def test_a_sidecar_with_invalid_indices_is_refused(table, column, number, small_export, tmp_path):
    model, sidecar = small_export
    raw = json.loads(sidecar.read_text())
    raw[table]["rows"][-1][raw[table]["columns"].index(column)] = number
    wrong, target = tmp_path / "wrong.whence.json", tmp_path / "target.onnx"
    wrong.write_text(json.dumps(raw))
    target.write_text("what was there before")
    run({3}, "annotate", model, "-o", target, "--sidecar", wrong)
    assert target.read_text() == "what was there before"
