"""Recorded values of one or more runs, in memory or in a safetensors file.

Keys: ``RUN/input/NAME`` for an input of the model, ``RUN/MODULE#CALL/given.N`` for an argument,
``RUN/MODULE#CALL/result.N`` for a result, and ``RUN/MODULE#CALL/operation.K.N`` for a tensor that an operation returned
but no call. A sketch has three entries: ``KEY:moments``, ``KEY:samples`` and ``KEY:projection``. The file's metadata
entry "whence" contains the runs as JSON (docs/values.md).
"""

from __future__ import annotations

import functools
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..base.optional_packages import import_optional
from ..base.report_printing import Printed, Table, counted
from ..errors import WhenceError, error, require_path
from ..files.atomic_files import require_writable, write_atomically
from .sketch import BUCKETS, MOMENTS, PARTS, SAMPLES, Sketch

VERSION = 1
_MAX_SKETCHES = 4096  # maximum number of sketches that stay in memory, 24 MB
_REMEDY = "record the values again: whence.record_values"


@dataclass(frozen=True)
class Recorded:
    """One tensor of a run."""

    key: str
    dtype: str             # torch's name: "float32"
    dims: tuple[int, ...]
    form: str              # "whole" or "sketch"

    @property
    def count(self) -> int:
        count = 1
        for size in self.dims:
            count *= size
        return count


@dataclass(frozen=True)
class Operation:
    """One operation of a call. It returned at least one tensor."""

    operator: str                   # "aten::linear"
    results: tuple[Recorded, ...]


@dataclass(frozen=True)
class ModuleCall:
    """One call of one module. Calls are sorted by their end, so inner calls come first."""

    module: str                     # qualified name; the root is ""
    type: str                       # the module's class
    call: int                       # 0 for the module's first call in the run
    parent: int | None              # index of the enclosing call in the run's calls
    given: tuple[Recorded, ...]     # argument tensors in order, including nested ones
    results: tuple[Recorded, ...]   # result tensors in order, including nested ones
    operations: tuple[Operation, ...] | None = None  # in order, without inner calls'; None: not recorded

    @property
    def name(self) -> str:
        return f"{self.module or '(root)'}" + (f" call {self.call}" if self.call else "")


@dataclass
class Run:
    """One call of the model."""

    inputs: dict[str, Recorded] = field(default_factory=dict)  # by the name of forward's argument; never sketches
    calls: list[ModuleCall] = field(default_factory=list)


@dataclass(repr=False)
class Values(Printed):
    runs: list[Run]
    place: str                                   # the file, or a label for values in memory
    _get: Callable[[str], torch.Tensor]

    def __post_init__(self) -> None:
        self._sketch = functools.lru_cache(maxsize=_MAX_SKETCHES)(self._read_sketch)

    def _headline(self) -> str:
        calls = sum(len(run.calls) for run in self.runs)
        return f"{Path(self.place).name}: {counted(len(self.runs), 'run')}, {counted(calls, 'module call')}"

    def _table(self) -> Table:
        return Table(("module", "run", "type", "results"), [
            (call.name, number, call.type.rpartition(".")[2],
             ", ".join(f"{result.dtype}{list(result.dims)}" for result in call.results))
            for number, run in enumerate(self.runs) for call in run.calls], texts=4)

    def whole(self, recorded: Recorded) -> torch.Tensor:
        tensor = self._get(recorded.key)
        if tuple(tensor.shape) != recorded.dims or str(tensor.dtype) != f"torch.{recorded.dtype}":
            raise _corrupt(self.place, f"'{recorded.key}' is {tuple(tensor.shape)} of {tensor.dtype}, but its entry "
                           f"states {recorded.dims} of {recorded.dtype}")
        return tensor

    def sketch(self, recorded: Recorded) -> Sketch:
        return self._sketch(recorded)

    def _read_sketch(self, recorded: Recorded) -> Sketch:
        moments, samples, projection = (self._get(f"{recorded.key}:{part}") for part in PARTS)
        sizes = (moments.numel(), samples.numel(), projection.numel())
        if sizes != (len(MOMENTS), min(SAMPLES, recorded.count), BUCKETS):
            raise _corrupt(self.place, f"the sketch '{recorded.key}' has parts of {sizes} elements")
        return Sketch(moments.double(), samples, projection.float())


def in_memory(runs: list[Run], tensors: dict[str, torch.Tensor]) -> Values:
    return Values(runs, "values in memory", tensors.__getitem__)


def write(path: str | os.PathLike[str], runs: list[Run], tensors: dict[str, torch.Tensor]) -> None:
    """Writes the values to a file. Raises WhenceError: E0307 without safetensors, E0401."""
    import_optional("safetensors", "recorded values")
    from safetensors.torch import save_file

    checks = {key: _check(tensor) for key, tensor in tensors.items()}
    text = json.dumps({"version": VERSION, "checks": checks, "runs": list(map(_run_entry, runs))},
                      separators=(",", ":"))
    try:
        write_atomically(Path(path), lambda part: save_file(tensors, part, {"whence": text}))
    except OSError as failure:
        raise error("E0401", "cannot_write", f"the values cannot be written: {failure}", "choose another file",
                    file=str(path)) from failure


def _run_entry(run: Run) -> dict[str, Any]:
    """Converts a run to JSON values, without "operations" if they were not recorded."""
    entry = asdict(run)
    for call in entry["calls"]:
        if call["operations"] is None:
            del call["operations"]
    return entry


