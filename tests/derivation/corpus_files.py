"""Writes the files of the corpus: every model by every exporter, and what tools make of each of these files.

    <folder>/<model>/<seed>/model.safetensors                 the checkpoint
    <folder>/<model>/<seed>/<exporter>.whence.json            the recorded program, for the first seed
    <folder>/<model>/<seed>/<exporter>.exported.onnx          the exporter's file
    <folder>/<model>/<seed>/<exporter>.<tool>.onnx            the file of a tool
    <folder>/<model>/<seed>/<exporter>.<tool>.failed          instead: why the tool wrote none

Existing files are kept. Those of whence's exporter and the recorded programs are written again for each command.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch
import whence

import corpus_tools
import small_models
from accuracy.models import by_position, quiet
from corpus_models import FURTHER, MODELS, Model

EXPORTED = "exported"
BASE_FAILED = "its base failed"
COLOUR = re.compile(r"\x1b\[\d+m")


@dataclass(frozen=True)
class File:
    model: str
    exporter: str
    tool: str        # EXPORTED for the exporter's file
    folder: Path     # of the model and seed
    changed: Path | None = None  # a changed copy, which replaces the file

    @property
    def path(self) -> Path:
        return self.changed or self.folder / f"{self.exporter}.{self.tool}.onnx"

    @property
    def weights(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def sidecar(self) -> Path:
        return self.folder / f"{self.exporter}.whence.json"

    @property
    def name(self) -> str:
        return f"{self.model}.{self.exporter}.{self.tool}"

    @property
    def failure(self) -> str:
        """Returns the first line of the reason why the file does not exist, or an empty text."""
        failed = self.path.with_suffix(".failed")
        return failed.read_text().partition("\n")[0] if failed.exists() else ""


def files_of(model: str, folder: Path, seed: int = 0) -> list[File]:
    """Lists the files of a model, whether they exist or not. Those with dynamic axes go through some tools only."""
    return [File(model, name, tool, folder / model / str(seed)) for name, exporter in EXPORTERS.items()
            if MODELS[model].dynamic_axes or not exporter.is_dynamic
            for tool in (EXPORTED, *_tools_of(model, exporter.is_dynamic))]


def _tools_of(model: str, is_dynamic: bool) -> tuple[str, ...]:
    if model in FURTHER:
        return corpus_tools.FOR_FURTHER
    return corpus_tools.FOR_DYNAMIC if is_dynamic else tuple(corpus_tools.names(model))


def write(files: list[File], command_digest: str, seed: int = 0) -> list[File]:
    """Writes the files of a model and seed that do not exist, and returns them."""
    folder = files[0].folder
    folder.mkdir(parents=True, exist_ok=True)
    if not files[0].weights.exists():
        small_models.save_weights(MODELS[files[0].model].module(seed), files[0].weights)
    stamp = folder / "command"
    if not stamp.exists() or stamp.read_text() != command_digest:
        for path in folder.glob("*.whence.json"):
            path.unlink()
        for file in files:
            if file.tool == EXPORTED and EXPORTERS[file.exporter].record is None:
                _export_again(file, seed)
    for file in files:
        _write(file, seed)
    stamp.write_text(command_digest)
    return files


def _export_again(exported: File, seed: int) -> None:
    """Writes the file of whence's exporter again; if it differs, removes the files that tools made of it."""
    before = exported.path.read_bytes() if exported.path.exists() else b""
    for path in (exported.path, exported.path.with_suffix(".failed")):
        path.unlink(missing_ok=True)
    _write(exported, seed)
    if not exported.path.exists() or exported.path.read_bytes() != before:
        for path in exported.folder.glob(f"{exported.exporter}.*"):
            if path not in (exported.path, exported.path.with_suffix(".failed"), exported.sidecar):
                path.unlink()


