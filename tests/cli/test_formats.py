"""Tests `-` as standard input, `-o` with every format, and several formats in one run."""

import json
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

import command
from validate.onnx_files import chain, known, model


@pytest.fixture
def path(tmp_path):
    return model(chain(known("enc.0"), known("enc.1", "inferred"), known("enc.1"), {}), tmp_path / "m.onnx")


def run_piped(path, *arguments, code: int = 0) -> subprocess.CompletedProcess:
    with open(path, "rb") as file:
        result = subprocess.run([str(command.BINARY), *map(str, arguments)], stdin=file, capture_output=True, text=True)
    assert result.returncode == code, result.stderr
    return result


READS = {"show": ["show", "-"], "explain": ["explain", "-", "n1"], "select": ["select", "-", "--modules", "enc.1"],
         "diff": ["diff", "-", "-other-"], "place": ["place", "-", "--rule", "cpu=**", "--default", "cpu"], "report": ["report", "-", "-o", "-out-.md"],
         "dot": ["dot", "-", "-o", "-out-.dot"], "strip": ["strip", "-", "-o", "-out-.onnx"],
         "annotate": ["annotate", "-", "-o", "-out-.onnx"], "from": ["annotate", "-other-", "--from", "-", "-o", "-out-.onnx"],
         "baseline": ["validate", "-other-", "--baseline", "-", "--json"], "functions": ["inline", "-", "-o", "-out-.onnx"]}


@pytest.mark.parametrize("name", READS)
def test_a_dash_is_standard_input(path, tmp_path, name):
    """The output is the same as for the file, except for the name `stdin`."""
    def words(source, out):
        return [str(tmp_path / out) + word.removeprefix("-out-") if word.startswith("-out-") else word
                for word in (path if each == "-other-" else source if each == "-" else each for each in READS[name])]

    from_file, from_pipe = command.run(*words(path, "a")), run_piped(path, *words("-", "b"))
    assert from_pipe.stdout.replace("stdin", "m.onnx").replace(str(tmp_path / "b"), str(tmp_path / "a")) == from_file.stdout
    for file_output in tmp_path.glob("a.*"):
        pipe_output = tmp_path / f"b{file_output.suffix}"
        assert file_output.read_bytes() == pipe_output.read_bytes().replace(b"stdin", b"m.onnx")


def test_a_sidecar_and_a_configuration_may_be_piped(path, tmp_path):
    (tmp_path / "gate.json").write_text('{"min": ["covered=100"]}')
    assert "V501" in run_piped(tmp_path / "gate.json", "validate", path, "--config", "-", code=1).stdout
    fixture = next((command.ROOT / "schema" / "fixtures").rglob("*.json"))
    assert run_piped(fixture, "show", "-").stdout == command.run("show", fixture).stdout


def test_invalid_uses_of_standard_input_are_refused(path):
    assert "passed twice" in run_piped(path, "diff", "-", "-", code=2).stderr
    assert "E0201" in subprocess.run([str(command.BINARY), "show", "-"], stdin=subprocess.DEVNULL, capture_output=True,
                                     text=True).stderr


def test_standard_input_leaves_no_temporary_file(path, tmp_path):
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    with open(path, "rb") as file:
        subprocess.run([str(command.BINARY), "show", "-"], stdin=file, env={"TMPDIR": str(scratch)}, check=True, capture_output=True)
    assert list(scratch.iterdir()) == []


def test_standard_input_needs_no_folder_for_temporary_files(path, tmp_path):
    with open(path, "rb") as file:
        done = subprocess.run([str(command.BINARY), "show", "-"], stdin=file, env={"TMPDIR": str(tmp_path / "none")}, check=True,
                              capture_output=True, text=True, cwd=tmp_path)
    assert "module" in done.stdout and list(tmp_path.glob(".*")) == []


FORMATS = {"text": "checks", "json": '"coverage"', "sarif": '"runs"', "junit": "<testsuites", "github": "::error"}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_of_validate_goes_to_a_file(path, tmp_path, form):
    arguments = ["validate", path, "--min-covered", "99", "--format", form]
    shown = command.run(*arguments, code=1).stdout
    assert FORMATS[form] in shown
    result = command.run(*arguments, "-o", tmp_path / "out", code=1)
    assert result.stdout == "" and (tmp_path / "out").read_text() == shown


def test_several_formats_are_written_in_one_run(path, tmp_path):
    result = command.run("validate", path, "--format", "sarif", "-o", tmp_path / "m.sarif", "--format", "junit", "-o",
                         tmp_path / "m.xml", "--format", "text")
    assert json.loads((tmp_path / "m.sarif").read_text())["version"] == "2.1.0"
    assert ElementTree.parse(tmp_path / "m.xml").getroot().tag == "testsuites"
    assert result.stdout == command.run("validate", path).stdout
    command.run("select", path, "--modules", "enc.1", "--format", "names", "-o", tmp_path / "names", "--format", "modules", "-o",
                tmp_path / "modules")
    assert (tmp_path / "names").read_text().split() == ["n1", "n2"]
    assert json.loads((tmp_path / "modules").read_text()) == {"enc.1": ["n1", "n2"]}
    chosen = command.run_json("select", path, "--modules", "enc.1", "--format", "names", "-o", tmp_path / "again")
    assert [each["name"] for each in chosen["nodes"]] == ["n1", "n2"] and "text" not in chosen
    assert (tmp_path / "again").read_bytes() == (tmp_path / "names").read_bytes()
    report = command.run_json("report", path, "-o", tmp_path / "m.html", "-o", tmp_path / "m.md")
    assert [each["file"] for each in report["reports"]] == [str(tmp_path / "m.html"), str(tmp_path / "m.md")]
    assert "<html" in (tmp_path / "m.html").read_text() and (tmp_path / "m.md").read_text().startswith("#")


@pytest.mark.parametrize("options, message", [
    (["--format", "text", "--format", "json"], "several formats would go to standard output"),
    (["-o", "a", "-o", "b", "--format", "json"], "--output was passed 2 times, --format 1 times"),
    (["--format", "sarif", "-o", "same", "--format", "json", "-o", "same"], "one file"),
    (["--format", "xml", "-o", "a"], "unknown format 'xml'"), (["-o", "-"], "/dev/stdout")])
def test_formats_without_matching_outputs_are_refused(path, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    result = command.run("validate", path, *options, code=2)
    assert result.stderr.startswith("E0101") and message in result.stderr
    assert not [name for name in ("a", "b", "same") if (tmp_path / name).exists()]
