"""The steps of a tool in the order in which they run, across its processes, and which of them may run."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER_VARIABLE = "WHENCE_TOOL_STEPS"  # environment variable with the folder of the request and the log
_REQUEST, _LOG = "request.json", "log.jsonl"


@dataclass(frozen=True)
class Request:
    """Which steps may run: the first ``limit`` (None: all), with a name in ``only`` (None: any), and not in ``without``."""

    limit: int | None = None
    without: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Step:
    """One application of a pass or a rule; or a switch, which permits a pass that may run several times."""

    tool: str        # "onnxscript"
    name: str        # "FuseConvPad"
    place: str = ""  # the module with its code
    is_switch: bool = False

    def __str__(self) -> str:
        return f"{self.name} of {self.tool}"


class Steps:
    """Counts steps. The log has a line for each, so that several processes, one after the other, count on."""

    def __init__(self, folder: Path):
        self._log = folder / _LOG
        request = json.loads((folder / _REQUEST).read_text(encoding="utf-8"))
        self._request = Request(**request)
        self._count = self._size = 0

    @classmethod
    def start(cls, folder: Path, request: Request) -> Steps:
        (folder / _REQUEST).write_text(json.dumps(asdict(request)), encoding="utf-8")
        (folder / _LOG).touch()
        return cls(folder)

    def allows(self, tool: str, name: str, place: str = "", is_switch: bool = False) -> bool:
        """Counts a step that is about to run. Returns false if it must not run."""
        if os.path.getsize(self._log) != self._size:  # another process wrote lines
            self._count = len(self.taken())
        index = self._count
        with open(self._log, "a", encoding="utf-8") as log:
            log.write(json.dumps([tool, name, place, is_switch]) + "\n")
        self._count, self._size = index + 1, os.path.getsize(self._log)
        request = self._request
        return name not in request.without and (request.only is None or name in request.only) and (
            request.limit is None or index < request.limit)

    def allowed(self, tool: str, names: list[str]) -> list[str]:
        """Counts the passes that a tool is about to run, in any order and number. Returns those that may run."""
        return [name for name in names if self.allows(tool, name, is_switch=True)]

    def taken(self) -> list[Step]:
        """Returns all steps so far, including those that were not allowed to run."""
        return [Step(*json.loads(line)) for line in self._log.read_text(encoding="utf-8").splitlines()]
