"""Source lines as code scanning knows them: by the path of their file from the root of the repository.

``schema/files/source_root.h`` does the same for the command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r'^ *File "(.*)", line (\d+), in (.*)$', re.MULTILINE)
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python3")
_MOST = 64  # folders of a recorded path that are tried at the root


@dataclass(frozen=True)
class SourceLine:
    file: str  # as Python had it where the model was recorded
    line: int
    function: str


Stack = Sequence[SourceLine]  # innermost first


def read_traceback(text: str) -> tuple[SourceLine, ...]:
    """The frames that PyTorch writes down on a node."""
    return tuple(SourceLine(file, int(line), function) for file, line, function in reversed(_FRAME.findall(text)))


class SourceRoot:
    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._root = Path(os.path.realpath(folder or "."))

    def below(self, file: str | os.PathLike[str]) -> str | None:
        """The path from the root of a file on this disk; None for one that does not lie below it."""
        place = Path(os.path.realpath(file))
        return place.relative_to(self._root).as_posix() if self._root in place.parents else None

    def find(self, source: str) -> str | None:
        """The same for a source file as a recording names it. One that was recorded elsewhere, in a container or on another
        machine, is the file at the root that the end of its path names. None for files of installed packages, too."""
        if not source or source.startswith("<") or "\0" in source or any(each in source for each in _INSTALLED):
            return None
        if source.startswith("/") and (path := self.below(source)) is not None:
            return path
        parts = source.strip("/").split("/")
        ends = ("/".join(parts[at:]) for at in range(min(len(parts), _MOST)))
        there = next((end for end in ends if os.path.isfile(self._root / end)), None)
        return None if there is None else self.below(self._root / there)

    def line_in(self, stack: Stack) -> tuple[str, int] | None:
        """Path and line of the innermost frame whose file ``find`` knows, or else of the innermost one, by its whole path."""
        written = [each for each in stack if each.file and not each.file.startswith("<eval_with_key>")]
        own = next(((path, each.line) for each in written if (path := self.find(each.file)) is not None), None)
        return own or next(((each.file, each.line) for each in written), None)
