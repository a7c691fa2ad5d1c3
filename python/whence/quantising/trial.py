"""A trial: some nodes are quantised, the file runs, and its outputs are compared. Trials run in processes of their own, too."""

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

from ..numerics import ort_session, tensor_differences, without_weights
from . import quantisers
from .quantisers import Example

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Setting:
    """Common to all trials of a measurement."""

    files: Sequence[Path]          # the file, and those beside it that hold its weights
    quantiser: str
    feeds: Sequence[Arrays]        # by the file's inputs
    wanted: Sequence[Sequence[Any]]  # outputs of the file as it is, for each feed
    folder: str                    # for files of trials, and what calibration measured
    external: bool
    threads: int                   # ONNX Runtime's; 0: as it decides


@dataclass(frozen=True)
class Outcome:
    error: float = math.nan   # the largest relative difference of an output, over all inputs
    size: int = 0             # bytes of the file, and of what lies beside it
    failed: str = ""          # why there is no error, in the quantiser's or the runtime's words
    unchanged: bool = False   # the quantiser found nothing to do


def run(setting: Setting, nodes: Sequence[str]) -> Outcome:
    with tempfile.TemporaryDirectory(dir=setting.folder) as folder, quantisers.quiet():
        source, target = linked(setting, Path(folder) / "source"), Path(folder) / "trial.onnx"
        example = Example(setting.feeds, Path(setting.folder) / "calibration.json", setting.external)
        try:
            quantisers.named(setting.quantiser).write(source, target, list(nodes), example)
            if _operators(target) == _operators(source):
                return Outcome(0.0, bytes_of(source), unchanged=True)
            results = outputs(str(target), setting.feeds, setting.threads)
        except Exception as failure:  # quantisers and runtimes have classes of their own, without a common one
            said = str(failure).strip().splitlines()
            return Outcome(failed=said[0] if said else type(failure).__name__)
        off = [relative(wanted, got) for row, others in zip(setting.wanted, results) for wanted, got in zip(row, others)]
        return Outcome(max(off, default=0.0), sum(bytes_of(each) for each in Path(folder).glob("*.onnx")))


def linked(setting: Setting, folder: Path) -> Path:
    """The file in a folder of its own: quantisers write what they infer beside it."""
    folder.mkdir()
    for each in setting.files:
        try:
            os.link(each, folder / each.name)
        except OSError:  # another file system
            shutil.copyfile(each, folder / each.name)
    return folder / setting.files[0].name


def outputs(path: str, feeds: Sequence[Arrays], threads: int = 0) -> list[list[Any]]:
    """For each feed, the outputs that are tensors, in the file's order."""
    import onnxruntime

    options = ort_session.session_options()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs() if each.type.startswith("tensor(")]
    return [session.run(names, dict(feed)) for feed in feeds]


def relative(wanted: Any, got: Any) -> float:
    """As ``whence accuracy`` has it; infinite where sizes differ."""
    if wanted.shape != got.shape:
        return math.inf
    return tensor_differences.relative(torch.from_numpy(wanted), torch.from_numpy(got))


def bytes_of(path: Path) -> int:
    """The size of the file and of the weights that it reads beside it."""
    return sum(each.stat().st_size for each in without_weights.files_of(path, without_weights.without_weights(path)))


def _operators(path: Path) -> list[str]:
    return sorted(node.op_type for node in without_weights.without_weights(path).graph.node)