def require_place(path: str | os.PathLike[str]) -> None:
    """Raises WhenceError E0101, E0307 or E0401 if values could not be written to ``path``. Called before the run."""
    require_path(path, "the values file")
    import_optional("safetensors", "recorded values")
    require_writable(path, "model.values.safetensors")


def content(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bytes of the tensor's elements in contiguous order."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _check(tensor: torch.Tensor) -> int:
    return zlib.crc32(content(tensor).numpy())


def is_values(path: str | os.PathLike[str]) -> bool:
    """Returns true if the file contains recorded values."""
    try:
        read(path)
    except WhenceError:
        return False
    return True


def read(path: str | os.PathLike[str]) -> Values:
    """Opens a values file. Tensors are loaded on demand.

    Raises WhenceError: E0102, E0202, E0203, E0204, E0205, E0307 without safetensors.
    """
    path = os.fspath(path)
    safetensors = import_optional("safetensors", "recorded values")
    if not os.path.isfile(path):
        raise error("E0102", "missing_file", f"{path} does not exist", "check the path", file=path)
    try:
        opened = safetensors.safe_open(path, framework="pt")
        metadata = opened.metadata() or {}
    except OSError as failure:
        raise error("E0102", "missing_file", f"{path} cannot be read: {failure}", "check the path", file=path) from None
    except safetensors.SafetensorError as failure:
        if os.path.getsize(path) == 0:
            raise error("E0201", "empty_file", f"{path} has no bytes", _REMEDY, file=path) from None
        raise error(*(("E0202", "truncated_file") if _is_shortened(path, failure) else ("E0203", "wrong_kind")),
                    f"{path} is not a complete safetensors file: {failure}", _REMEDY, file=path) from None
    if "whence" not in metadata:
        raise error("E0203", "wrong_kind", f"{path} is a safetensors file without recorded values",
                    _REMEDY, file=path)
    names = set(opened.keys())
    runs, checks = _runs(metadata["whence"], path)

    def get(key: str) -> torch.Tensor:
        if key not in names:
            raise _corrupt(path, f"the tensor '{key}' is missing")
        try:
            tensor = opened.get_tensor(key)
        except (safetensors.SafetensorError, TypeError, KeyError) as failure:
            raise _corrupt(path, f"'{key}': {failure}") from None
        if checks.get(key) != _check(tensor):
            raise _corrupt(path, f"the checksum of '{key}' does not match")
        return tensor

    return Values(runs, path, get)


def _is_shortened(path: str, failure: Exception) -> bool:
    """Returns true if the file starts like a safetensors file but is shorter than its header states."""
    if re.search(r"incomplete|too ?small", str(failure), re.IGNORECASE):
        return True
    with open(path, "rb") as file:
        begin = file.read(9)
    max_header = 100_000_000  # bytes, from the format's specification
    return os.path.getsize(path) - 8 < int.from_bytes(begin[:8], "little") <= max_header and begin[8:] in (b"", b"{")


def _runs(text: str, path: str) -> tuple[list[Run], dict[str, int]]:
    """Returns the runs, and the checksums by tensor key."""
    try:
        metadata = json.loads(text)
        version = metadata["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as failure:
        raise _corrupt(path, f"its metadata 'whence' is invalid: {failure!r}") from None
    if type(version) is not int or version < 1 or not isinstance(metadata.get("runs"), list):
        raise _corrupt(path, "its metadata 'whence' is invalid")
    if version > VERSION:
        raise error("E0205", "newer_version", f"{path} has format version {version}, but this whence supports only "
                    f"versions up to {VERSION}", "install a newer whence", file=path)
    try:
        return [Run({str(name): _recorded(entry) for name, entry in run["inputs"].items()}, list(_calls(run["calls"])))
                for run in metadata["runs"]], dict(metadata["checks"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as failure:
        raise _corrupt(path, f"its metadata 'whence' is invalid: {failure!r}") from None


def _calls(entries: list[dict[str, Any]]) -> Iterator[ModuleCall]:
    for at, entry in enumerate(entries):
        parent = entry["parent"]
        if parent is not None and not at < int(parent) < len(entries):  # a call ends before its caller does
            raise ValueError(f"call {at} of {len(entries)} has the parent {parent}")
        yield ModuleCall(str(entry["module"]), str(entry["type"]), int(entry["call"]), parent,
                         tuple(map(_recorded, entry["given"])), tuple(map(_recorded, entry["results"])),
                         _operations(entry["operations"]) if "operations" in entry else None)


def _operations(entries: list[dict[str, Any]]) -> tuple[Operation, ...]:
    return tuple(Operation(str(entry["operator"]), tuple(map(_recorded, entry["results"]))) for entry in entries)


def _recorded(entry: dict[str, Any]) -> Recorded:
    dims = tuple(int(size) for size in entry["dims"])
    if entry["form"] not in ("whole", "sketch") or any(size < 0 for size in dims):
        raise ValueError(f"form {entry['form']!r}, sizes {dims}")
    return Recorded(str(entry["key"]), str(entry["dtype"]), dims, entry["form"])


def _corrupt(path: str, what: str):
    return error("E0204", "corrupt_file", f"{path} is damaged: {what}", _REMEDY, file=path)
