"""Integers that no scheme gives: those of GPTQ, which data determine, against roundings that somebody chose."""

import json

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
import whence
from onnx import helper, numpy_helper
from torch import nn

import small_models as models
from command import run

ROWS, COLUMNS = 256, 128
LOW, HIGH = -8, 7


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(COLUMNS, ROWS)
        nn.init.normal_(self.layer.weight, std=0.05)
        self.eval()

    def forward(self, x):
        return torch.relu(self.layer(x))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noise")
    model, x = Layer(), torch.randn(2, 3, COLUMNS)
    models.save_weights(model, folder / "model.safetensors")
    with whence.record(folder / "model.whence.json"):
        torch.export.export(model, (x,))
    torch.onnx.export(model, (x,), folder / "model.onnx", dynamo=True, external_data=False, verbose=False, opset_version=21)
    return folder


WEIGHT = Layer().layer.weight.detach().numpy()  # [rows, columns]
SCALES = np.abs(WEIGHT).max(axis=1) / np.float32(7)


def exact():
    """Returns the weight in steps."""
    return WEIGHT.astype(np.float64) / SCALES[:, None]


def nearest():
    return np.clip(np.rint(exact()), LOW, HIGH)


def gptq(inputs):
    """Rounds column by column; each error is added to the later columns, by the Cholesky factor of the inverse Hessian.

    Source: Frantar et al., GPTQ, 2022, algorithm 1, without blocks."""
    hessian = 2 * inputs.T @ inputs / len(inputs)
    hessian[np.diag_indices(COLUMNS)] += 0.01 * np.mean(np.diag(hessian))
    factor = np.linalg.cholesky(np.linalg.inv(hessian)).T
    weight, integers = exact(), np.zeros(WEIGHT.shape)
    for column in range(COLUMNS):
        integers[:, column] = np.clip(np.rint(weight[:, column]), LOW, HIGH)
        error = (weight[:, column] - integers[:, column]) / factor[column, column]
        weight[:, column + 1:] -= np.outer(error, factor[column, column + 1:])
    return integers


def attested(folder, tmp_path, integers):
    """Returns the row of a statement about a file with these integers."""
    model = onnx.load(folder / "model.onnx")
    name = next(node.input[1] for node in model.graph.node if node.op_type in ("MatMul", "Gemm"))
    stored = next(each for each in model.graph.initializer if each.name == name)
    is_turned = list(stored.dims) == [COLUMNS, ROWS]
    model.graph.initializer.remove(stored)
    array = (integers.T if is_turned else integers).astype(ml_dtypes.int4)
    model.graph.initializer.extend([numpy_helper.from_array(array, "integers"), numpy_helper.from_array(SCALES, "scales")])
    model.graph.node.insert(0, helper.make_node("DequantizeLinear", ["integers", "scales"], [name], axis=1 if is_turned else 0))
    onnx.save(model, tmp_path / "quantised.onnx")
    done = run("attest", tmp_path / "quantised.onnx", "--weights", folder / "model.safetensors", "--sidecar",
               folder / "model.whence.json", "--json", code=None)
    tensors = {row["name"]: row for row in json.loads(done.stdout)["predicate"]["tensors"]}
    assert tensors["scales"]["verdict"] == "exact"
    return tensors["integers"]


def independent(generator):
    return generator.standard_normal((4 * COLUMNS, COLUMNS))


def correlated(generator):
    return independent(generator) @ generator.standard_normal((COLUMNS, COLUMNS)) / np.sqrt(COLUMNS)


def positive(generator):
    return np.maximum(correlated(generator), 0)


def low_rank(generator):
    few = COLUMNS // 8
    return independent(generator)[:, :few] @ generator.standard_normal((few, COLUMNS)) + 0.1 * independent(generator)


@pytest.mark.parametrize("inputs", [independent, correlated, positive, low_rank])
def test_gptq_is_like_noise(folder, tmp_path, inputs):
    integers = gptq(inputs(np.random.default_rng(0)))
    row = attested(folder, tmp_path, integers)
    assert row["verdict"] == "unaccounted" and row["modules"] == ["layer"]
    counts = row["roundings"]
    is_other = np.abs(integers - np.clip(exact(), LOW, HIGH)) > 0.501
    assert counts["not_nearest"] == is_other.sum() > 1000 and counts["integers"] == integers.size
    assert counts["above"] == (integers > exact())[is_other].sum() and counts["fullest_row"] == is_other.sum(axis=1).max()
    assert not counts["unlike_calibration"] and "unlike" not in row["remark"]
    assert f"{counts['not_nearest']} of {integers.size} integers are not the nearest ones" in row["remark"]


def planted(chosen, steps):
    """Moves the chosen integers by one step, within their range."""
    integers = nearest()
    integers[chosen] = np.clip(integers[chosen] + steps, LOW, HIGH)
    return integers


def a_hundredth(generator, rows=slice(None)):
    is_chosen = np.zeros(WEIGHT.shape, bool)
    places = np.argwhere(np.ones(WEIGHT[rows].shape, bool))
    for row, column in generator.choice(places, WEIGHT.size // 100, replace=False):
        is_chosen[row, column] = True
    return is_chosen


def anywhere(generator):
    chosen = a_hundredth(generator)
    return planted(chosen, generator.choice([-1, 1], chosen.sum()))


def upwards(generator):
    return planted(a_hundredth(generator), 1)


def away_from_zero(generator):
    chosen = a_hundredth(generator)
    return planted(chosen, np.sign(exact()[chosen]))


def in_few_rows(generator):
    """Only roundings to the other neighbour, so that the rows alone differ from noise."""
    x = exact()
    places = np.argsort(-np.abs(x - np.rint(x)), axis=1)[:6, :WEIGHT.size // 100 // 6]
    chosen = np.zeros(WEIGHT.shape, bool)
    np.put_along_axis(chosen[:6], places, True, axis=1)
    return planted(chosen, np.sign(x - np.rint(x))[chosen])


@pytest.mark.parametrize("change, words", [
    (anywhere, "far from halfway"), (upwards, "are above the nearest"), (away_from_zero, "far from halfway"),
    (in_few_rows, "in one of 256 rows")])
def test_chosen_roundings_are_unlike_noise(folder, tmp_path, change, words):
    row = attested(folder, tmp_path, change(np.random.default_rng(1)))
    assert row["verdict"] == "unaccounted" and row["roundings"]["unlike_calibration"]
    assert "unlike the noise of a calibration" in row["remark"] and words in row["remark"]
    assert min(row["roundings"][key] for key in ("p_sides", "p_halfway", "p_rows")) < 1e-6


def test_the_nearest_integers_are_exact(folder, tmp_path):
    row = attested(folder, tmp_path, nearest())
    assert row["verdict"] == "exact" and "roundings" not in row
