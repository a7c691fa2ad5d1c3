"""Source lines for code scanning, with paths relative to the root of the repository.

``schema/files/source_root.h`` does this for the command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r'^ *File "(.*)", line (\d+), in (.*)$', re.MULTILINE)
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python3")
_MAX_PARTS = 64  # most parts of a recorded path to look for below the root


@dataclass(frozen=True)
class SourceLine:
    file: str  # path as Python had it where the model was recorded
    line: int
    function: str


Stack = Sequence[SourceLine]  # innermost first


def read_traceback(text: str) -> tuple[SourceLine, ...]:
    """Reads the stack frames that PyTorch writes on a node."""
    return tuple(SourceLine(file, int(line), function) for file, line, function in reversed(_FRAME.findall(text)))


class SourceRoot:
    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._root = Path(os.path.realpath(folder or "."))

    def below(self, file: str | os.PathLike[str]) -> str | None:
        """Returns the path relative to the root, for a file on this disk; None if the file is not below the root."""
        place = Path(os.path.realpath(file))
        return place.relative_to(self._root).as_posix() if self._root in place.parents else None

    def find(self, source: str) -> str | None:
        """Returns the path relative to the root, for the path in a recording. If the file was recorded in a container
        or on another machine, the end of its path is looked up below the root. None also for files of installed
        packages."""
        if not source or source.startswith("<") or "\0" in source or any(each in source for each in _INSTALLED):
            return None
        if source.startswith("/") and (path := self.below(source)) is not None:
            return path
        parts = source.strip("/").split("/")
        ends = ("/".join(parts[at:]) for at in range(min(len(parts), _MAX_PARTS)))
        existing = next((end for end in ends if os.path.isfile(self._root / end)), None)
        return None if existing is None else self.below(self._root / existing)

    def line_in(self, stack: Stack) -> tuple[str, int] | None:
        """Returns path and line of the innermost frame below the root, or else of the innermost frame, with its full
        path."""
        named = [each for each in stack if each.file and not each.file.startswith("<eval_with_key>")]
        own = next(((path, each.line) for each in named if (path := self.find(each.file)) is not None), None)
        return own or next(((each.file, each.line) for each in named), None)
