"""Compares the distributions of random operators in ONNX Runtime and PyTorch with a two-sample test, and asserts that
two runs of one file differ. cases/random.py checks dtypes, shapes and properties of every draw.
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from command import run
from ops.case import Case, between, case, f32, i64
from ops.comparing import check_file, open_session, run_file, run_reference
from ops.table import CASES, FAMILIES
from ops.test_ops import export_arguments, save_archive

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.jit", "ignore::torch.jit.TracerWarning")
aten = torch.ops.aten
MANY = 100_000
ONES = torch.ones(MANY)
THREE = torch.tensor([0.2, 0.5, 0.3])  # probabilities

# Bounds the distance between the distribution functions of two samples (Kolmogorov-Smirnov). Two samples of the same
# distribution exceed it once in 2e7 comparisons. A standard deviation that is wrong by 5 % exceeds it.
LARGEST_DISTANCE = 3 * math.sqrt(2 / MANY)


def pair(samples: torch.Tensor) -> torch.Tensor:
    """Combines both columns into one number."""
    return samples[:, 0] * 3 + samples[:, 1]


ROWS = [
    case("aten::rand", lambda x: torch.rand(MANY), f32(1)),
    # two nodes that must not be merged
    case("aten::rand", lambda x: torch.rand(x.shape[0]) - torch.rand(x.shape[0]), f32(MANY)),
    case("aten::randn", lambda x: torch.randn(MANY), f32(1)),
    case("aten::randn", lambda x: torch.randn(x.shape, dtype=torch.float64), f32(MANY)),
    case("aten::rand_like", lambda x: torch.rand_like(x), f32(MANY)),
    case("aten::randn_like", lambda x: torch.randn_like(x), f32(MANY)),
    case("aten::uniform", lambda x: aten.uniform(x, 3, 5), f32(MANY)),
    case("aten::normal_functional", lambda x: aten.normal_functional(x, 50, 0.5), f32(MANY)),
    case("aten::randint", lambda x: torch.randint(7, (x.shape[0],)), f32(MANY)),
    case("aten::randint", lambda x: torch.randint(2 ** 31, (x.shape[0],)) % 2, f32(MANY)),  # half of them odd
    case("aten::randint.low", lambda x: torch.randint(-5, 7, (MANY,)), f32(1)),
    case("aten::randint_like", lambda x: torch.randint_like(x, 7), f32(MANY)),
    case("aten::randint_like.low_dtype", lambda x: torch.randint_like(x, -2, 2), i64(0, 9, MANY)),
    case("aten::randperm", lambda x: torch.randperm(x.shape[0]) - torch.arange(x.shape[0]), f32(MANY)),
    case("aten::normal.Tensor_Tensor", lambda m, s: torch.normal(m, s), between(4, 5, MANY), between(0.1, 0.9, MANY)),
    case("aten::normal.Tensor_float", lambda m: torch.normal(m, 0.7), between(4, 5, MANY)),
    case("aten::normal.float_Tensor", lambda s: torch.normal(5.0, s), between(0.1, 0.9, MANY)),
    case("aten::normal.float_float", lambda x: torch.normal(5.0, 0.7, (MANY,)), f32(1)),
    case("aten::bernoulli", lambda p: torch.bernoulli(p), between(0.2, 0.5, MANY)),
    case("aten::bernoulli.p", lambda x: torch.bernoulli(x, 0.3), f32(MANY)),
    case("aten::bernoulli.Tensor", lambda x, p: aten.bernoulli.Tensor(x, p), f32(MANY), between(0.2, 0.5, MANY)),
    case("aten::exponential", lambda x: aten.exponential(x, 2.5), f32(MANY)),
    case("aten::geometric", lambda x: aten.geometric(x, 0.3), f32(MANY)),
    case("aten::cauchy", lambda x: aten.cauchy(x, 5, 2), f32(MANY)),
    case("aten::log_normal", lambda x: aten.log_normal(x, 1, 0.5), f32(MANY)),
    case("aten::random", lambda x: aten.random(x), f32(MANY)),
    case("aten::random", lambda x: aten.random(x), i64(0, 9, MANY)),
    case("aten::random.to", lambda x: aten.random.to(x, 7), i64(0, 9, MANY)),
    case("aten::random.from", lambda x: getattr(aten.random, "from")(x, 3, 9), f32(MANY)),
    case("aten::multinomial", lambda w: torch.multinomial(w, MANY, True), THREE),
    case("aten::multinomial", lambda w: pair(torch.multinomial(w.expand(MANY, 3), 2)), THREE),
    case("aten::dropout", lambda x: F.dropout(x, 0.3, True), ONES),
    case("aten::native_dropout", lambda x: torch.native_dropout(x, 0.3, True)[0], ONES),
    case("aten::native_dropout", lambda x: torch.native_dropout(x, 0.3, True)[1].float(), ONES),
    case("aten::alpha_dropout", lambda x: F.alpha_dropout(x, 0.3, True), f32(MANY)),
    case("aten::feature_dropout", lambda x: F.dropout2d(x, 0.3, True)[0, :, 0, 1], torch.ones(1, MANY, 1, 2)),
    case("aten::feature_alpha_dropout", lambda x: F.feature_alpha_dropout(x, 0.3, True)[0, :, 1], f32(1, MANY, 2)),
    case("aten::scaled_dot_product_attention",
         lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)[:, 0, 0], f32(MANY, 1, 4),
         f32(MANY, 1, 4), torch.ones(MANY, 1, 1)),
]
# ONNX Runtime 1.32's optimiser removes a training Dropout unless its result is a graph output.
REMOVED = {"aten::scaled_dot_product_attention"}
UNINITIALISED = {"aten::empty.memory_format", "aten::empty_like", "aten::empty_strided", "aten::new_empty",
                 "aten::new_empty_strided", "aten::empty_permuted"}  # any number is correct


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Returns the largest distance between the distribution functions of two samples."""
    points = np.concatenate([one, other])
    below = [np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{number}-{row}") for number, row in enumerate(ROWS)])
def test_distribution(row: Case, tmp_path):
    archive = save_archive(row, tmp_path)
    run(*export_arguments(row, archive, tmp_path, row.opsets[-1]))
    check_file(tmp_path / "operator.onnx")
    session, tensors = open_session(tmp_path / "operator.onnx", row.key not in REMOVED), row.tensors()
    (expected,), (first,), (second,) = (run_reference(torch.jit.load(archive), tensors),
                                         *(run_file(row, session, tensors) for _ in range(2)))
    assert first.dtype == expected.dtype and first.shape == expected.shape == (MANY,)
    assert not torch.equal(first, second), "two runs draw the same numbers"
    for sample in (first, second):
        assert distance(sample.numpy(), expected.numpy()) < LARGEST_DISTANCE


def test_distance_detects_wrong_distributions():
    """Detects a standard deviation, mean or probability that is a few percent off, and constant numbers."""
    numbers = np.random.default_rng(0).normal(size=(2, MANY))
    assert distance(*numbers) < LARGEST_DISTANCE
    for sample in (1.05 * numbers[1], numbers[1] + 0.05, 0 * numbers[1]):
        assert distance(numbers[0], sample) > LARGEST_DISTANCE
    samples = [np.random.default_rng(1).random(MANY) < probability for probability in (0.3, 0.3, 0.32)]
    assert distance(samples[0] * 1, samples[1] * 1) < LARGEST_DISTANCE < distance(samples[0] * 1, samples[2] * 1)


def test_every_random_operator_has_a_distribution():
    drawn = {row.key for row in ROWS}
    unchecked = {row.key for row in CASES if row.tolerance is None} | {row.key for row in FAMILIES["random"]}
    assert unchecked - UNINITIALISED, "no row is random"
    assert not unchecked - UNINITIALISED - drawn, "rows are missing in test_random.py"
