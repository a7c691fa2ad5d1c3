"""Caches outcomes of trials, so that an interrupted measurement can continue."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import WhenceError
from ..files.atomic_files import write_text
from .trial import Outcome

_VERSION = 1


class TrialCache:
    """Outcomes by quantised nodes, in one file for each combination of settings."""

    def __init__(self, file: Path, fresh: bool) -> None:
        self._file = file
        self._outcomes: dict[str, Outcome] = {}
        if not fresh:
            self._read()

    def _read(self) -> None:
        try:
            content = json.loads(self._file.read_text(encoding="utf-8"))
            if content["version"] == _VERSION:
                self._outcomes = {str(key): _outcome(each) for key, each in content["outcomes"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            self._outcomes = {}  # a damaged cache only costs time

    def get(self, nodes: Iterable[str]) -> Outcome | None:
        return self._outcomes.get(_key(nodes))

    def add(self, nodes: Iterable[str], outcome: Outcome) -> None:
        """Stores an outcome unless it is a failure, which may be temporary (a full disk). Ignores write errors."""
        if outcome.failed:
            return
        self._outcomes[_key(nodes)] = outcome
        with contextlib.suppress(OSError, WhenceError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_text(self._file, json.dumps(
                {"version": _VERSION, "outcomes": {key: asdict(each) for key, each in self._outcomes.items()}}))


def _outcome(row: dict[str, Any]) -> Outcome:
    return Outcome(float(row["error"]), int(row["size"]), unchanged=bool(row["unchanged"]))


def _key(nodes: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(nodes)).encode()).hexdigest()


def file_for(files: Iterable[Path], *settings: Any) -> Path:
    """Returns the cache file for these settings and file contents."""
    digest = hashlib.sha256(repr(settings).encode())
    for file in files:
        with open(file, "rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "whence" / "sensitivity" / f"{digest.hexdigest()[:32]}.json"
