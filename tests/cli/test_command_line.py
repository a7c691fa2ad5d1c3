"""Tests the command's help, version, suggestions, lists of codes and operators, and summaries."""

import json
import os
import subprocess
import time

import pytest

import command

SUBCOMMANDS = ["record", "export", "annotate", "carry", "validate", "show", "explain", "diff", "strip", "functions", "inline",
               "extract", "select", "place", "attest", "refit", "weights", "report", "dot", "graphml", "model-explorer", "profile", "ops", "codes",
               "rules", "doctor", "skill", "man", "completions", "accuracy", "sensitivity", "fleet",
               "recorder"]


def test_help_lists_every_subcommand():
    text = command.run("--help").stdout
    for name in SUBCOMMANDS:
        assert f"\n  {name} " in text
    assert command.run("-h").stdout == text
    assert command.run("help").stdout == text


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_has_a_help_text(name):
    text = command.run(name, "--help").stdout
    assert text.startswith(f"usage: whence {name} ")
    assert "--json" in text


@pytest.mark.parametrize("name", ["record", "export", "show", "ops"])
def test_help_mentions_both_kinds_of_archive(name):
    text = command.run(name, "--help").stdout
    assert ".pt2" in text and ".pt" in text.replace(".pt2", "")


def test_a_missing_python_package_has_a_remedy(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    for program in (python, tmp_path / "no such python"):
        text = command.run("accuracy", "m.onnx", "--values", "v", code=2, env={"WHENCE_PYTHON": str(program)}).stderr
        assert text.startswith("E0101") and str(program) in text and "pip install whence-onnx" in text
    output = command.run("accuracy", "m.onnx", "--json", code=2, env={"WHENCE_PYTHON": str(python)}).stdout
    assert json.loads(output)["diagnostics"][0]["code"] == "E0101"


@pytest.mark.parametrize("arguments", [["accuracy", "m.onnx", "--values", "v"], ["annotate", "m.onnx", "--values", "v", "-o", "o.onnx"],
                                       ["sensitivity", "m.onnx"]])
def test_a_python_without_pytorch_is_reported(tmp_path, arguments):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(command.ROOT / "python")])}
    output = command.run(*arguments, code=4, env=env).stderr
    assert output.startswith("E0307") and "torch" in output and "WHENCE_PYTHON" in output and "Traceback" not in output


def test_subcommands_in_python_have_the_same_errors_and_exit_codes(tmp_path):
    (tmp_path / "empty.onnx").write_bytes(b"")
    for arguments, code in [(["missing.onnx"], 2), ([tmp_path / "empty.onnx"], 3)]:
        result = command.run("accuracy", *arguments, "--values", "v.safetensors", code=code)
        assert result.stderr.startswith("E0") and "; try: " in result.stderr and not result.stdout
    assert command.run_json("accuracy", "--frobnicate", code=2)["diagnostics"][0]["code"] == "E0101"


def test_version_is_printed():
    name, version = command.run("--version").stdout.split()
    assert name == "whence"
    assert len(version.split(".")) == 3


def test_no_arguments_is_a_usage_error():
    result = command.run(code=2)
    assert result.stdout == ""
    assert "usage: whence" in result.stderr


@pytest.mark.parametrize("word, suggestion", [("recrod", "record"), ("exprot", "export"), ("valid", "validate"), ("--hlep", None)])
def test_unknown_subcommands_suggest_the_nearest_one(word, suggestion):
    text = command.run(word, code=2).stderr
    assert text.startswith("E0101")
    assert f"`whence {suggestion}`" in text if suggestion else "--help" in text


def test_usage_errors_are_available_as_json():
    diagnostics = command.run_json("export", "--frobnicate", code=2)["diagnostics"]
    assert diagnostics[0]["code"] == "E0101"
    assert command.run_json("nothing", code=2)["diagnostics"][0]["code"] == "E0101"


def test_no_colour_outside_a_terminal():
    assert "\033" not in command.run("nothing", code=2).stderr


@pytest.mark.parametrize("no_color, coloured", [("", True), ("1", False)])
def test_colour_on_a_terminal_unless_no_color_is_set(no_color, coloured):
    result = subprocess.run(["script", "-qec", f"{command.BINARY} nothing", "/dev/null"], capture_output=True, text=True,
                            stdin=subprocess.DEVNULL, env={"NO_COLOR": no_color, "PATH": "/usr/bin:/bin"})
    assert ("\033[31mE0101\033[0m" in result.stdout) == coloured, result


