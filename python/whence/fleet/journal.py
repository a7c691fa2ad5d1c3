"""The journal: a line of JSON for each finished model, so that a killed run can be continued."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO

from ..errors import error
from .one_model import ModelOptions, Row, stamps
from .registry import Model


class Journal:
    """The last row of each model, by file. Keeps only these rows in memory, whatever the sizes of the models."""

    def __init__(self, path: Path, file: IO[str]):
        self._file = file
        self.rows: dict[str, Row] = {}
        self._own_outputs: set[str] = set()  # results of this run and earlier ones
        for row in _rows(path):
            self._remember(row)

    def add(self, row: Row) -> None:
        """Writes the row to disk before it returns."""
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._remember(row)

    def wrote(self, model: Model) -> bool:
        return model.output in self._own_outputs

    def has_done(self, model: Model, options: ModelOptions) -> bool:
        """Returns true if the model finished with these options, its input files did not change, and its results
        exist."""
        row = self.rows.get(model.file)
        if row is None or not row["ok"] or row["wishes"] != json.loads(json.dumps(asdict(options))):
            return False
        results = [model.output, *([model.report] if options.reports else [])]
        return row["output"] == model.output and all(map(os.path.exists, results)) and row["stamps"] == stamps(model)

    def _remember(self, row: Row) -> None:
        self.rows[row["file"]] = row
        if row["ok"]:
            self._own_outputs.add(row["output"])


@contextmanager
def open_locked(path: Path) -> Iterator[Journal]:
    """Opens and locks the journal. Raises WhenceError E0401 if another run has it open, or if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    except OSError as failure:
        raise error("E0401", "cannot_write", f"{path} cannot be written: {failure.strerror}", "name another folder with "
                    "--output", file=str(path)) from failure
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise error("E0401", "cannot_write", f"another run writes to {path.parent}", "wait for it, or name another folder "
                        "with --output", file=str(path)) from None
        except OSError:  # a file system without locks
            pass
        _end_line(path, file)
        yield Journal(path, file)


def _end_line(path: Path, file: IO[str]) -> None:
    """Ends a line that a killed run left incomplete, so that the next row starts a new line."""
    with path.open("rb") as content:
        size = content.seek(0, os.SEEK_END)
        content.seek(max(size - 1, 0))
        if size and content.read(1) != b"\n":
            file.write("\n")
            file.flush()


def _rows(path: Path) -> Iterator[Row]:
    """Reads the rows; skips lines that a killed run left incomplete."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(row, dict) and {"file", "output", "ok", "wishes"} <= row.keys():
                yield row
