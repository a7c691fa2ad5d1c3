"""Tables of positions that a model interpolates to the sizes of its call and chooses rows of: tools store the rows."""

import json

import pytest
import torch
import whence
from safetensors.torch import save_file
from torch import nn

import onnx_tools
from command import run
from small_models import numbers_of
from test_attest import edited

LENGTH, WIDTH = 4, 16


class Distances(nn.Module):
    """Adds a row for each pair of places to their product; the table already has the size that it is interpolated to."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(2 * LENGTH - 1, WIDTH))
        self.head = nn.Linear(LENGTH, 3)

    def forward(self, x):
        columns = nn.functional.interpolate(self.table.T[None], size=2 * x.shape[1] - 1, mode="linear")[0]
        places = torch.arange(x.shape[1])
        rows = columns.T[places[:, None] - places[None] + x.shape[1] - 1]
        return self.head(torch.einsum("bqc,qkc->bqk", x, rows))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interpolated_tables")
    torch.manual_seed(3)
    model, x = Distances().eval(), torch.randn(2, LENGTH, WIDTH)
    whence.export(model, (x,), folder / "exported.onnx", sidecar=folder / "model.whence.json")
    onnx_tools.onnxslim(folder / "exported.onnx", folder / "model.onnx", [])
    save_file({name: each.contiguous() for name, each in model.state_dict().items()}, folder / "w.safetensors")
    return folder


def unaccounted(folder, file, code):
    done = run("attest", file, "--weights", folder / "w.safetensors", "--sidecar", folder / "model.whence.json", "--json",
               code=code)
    return [row["name"] for row in json.loads(done.stdout)["predicate"]["tensors"] if row["verdict"] == "unaccounted"]


def test_chosen_rows_are_accounted_for(exported):
    assert unaccounted(exported, exported / "model.onnx", 0) == []


@pytest.mark.parametrize("kind", ["exchanged", "changed"])
def test_other_rows_are_found(exported, tmp_path, kind):
    name = next(name for name, numbers in numbers_of(exported / "model.onnx").items() if numbers.size == LENGTH * LENGTH * WIDTH)

    def change(numbers):
        rows = numbers.reshape(-1, WIDTH)
        if kind == "exchanged":
            rows[[1, 2]] = rows[[2, 1]]
        else:
            rows[5, 3] += 1e-3

    assert unaccounted(exported, edited(exported / "model.onnx", tmp_path / "other.onnx", name, change), 1) == [name]
