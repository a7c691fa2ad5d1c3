"""Positions that a convolution with windows of one element projects: exporters store the result."""

import pytest
import torch
import whence
from safetensors.torch import save_file
from torch import nn

from small_models import numbers_of
from test_attest import edited
from test_interpolated_tables import unaccounted

CHANNELS, SIDE = 6, 4


class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.projection = nn.Conv2d(2 * SIDE, CHANNELS, 1)
        self.head = nn.Conv2d(CHANNELS, 3, 1)

    def forward(self, x):
        places = torch.arange(SIDE, dtype=torch.float32)
        angles = places[:, None] / 10 ** (places / SIDE)
        table = torch.cat((angles.sin(), angles.cos()), dim=1).T[None, :, :, None].expand(1, -1, -1, SIDE)
        return self.head(x + self.projection(table))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("projected_positions")
    torch.manual_seed(5)
    model, x = Projected().eval(), torch.randn(1, CHANNELS, SIDE, SIDE)
    with torch.no_grad(), whence.record(folder / "model.whence.json"):
        program = torch.export.export(model, (x,))
    torch.onnx.export(program, (), folder / "model.onnx", dynamo=True, external_data=False, verbose=False)
    save_file(model.state_dict(), folder / "w.safetensors")
    return folder


def test_projected_positions_are_accounted_for(exported):
    assert unaccounted(exported, exported / "model.onnx", 0) == []


def test_a_changed_projection_is_found(exported, tmp_path):
    name = next(name for name, numbers in numbers_of(exported / "model.onnx").items()
                if numbers.shape[:2] == (1, CHANNELS) and numbers.size >= CHANNELS * SIDE)

    def change(numbers):
        numbers[7] += 1e-3

    assert unaccounted(exported, edited(exported / "model.onnx", tmp_path / "other.onnx", name, change), 1) == [name]
