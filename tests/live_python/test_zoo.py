"""The plugin's live recording compared with what `whence record` reads from the resulting archive."""

import functools
import io
import warnings

import pytest
import torch

import command
from live_python.live import described, recording
from models import zoo
from sidecar import Sidecar

pytestmark = pytest.mark.parametrize("name", zoo.MODELS)


@functools.cache
def archive_sidecar(name: str):
    path = zoo.folder() / f"{name}.archive.whence.json"
    command.run("record", zoo.trace(name), "-o", path)
    return path


@functools.cache
def traced_live(name: str):
    """Returns the sidecar of torch.jit.trace."""
    path = zoo.folder() / f"{name}.live.whence.json"
    entry = zoo.MODELS[name]
    with recording(path):
        zoo.trace_module(entry.model(), entry.inputs(entry.first))
    return path


@functools.cache
def exported_live(name: str):
    """Returns the sidecar of torch.onnx.export(dynamo=False), and the ONNX file."""
    path, model = zoo.folder() / f"{name}.export.whence.json", zoo.folder() / f"{name}.export.onnx"
    entry = zoo.MODELS[name]
    with recording(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(*positional(entry), str(model), dynamo=False)
    return path, model


def positional(entry) -> tuple:
    """Returns the model and its inputs by position, as this exporter requires them."""
    model, inputs = entry.model(), entry.inputs(entry.first)
    forward = model.forward
    model.forward = lambda *tensors: forward(**dict(zip(inputs, tensors, strict=True)))
    return model, tuple(inputs.values())


def test_trace_equals_archive(name):
    assert described(traced_live(name)) == described(archive_sidecar(name))


def test_modules_and_parameters_equal_the_archives(name):
    live, archive = Sidecar(traced_live(name)), Sidecar(archive_sidecar(name))
    assert live.table("modules") == archive.table("modules")
    keep = ("name", "aliases", "kind", "trainable", "dtype", "shape", "digest", "digest_transposed", "digest_float16")
    used = {value["index"] for value in live.table("values") if value["source"] == "parameter"}
    for index, (row, truth) in enumerate(zip(live.table("parameters"), archive.table("parameters"), strict=True)):
        columns = keep if index in used else keep[:6]
        assert {key: row[key] for key in columns} == {key: truth[key] for key in columns}


def test_types_equal_the_archives(name):
    live, archive = Sidecar(traced_live(name)), Sidecar(archive_sidecar(name))
    types = [[[(v["kind"], v["dtype"], v["dims"]) for v in (side.table("values")[i] for i in row["outputs"])]
              for row in side.operations()] for side in (live, archive)]
    assert types[0] == types[1]
    shapes = [[(row["name"], side.table("values")[row["value"]]["dims"]) for row in side.table("inputs")]
              for side in (live, archive)]
    assert shapes[0] == shapes[1]
    assert len(live.table("outputs")) == len(archive.table("outputs"))


def test_export_agrees_with_trace(name):
    rows, truth = described(exported_live(name)[0]), described(traced_live(name))
    assert [row[:3] for row in rows] == [row[:3] for row in truth]


def test_export_is_annotated(name, tmp_path):
    sidecar, model = exported_live(name)
    live, archive = (command.run_json("annotate", model, "--sidecar", each, "-o", tmp_path / "annotated.onnx")
                     for each in (sidecar, archive_sidecar(name)))
    for confidence in ("nodes", "exact", "matched", "inferred", "ancestor", "unattributed"):
        assert live[confidence] == archive[confidence], (live, archive)
    assert live["unattributed"] == 0


def test_the_plugin_changes_nothing(name, tmp_path):
    entry = zoo.MODELS[name]

    def export() -> bytes:
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(*positional(entry), file, dynamo=False)
        return file.getvalue()

    plain = export()
    with recording(tmp_path / "m.whence.json"):
        recorded = export()
    assert recorded == plain
