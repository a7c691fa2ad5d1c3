"""Reads an ONNX file without its weights, and adds outputs to a file without reading its weights.

Both work on protobuf's wire format. Protobuf parsers merge repeated occurrences of a message, so outputs are added by
appending a tiny second graph to the file."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..base.optional_packages import import_optional
from ..errors import WhenceError, error
from ..files.atomic_files import require_apart, write_text

_GRAPH, _INITIALIZER, _SPARSE, _OUTPUT = 7, 5, 15, 12   # fields of ModelProto and GraphProto (onnx.proto)
_BYTES_OF_TENSOR = {4, 5, 6, 7, 9, 10, 11}              # fields of TensorProto that contain elements
_NAME = 8                                               # field of TensorProto
_MAX_KEPT_BYTES = 4096                                  # maximum size of initializers that keep their content


def without_weights(path: str | os.PathLike[str], kept: Collection[str] = ()) -> Any:
    """Returns the onnx.ModelProto. Initializers of more than 4 KiB have no content, except those named in ``kept``.

    Raises WhenceError: E0102, E0201, E0202, E0203 if it is not an ONNX file, E0307 without onnx.
    """
    onnx = import_optional("onnx", "reading a model")
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise error("E0201", "empty_file", f"{path} has no bytes", "check how it was written", file=path)
            with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data, memoryview(data) as view:
                structure = b"".join(_model_parts(view, {name.encode() for name in kept}))
    except OSError as failure:
        raise error("E0102", "missing_file", f"{path} cannot be read: {failure}", "check the path", file=path) from None
    except (IndexError, ValueError):
        raise _not_a_model(path) from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(structure)
    except Exception:  # protobuf's DecodeError; its module depends on protobuf's version
        raise _not_a_model(path) from None
    if not model.graph.node:
        raise _not_a_model(path)
    return model


def _not_a_model(path: str):
    return error("E0203", "wrong_kind", f"{path} is not a complete ONNX file", "check it with whence.validate",
                 file=path)


def _model_parts(data: memoryview, kept: Collection[bytes]) -> Iterator[bytes]:
    for number, start, body, end in _fields(data, 0, len(data)):
        if number != _GRAPH:
            yield bytes(data[start:end])
            continue
        graph = b"".join(_graph_parts(data, body, end, kept))
        yield _field(_GRAPH, graph)


def _graph_parts(data: memoryview, begin: int, stop: int, kept: Collection[bytes]) -> Iterator[bytes]:
    for number, start, body, end in _fields(data, begin, stop):
        if number in (_INITIALIZER, _SPARSE) and end - body > _MAX_KEPT_BYTES and not (
                kept and number == _INITIALIZER and _name(data, body, end) in kept):
            yield _field(number, b"".join(
                bytes(data[field_start:field_end]) for field, field_start, _, field_end in _fields(data, body, end)
                if number == _INITIALIZER and field not in _BYTES_OF_TENSOR))
        else:
            yield bytes(data[start:end])


def _name(data: memoryview, begin: int, stop: int) -> bytes:
    """Returns the name of a TensorProto."""
    return next((bytes(data[body:end]) for number, _, body, end in _fields(data, begin, stop) if number == _NAME), b"")


def _fields(data: memoryview, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields the number, start, content start and end of each field of a message."""
    while at < stop:
        start = at
        tag, at = _varint(data, at)
        kind = tag & 7
        body = at
        if kind == 0:
            _, at = _varint(data, at)
        elif kind == 2:
            size, body = _varint(data, at)
            at = body + size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(kind)
        if at > stop:
            raise ValueError("the file ends within a field")
        yield tag >> 3, start, body, at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")


def _field(number: int, content: bytes) -> bytes:
    return _number(number << 3 | 2) + _number(len(content)) + content


def _number(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def more_outputs(names: Iterable[str]) -> bytes:
    """Returns the bytes that add these values as outputs if appended to an ONNX file. Runtimes infer their types."""
    return _field(_GRAPH, b"".join(_field(_OUTPUT, _field(1, name.encode())) for name in names))


def is_embedded(model: Any) -> bool:
    """Returns true if all weights are stored in the file."""
    return not any(each.data_location == 1 for each in model.graph.initializer)


def embed(tensor: Any, folder: str) -> None:
    """Reads the content of an initializer from its external file in ``folder`` into the initializer."""
    from onnx.external_data_helper import load_external_data_for_tensor

    load_external_data_for_tensor(tensor, folder)
    tensor.data_location = tensor.DEFAULT
    del tensor.external_data[:]


def files_of(path: str | os.PathLike[str], model: Any) -> list[Path]:
    """Returns the file and its external weight files."""
    names = {entry.value for each in model.graph.initializer if each.data_location == 1
             for entry in each.external_data if entry.key == "location"}
    return [Path(path), *(Path(path).parent / name for name in sorted(names))]


def external_weights(path: str | os.PathLike[str]) -> list[Path]:
    """Returns the model's external weight files; none if the model is unreadable, which is reported elsewhere."""
    try:
        return files_of(path, without_weights(path))[1:]
    except WhenceError:
        return []


def write_report(model: Path, label: str, target: str | os.PathLike[str], text: str) -> Path:
    """Writes text about the model, never over the model or its weights. Returns the path."""
    require_apart({label: target}, [model, *external_weights(model)])
    write_text(Path(target), text)
    return Path(target)


def require_weights(path: str | os.PathLike[str], model: Any) -> None:
    """Raises WhenceError E0102 if a file with weights is missing."""
    for weights in files_of(path, model)[1:]:
        if not weights.is_file():
            raise error("E0102", "missing_file", f"the file {weights} with weights of {Path(path).name} is missing",
                        "keep the model and its weight files together", file=str(path))


def with_outputs(path: str | os.PathLike[str], names: Iterable[str], folder: Path) -> Path:
    """Copies the file to ``folder`` and adds outputs. Returns the path of the copy."""
    target = folder / "more_outputs.onnx"
    shutil.copyfile(path, target)  # the kernel copies
    with open(target, "ab") as copy:
        copy.write(more_outputs(names))
    return target
