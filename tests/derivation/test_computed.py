"""Tensors that the program computes from parameters: accounted for, refitted, and not recovered."""

import json

import numpy as np
import onnxruntime as ort
import pytest
import torch

import small_models as models
from command import run
from test_attest import attest, edited, unaccounted

EXPORTERS = ("dynamo", "torchscript")
TOOLS = ("onnxslim", "ort_basic", "float16")  # a quantiser's integers of results that differ in the last bit are unaccounted


def computed(statement):
    return {row["name"]: row for row in statement["predicate"]["tensors"] if "computed_from" in json.dumps(row.get("derivation", {}))}


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_folded_computations_are_accounted_for(files_of, exporter):
    files = files_of("computed")
    statement = attest(files.export(exporter), files)
    assert unaccounted(statement) == ([], [])
    if exporter == "dynamo":
        texts = " ".join(row["from"] for row in computed(statement).values())
        assert "conv.parametrizations.weight.original0" in texts and "table" in texts


@pytest.mark.parametrize("tool", TOOLS)
def test_files_of_tools_are_accounted_for(files_of, tool):
    files = files_of("computed")
    assert unaccounted(attest(files.tool("dynamo", tool), files, code=None))[0] == []


def test_a_changed_result_is_found(files_of, tmp_path):
    files = files_of("computed")
    source = files.export("dynamo")
    name = next(name for name, numbers in models.numbers_of(source).items() if numbers.shape == (12, 6, 3))

    def change(numbers):
        numbers[5] += 1e-4

    assert unaccounted(attest(edited(source, tmp_path / "changed.onnx", name, change), files, code=1))[0] == [name]


@pytest.mark.parametrize("exporter, tool", [("dynamo", None), ("torchscript", None), ("dynamo", "onnxslim"), ("torchscript", "ort_basic")])
def test_new_weights_are_computed(files_of, tmp_path, exporter, tool):
    old, new = files_of("computed"), files_of("computed", 1)
    path = old.tool(exporter, tool) if tool else old.export(exporter)
    run("refit", path, "--base", old.weights, "--sidecar", old.sidecar, "--weights", new.weights, "-o", tmp_path / "new.onnx")
    x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(4))
    session = ort.InferenceSession(tmp_path / "new.onnx", providers=["CPUExecutionProvider"])
    [found] = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(found, new.model(x).numpy(), atol=1e-5)


def test_a_statement_needs_the_sidecar_for_them(files_of, tmp_path):
    old, new = files_of("computed"), files_of("computed", 1)
    path = old.export("dynamo")
    run("attest", path, "--weights", old.weights, "--sidecar", old.sidecar, "-o", tmp_path / "statement.json")
    options = ["refit", path, "--statement", tmp_path / "statement.json", "--weights", new.weights, "-o", tmp_path / "new.onnx"]
    refused = run(*options, code=3).stderr
    assert "E0211" in refused and "is computed by the program" in refused and "--sidecar" in refused
    assert not (tmp_path / "new.onnx").exists()
    run(*options, "--sidecar", old.sidecar)
    assert (tmp_path / "new.onnx").is_file()


def test_their_parameters_do_not_come_back(files_of):
    files = files_of("computed")
    report = json.loads(run("weights", files.export("dynamo"), "--base", files.weights, "--sidecar", files.sidecar, "--json",
                            code=1).stdout)
    assert "computes from it" in report["missing"]["conv.parametrizations.weight.original0"]
    assert {"head.weight", "head.bias"} <= set(report["stored"])
