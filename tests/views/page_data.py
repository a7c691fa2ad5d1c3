"""Reads the data in a page of `whence report` without running the page's script."""

import base64
import json
import re
import zlib
from pathlib import Path

import numpy as np

MODULE_COLUMNS = ("type", "parent", "calls", "own", "total", "parameters", "trainable", "operations", "uncounted",
                  "unsized")
OPTIONAL = ("modules-parent", "modules-calls", "modules-trainable", "nodes-module", "nodes-operations")


def unpack(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text), wbits=-15)


class Page:
    """The data of one page: `tables` is its JSON; columns and texts are read by name."""

    def __init__(self, path: Path):
        self.text = path.read_text()
        self.tables = json.loads(re.search(r'id="whence-data">(.*?)</script>', self.text, re.DOTALL).group(1))

    def column(self, name: str) -> list:
        """Returns the numbers of a column, with None for missing ones."""
        width, count, text = re.search(
            rf'id="whence-column-{name}" data-width="(\d)" data-count="(\d+)">(.*?)</script>', self.text).groups()
        numbers = np.frombuffer(unpack(text), {"1": "u1", "2": "<u2", "4": "<u4", "8": "<f8"}[width])
        if width != "8":
            numbers = np.cumsum(numbers, dtype=numbers.dtype)
        assert len(numbers) == int(count)
        return [None if number == 0 else int(number) - 1 for number in numbers] if name in OPTIONAL else [
            int(number) for number in numbers]

    def texts(self, name: str) -> list[str]:
        return [text for piece in self.pieces(f"text-{name}") for text in piece]

    def pieces(self, name: str) -> list:
        found = re.findall(rf'id="whence-{name}-(\d+)">(.*?)</script>', self.text)
        assert [int(number) for number, _ in found] == list(range(len(found)))
        return [json.loads(unpack(text)) for _, text in found]

    def node_column(self, name: str) -> dict:
        """Returns a column of the nodes by node name."""
        return dict(zip(self.texts("names"), self.column(f"nodes-{name}"), strict=True))

    def modules(self) -> list[dict]:
        columns = {name: self.column(f"modules-{name}") for name in MODULE_COLUMNS}
        columns["path"] = self.texts("paths")
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def edges(self) -> list[tuple]:
        """Returns the names (from, to, value) of every edge."""
        names, values = self.texts("names"), self.texts("values")
        columns = (self.column(f"edges-{name}") for name in ("from", "to", "value"))
        return [(names[source], names[target], values[value]) for source, target, value in zip(*columns, strict=True)]

    def shapes(self) -> dict[str, str]:
        return dict(zip(self.texts("values"), (self.tables["shape_texts"][number] for number
                                               in self.column("values-shape")), strict=True))
