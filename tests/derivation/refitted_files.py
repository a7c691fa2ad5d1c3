"""Puts other weights into files of the corpus, and compares with the files that the same exporter and tools make anew.

A file is equal if all nodes and tensors are. Static quantisers also measure activations, whose ranges a refitted file keeps:
there, the integers of weights must be equal. Other files must be as near to PyTorch's outputs as the tool's own file, up to
a factor or the rounding of the format, and no tensor may be far from the tool's: coarse formats hide a wrong bias.
"""

from __future__ import annotations

import collections
import functools
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

import command
from accuracy.graphs import attributes
from corpus_files import File
from corpus_models import MODELS
from corpus_tools import rounding
from models.zoo import flatten
from results import MINIMUM, difference

FACTOR = 2.0  # between the errors of the refitted file and of the tool's own
FAR = 2e-3    # a difference of tensors that rounding does not explain (_extent)
EQUAL, WITHIN, UNKNOWN, REFUSED, WRONG = "equal", "within the noise", "does not run", "refused", "silent error"


@dataclass(frozen=True)
class Refitted:
    file: File
    outcome: str
    text: str = ""   # what differs, or why it was refused


def refit(old: File, new: File) -> Refitted:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "refitted.onnx"
        options = ("--base", old.weights, "--weights", new.weights, "--sidecar", old.sidecar, "-o", target)
        result = command.run_process(["refit", *map(str, (old.path, *options))], {**command.os.environ})
        if result.returncode != 0:
            return Refitted(old, REFUSED, result.stderr.strip())
        differences = _differences(onnx.load(target), onnx.load(new.path), only_weights="static" in old.tool)
        if not differences:
            return Refitted(old, EQUAL)
        return _compared(old, target, new, differences)


@dataclass(frozen=True)
class Difference:
    text: str
    extent: float = 0.0


def _differences(found: onnx.ModelProto, expected: onnx.ModelProto, only_weights: bool) -> list[Difference]:
    one, other = ({each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
                  for model in (found, expected))
    if only_weights:
        one, other = ({name: each for name, each in numbers.items() if each.dtype.itemsize == 1 and each.size > 1}
                      for numbers in (one, other))
    rows = [Difference(f"only in one file: {name}") for name in sorted(one.keys() ^ other.keys())]
    if not only_weights and [_text(node) for node in found.graph.node] != [_text(node) for node in expected.graph.node]:
        rows.append(Difference("the nodes"))
    for name in sorted(one.keys() & other.keys()):
        if one[name].shape != other[name].shape or one[name].dtype != other[name].dtype:
            rows.append(Difference(f"{name}: sizes or dtype"))
        elif one[name].tobytes() != other[name].tobytes():
            extent = _extent(one[name], other[name])
            rows.append(Difference(f"{name}: {extent:.1e}", extent))
    return rows


def _extent(found: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest difference relative to the largest number; of integers, the share of other ones."""
    if expected.dtype.kind in "iu":
        return float(np.mean(found != expected))
    first, second = found.astype(np.float64), expected.astype(np.float64)
    return float(np.abs(first - second).max() / max(np.abs(second).max(), 1e-30))


def _text(node: onnx.NodeProto) -> tuple:
    return node.op_type, node.domain, tuple(node.input), tuple(node.output), attributes(node)


def _compared(old: File, target: Path, new: File, differences: list[Difference]) -> Refitted:
    listed = f"{len(differences)} differences: {'; '.join(each.text for each in differences[:4])}"
    expected = _expected(old.model)
    try:
        noise = _error(expected, new.path, old.model)
    except Exception as failure:  # ONNX Runtime's exceptions have no common base class
        return Refitted(old, UNKNOWN, f"{listed}; {failure}".replace("\n", " ")[:300])
    try:
        error = _error(expected, target, old.model)
    except Exception as failure:
        return Refitted(old, WRONG, f"only the tool's file runs; {listed}; {failure}".replace("\n", " ")[:300])
    is_near = error <= max(MINIMUM[rounding(old.tool)], FACTOR * noise) and all(each.extent <= FAR for each in differences)
    return Refitted(old, WITHIN if is_near else WRONG, f"off by {error:.2g}, the tool's file by {noise:.2g}; {listed}")


@functools.cache
def _expected(model: str) -> list[torch.Tensor]:
    with torch.no_grad():
        return [each.detach() for each in flatten(MODELS[model].module(1)(**MODELS[model].arguments()))]


def _error(expected: list[torch.Tensor], path: Path, model: str) -> float:
    """Returns the largest relative difference of the outputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    arguments = MODELS[model].arguments()
    found = session.run(None, {each.name: arguments[each.name].numpy() for each in session.get_inputs()})
    return max(difference(one, torch.from_numpy(np.asarray(other))) for one, other in zip(expected, found, strict=True))


def table(results: list[Refitted], group: Callable[[str], str]) -> str:
    """Returns the outcomes by group of tools."""
    by_group: dict[str, list[str]] = collections.defaultdict(list)
    for each in results:
        by_group[group(each.file.tool)].append(each.outcome)
    outcomes = (EQUAL, WITHIN, UNKNOWN, REFUSED, WRONG)
    lines = [f"{len(results)} files of {len({each.file.model for each in results})} models:", "",
             f"| last tool | files | {' | '.join(outcomes)} |", "|---|" + "--:|" * (1 + len(outcomes))]
    rows = [*by_group.items(), ("all", [each.outcome for each in results])]
    for name, found in rows:
        lines.append(f"| {name} | {len(found)} | {' | '.join(str(found.count(each)) for each in outcomes)} |")
    return "\n".join(lines) + "\n"


def details(results: Iterable[Refitted]) -> list[str]:
    return [f"{each.outcome}: {each.file.name}: {each.text}" for each in results if each.outcome != EQUAL]


def has_failed(results: Iterable[Refitted]) -> bool:
    return any(each.outcome == WRONG for each in results)
