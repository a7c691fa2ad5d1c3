"""Feeds: tensors for the inputs of a file, recorded or supplied by the caller.

An input gets the supplied tensor, else the tensor recorded under its name, else one of the remaining recorded tensors,
by position. If more tensors than inputs remain, exactly one pairing must fit the sizes."""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..base.optional_packages import import_optional
from ..errors import error, require_list
from ..values import archives
from .annotated_file import File

_MAX_PAIRINGS = 10_000  # maximum number of pairings by position to try

InputNames = Mapping[str, str] | Collection[str]
ExtraInputs = Mapping[str, Any] | str | os.PathLike[str] | Collection[str | os.PathLike[str]]


@dataclass(frozen=True)
class Overrides:
    """Inputs that the caller specifies, by their names in the file."""

    recorded: Mapping[str, str] = field(default_factory=dict)          # names of recorded inputs
    tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)  # inputs that were not recorded


@dataclass(frozen=True)
class Feed:
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    casts: dict[str, str] = field(default_factory=dict)        # the file's dtypes of converted inputs
    by_position: dict[str, str] = field(default_factory=dict)  # recorded names of inputs paired by position


def overrides_of(input_names: InputNames | None, extra_inputs: ExtraInputs | None) -> Overrides:
    """Parses ``input_names`` (recorded names by the file's names, or strings "file=recorded") and ``extra_inputs``
    (tensors or arrays by the file's names, or .npz or .pt files). Raises WhenceError E0101, E0102, E0203."""
    if isinstance(input_names, Mapping):
        recorded = dict(input_names)
    else:
        require_list(input_names or ())
        recorded = dict(_name_pair(each) for each in input_names or ())
    if extra_inputs is None or isinstance(extra_inputs, Mapping):
        return Overrides(recorded, _tensors(extra_inputs or {}))
    paths = [extra_inputs] if isinstance(extra_inputs, (str, os.PathLike)) else extra_inputs
    return Overrides(recorded, {name: each for path in paths for name, each in _tensors_of(Path(path)).items()})


def add_options(options: argparse.ArgumentParser) -> None:
    """Adds the options shared by all commands that run a file on recorded inputs."""
    options.add_argument("--input-name", action="append", default=[], metavar="FILE=RECORDED",
                         help="the recorded input for an input of the file; by default paired by name, then by "
                         "position; repeatable")
    options.add_argument("--extra-inputs", action="append", default=[], metavar="FILE",
                         help="inputs of the file that were not recorded, by the file's names, .npz or .pt; repeatable")


def _name_pair(text: str) -> tuple[str, str]:
    name, equals, recorded = text.partition("=")
    if not (name and equals and recorded):
        raise error("E0101", "usage", f"'{text}' is not a pair of names", "pass FILE=RECORDED: the file's input and "
                    "its recorded input")
    return name, recorded


def _tensors_of(path: Path) -> dict[str, torch.Tensor]:
    stored = archives.inputs_from(path)
    if len(stored) != 1 or not isinstance(stored[0], Mapping):
        raise error("E0101", "usage", f"{path} does not contain inputs by name", "use numpy.savez(path, "
                    "name=array) or torch.save({'name': tensor}, path)", file=str(path))
    return _tensors(stored[0])


