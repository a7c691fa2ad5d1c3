"""``whence attest --values``: runs a file on recorded inputs, to prove that its nodes compute what the model computed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..base.optional_packages import import_optional
from ..base.report_printing import counted
from ..errors import error, renamed_in_errors
from ..values.value_file import Recorded, Values
from . import annotated_file, file_inputs, measurements, tensor_differences
from .annotated_file import File
from .api import accuracy, recorded_of, runtime_of
from .file_inputs import ExtraInputs, InputNames, Overrides
from .report import AccuracyReport


@dataclass(frozen=True)
class NumberDifference:
    """The first place where a file computes other numbers than the model."""

    module: str     # the innermost module that encloses the nodes; the root is ""
    operation: str  # the recorded operation, "aten::sub"; "" if it is unknown
    node: str       # the node whose result differs
    extent: str     # "off by 0.35"

    def __str__(self) -> str:
        return ", ".join(each for each in (self.module or "(root)", self.operation, f"node {self.node}" if self.node else "",
                                           self.extent) if each)


@dataclass(frozen=True)
class AttestedNumbers:
    """The comparison of a file's values with the model's, on recorded inputs."""

    settings: str             # the runtime and how it ran
    versions: dict[str, str]  # of the runtime
    runs: int                 # calls of the model with recorded values
    calls: int                # module calls with results, in one run
    compared: int             # module calls whose results are values of the file
    tolerance: float          # relative difference above which a value differs
    tolerance_of: str         # its reason: a number format such as "float16", or "as given"
    first_difference: NumberDifference | None

    def to_json(self) -> dict[str, Any]:
        first = self.first_difference
        return {"settings": self.settings, "versions": self.versions, "runs": self.runs, "calls": self.calls,
                "compared": self.compared, "share": round(self.compared / self.calls, 4) if self.calls else 0.0,
                "tolerance": self.tolerance, "tolerance_of": self.tolerance_of,
                "first_difference": first and {"module": first.module, "operation": first.operation, "node": first.node,
                                               "extent": first.extent}}

    def lines(self) -> list[str]:
        """Returns the text below the counts of tensors and nodes."""
        found = "none differs" if self.first_difference is None else f"the first that differs: {self.first_difference}"
        runs = counted(self.runs, "run")
        return [f"numbers: {self.compared} of {self.calls} module calls compared in {runs}, {found}",
                f"  {self.settings}; a relative difference above {self.tolerance:g} counts ({self.tolerance_of})"]


# Dtypes of quantised weights. Biases are int32, but parameters of a model may be integers of 32 and 64 bits as well.
_QUANTISED = {"int4", "uint4", "int8", "uint8", "int16", "uint16", "undefined"}
_HALF = {"float16", "bfloat16"}


def measure(model: str | os.PathLike[str], values: str | os.PathLike[str], sidecar: str | os.PathLike[str],
            weight_dtypes: Set[str], *, tolerance: float | None = None, input_names: InputNames | None = None,
            extra_inputs: ExtraInputs | None = None, isolated: bool = False) -> AttestedNumbers:
    """Annotates a copy of the file with the sidecar and compares its values. The file's own outputs are compared as well:
    a value inside may be right although no output depends on it. ``weight_dtypes``: those of the file's tensors that are no
    constants. Raises WhenceError like ``accuracy``."""
    recorded = recorded_of(values)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder, \
            renamed_in_errors(Path(folder) / Path(model).name, os.fspath(model)):
        # Changed weights are findings, not errors. Names of nodes stay those of the statement.
        file = annotated_file.read(annotated_file.annotated_copy(
            model, Path(folder), "--sidecar", sidecar, "--allow-different-weights", "--no-names"))
        limit, limit_of = _limit_of_weights(file, weight_dtypes)
        if tolerance is not None:
            _require_strict(tolerance, measurements.number_format_of(file).max_limit if limit is None else limit)
            limit, limit_of = tolerance, ""
        report = accuracy(file.path, recorded, sidecar=sidecar, tolerance=limit, input_names=input_names,
                          extra_inputs=extra_inputs, isolated=isolated)
        # In a low precision, the steps are too coarse for some values on which nothing depends.
        is_coarse = tolerance is None and bool(weight_dtypes & (_QUANTISED | _HALF))
        # Errors that grow from step to step are accepted up to this one.
        max_sum = measurements.number_format_of(file).max_limit if limit is None else limit
        overrides = file_inputs.overrides_of(input_names, extra_inputs)
        first = _first_difference(file, report, is_coarse, max_sum) or next(
            _wrong_outputs(file, report, max_sum, recorded, overrides, isolated), None)
    versions = {"onnxruntime": import_optional("onnxruntime", "running a file").__version__}
    return AttestedNumbers(report.settings, versions, len(recorded.runs), len(report.modules), report.observable,
                           report.tolerance, limit_of or report.tolerance_of, first)


def _require_strict(tolerance: float, highest: float) -> None:
    """Refuses a tolerance with which a statement would prove nothing."""
    if tolerance > highest:
        raise error("E0101", "usage", f"the tolerance {tolerance:g} is above {highest:g}, the limit for rounding errors in this "
                    "file", "pass a lower one, or none")


def _limit_of_weights(file: File, weight_dtypes: Set[str]) -> tuple[float | None, str]:
    """Returns the limit of the weights' precision and its name, if nodes of the file suggest a lower precision: a node that
    quantises would otherwise raise the limit of a file whose weights are not quantised. Else returns None, for the limit
    of the file's precision."""
    name = measurements.number_format_of(file).name
    is_quantised, is_half = bool(weight_dtypes & _QUANTISED), bool(weight_dtypes & _HALF)
    if name == "float32" or is_quantised or is_half and name in _HALF:
        return None, ""
    weights = measurements.FLOAT16 if is_half else measurements.FLOAT32
    return weights.max_limit, f"weights in {weights.name}"


