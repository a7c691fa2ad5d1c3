"""Plants changes in honest files, and counts those that `whence attest` finds, with the right module."""

from __future__ import annotations

import collections
import json
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx

import command
from attested_files import arguments, findings
from corpus_files import File
from graph_changes import CHANGES
from honest_graph import Change, Honest


@dataclass(frozen=True)
class Planted:
    file: File
    kind: str
    change: Change
    is_found: bool
    is_module_right: bool
    found: str = ""  # what the command named


def plant(file: File, count: int = 1, kinds: list[str] | None = None) -> Iterator[Planted]:
    """Plants each of these kinds of changes in a file, one at a time; by default `count` kinds, which are others in other
    files. Skips a file with an alarm."""
    statement = _statement(file)
    if statement is None:
        return
    count = len(kinds) if kinds else count
    planted = 0
    for kind in np.random.default_rng(zlib.crc32(file.name.encode())).permutation(kinds or list(CHANGES)):
        model = onnx.load(file.path)
        honest = Honest(model, statement, np.random.default_rng(zlib.crc32(f"{file.name} {kind}".encode())))
        change = CHANGES[str(kind)](honest)
        if change is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "changed.onnx"
            onnx.save(model, path)
            yield _judged(file, str(kind), change, path)
        planted += 1
        if planted == count:
            return


def _statement(file: File) -> dict | None:
    """Returns the predicate of the unchanged file, or None if something in it is unaccounted."""
    if not file.sidecar.exists():
        return None
    result = command.run_process(arguments(file), {**command.os.environ})
    return json.loads(result.stdout)["predicate"] if result.returncode == 0 else None


def _judged(file: File, kind: str, change: Change, path: Path) -> Planted:
    result = command.run_process(arguments(replace(file, changed=path)), {**command.os.environ})
    if result.returncode not in (0, 1):
        return Planted(file, kind, change, False, False, f"exit {result.returncode}: {result.stderr.strip()[:200]}")
    predicate = json.loads(result.stdout)["predicate"]
    named = findings(predicate)
    # A node that was removed has no row: the differences name its operation and module.
    missing = [each for each in predicate["differences"] if each.startswith("no node stands for ")]
    right = [row["modules"] for row in named if row["name"] in change.names]
    right += [[each.partition(" of ")[2]] for each in missing if "removed" in change.text]
    return Planted(file, kind, change, bool(right) and result.returncode == 1,
                   any(change.modules & set(modules) for modules in right),
                   ", ".join([*(f"{row['name']} ({'; '.join(row['modules'])})" for row in named[:4]), *missing[:2]]))


def table(results: list[Planted], group: Callable[[str], str]) -> str:
    """Returns the counts by kind of change."""
    by_kind: dict[str, list[Planted]] = collections.defaultdict(list)
    for each in results:
        by_kind[each.kind].append(each)
    lines = [f"{len(results)} changed files of {len({each.file.model for each in results})} models:", "",
             "| change | files | found | with its module |", "|---|--:|--:|--:|"]
    lines += [_row(kind, by_kind[kind]) for kind in CHANGES if by_kind[kind]]
    return "\n".join([*lines, _row("all", results)]) + "\n"


def _row(kind: str, planted: list[Planted]) -> str:
    return (f"| {kind} | {len(planted)} | {sum(each.is_found for each in planted)} | "
            f"{sum(each.is_module_right for each in planted)} |")


def details(results: Iterable[Planted]) -> list[str]:
    """Returns a line for each change that was not found, or not with its module."""
    return [f"{'wrong module' if each.is_found else 'miss'}: {each.file.name}: {each.kind}: {each.change.text} in "
            f"{'; '.join(sorted(each.change.modules))}; named: {each.found or 'nothing'}"
            for each in results if not each.is_module_right]


def has_failed(results: Iterable[Planted]) -> bool:
    return not all(each.is_found for each in results)
