"""Several models of one folder with one file of weights: an encoder and a decoder, a model and a part of it.

What two of them hold is stored once. The models name places in the file as ONNX's external data, which every runtime
reads; nothing else in them changes.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from .editing import graphs
from .errors import WhenceError, error
from .placing import draft_folder, folder_of, place_together
from .running import needs

_BESIDE_FROM = 1024  # bytes, as torch.onnx and onnx.save_model have it
_LARGE, _PAGE, _WORD = 1 << 16, 4096, 64  # large weights begin at a page, which a runtime can map


@dataclass(frozen=True)
class SharedWeights:
    """The file of weights, and how much of it more than one model holds."""

    path: Path
    bytes: int                 # the length of the file
    shared: tuple[str, ...]    # weights that stand in more than one model, by their name in the first
    saved: int                 # bytes that are stored once and not again
    unused: tuple[Path, ...]   # files of weights that none of the models reads any more

    def __str__(self) -> str:
        return f"{self.path}: {self.bytes:,} bytes, {self.saved:,} bytes less by {len(self.shared)} shared weights"


def share_weights(models: Sequence[str | os.PathLike], data: str | os.PathLike, *,
                  overwrite: bool = False) -> SharedWeights:
    """Moves the weights of ``models``, all in one folder, into ``data``, a name in that folder; equal ones once.

    All files take their place together, or none does. Files of weights that are not read any more are left and named.
    Raises WhenceError E0101 for models of several folders, E0401 where something else stands at ``data`` and
    ``overwrite`` is not given, E0502 for weights outside the folder, E0102 where a file is missing.
    """
    paths = [Path(os.path.abspath(each)) for each in models]
    if not paths or len(set(paths)) != len(paths) or len({each.parent for each in paths}) > 1:
        raise error("E0101", "usage", "share_weights takes different models of one folder",
                    "external data is named relative to a model: move the models into one folder first")
    target = paths[0].parent / data
    if target.parent != paths[0].parent or target in paths:
        raise error("E0101", "usage", f"'{data}' is not a new name in the folder of the models",
                    "give a name without a folder, such as 'weights.data'", file=str(target))
    onnx = needs("onnx", "share_weights")
    opened = [_model(onnx, path) for path in paths]
    with draft_folder(folder_of(target)) as made:
        with (made / target.name).open("wb") as file:
            store = _Store(file, target.name)
            read = {source for path, model in zip(paths, opened) for source in store.add(path, model)}
        for path, model in zip(paths, opened):
            (made / path.name).write_bytes(model.SerializeToString())
        place_together(made, [target], paths, overwrite or target in read)
    return SharedWeights(target, target.stat().st_size, tuple(store.shared), store.saved,
                         tuple(sorted(read - {target})))


def _model(onnx: Any, path: Path) -> Any:
    if not path.is_file():
        raise error("E0102", "missing_file", f"there is no file {path}", "check the path", file=str(path))
    try:
        return onnx.load(str(path), load_external_data=False)
    except Exception as failure:  # protobuf has classes of its own for what cannot be read
        raise error("E0204", "corrupt_file", f"{path} is not an ONNX model: {failure}", "check the file",
                    file=str(path)) from failure


class _Store:
    """Weights by their content."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self._places: dict[tuple[int, bytes], tuple[int, str, int]] = {}  # offset, name, number of the first model
        self._models = 0
        self.shared: dict[str, None] = {}
        self.saved = 0

    def add(self, path: Path, model: Any) -> set[Path]:
        """Moves the weights of a model into the file; the files in which they stood."""
        sources: set[Path] = set()
        for tensor in _tensors(model):
            if tensor.data_location == tensor.EXTERNAL:
                content, source = _outside(path, tensor)
                sources.add(source)
            elif len(tensor.raw_data) >= _BESIDE_FROM:
                content = tensor.raw_data
            else:
                continue
            self._move(tensor, content)
        self._models += 1
        return sources

    def _move(self, tensor: Any, content: Any) -> None:
        size = len(content)
        key = (size, hashlib.blake2b(content).digest())
        if key in self._places:
            offset, first, model = self._places[key]
            self.saved += size
            if model != self._models:
                self.shared[first] = None
        else:
            step = _PAGE if size >= _LARGE else _WORD
            offset = -(-self._file.tell() // step) * step
            self._file.write(bytes(offset - self._file.tell()))
            self._file.write(content)
            self._places[key] = (offset, tensor.name, self._models)
        tensor.ClearField("raw_data")
        del tensor.external_data[:]
        tensor.data_location = tensor.EXTERNAL
        for name, value in (("location", self._name), ("offset", offset), ("length", size)):
            tensor.external_data.add(key=name, value=str(value))


def _tensors(model: Any) -> Iterator[Any]:
    for graph in graphs(model.graph):
        yield from graph.initializer


def _outside(path: Path, tensor: Any) -> tuple[memoryview, Path]:
    """The content of a weight that stands in a file of its own."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    file = path.parent / entries.get("location", "")
    if ".." in file.parts or os.path.isabs(entries.get("location", "")) \
            or Path(os.path.realpath(file)).parent != Path(os.path.realpath(path.parent)):
        raise error("E0502", "outside_folder", f"the weight '{tensor.name}' of {path} is outside the model's folder",
                    "copy its file beside the model", file=str(path))
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
    with file.open("rb") as opened:
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))[offset:offset + length], file


def _damaged(path: Path, tensor: Any, why: str) -> WhenceError:
    return error("E0102", "missing_file", f"the weight '{tensor.name}' of {path} is not where the model says: {why}",
                 "copy the file of weights beside the model", file=str(path))