def test_codes_are_listed_in_order():
    codes = command.run_json("codes")["codes"]
    labels = [code["code"] for code in codes]
    assert labels == sorted(set(labels)) and "E0301" in labels
    assert all(code["summary"].endswith(".") for code in codes)
    text = command.run("codes").stdout
    assert all(label in text for label in labels)


def test_ops_are_listed_in_order():
    operators = command.run_json("ops")["operators"]
    keys = [operator["operator"] for operator in operators]
    assert keys == sorted(set(keys))
    assert command.run("ops").stdout.split() == keys
    assert all(operator["schema"].startswith(operator["operator"] + "(") for operator in operators)


def test_ops_takes_a_name():
    for name in ("gelu", "aten::gelu"):
        assert command.run("ops", name).stdout.split() == ["aten::gelu"]
    all_names = command.run("ops").stdout.split()
    assert command.run("ops", "add").stdout.split() == [name for name in all_names if name.split(".")[0] == "aten::add"]
    assert [each["operator"] for each in command.run_json("ops", "add.Tensor")["operators"]] == ["aten::add.Tensor"]
    error = command.run("ops", "gelo", code=4).stderr
    assert error.startswith("E0301") and "did you mean aten::gelu?" in error
    assert "--missing" in command.run("ops", "my::own_operator", code=4).stderr


@pytest.mark.parametrize("name", ["show", "ops"])
def test_help_takes_a_subcommand(name):
    assert command.run("help", name).stdout == command.run(name, "--help").stdout
    assert "did you mean `whence show`?" in command.run("help", "shwo", code=2).stderr


def test_only_a_similar_subcommand_is_suggested():
    assert "did you mean `whence export`?" in command.run("exprot", code=2).stderr
    for arguments in (["foo"], ["help", "foo"]):
        error = command.run(*arguments, code=2).stderr
        assert "did you mean" not in error and "`whence --help` lists the commands" in error


def test_an_invalid_number_is_reported(small_export):
    assert "use a whole number" in command.run("show", small_export, "--depth", "two", code=2).stderr


def test_summaries_are_available_as_json(small_archive, small_export, tmp_path):
    summary = command.run_json("export", small_archive, "-o", tmp_path / "small.onnx", "--sidecar-out",
                               tmp_path / "small.json", "--dynamic", "x:0=batch")
    assert summary["nodes"] == 3 and summary["operators"] == ["Gemm", "Relu"] and summary["opset"] == 20
    assert summary["inputs"] == ["x float32[batch,4]"] and summary["outputs"] == ["output float32[batch,2]"]
    assert summary["size"] == (tmp_path / "small.onnx").stat().st_size
    assert summary["sidecar"] == str(tmp_path / "small.json")
    summary = command.run_json("record", small_archive, "-o", tmp_path / "r.json")
    assert summary["modules"] == 3 and summary["operations"] == 3 and summary["parameters"] == 58 and summary["ran"]


def test_export_annotates_in_one_step(small_archive, tmp_path):
    plain, sidecar, two_steps, one_step = (tmp_path / name for name in ("p.onnx", "s.json", "two.onnx", "one.onnx"))
    command.run("export", small_archive, "-o", plain, "--sidecar-out", sidecar)
    command.run("annotate", plain, "--sidecar", sidecar, "-o", two_steps)
    command.run("export", small_archive, "-o", one_step, "--annotate")
    assert one_step.read_bytes() == two_steps.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.onnx", "p.onnx", "s.json", "two.onnx"]


def test_the_sidecar_names_the_written_file(small_archive, tmp_path):
    command.run("export", small_archive, "-o", tmp_path / "m.onnx", "--sidecar-out", tmp_path / "m.json")
    assert '"m.onnx"' in (tmp_path / "m.json").read_text()


def test_record_can_skip_the_run(small_archive, tmp_path):
    summary = command.run_json("record", small_archive, "-o", tmp_path / "r.json", "--no-run")
    assert not summary["ran"] and summary["operations"] == 3
    assert json.loads((tmp_path / "r.json").read_text())["ran"] is False


def test_help_and_version_are_quick():
    """Prints the times (goal: under 20 ms) but does not assert them, because the machine may be busy."""
    for option in ("--help", "--version"):
        seconds = []
        for _ in range(10):
            start = time.perf_counter()
            command.run(option)
            seconds.append(time.perf_counter() - start)
        print(f"whence {option}: {min(seconds) * 1000:.1f} ms")
