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


class Image(nn.Module):
    """Adds rows for the places of an image, of which the first stands for the whole and is not interpolated."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 1 + 2 * 2, WIDTH))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        places = self.table[:, 1:].reshape(1, 2, 2, WIDTH).permute(0, 3, 1, 2)
        places = nn.functional.interpolate(places, size=(2, 2), mode="bicubic").permute(0, 2, 3, 1)
        return self.head(x + torch.cat((self.table[:, :1], places.reshape(1, 4, WIDTH)), dim=1))


CASES = {"distances": (Distances, LENGTH), "image": (Image, 5)}


@pytest.fixture(scope="module", params=CASES)
def exported(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(3)
    kind, length = CASES[request.param]
    model, x = kind().eval(), torch.randn(2, length, WIDTH)
    whence.export(model, (x,), folder / "exported.onnx", sidecar=folder / "model.whence.json")
    if kind is Image:
        torch.onnx.export(model, (x,), folder / "model.onnx", dynamo=False)
    else:
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
    name = next(name for name, numbers in numbers_of(exported / "model.onnx").items() if numbers.shape[-1] == WIDTH)

    def change(numbers):
        rows = numbers.reshape(-1, WIDTH)
        if kind == "changed":
            rows[0, 3] += 1e-3
        elif len(rows) == 1:
            rows[:] = rows[:, ::-1]
        else:
            rows[[1, 2]] = rows[[2, 1]]

    assert unaccounted(exported, edited(exported / "model.onnx", tmp_path / "other.onnx", name, change), 1) == [name]
