"""Trials: each quantises some nodes, runs the file and compares its outputs. Trials may run in separate processes."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..numerics import ort_session, tensor_differences, model_structure
from . import quantisers
from .quantisers import Example

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Setting:
    """Settings shared by all trials of a measurement."""

    files: Sequence[Path]          # the file, and the files with its external weights
    quantiser: str
    feeds: Sequence[Arrays]        # sets of inputs, by input name
    expected: Sequence[Sequence[Any]]  # outputs of the unquantised file, for each feed
    folder: str                    # for files of trials and calibration results
    external: bool                 # the file has external weights
    threads: int                   # of ONNX Runtime; 0: default


@dataclass(frozen=True)
class Outcome:
    error: float = math.nan   # maximum relative difference over all outputs and inputs
    size: int = 0             # bytes of the file and its external weights
    failed: str = ""          # the error message of the quantiser or runtime; "": no failure
    unchanged: bool = False   # the quantiser changed nothing


def run(setting: Setting, nodes: Sequence[str]) -> Outcome:
    with tempfile.TemporaryDirectory(dir=setting.folder) as folder, quantisers.quiet_logging():
        source, target = copy_files(setting), Path(folder) / "trial.onnx"
        example = Example(setting.feeds, Path(setting.folder) / "calibration.json", setting.external)
        try:
            quantisers.named(setting.quantiser).write(source, target, list(nodes), example)
            if _operators(target) == _operators(source):
                return Outcome(0.0, bytes_of(source), unchanged=True)
            results = outputs(str(target), setting.feeds, setting.threads)
        except Exception as failure:  # exceptions of quantisers and runtimes have no common base class
            lines = str(failure).strip().splitlines()
            return Outcome(failed=lines[0] if lines else type(failure).__name__)
        errors = [relative(expected, actual) for row, actual_row in zip(setting.expected, results)
                  for expected, actual in zip(row, actual_row)]
        return Outcome(max(errors, default=0.0), sum(bytes_of(each) for each in Path(folder).glob("*.onnx")))


def copy_files(setting: Setting) -> Path:
    """Returns the path of this process's copy of the file, next to which quantisers write inferred models. onnx refuses
    links to external weights."""
    folder = Path(setting.folder) / f"source-{os.getpid()}"
    if not folder.exists():
        unfinished = Path(tempfile.mkdtemp(dir=setting.folder))
        for file in setting.files:
            shutil.copyfile(file, unfinished / file.name)
        unfinished.rename(folder)
    return folder / setting.files[0].name


def outputs(path: str, feeds: Sequence[Arrays], threads: int = 0) -> list[list[Any]]:
    """Returns the tensor outputs for each feed, in the file's order."""
    import onnxruntime

    options = ort_session.session_options()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs() if each.type.startswith("tensor(")]
    return [session.run(names, dict(feed)) for feed in feeds]


def relative(expected: Any, actual: Any) -> float:
    """Returns the relative difference as in ``whence accuracy``; infinite if shapes differ."""
    if expected.shape != actual.shape:
        return math.inf
    return tensor_differences.relative(torch.from_numpy(expected), torch.from_numpy(actual))


def bytes_of(path: Path) -> int:
    """Returns the size of the file and its external weights."""
    return sum(each.stat().st_size for each in model_structure.files_of(path, model_structure.without_weights(path)))


def _operators(path: Path) -> list[str]:
    return sorted(node.op_type for node in model_structure.without_weights(path).graph.node)