def _tensors(arrays: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    try:
        return {name: torch.as_tensor(each).detach().cpu() for name, each in arrays.items()}
    except (TypeError, ValueError, RuntimeError) as failure:
        raise error("E0101", "usage", f"an extra input is not an array: {failure}",
                    "pass tensors or numpy arrays") from None


def feed(file: File, recorded: Mapping[str, torch.Tensor], overrides: Overrides) -> Feed:
    """Returns a tensor for each input of the file. Raises WhenceError: E0101 for unknown names, E0104 for inputs
    without a tensor and for tensors that do not fit."""
    pairs, by_position = _paired(file, recorded, overrides)
    result = Feed(by_position=by_position)
    for declared in _declared(file):
        name = declared.name
        tensor = overrides.tensors[name] if name in overrides.tensors else recorded[pairs[name]]
        _require_sizes(file, declared, tensor.shape)
        dtype = dtype_of(declared)
        if dtype is not None and dtype != tensor.dtype:
            if dtype.is_floating_point != tensor.dtype.is_floating_point:
                raise error("E0104", "input_mismatch", f"the input '{name}' is {_dtype_name(dtype)} in the file and "
                            f"{_dtype_name(tensor.dtype)} "
                            f"as {'supplied' if name in overrides.tensors else 'recorded'}",
                            "record values of the exported model, or supply the input with "
                            "--extra-inputs x.npz (extra_inputs)", file=file.path)
            result.casts[name] = _dtype_name(dtype)
            tensor = tensor.to(dtype)
        result.tensors[name] = tensor
    return result


def _declared(file: File) -> list[Any]:
    names = set(file.inputs)
    return [each for each in file.model.graph.input if each.name in names]


def _paired(file: File, recorded: Mapping[str, torch.Tensor],
            overrides: Overrides) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the recorded names of all inputs that are not supplied, and those that were paired by position."""
    _require_known(file, recorded, overrides)
    pairs = dict(overrides.recorded)
    remaining = [name for name in file.inputs if name not in pairs and name not in overrides.tensors]
    pairs |= {name: name for name in remaining if name in recorded}
    remaining = [name for name in remaining if name not in pairs]
    free = [name for name in recorded if name not in pairs.values()]
    by_position = _by_position(file, remaining, {name: recorded[name] for name in free})
    return pairs | by_position, by_position


def _require_known(file: File, recorded: Mapping[str, torch.Tensor], overrides: Overrides) -> None:
    unknown = [name for name in (*overrides.recorded, *overrides.tensors) if name not in file.inputs]
    if unknown:
        raise error("E0101", "usage", f"the file has no input '{unknown[0]}'",
                    f"its inputs are: {', '.join(file.inputs)}", file=file.path)
    if duplicates := [name for name in overrides.recorded if name in overrides.tensors]:
        raise error("E0101", "usage", f"the input '{duplicates[0]}' is both supplied and paired with a recorded input",
                    "specify it only once", file=file.path)
    if duplicates := [name for name in overrides.tensors if name in recorded]:
        raise error("E0101", "usage", f"the input '{duplicates[0]}' was recorded, and recorded results are not valid "
                    "for another value", "omit it from the extra inputs, or record values with it",
                    file=file.path)
    if unknown := [name for name in overrides.recorded.values() if name not in recorded]:
        raise error("E0101", "usage", f"no input '{unknown[0]}' was recorded",
                    f"recorded inputs: {', '.join(recorded) or 'none'}", file=file.path)


def _by_position(file: File, remaining: list[str], free: Mapping[str, torch.Tensor]) -> dict[str, str]:
    if len(remaining) == len(free):
        return dict(zip(remaining, free))
    choices = list(_fitting_choices(file, remaining, free))
    if len(choices) == 1:
        return dict(zip(remaining, choices[0]))
    names, others = ", ".join(map(repr, remaining)), ", ".join(map(repr, free))
    if len(remaining) > len(free):
        message = f"the file takes {names}, " + (f"but only these recorded inputs remain: {others}" if free else
                                                 f"which {'were' if len(remaining) > 1 else 'was'} not recorded")
    else:
        message = f"the file takes {names}; {'several choices' if choices else 'none'} of the recorded {others} fit"
    remedy = f"`--input-name {remaining[0]}=RECORDED` (input_names) pairs it, " if free else ""
    raise error("E0104", "input_mismatch", message, remedy + "`--extra-inputs x.npz` (extra_inputs) supplies other "
                f"inputs; the file's inputs are: {', '.join(file.inputs)}", file=file.path)


def _fitting_choices(file: File, remaining: list[str], free: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, ...]]:
    """Yields the choices of ``free`` tensors, in order, that fit the ``remaining`` inputs."""
    declared = {each.name: each for each in _declared(file)}
    for choice in itertools.islice(itertools.combinations(free, len(remaining)), _MAX_PAIRINGS):
        if all(_fits(declared[name], free[other]) for name, other in zip(remaining, choice)):
            yield choice


def _fits(declared: Any, tensor: torch.Tensor) -> bool:
    dtype = dtype_of(declared)
    return _has_sizes(declared, tensor.shape) and (
        dtype is None or dtype == tensor.dtype or {dtype, tensor.dtype} <= _FLOATS
        or {dtype, tensor.dtype} <= _INTEGERS)


_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_INTEGERS = {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8}


def _require_sizes(file: File, declared: Any, actual: Sequence[int]) -> None:
    if not _has_sizes(declared, actual):
        sizes = ["?" if size is None else size for size in _sizes(declared) or ()]
        raise error("E0104", "input_mismatch", f"the input '{declared.name}' has sizes {sizes} in the file, "
                    f"got {list(actual)}", "record values with inputs of these sizes", file=file.path)


def _has_sizes(declared: Any, actual: Sequence[int]) -> bool:
    dims = _sizes(declared)
    return dims is None or len(dims) == len(actual) and all(
        size in (None, other) for size, other in zip(dims, actual, strict=True))


def _sizes(declared: Any) -> list[int | None] | None:
    if not declared.type.tensor_type.HasField("shape"):
        return None
    return [each.dim_value if each.HasField("dim_value") else None for each in declared.type.tensor_type.shape.dim]


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def dtype_of(declared: Any) -> torch.dtype | None:
    """Returns the PyTorch dtype of an input of the file; None if PyTorch does not have it."""
    proto = import_optional("onnx", "reading a model").TensorProto
    return {proto.FLOAT: torch.float32, proto.FLOAT16: torch.float16, proto.BFLOAT16: torch.bfloat16,
            proto.DOUBLE: torch.float64, proto.INT32: torch.int32, proto.INT64: torch.int64,
            proto.INT16: torch.int16, proto.INT8: torch.int8, proto.UINT8: torch.uint8,
            proto.BOOL: torch.bool}.get(declared.type.tensor_type.elem_type)
