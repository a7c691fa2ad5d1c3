"""whence weights: a state dict back from a shipped file, and what cannot be recovered."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import small_models as models
from command import run


def recover(path, files, target, *options, code=0):
    report = json.loads(run("weights", path, "--base", files.weights, "--sidecar", files.sidecar, "-o", target, *options,
                            "--json", code=code).stdout)
    return report, load_file(target)


@pytest.mark.parametrize("exporter, tool", [("dynamo", None), ("torchscript", None), ("dynamo", "onnxslim"), ("dynamo", "ort_all")])
@pytest.mark.parametrize("name", ["text", "series"])
def test_parameters_come_back_byte_for_byte(files_of, tmp_path, name, exporter, tool):
    files = files_of(name)
    path = files.tool(exporter, tool) if tool else files.export(exporter)
    report, found = recover(path, files, tmp_path / "state.safetensors", code=None)
    expected = load_file(files.weights)
    assert sorted(report["stored"] + report["left_out"]) == sorted(found)
    assert report["dequantised"] == report["equivalent"] == []
    for key, numbers in found.items():
        assert numbers.tobytes() == expected[key].tobytes(), key
    # Of the table of positions the file holds the rows that it reads.
    assert set(expected) - set(found) == set(report["missing"]) <= {"places.weight"}


def test_the_model_loads_what_came_back(files_of, tmp_path):
    """The head shares the embedding's table, which the file stores once."""
    files = files_of("series")
    _, found = recover(files.export("dynamo"), files, tmp_path / "state.safetensors")
    model = models.model_of("series", seed=3)
    model.load_state_dict({name: torch.from_numpy(numbers) for name, numbers in found.items()}, strict=True)
    inputs = models.inputs_of("series")
    with torch.no_grad():
        assert torch.equal(model(*inputs), files.model(*inputs))


@pytest.mark.parametrize("tool, bound", [("float16", 1e-3), ("dynamic", 1e-2), ("blocks_of_4", 0.13)])
def test_rounded_parameters_are_near(files_of, tmp_path, tool, bound):
    files = files_of("text")
    report, found = recover(files.tool("dynamo", tool), files, tmp_path / "state.safetensors", code=None)
    expected = load_file(files.weights)
    kind = "stored" if tool == "float16" else "dequantised"
    assert "layers.0.up.weight" in report[kind]
    assert (found["layers.0.up.weight"].dtype == np.float16) == (tool == "float16")
    for key in report[kind]:
        difference = np.abs(found[key].astype(np.float32) - expected[key]).max()
        assert difference <= bound * np.abs(expected[key]).max(), key
        assert key in report["stored"] or difference > 0, key


def test_a_folded_norm_hides_parameters(files_of, tmp_path):
    files = files_of("images")
    report, found = recover(files.export("dynamo"), files, tmp_path / "state.safetensors", code=1)
    assert "norm" in report["missing"]["first.weight"]
    assert {"head.bias", "head.weight"} <= set(found) and "first.weight" not in found


@pytest.mark.parametrize("tool", [None, "static"])
def test_a_folded_norm_is_split_into_equivalent_numbers(files_of, tmp_path, tool):
    files = files_of("images")
    path = files.tool("dynamo", tool) if tool else files.export("dynamo")
    report, found = recover(path, files, tmp_path / "state.safetensors", "--split-norms", code=None)
    assert "first.weight" in report["equivalent"]
    model = models.model_of("images", seed=5)
    model.load_state_dict({name: torch.from_numpy(numbers) for name, numbers in found.items()}, strict=False)
    inputs = models.inputs_of("images")
    other = tuple(torch.randn_like(value) for value in inputs)
    with torch.no_grad():
        difference = (model(*other) - files.model(*other)).abs().max()
    assert set(report["missing"]) <= {name for name in model.state_dict() if name.endswith("num_batches_tracked")}
    assert difference <= (1e-5 if tool is None else 0.1)


def test_a_statement_replaces_the_checkpoint(files_of, tmp_path):
    files = files_of("series")
    path = files.export("dynamo")
    run("attest", path, "--weights", files.weights, "--sidecar", files.sidecar, "-o", tmp_path / "statement.json")
    run("weights", path, "--statement", tmp_path / "statement.json", "-o", tmp_path / "state.safetensors")
    expected = load_file(files.weights)
    found = load_file(tmp_path / "state.safetensors")
    assert set(found) == set(expected)
    for key, numbers in found.items():
        assert numbers.tobytes() == expected[key].tobytes(), key


def test_the_text_tells_what_is_missing(files_of):
    files = files_of("images")
    text = run("weights", files.export("dynamo"), "--base", files.weights, code=1).stdout
    assert "parameters with the file's numbers" in text
    assert "missing: first.weight: a norm was folded into it (--split-norms gives equivalent ones)" in text


@pytest.mark.parametrize("name", ["state.pt", "state", "model.safetensors.bin"])
def test_another_ending_is_refused_before_any_work(tmp_path, name):
    result = run("weights", "missing.onnx", "--base", "missing.safetensors", "-o", tmp_path / name, code=2)
    assert "E0101" in result.stderr and ".safetensors" in result.stderr and "torch.save" in result.stderr


def test_an_existing_file_stays(files_of, tmp_path):
    files = files_of("series")
    target = tmp_path / "state.safetensors"
    target.write_text("mine")
    result = run("weights", files.export("dynamo"), "--base", files.weights, "-o", target, code=5)
    assert "E0401" in result.stderr and "--overwrite" in result.stderr
    assert target.read_text() == "mine"
    run("weights", files.export("dynamo"), "--base", files.weights, "-o", target, "--overwrite")
    assert load_file(target)


class SharedNorm(torch.nn.Module):
    """One norm after two convolutions: folded into each, it has two forms in the file."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Conv2d(3, 3, 1), torch.nn.Conv2d(3, 3, 1)
        self.norm = torch.nn.BatchNorm2d(3)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return self.norm(self.second(torch.relu(self.norm(self.first(x)))))


def test_a_norm_with_two_products_is_missing_with_both(tmp_path):
    """One of them alone would give a model that computes something else, with a clean report."""
    model, x = SharedNorm().eval(), torch.randn(1, 3, 4, 4)
    models.save_weights(model, tmp_path / "model.safetensors")
    torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=False)
    done = run("weights", tmp_path / "model.onnx", "--base", tmp_path / "model.safetensors", "--split-norms", "--json", code=1)
    report = json.loads(done.stdout)
    parameters = {name for name in model.state_dict() if not name.endswith("num_batches_tracked")}
    assert parameters <= set(report["missing"])
    assert report["equivalent"] == []


def test_a_parameter_in_two_forms_is_named(files_of, tmp_path):
    """The embedding reads the table in float32, the head the same numbers in four bits."""
    files = files_of("text")
    report, _ = recover(files.tool("dynamo", "blocks_of_4"), files, tmp_path / "state.safetensors", code=None)
    assert "words.weight" in report["several_forms"]