def _first_difference(file: File, report: AccuracyReport, is_coarse: bool, max_sum: float) -> NumberDifference | None:
    first = report.first
    if first is not None and (first.lasts or not is_coarse):
        return NumberDifference(first.module, first.operation, first.nodes[-1] if first.nodes else "",
                                f"does not run: {first.failure}" if first.failure else first.extent)
    grown = next((row for row in report.modules if row.status == "adds up" and row.relative > max_sum), None)
    return grown and NumberDifference(grown.module, "", _producer(file, grown.value), f"off by {grown.relative:.2g}")


def _producer(file: File, value: str) -> str:
    return file.producer[value].title if value in file.producer else ""


def _wrong_outputs(file: File, report: AccuracyReport, max_sum: float, recorded: Values, overrides: Overrides,
                   isolated: bool) -> Iterator[NumberDifference]:
    """Yields the outputs that do not equal the model's result at their place or, if the file has more or fewer outputs, no
    result and no input."""
    runtime = runtime_of(file, isolated=isolated)
    # The report also knows that an output of integers differs where the scores before it are nearly equal.
    right = {row.value for row in report.modules if not row.module and (
        row.status == "equal" or row.status == "adds up" and row.relative <= max_sum)}
    for run in recorded.runs:
        feed = measurements.feed_of(file, recorded, run, overrides)
        actual = dict(runtime.take(feed.tensors, file.outputs))
        results = [each for call in run.calls if call.parent is None for each in call.results]
        places = [[each] for each in results] if len(results) == len(file.outputs) else \
            [[*results, *run.inputs.values()]] * len(file.outputs)
        for name, expected in zip(file.outputs, places, strict=True):
            extent = _extent(actual.get(name), expected, recorded, report.tolerance)
            if extent and name not in right:
                yield NumberDifference("", "", _producer(file, name), f"output '{name}' {extent}")


def _extent(actual: Any, expected: Sequence[Recorded], recorded: Values, tolerance: float) -> str:
    """Returns how an output differs from the nearest expected result; "" if it equals one."""
    if not isinstance(actual, torch.Tensor):
        return "was not compared"
    figures = (tensor_differences.compare(recorded, each, actual, in_own_order=True) for each in expected)
    nearest = min((each.relative for each in figures if each is not None), default=None)
    if nearest is None:
        return "has another size or dtype"
    return "" if nearest <= tolerance else f"is off by {nearest:.2g}"
