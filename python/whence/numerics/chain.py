"""``whence.accuracy_chain``: compares the file of each step of a chain of tools, and names the step that broke it."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..base.report_printing import Printed, Table
from ..errors import error
from ..values.value_file import Values
from . import annotated_file
from .api import accuracy, recorded_of
from .report import AccuracyReport, ModuleAccuracy


@dataclass(frozen=True, repr=False)
class ChainReport(Printed):
    """The reports of a chain of files, each made from the one before it."""

    files: tuple[AccuracyReport, ...]

    @property
    def broken(self) -> AccuracyReport | None:
        """The first file with a difference."""
        return next((each for each in self.files if each.first is not None), None)

    @property
    def clean(self) -> bool:
        return all(each.clean for each in self.files)

    def first_change(self, at: int) -> ModuleAccuracy | None:
        """Returns the first module call whose error is not that of the file before. Errors hide later ones, so this
        finds more than the places where differences begin."""
        tolerance = max(self.files[at].tolerance, self.files[at - 1].tolerance)
        before = {(each.module, each.call): each for each in self.files[at - 1].modules if each.status != "not observable"}
        return next((each for each in self.files[at].modules if each.status != "not observable"
                     and _error_changed(each, before.get((each.module, each.call)), tolerance)), None)

    def summary(self, at: int) -> str:
        """Returns what the tool that made a file did to the numbers."""
        report = self.files[at]
        if not self.changes(at):
            return report.verdict if report.first is None else "errors as before"
        if report is self.broken or any(each.failure for each in report.beginnings):
            return report.verdict
        change = self.first_change(at)
        return f"changes again, first at {change.name}: off by {change.relative:.2g}"

    def changes(self, at: int) -> bool:
        """Returns true if the file differs in another way than the one before it."""
        report = self.files[at]
        return report.first is not None and (report is self.broken or any(each.failure for each in report.beginnings)
                                             or self.first_change(at) is not None)

    def to_json(self) -> dict[str, Any]:
        """Returns the reports, and the index of the first file with a difference, or null."""
        broken = self.broken
        return {"broken": self.files.index(broken) if broken is not None else None,
                "files": [each.to_json() for each in self.files]}

    def __str__(self) -> str:
        lines = [f"{report.path.name}: {self.summary(at)}" for at, report in enumerate(self.files)]
        broken = self.broken
        return "\n".join(lines if broken is None else [*lines, "", str(broken)])

    def _headline(self) -> str:
        broken = self.broken
        return f"{len(self.files)} files, " + ("none differs" if broken is None else f"{broken.path.name} is the first that differs")

    def _table(self) -> Table:
        return Table(("file", "result"), [(each.path.name, self.summary(at)) for at, each in enumerate(self.files)], texts=2)


def _error_changed(row: ModuleAccuracy, before: ModuleAccuracy | None, tolerance: float) -> bool:
    if before is None or not math.isfinite(row.relative) and not math.isfinite(before.relative):
        return False
    return not abs(row.relative - before.relative) <= tolerance


def accuracy_chain(paths: Collection[str | os.PathLike[str]], values: Values | str | os.PathLike[str], *,
                   sidecar: str | os.PathLike[str] | None = None, **options: Any) -> ChainReport:
    """Compares each file of a chain of tools, in order, like ``accuracy``, and finds the first that differs.

    paths    at least two files, each made by a tool from the one before it. A file without origins gets those of the
             one before it, or, if it is the first, those of ``sidecar``; the files themselves do not change.
    options  as for ``accuracy``.

    Raises WhenceError like ``accuracy`` and ``annotate``, and E0101 for fewer than two paths.
    """
    if isinstance(paths, (str, os.PathLike)) or len(paths) < 2:
        raise error("E0101", "usage", "a chain has at least two files", "pass the files in the order in which they were made")
    values = recorded_of(values)
    reports = []
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        for path, with_origins in zip(paths, _with_origins(paths, sidecar, Path(folder)), strict=True):
            report = accuracy(with_origins, values, sidecar=sidecar, **options)
            reports.append(replace(report, path=Path(path)))
    return ChainReport(tuple(reports))


def _with_origins(paths: Collection[str | os.PathLike[str]], sidecar: str | os.PathLike[str] | None,
                  folder: Path) -> Iterator[str | os.PathLike[str]]:
    """Yields the files with origins: copies in ``folder`` for those without."""
    previous = None
    for at, path in enumerate(paths):
        # A tool may have kept the keys of the nodes that it did not change.
        if not annotated_file.is_annotated(path) and (previous is not None or sidecar is not None):
            own_folder = folder / f"{at}"
            own_folder.mkdir()
            path = annotated_file.annotated_copy(path, own_folder, *(
                ("--sidecar", sidecar) if previous is None else ("--from", previous)))
        previous = path
        yield path
