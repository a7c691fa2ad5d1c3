"""Moves the weights of several models in one folder into one file, such as an encoder and a decoder.

A weight that models share is stored once. The models refer to the file as ONNX external data, which every runtime
reads; nothing else in the models changes.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..base.optional_packages import import_optional
from ..base.report_printing import Printed
from ..errors import WhenceError, error
from ..files.atomic_files import draft_folder, folder_of, move_together
from ..files.onnx_graphs import EXTERNAL_FROM, graphs

_MAX_NAME = 255  # bytes, for a file
_NUMBERS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")  # fields of a TensorProto
# In bytes. Large weights begin at a page, so that a runtime can map them.
_LARGE_SIZE, _PAGE_ALIGNMENT, _SMALL_ALIGNMENT = 1 << 16, 4096, 64


@dataclass(frozen=True, repr=False)
class SharedWeights(Printed):
    """The file of weights, and the weights in it that several models share."""

    path: Path
    bytes: int                 # the length of the file
    shared: tuple[str, ...]    # weights in more than one model, by their name in the first model
    saved: int                 # bytes saved by storing shared weights once
    unused: tuple[Path, ...]   # weight files that are no longer read

    def _headline(self) -> str:
        return f"{self.path}: {self.bytes:,} bytes, {self.saved:,} bytes less by {len(self.shared)} shared weights"


def share_weights(models: Sequence[str | os.PathLike[str]], data: str | os.PathLike[str], *,
                  overwrite: bool = False) -> SharedWeights:
    """Moves the weights of ``models``, all in one folder, into ``data``, a file name in that folder. Stores equal
    weights once.

    Replaces all files or none. Keeps and reports weight files that are no longer read. Raises WhenceError:
    E0101 for models in several folders, E0401 if ``data`` exists or contains weights of other models, without
    ``overwrite``, E0502 for weights outside the folder, E0102 for a missing file."""
    paths = _paths(models)
    target = _target(data, paths)
    onnx = import_optional("onnx", "share_weights")
    loaded = [_model(onnx, path) for path in paths]
    with draft_folder(folder_of(target)) as draft:
        with (draft / target.name).open("wb") as file:
            store = _WeightFile(file, target.name, onnx.numpy_helper)
            sources = {source for path, model in zip(paths, loaded) for source in store.add(path, model)}
        if target in sources and not overwrite:
            _require_no_other_reader(onnx, target, paths)
        for path, model in zip(paths, loaded):
            (draft / path.name).write_bytes(model.SerializeToString())
        move_together(draft, [target], paths, overwrite or target in sources)
    return SharedWeights(target, target.stat().st_size, tuple(store.shared), store.saved,
                         tuple(sorted(sources - {target})))


def _paths(models: Any) -> list[Path]:
    try:
        paths = [Path(os.path.abspath(os.fsdecode(each))) for each in models] if not isinstance(models, str) else []
    except TypeError:
        paths = []
    if not paths or len({os.path.realpath(each) for each in paths}) != len(paths) \
            or len({each.parent for each in paths}) > 1:
        raise error("E0101", "usage", "share_weights takes a list of different models in one folder",
                    "external data is named relative to a model: move the models into one folder first")
    return paths


def _target(data: Any, paths: Sequence[Path]) -> Path:
    name = data if isinstance(data, (str, os.PathLike)) else ""
    target = paths[0].parent / name
    if target.parent != paths[0].parent or target in paths or "\0" in str(name) \
            or len(os.fsencode(target.name)) > _MAX_NAME:
        raise error("E0101", "usage", f"{data!r} is not a new name in the folder of the models",
                    "pass a name without a folder, such as 'weights.data'", file=str(target))
    return target


def _require_no_other_reader(onnx: Any, target: Path, paths: Sequence[Path]) -> None:
    """Raises WhenceError E0401 if a model outside ``paths`` reads the file, which is replaced with the weights of
    ``paths``."""
    for other in sorted(set(target.parent.glob("*.onnx")) - set(paths)):
        try:
            model = _model(onnx, other)
        except WhenceError:
            continue
        if any(entry.key == "location" and entry.value == target.name
               for tensor in _tensors(model) for entry in tensor.external_data):
            raise error("E0401", "cannot_write", f"{other.name} also reads its weights from {target}",
                        f"add {other.name} to the models, or choose a name other than {target.name}",
                        file=str(target))


def _model(onnx: Any, path: Path) -> Any:
    if not path.is_file():
        raise error("E0102", "missing_file", f"there is no file {path}", "check the path", file=str(path))
    try:
        model = onnx.load(str(path), load_external_data=False)
        if not model.HasField("graph"):
            raise ValueError("it has no graph")
        return model
    except Exception as failure:  # protobuf raises its own exceptions for unreadable files
        raise error("E0204", "corrupt_file", f"{path} is not an ONNX model: {failure}", "check the file",
                    file=str(path)) from failure


class _WeightFile:
    """Writes weights to the file, each content once."""

    def __init__(self, file: BinaryIO, name: str, numpy_helper: Any) -> None:
        self._file, self._name, self._numpy_helper = file, name, numpy_helper
        # By length and digest: offset, name of the weight in its first model, index of that model.
        self._stored: dict[tuple[int, bytes], tuple[int, str, int]] = {}
        self._model_count = 0
        self.shared: dict[str, None] = {}
        self.saved = 0

    def add(self, path: Path, model: Any) -> set[Path]:
        """Moves the weights of a model into the file. Returns the files in which they were stored."""
        sources: set[Path] = set()
        for tensor in _tensors(model):
            if tensor.data_location == tensor.EXTERNAL:
                content, source = _external_content(path, tensor)
                sources.add(source)
            elif len(content := self._embedded_content(tensor)) < EXTERNAL_FROM:
                continue
            self._move(tensor, content)
        self._model_count += 1
        return sources

    def _embedded_content(self, tensor: Any) -> bytes:
        """Returns the content of an embedded weight; b"" for strings, which cannot be external data."""
        if tensor.raw_data or tensor.data_type == tensor.STRING:
            return tensor.raw_data
        numbers = self._numpy_helper.from_array(self._numpy_helper.to_array(tensor))
        return numbers.raw_data if numbers.data_type == tensor.data_type else b""

    def _move(self, tensor: Any, content: Any) -> None:
        size = len(content)
        key = (size, hashlib.blake2b(content).digest())
        if key in self._stored:
            offset, first, model = self._stored[key]
            self.saved += size
            if model != self._model_count:
                self.shared[first] = None
        else:
            step = _PAGE_ALIGNMENT if size >= _LARGE_SIZE else _SMALL_ALIGNMENT
            offset = -(-self._file.tell() // step) * step
            self._file.write(bytes(offset - self._file.tell()))
            self._file.write(content)
            self._stored[key] = (offset, tensor.name, self._model_count)
        for field in ("raw_data", *_NUMBERS):
            tensor.ClearField(field)
        del tensor.external_data[:]
        tensor.data_location = tensor.EXTERNAL
        for name, value in (("location", self._name), ("offset", offset), ("length", size)):
            tensor.external_data.add(key=name, value=str(value))


def _tensors(model: Any) -> Iterator[Any]:
    for graph in graphs(model.graph):
        yield from graph.initializer


def _external_content(path: Path, tensor: Any) -> tuple[memoryview, Path]:
    """Returns the content of an external weight, and its file."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    file = path.parent / entries.get("location", "")
    if ".." in file.parts or os.path.isabs(entries.get("location", "")) \
            or Path(os.path.realpath(file)).parent != Path(os.path.realpath(path.parent)):
        raise error("E0502", "outside_folder", f"the weight '{tensor.name}' of {path} is outside the model's folder",
                    "copy its file next to the model", file=str(path))
    try:
        size = file.stat().st_size
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", size - offset))
    except (OSError, ValueError) as failure:
        raise _damaged(path, tensor, str(failure)) from failure
    if offset < 0 or length < 0 or offset + length > size:
        raise _damaged(path, tensor, f"{file} has {size} bytes")
    if not length:
        return memoryview(b""), file
    with file.open("rb") as data:
        return memoryview(mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ))[offset:offset + length], file


def _damaged(path: Path, tensor: Any, why: str) -> WhenceError:
    return error("E0102", "missing_file", f"the weight '{tensor.name}' of {path} cannot be read: {why}",
                 "copy the weight file next to the model", file=str(path))
