"""whence weights: a state dict back from a shipped file, and what cannot be recovered."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import models
from command import run


def recover(path, files, target, code=0):
    report = json.loads(run("weights", path, "--base", files.weights, "--sidecar", files.sidecar, "-o", target, "--json",
                            code=code).stdout)
    return report, load_file(target)


@pytest.mark.parametrize("exporter, tool", [("dynamo", None), ("torchscript", None), ("dynamo", "onnxslim"), ("dynamo", "ort_all")])
@pytest.mark.parametrize("name", ["text", "series"])
def test_parameters_come_back_byte_for_byte(files_of, tmp_path, name, exporter, tool):
    files = files_of(name)
    path = files.tool(exporter, tool) if tool else files.export(exporter)
    report, found = recover(path, files, tmp_path / "state.safetensors", code=None)
    expected = load_file(files.weights)
    assert sorted(report["exact"]) == sorted(found)
    assert report["rounded"] == []
    for key, numbers in found.items():
        assert numbers.tobytes() == expected[key].tobytes(), key
    # The head shares the embedding's table, and of the table of positions the file holds the rows that it reads.
    assert set(expected) - set(found) <= {"head.weight", "words.weight", "places.weight"}


@pytest.mark.parametrize("tool, bound", [("float16", 1e-3), ("dynamic", 1e-2), ("blocks_of_4", 0.13)])
def test_rounded_parameters_are_near(files_of, tmp_path, tool, bound):
    files = files_of("text")
    report, found = recover(files.tool("dynamo", tool), files, tmp_path / "state.safetensors", code=None)
    expected = load_file(files.weights)
    assert "layers.0.up.weight" in report["rounded"]
    for key in report["rounded"]:
        assert np.abs(found[key] - expected[key]).max() <= bound * np.abs(expected[key]).max(), key


def test_a_folded_norm_hides_parameters(files_of, tmp_path):
    files = files_of("images")
    report, found = recover(files.export("dynamo"), files, tmp_path / "state.safetensors", code=1)
    assert "norm" in report["missing"]["first.weight"]
    assert sorted(found) == ["head.bias", "head.weight"]


def test_a_statement_replaces_the_checkpoint(files_of, tmp_path):
    files = files_of("series")
    path = files.export("dynamo")
    run("attest", path, "--weights", files.weights, "--sidecar", files.sidecar, "-o", tmp_path / "statement.json")
    run("weights", path, "--statement", tmp_path / "statement.json", "-o", tmp_path / "state.safetensors")
    expected = load_file(files.weights)
    for key, numbers in load_file(tmp_path / "state.safetensors").items():
        assert numbers.tobytes() == expected[key].tobytes(), key


def test_an_existing_file_stays(files_of, tmp_path):
    files = files_of("series")
    (tmp_path / "state.safetensors").write_text("mine")
    result = run("weights", files.export("dynamo"), "--base", files.weights, "-o", tmp_path / "state.safetensors", code=5)
    assert "E0401" in result.stderr
    assert (tmp_path / "state.safetensors").read_text() == "mine"