def _write(file: File, seed: int) -> None:
    failed = file.path.with_suffix(".failed")
    try:
        record = EXPORTERS[file.exporter].record
        if file.tool == EXPORTED and seed == 0 and record and not file.sidecar.exists() and not failed.exists():
            with quiet():
                record(MODELS[file.model], file)
        if failed.exists() or file.path.exists():
            return
        with quiet():
            if file.tool == EXPORTED:
                EXPORTERS[file.exporter].export(MODELS[file.model], seed, file)
            else:
                _run_tool(file)
    except Exception as failure:  # exporters and tools fail with exceptions of many classes
        message = COLOUR.sub("", f"{type(failure).__name__}: {failure}").replace("\n", " ")
        failed.write_text(f"{message}\n\n{traceback.format_exc()}")
        file.path.unlink(missing_ok=True)


def _run_tool(file: File) -> None:
    tool = corpus_tools.TOOLS[file.tool]
    base = File(file.model, file.exporter, tool.base, file.folder)
    if not base.path.exists():
        raise RuntimeError(BASE_FAILED)
    tool.of(file.model)(base.path, file.path, calibration(base))


def calibration(file: File) -> list[dict]:
    """Returns the run on which static quantisers measure a file: the model's example."""
    arguments = MODELS[file.model].arguments()
    graph = onnx.load(file.path, load_external_data=False).graph
    return [{value.name: arguments[value.name].numpy() for value in graph.input}]


# ---- exporters, with the recording that a user of each would make

def _export_dynamo(model: Model, seed: int, file: File) -> None:
    torch.onnx.export(model.module(seed), kwargs=model.arguments(), f=file.path, dynamo=True, external_data=False,
                      verbose=False)


def _record_program(model: Model, file: File) -> None:
    with whence.record(file.sidecar):
        torch.export.export(model.module(0), (), model.arguments())


def _dynamic_shapes(model: Model) -> dict[str, dict]:
    return {name: {axis: torch.export.Dim.DYNAMIC for axis in model.dynamic_axes.get(name, {})}
            for name in model.arguments()}


def _export_dynamic_dynamo(model: Model, seed: int, file: File) -> None:
    torch.onnx.export(model.module(seed), kwargs=model.dynamic_arguments(), f=file.path, dynamo=True, external_data=False,
                      verbose=False, dynamic_shapes=_dynamic_shapes(model))


def _record_dynamic_program(model: Model, file: File) -> None:
    with whence.record(file.sidecar):
        torch.export.export(model.module(0), (), model.dynamic_arguments(), dynamic_shapes=_dynamic_shapes(model))


def _export_torchscript(model: Model, seed: int, file: File, **options: object) -> None:
    arguments = model.arguments()
    torch.onnx.export(by_position(model.module(seed), list(arguments)), tuple(arguments.values()), file.path, dynamo=False,
                      input_names=list(arguments), **options)


def _export_dynamic_torchscript(model: Model, seed: int, file: File) -> None:
    _export_torchscript(model, seed, file, dynamic_axes=model.dynamic_axes)


def _record_trace(model: Model, file: File) -> None:
    with whence.record(file.sidecar):
        torch.jit.trace(model.module(0), example_kwarg_inputs=model.arguments(), strict=False, check_trace=False)


def _export_whence(model: Model, seed: int, file: File) -> None:
    whence.export(model.module(seed), f=file.path, kwargs=model.arguments(), sidecar=file.sidecar if seed == 0 else None)


@dataclass(frozen=True)
class Exporter:
    export: Callable[[Model, int, File], None]
    record: Callable[[Model, File], None] | None   # None if it records while it exports
    is_dynamic: bool = False


EXPORTERS = {
    "dynamo": Exporter(_export_dynamo, _record_program),
    "torchscript": Exporter(_export_torchscript, _record_trace),
    "whence": Exporter(_export_whence, None),
    "dynamo_dynamic": Exporter(_export_dynamic_dynamo, _record_dynamic_program, is_dynamic=True),
    "torchscript_dynamic": Exporter(_export_dynamic_torchscript, _record_trace, is_dynamic=True),
}
