"""whence.attest, whence.refit and whence.weights."""

import tempfile

import numpy as np
import onnx
import pytest
import torch
import whence
from safetensors.numpy import load_file

import small_models as models


def test_attest_lists_tensors_and_nodes(files_of, tmp_path):
    files = files_of("series")
    report = whence.attest(files.export("dynamo"), files.weights, sidecar=files.sidecar, output=tmp_path / "statement.json",
                           bom=tmp_path / "bom.json")
    assert report.accounted and report.unaccounted == ()
    assert (tmp_path / "statement.json").is_file() and (tmp_path / "bom.json").is_file()
    weight = next(each for each in report.tensors if "head.weight" in (each.origin or ""))
    assert (weight.dtype, weight.bytes, weight.verdict) == ("float32", 160, "exact") and sorted(weight.dims) == [5, 8]
    assert sum(report.nodes.values()) == len(onnx.load(files.export("dynamo")).graph.node)
    assert "all accounted for" in repr(report)


def test_a_model_is_a_checkpoint_and_a_file_may_be_in_memory(files_of):
    files = files_of("series")
    model = onnx.load(files.export("dynamo"))
    name = next(each.name for each in model.graph.initializer if sorted(each.dims) == [5, 8])
    tensor = next(each for each in model.graph.initializer if each.name == name)
    numbers = onnx.numpy_helper.to_array(tensor).copy()
    numbers[2, 3] = np.nextafter(numbers[2, 3], np.float32(9))
    tensor.CopyFrom(onnx.numpy_helper.from_array(numbers, name))
    report = whence.attest(model, files.model, sidecar=files.sidecar)
    assert not report.accounted and name in report.unaccounted and "1 tensor" in repr(report)


def test_refit_from_models(files_of, tmp_path):
    files, new = files_of("series"), files_of("series", 1)
    target = tmp_path / "new.onnx"
    report = whence.refit(files.export("dynamo"), new.model, base=files.model, sidecar=files.sidecar, output=target)
    assert report.path == target and report.replaced > 0 and report.adapted == 0
    found, expected = models.numbers_of(target), models.numbers_of(new.export("dynamo"))
    assert {name: numbers.tobytes() for name, numbers in found.items()} == {
        name: numbers.tobytes() for name, numbers in expected.items()}


def test_refit_without_output_checks(files_of):
    files = files_of("series")
    state = dict(files.model.state_dict())
    assert whence.refit(files.export("dynamo"), state, base=files.weights, sidecar=files.sidecar).path is None
    del state["head.weight"]
    with pytest.raises(whence.WhenceError, match="head.weight") as caught:
        whence.refit(files.export("dynamo"), state, base=files.weights, sidecar=files.sidecar)
    assert caught.value.code == "E0211"


def test_weights_come_back(files_of, tmp_path):
    files = files_of("series")
    report = whence.weights(files.export("dynamo"), files.weights, output=tmp_path / "state.safetensors")
    assert report.missing == {} and report.path == tmp_path / "state.safetensors"
    found, expected = load_file(report.path), load_file(files.weights)
    assert sorted(found) == sorted(expected) == sorted(report.stored + report.left_out)
    assert all(found[name].tobytes() == expected[name].tobytes() for name in found)


@pytest.mark.parametrize("form", [
    lambda model: torch.export.export(model, models.inputs_of("series")),
    lambda model: {name: each.numpy() for name, each in model.state_dict().items()}], ids=["exported program", "numpy"])
def test_other_checkpoints_in_memory(files_of, form):
    files = files_of("series")
    assert whence.attest(files.export("dynamo"), form(files.model), sidecar=files.sidecar).accounted
    other = whence.attest(files.export("dynamo"), form(models.model_of("series", 1)), sidecar=files.sidecar)
    assert not other.accounted and "head.bias" in other.unaccounted


@pytest.mark.parametrize("checkpoint, code, words", [
    (3, "E0101", "int, which is not a checkpoint"), ({}, "E0101", "no tensors"), ({"epoch": 3}, "E0203", "weights (dict)"),
    ({"head.weight": torch.empty(3, device="meta")}, "E0101", "no numbers")])
def test_something_else_is_no_checkpoint(files_of, checkpoint, code, words):
    with pytest.raises(whence.WhenceError) as caught:
        whence.attest(files_of("series").export("dynamo"), checkpoint)
    assert caught.value.code == code and words in str(caught.value) and tempfile.gettempdir() not in str(caught.value)


def test_values_of_another_model_name_the_file(files_of, tmp_path):
    files = files_of("series")
    other = torch.nn.Sequential(torch.nn.Linear(3, 4))
    whence.record_values(other, (torch.ones(2, 3),), tmp_path / "values.safetensors", operations=True)
    with pytest.raises(whence.WhenceError) as caught:
        whence.attest(files.export("dynamo"), files.weights, sidecar=files.sidecar, values=tmp_path / "values.safetensors")
    assert caught.value.code == "E0206" and f"no module of {files.export('dynamo')} has" in str(caught.value)
