"""Tests that every subcommand with --json prints exactly one object on standard output."""

import json

import numpy as np
import onnxruntime
import pytest

import command
from cli.test_command_line import SUBCOMMANDS

# {f} is the folder of the fixture's files.
LINES = """
record {f}/small.pt -o {f}/r.json
export {f}/small.pt -o {f}/e.onnx
annotate {f}/plain.onnx --from {f}/m.onnx -o {f}/a.onnx
validate {f}/m.onnx
validate {f}/plain.onnx --min covered=90
show {f}/m.onnx
show {f}/small.pt
explain {f}/m.onnx output
diff {f}/m.onnx {f}/plain.onnx
strip {f}/m.onnx -o {f}/s.onnx
functions {f}/m.onnx -o {f}/f.onnx --depth 1
inline {f}/f.onnx -o {f}/i.onnx
select {f}/m.onnx --modules first
select {f}/m.onnx --modules first --format ort-quant -o {f}/s.json
place {f}/m.onnx --rule cpu=**
attest {f}/m.onnx --weights {f}/small.pt
refit {f}/m.onnx --base {f}/small.pt --weights {f}/small.pt -o {f}/n.onnx
weights {f}/m.onnx --base {f}/small.pt -o {f}/w.safetensors
extract {f}/m.onnx --module first -o {f}/x.onnx
report {f}/m.onnx -o {f}/r.html
dot {f}/m.onnx -o {f}/m.dot
graphml {f}/m.onnx -o {f}/m.graphml
model-explorer {f}/m.onnx -o {f}/m.graph.json
profile {f}/m.onnx --profile {f}/profile.json
ops
ops --schemas gelu
ops --missing {f}/small.pt
rules
rules --rule V101
codes
doctor
skill
man
man export
man --all {f}/man1
completions
completions zsh
completions fish -o {f}/whence.fish
carry {f}/m.onnx -o {f}/c.onnx -- cp {{in}} {{out}}
""".strip().splitlines()
IN_PYTHON = {"accuracy", "sensitivity", "fleet", "recorder"}  # tests/numbers and tests/python test these


@pytest.fixture(scope="module")
def folder(small_archive, tmp_path_factory):
    path = tmp_path_factory.mktemp("json")
    (path / "small.pt").write_bytes(small_archive.read_bytes())
    command.run("export", small_archive, "-o", path / "m.onnx", "--annotate")
    command.run("strip", path / "m.onnx", "-o", path / "plain.onnx")
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(path / "run")
    session = onnxruntime.InferenceSession(path / "m.onnx", options, providers=["CPUExecutionProvider"])
    (value,) = session.get_inputs()
    for _ in range(3):
        session.run(None, {value.name: np.ones([each if isinstance(each, int) else 2 for each in value.shape], np.float32)})
    (path / "profile.json").write_text(open(session.end_profiling()).read())
    return path


@pytest.mark.parametrize("line", LINES)
def test_standard_output_is_one_object(line, folder):
    words = line.format(f=folder).split()
    at = words.index("--") if "--" in words else len(words)
    result = command.run(*words[:at], "--json", *words[at:], code=None)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    assert isinstance(json.loads(result.stdout), dict)


def test_every_subcommand_has_a_line():
    assert {line.split()[0] for line in LINES} == set(SUBCOMMANDS) - IN_PYTHON


def test_version_is_printed():
    assert command.run_json("--version") == {"version": command.run("--version").stdout.split()[1]}
