"""Parts that tools choose in other ways: one place of an axis as a part of a Split, parts of a table, joined factors."""

from types import SimpleNamespace

import onnx
import pytest
import torch
import whence
from torch import nn

import onnx_tools
import small_models as models
from test_attest import attest, unaccounted

EXPORTERS = ("dynamo", "torchscript")


class InterleavedHeads(nn.Module):
    """Query, key and value stand side by side in each head; tanh limits the products of both."""

    def __init__(self):
        super().__init__()
        self.project, self.close = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        heads = self.project(x).view(2, 5, 4, 3, 4)
        queries, keys, values = (heads[..., place, :].transpose(1, 2) for place in range(3))
        scores = (queries @ keys.transpose(-1, -2)) * 0.0625
        scores = torch.tanh(scores / 5) * 5
        return self.close((scores.softmax(-1) @ values).transpose(1, 2).reshape(2, 5, 16))


class OnePairOfKeys(nn.Module):
    """The queries of four heads stand before one key and one value."""

    def __init__(self):
        super().__init__()
        self.project, self.close = nn.Linear(16, 24), nn.Linear(16, 16)

    def forward(self, x):
        heads = self.project(x).view(2, 5, 6, 4)
        queries, keys, values = heads[..., :-2, :], heads[..., [-2], :], heads[..., [-1], :]
        queries, keys, values = queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        scores = queries @ keys.transpose(-1, -2) * 0.5
        return self.close((scores.softmax(-1) @ values).transpose(1, 2).reshape(2, 5, 16))


class TurnedPairs(nn.Module):
    """Turns pairs of neighbours by angles of a table that no checkpoint has."""

    def __init__(self):
        super().__init__()
        self.project, self.close = nn.Linear(16, 16), nn.Linear(16, 16)
        angles = torch.arange(32)[:, None] * torch.tensor([1.0, 0.3])
        self.register_buffer("table", torch.cat([angles.sin(), angles.cos()], 1), persistent=False)

    def forward(self, x):
        projected = self.project(x).view(2, 5, 2, 8)
        turned, kept = projected[..., :4], projected[..., 4:]
        places = torch.arange(5)[None, :, None].repeat(1, 1, 4)
        sines, cosines = torch.gather(self.table.repeat(1, 1, 1), 1, places).chunk(2, -1)
        sines, cosines = (each[:, :, None, :].repeat_interleave(2, 3) for each in (sines, cosines))
        others = torch.stack((-turned[..., 1::2], turned[..., ::2]), -1).flatten(-2)
        return self.close(torch.cat([turned * cosines + others * sines, kept], -1).reshape(2, 5, 16))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns a function that makes the checkpoint, the recording and the file of an exporter and a tool."""
    made = {}

    def make(kind, exporter, level=None):
        if (kind, exporter) not in made:
            folder = tmp_path_factory.mktemp(f"{kind.__name__}_{exporter}")
            torch.manual_seed(5)
            model, x = kind().eval(), torch.randn(2, 5, 16)
            files = SimpleNamespace(path=folder / "m.onnx", weights=models.save_weights(model, folder / "m.safetensors"),
                                    sidecar=folder / "m.whence.json")
            with whence.record(files.sidecar):
                torch.onnx.export(model, (x,), files.path, input_names=["x"], dynamo=exporter == "dynamo")
            onnx.save(onnx.load(files.path), files.path)  # without a file for data, so that tools can write elsewhere
            made[kind, exporter] = files
        files = made[kind, exporter]
        if level is None:
            return files
        path = files.path.with_name(f"{level}.onnx")
        if not path.exists():
            onnx_tools.onnxruntime(level)(files.path, path, None)
        return SimpleNamespace(path=path, weights=files.weights, sidecar=files.sidecar)

    return make


def alarms(model, files, tmp_path):
    onnx.save(model, tmp_path / "changed.onnx")
    statement = attest(tmp_path / "changed.onnx", files, code=1)
    tensors, nodes = unaccounted(statement)
    return tensors + nodes + statement["predicate"].get("differences", [])


@pytest.mark.parametrize("level", [None, "EXTENDED", "ALL"])
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", [InterleavedHeads, OnePairOfKeys])
def test_parts_of_heads_are_accounted_for(exported, kind, exporter, level):
    files = exported(kind, exporter, level)
    assert unaccounted(attest(files.path, files)) == ([], [])


@pytest.mark.parametrize(("exporter", "kind", "places"), [
    ("dynamo", InterleavedHeads, (1, 2)), ("dynamo", InterleavedHeads, (0, 1)), ("torchscript", InterleavedHeads, (1, 2)),
    ("torchscript", InterleavedHeads, (0, 1)), ("torchscript", OnePairOfKeys, (1, 2))])
def test_exchanged_parts_of_heads_are_found(exported, tmp_path, exporter, kind, places):
    files = exported(kind, exporter, "EXTENDED")
    model = onnx.load(files.path)
    [split] = [node for node in model.graph.node if node.op_type == "Split" and len(node.output) == 3]
    one, other = places
    split.output[one], split.output[other] = split.output[other], split.output[one]
    assert alarms(model, files, tmp_path)


@pytest.mark.parametrize("factor", [0.0625, 0.2, 0.0625 * 5, 1.0])
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_another_product_of_factors_is_found(exported, tmp_path, exporter, factor):
    files = exported(InterleavedHeads, exporter, "EXTENDED")
    model = onnx.load(files.path)
    [alpha] = [each for node in model.graph.node if node.op_type == "FusedMatMul" for each in node.attribute
               if each.name == "alpha" and abs(each.f - 0.0125) < 1e-6]
    alpha.f = factor
    assert alarms(model, files, tmp_path)


def test_a_table_whose_rows_the_file_chooses_is_accounted_for(exported):
    files = exported(TurnedPairs, "dynamo")
    assert unaccounted(attest(files.path, files)) == ([], [])


def test_exchanged_halves_of_a_table_are_found(exported, tmp_path):
    files = exported(TurnedPairs, "dynamo")
    model = onnx.load(files.path)
    [split] = [node for node in model.graph.node if node.op_type == "Split"]
    split.output[0], split.output[1] = split.output[1], split.output[0]
    assert alarms(model, files, tmp_path)


# ---- windows

class RoundedUp(nn.Module):
    """The last windows of a pooling reach beyond the picture."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        return self.second(nn.functional.max_pool2d(self.first(x), 3, stride=2, ceil_mode=True))


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pooled")
    torch.manual_seed(6)
    model, x = RoundedUp().eval(), torch.randn(1, 2, 12, 12)
    files = SimpleNamespace(path=folder / "m.onnx", weights=models.save_weights(model, folder / "m.safetensors"),
                            sidecar=folder / "m.whence.json")
    with whence.record(files.sidecar):
        torch.onnx.export(model, (x,), files.path, dynamo=False)
    return files


def test_windows_beyond_the_picture_are_accounted_for(pooled):
    assert unaccounted(attest(pooled.path, pooled)) == ([], [])


@pytest.mark.parametrize("changes", [{"ceil_mode": 0}, {"pads": [1, 1, 0, 0]}, {"ceil_mode": 0, "pads": [0, 0, 0, 1]}])
def test_other_windows_are_found(pooled, tmp_path, changes):
    model = onnx.load(pooled.path)
    [pool] = [node for node in model.graph.node if node.op_type == "MaxPool"]
    kept = [each for each in pool.attribute if each.name not in changes]
    del pool.attribute[:]
    pool.attribute.extend([*kept, *(onnx.helper.make_attribute(name, value) for name, value in changes.items())])
    assert alarms(model, pooled, tmp_path)
