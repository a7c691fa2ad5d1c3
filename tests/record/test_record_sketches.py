"""Compares the parameter sketches of a sidecar with the recipe in docs/matching.md, applied to PyTorch's elements."""

import base64
import json

import numpy as np
import pytest
import torch

import command
from models import zoo
from record.test_record_modules import model
from record.test_record_scopes import recorded
from sidecar import Sidecar
from splitmix import splitmix


def sampled_indices(shape: tuple[int, ...]) -> list[list[tuple[int, int]]]:
    """Returns the sampled elements as rows of (row, column), by the documented recipe."""
    count = int(np.prod(shape))
    rows, columns = shape[0], count // shape[0]
    if columns == 1:
        rows, columns = 1, count
    draws = iter(range(2**62))

    def one_in_each(length: int, intervals: int) -> list[int]:
        bounds = [(i * length // intervals, (i + 1) * length // intervals) for i in range(intervals)]
        return [first + splitmix(next(draws)) % (end - first) for first, end in bounds]

    sampled_rows = one_in_each(rows, min(rows, 16 if columns >= 8 else 192 // columns))
    per_row = min(columns, 192 // len(sampled_rows))
    return [[(row, column) for column in one_in_each(columns, per_row)] for row in sampled_rows]


def sketch(tensor: torch.Tensor) -> list[int] | None:
    if not tensor.is_floating_point() or tensor.ndim == 0 or tensor.numel() < 24:
        return None
    matrix = tensor.detach().double().reshape(tensor.shape[0], -1)
    matrix = matrix if matrix.shape[1] > 1 else matrix.reshape(1, -1)
    levels: list[int] = []
    for row in sampled_indices(tuple(tensor.shape)):
        elements = [matrix[index].item() for index in row]
        largest = max(abs(element) for element in elements) if np.isfinite(elements).all() else 0
        levels += [0 if largest == 0 else int(np.copysign(np.floor(abs(element * (127 / largest)) + 0.5), element))
                   for element in elements]
    return levels


def recorded_sketch(row: dict) -> list[int] | None:
    return None if row["sketch"] is None else np.frombuffer(base64.b64decode(row["sketch"]), np.int8).tolist()


def rows_of(sidecar: Sidecar) -> dict[str, dict]:
    return {row["name"]: row for row in sidecar.table("parameters")}


@pytest.mark.parametrize("name", zoo.MODELS)
def test_sketches_follow_the_recipe(name):
    rows = rows_of(recorded(name))
    tensors = dict([*model(name).named_parameters(), *model(name).named_buffers()])
    assert any(recorded_sketch(row) for row in rows.values())
    assert {path: recorded_sketch(rows[path]) for path in tensors if path in rows} == {
        path: sketch(tensors[path]) for path in tensors if path in rows}


class EveryDtype(torch.nn.Module):
    """Has parameters of every dtype, non-finite numbers and a row of zeros."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        def noise(*shape):
            return torch.randn(shape, generator=generator)

        self.half_ = torch.nn.Parameter(noise(12, 9).half())
        self.brain_ = torch.nn.Parameter(noise(40).bfloat16())
        self.double_ = torch.nn.Parameter(noise(3, 4, 2, 5).double())
        self.thin_ = torch.nn.Parameter(noise(30, 3))
        broken = noise(4, 60)
        broken[1] = 0
        broken[2, ::2], broken[3, 1::2] = float("inf"), float("nan")
        self.broken_ = torch.nn.Parameter(broken)
        self.small_ = torch.nn.Parameter(noise(23))
        self.register_buffer("count_", torch.arange(50))

    def forward(self, x):
        total = x.sum() + self.half_.float().sum() + self.brain_.float().sum() + self.double_.sum() + self.thin_.sum()
        return total + self.broken_.sum() + self.small_.sum() + self.count_.sum()


def test_every_dtype_and_non_finite_numbers(tmp_path):
    module = EveryDtype()
    torch.jit.trace(module, torch.ones(2), check_trace=False).save(str(tmp_path / "m.pt"))
    torch.save({"x": torch.ones(2)}, tmp_path / "x.pt")
    command.run("record", tmp_path / "m.pt", "--inputs", tmp_path / "x.pt", "-o", tmp_path / "m.whence.json")
    rows = rows_of(Sidecar(tmp_path / "m.whence.json"))
    for name in ("half_", "brain_", "double_", "thin_", "broken_"):
        assert recorded_sketch(rows[name]) == sketch(getattr(module, name)), name
    assert recorded_sketch(rows["broken_"])[48:] == [0] * 144
    assert rows["small_"]["sketch"] is None and rows["count_"]["sketch"] is None


@pytest.mark.parametrize("name", zoo.MODELS)
def test_sketch_takes_at_most_300_bytes(name):
    for row in recorded(name).table("parameters"):
        assert len(json.dumps(row["sketch"])) + 2 <= 300
