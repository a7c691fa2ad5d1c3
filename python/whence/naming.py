"""What kinds of names an ONNX file's nodes have, and how much metadata: read from the protobuf's structure alone.

Field numbers are those of onnx.proto: ModelProto.graph 7; GraphProto.node 1; NodeProto.name 3, op_type 4,
metadata_props 9. Weights are skipped, not read.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import error


@dataclass(frozen=True)
class Naming:
    """Counts over the nodes of the main graph."""

    nodes: int
    unnamed: int
    simple: int       # "Conv_12", "node_matmul_3"
    class_scope: int  # scopes that are no path from the root: "BertLayer/MatMul", "pkg.Layer::attention/Add"
    full_path: int    # "/encoder/layer.3/attention/self/query/MatMul"
    metadata: int     # entries on nodes
    bytes: int        # of the file, without external data


def fields(data, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(number, begin, end) of every length-delimited field of a message."""
    at = begin

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < end:
        key = varint()
        if key & 7 == 2:
            size = varint()
            yield key >> 3, at, at + size
            at += size
        elif key & 7 == 0:
            varint()
        else:
            at += {1: 8, 5: 4}[key & 7]


def kind_of(name: str) -> str:
    """unnamed, simple, class_scope or full_path."""
    if not name:
        return "unnamed"
    if "/" not in name and "::" not in name:
        return "simple"
    return "full_path" if name.startswith("/") and "::" not in name else "class_scope"


def naming(model: str | os.PathLike) -> Naming:
    """Raises WhenceError E0102 for a file that is not there, E0203 for one that is no ONNX model."""
    path = Path(model)
    if not path.is_file():
        raise error("E0102", "missing_file", f"no such file: {path}", "check the name", file=str(path))
    counts = dict.fromkeys(("unnamed", "simple", "class_scope", "full_path"), 0)
    nodes = metadata = 0
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for number, begin, end in fields(data, 0, len(data)):
                if number != 7:
                    continue
                for part, node_begin, node_end in fields(data, begin, end):
                    if part != 1:
                        continue
                    name = b""
                    for inner, first, last in fields(data, node_begin, node_end):
                        name = data[first:last] if inner == 3 else name
                        metadata += inner == 9
                    counts[kind_of(name.decode("utf-8", "replace"))] += 1
                    nodes += 1
    except (IndexError, KeyError, ValueError):
        raise error("E0203", "wrong_kind", f"{path.name} is no ONNX model", "give an .onnx file",
                    file=str(path)) from None
    return Naming(nodes, **counts, metadata=metadata, bytes=path.stat().st_size)
