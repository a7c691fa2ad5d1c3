"""Writes files with the tools, decides which are right, and asks whence where they differ."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "python"), str(ROOT / "tests"), str(ROOT / "tests" / "real_bugs")]
os.environ.setdefault("WHENCE", str(ROOT / "build" / "bin" / "whence"))

from right_models import MODELS
from right_tools import EXPORTERS, TOOLS

FOLDER = ROOT / "build" / "right_files"
CALIBRATION_SEEDS = range(2, 6)


@dataclass(frozen=True)
class File:
    """A written file, and what is known of it."""

    model: str
    exporter: str
    tool: str              # "" for the exporter's own file
    path: Path
    refused: str = ""      # why it was not written
    error: float = 0.0     # the largest relative difference of its outputs; infinite if it does not run
    allowed: float = 0.0   # that its precision explains
    alarm: str = ""        # the verdict of whence, if it names a module or does not accept the file

    @property
    def name(self) -> str:
        return ".".join(filter(None, (self.model, self.exporter, self.tool)))

    @property
    def number_format(self) -> str:
        return TOOLS[self.tool].number_format if self.tool else "float32"

    @property
    def is_right(self) -> bool:
        return not self.refused and self.error <= self.allowed


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drops what the tools print."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def export(model: str, exporter: str, folder: Path) -> File:
    path = folder / model / f"{exporter}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with quiet():
            EXPORTERS[exporter](MODELS[model].module(), MODELS[model].example(), path)
    except Exception as failure:  # exporters refuse models with exceptions of many classes
        return File(model, exporter, "", path, _one_line(failure))
    return File(model, exporter, "", path)


def change(exported: File, tool: str) -> File:
    """Writes the file of a tool in this process."""
    path = _target(exported.path, tool)
    try:
        with quiet():
            TOOLS[tool].write(exported.path, path, _calibration(exported.model, exported.path))
    except Exception as failure:  # tools refuse files with exceptions of many classes
        path.unlink(missing_ok=True)
        return File(exported.model, exported.exporter, tool, path, _one_line(failure))
    return File(exported.model, exported.exporter, tool, path)


def change_elsewhere(exported: list[File], tool: str) -> list[File]:
    """Writes the files of a tool in a process of the environment that has it."""
    import environments

    python = environments.python_of(TOOLS[tool].pins)
    done = subprocess.run([python, __file__, tool, *(each.path for each in exported)], capture_output=True, text=True, check=False)
    files = [File(each.model, each.exporter, tool, _target(each.path, tool)) for each in exported]
    return [each if each.path.exists() else replace(each, refused=f"{tool}: {done.stderr.strip()[-200:]}") for each in files]


def judge(file: File) -> File:
    """Compares the file's outputs with PyTorch's."""
    import torch

    from results import difference

    with torch.no_grad():
        expected = MODELS[file.model].module()(*MODELS[file.model].example())
    try:
        found, = _session(file.path).run(None, _arrays(file.model, file.path, 1))
        error = difference(expected, torch.from_numpy(found))
    except Exception:  # ONNX Runtime's exceptions have no common base class
        error = float("inf")
    return replace(file, error=error, allowed=_allowed(file.model, file.number_format))


def ask(file: File) -> File:
    """Annotates a file and measures its accuracy."""
    import whence

    sidecar, values = _recording(file.model, file.path.parent)
    annotated = file.path.with_suffix(".annotated.onnx")
    try:
        whence.annotate(file.path, sidecar, output=annotated, overwrite=True)
        report = whence.accuracy(annotated, values, sidecar=sidecar)
    except whence.WhenceError as failure:
        return replace(file, alarm=str(failure))
    return replace(file, alarm=report.verdict if report.first is not None else "")


@cache
def _recording(model: str, folder: Path) -> tuple[Path, Path]:
    import torch

    import whence

    sidecar, values = folder / "model.whence.json", folder / "model.values.safetensors"
    module, inputs = MODELS[model].module(), MODELS[model].example()
    with quiet():
        with whence.record(sidecar):
            torch.jit.trace(module, inputs, check_trace=False)
        whence.record_values(module, inputs, values, operations=True)
    return sidecar, values


@cache
def _allowed(model: str, number_format: str) -> float:
    from rounded_runs import allowed_error

    return allowed_error(MODELS[model].module(), MODELS[model].example(), number_format)


def _target(source: Path, tool: str) -> Path:
    return source.with_name(f"{source.stem}.{tool}.onnx")


def _calibration(model: str, path: Path) -> list[dict]:
    return [_arrays(model, path, seed) for seed in CALIBRATION_SEEDS]


def _arrays(model: str, path: Path, seed: int) -> dict:
    names = [each.name for each in _session(path).get_inputs()]
    return {name: each.numpy() for name, each in zip(names, MODELS[model].example(seed), strict=True)}


def _session(path: Path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _one_line(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}".replace("\n", " ")[:200]


if __name__ == "__main__":  # in the environment of a tool: right_files.py TOOL EXPORTED_FILE...
    for source in map(Path, sys.argv[2:]):
        with contextlib.suppress(Exception):
            TOOLS[sys.argv[1]].write(source, _target(source, sys.argv[1]), [])
