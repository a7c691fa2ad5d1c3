"""The error that a number format explains: the difference between PyTorch's run in another precision and the recorded
run. A file in that precision is wrong only where its error is larger."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..errors import error
from ..values import value_file
from ..values.value_file import Recorded, Run, Values
from ..values.value_recorder import record_values
from . import tensor_differences

FORMATS = ("float16", "bfloat16", "int8-dynamic")
Like = Values | str | os.PathLike[str]


def errors_by_key(like: Like, model: Any, recorded: Values, run: Run) -> Mapping[str, float]:
    """Returns the relative difference of each recorded tensor in the other precision, by its key. ``like`` is a name of
    FORMATS, or values recorded in that precision. Raises WhenceError E0101, E0206 if the values are of another model."""
    values = _values_of(like, model, recorded, run)
    number = recorded.runs.index(run)
    other = values.runs[number] if number < len(values.runs) else Run()
    calls = {(call.module, call.call): call for call in other.calls}
    errors: dict[str, float] = {}
    for call in run.calls:
        counterpart = calls.get((call.module, call.call))
        if counterpart is None:
            continue
        for ours, theirs in _pairs(call, counterpart):
            difference = _difference(recorded, ours, values, theirs)
            if difference is not None:
                errors[ours.key] = max(difference, errors.get(ours.key, 0.0))
    if not errors:
        raise error("E0206", "sidecar_mismatch", f"{values.place} has no run like the one in {recorded.place}",
                    "record the same model with the same inputs, converted to the other precision")
    return errors


def _values_of(like: Like, model: Any, recorded: Values, run: Run) -> Values:
    if isinstance(like, Values):
        return like
    if like not in FORMATS:
        return value_file.read(like)
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise error("E0101", "usage", f"like='{like}' converts the model, which must be a torch.nn.Module",
                    "pass model=, or values recorded with the converted model")
    inputs = {name: recorded.whole(each) for name, each in run.inputs.items()}
    converted = copy.deepcopy(model).eval()
    if like == "int8-dynamic":
        converted = torch.ao.quantization.quantize_dynamic(converted, {torch.nn.Linear, torch.nn.LSTM, torch.nn.GRU})
    else:
        converted = converted.to(getattr(torch, like))
        inputs = {name: each.to(getattr(torch, like)) if each.is_floating_point() else each for name, each in inputs.items()}
    values = record_values(converted, (), kwargs=inputs, full=["**"])
    return Values([values.runs[0]] * len(recorded.runs), values.place, values._get)


def _pairs(ours: value_file.ModuleCall, theirs: value_file.ModuleCall) -> Iterator[tuple[Recorded, Recorded]]:
    yield from zip(ours.results, theirs.results)
    yield from zip(ours.given, theirs.given)
    if ours.operations and theirs.operations and [each.operator for each in ours.operations] == [
            each.operator for each in theirs.operations]:
        for mine, other in zip(ours.operations, theirs.operations, strict=True):
            yield from zip(mine.results, other.results)


def _difference(recorded: Values, ours: Recorded, values: Values, theirs: Recorded) -> float | None:
    """Returns the relative difference; infinite if NaN or infinities differ, None if it cannot be computed."""
    if ours.dims != theirs.dims or tensor_differences.is_number(ours) != tensor_differences.is_number(theirs):
        return None
    if theirs.form == "whole":
        figures = tensor_differences.compare(recorded, ours, values.whole(theirs), in_own_order=True)
        return None if figures is None else figures.relative
    if ours.form == "whole":
        return None
    a, b = values.sketch(theirs), recorded.sketch(ours)
    if a.not_finite != b.not_finite:
        return math.inf
    return float(torch.linalg.vector_norm(a.projection.double() - b.projection.double())) / b.norm if b.norm else 0.0
