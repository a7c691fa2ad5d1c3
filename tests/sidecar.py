"""Reads the tables of a sidecar (schema/sidecar.schema.json) that tests need, as rows with names."""

import json
from pathlib import Path

# Columns that contain one or several indices into the strings table.
TEXT = {
    "symbols": {"name"}, "modules": {"path", "type", "aliases"}, "frames": {"file", "function", "text"},
    "parameters": {"name", "aliases"}, "constants": {"name"}, "values": {"name"}, "inputs": {"name"},
    "outputs": {"name"}, "signature": {"kind", "name", "target"}, "operations": {"target", "overload", "name", "text"},
}


class Sidecar:
    def __init__(self, path):
        self.raw = json.loads(Path(path).read_text())
        self.strings = self.raw["strings"]

    def table(self, name: str) -> list[dict]:
        """Returns the rows of a table as dicts, with strings instead of indices."""
        columns, texts = self.raw[name]["columns"], TEXT.get(name, set())
        return [{column: self.text(cell) if column in texts else cell
                 for column, cell in zip(columns, row, strict=True)}
                for row in self.raw[name]["rows"]]

    def text(self, cell):
        if cell is None:
            return None
        return [self.strings[number] for number in cell] if isinstance(cell, list) else self.strings[cell]

    def operations(self) -> list[dict]:
        """Returns operations in execution order, with `module` (qualified name), `call`, `frames` (inner first)."""
        modules, scopes = self.table("modules"), self.table("scopes")
        frames, stacks = self.table("frames"), self.table("stacks")
        rows = self.table("operations")
        for row in rows:
            scope = scopes[row["scope"]]
            row["module"] = modules[scope["module"]]["path"]
            row["call"] = scope["call"]
            row["frames"] = [frames[number] for number in stacks[row["stack"]]["frames"]] if row["stack"] >= 0 else []
        return rows
