"""Compares the plugin's live recordings with `whence record` of the resulting archives."""

import functools
import io
import warnings

import pytest
import torch

import command
from live_python.live import recorded_operations, recording
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
    """Returns the model and its inputs by position, which this exporter requires."""
    model, inputs = entry.model(), entry.inputs(entry.first)
    forward = model.forward
    model.forward = lambda *tensors: forward(**dict(zip(inputs, tensors, strict=True)))
    return model, tuple(inputs.values())


def test_operations_equal_archive(name):
    assert recorded_operations(traced_live(name)) == recorded_operations(archive_sidecar(name))


def test_modules_and_parameters_equal_archive(name):
    live, archive = Sidecar(traced_live(name)), Sidecar(archive_sidecar(name))
    assert live.table("modules") == archive.table("modules")
    columns = ("name", "aliases", "kind", "trainable", "dtype", "shape", "digest", "digest_transposed",
               "digest_float16")
    used = {value["index"] for value in live.table("values") if value["source"] == "parameter"}
    for index, (row, expected) in enumerate(zip(live.table("parameters"), archive.table("parameters"), strict=True)):
        used_columns = columns if index in used else columns[:6]
        assert {key: row[key] for key in used_columns} == {key: expected[key] for key in used_columns}


def test_types_equal_archive(name):
    live, archive = Sidecar(traced_live(name)), Sidecar(archive_sidecar(name))
    types = [[[(v["kind"], v["dtype"], v["dims"]) for v in (side.table("values")[i] for i in row["outputs"])]
              for row in side.operations()] for side in (live, archive)]
    assert types[0] == types[1]
    shapes = [[(row["name"], side.table("values")[row["value"]]["dims"]) for row in side.table("inputs")]
              for side in (live, archive)]
    assert shapes[0] == shapes[1]
    assert len(live.table("outputs")) == len(archive.table("outputs"))


def test_export_agrees_with_trace(name):
    rows, expected = recorded_operations(exported_live(name)[0]), recorded_operations(traced_live(name))
    assert [row[:3] for row in rows] == [row[:3] for row in expected]


def test_export_is_annotated(name, tmp_path):
    sidecar, model = exported_live(name)
    live, archive = (command.run_json("annotate", model, "--sidecar", record, "-o", tmp_path / "annotated.onnx")
                     for record in (sidecar, archive_sidecar(name)))
    for confidence in ("nodes", "exact", "matched", "inferred", "ancestor", "unattributed"):
        assert live[confidence] == archive[confidence], (live, archive)
    assert live["unattributed"] == 0


def test_recording_does_not_change_the_export(name, tmp_path):
    entry = zoo.MODELS[name]

    def export() -> bytes:
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(*positional(entry), file, dynamo=False)
        return file.getvalue()

    unrecorded = export()
    with recording(tmp_path / "m.whence.json"):
        recorded = export()
    assert recorded == unrecorded
