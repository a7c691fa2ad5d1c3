"""Source lines for code scanning, with paths relative to the root of the repository. The counterpart of
``schema/files/source_root.h``."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r'^ *File "(.*)", line (\d+), in (.*)$', re.MULTILINE)
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python3")
_MAX_PARTS = 64  # maximum number of path suffixes to look up below the root


@dataclass(frozen=True)
class SourceLine:
    file: str  # path on the machine that recorded the model
    line: int
    function: str

    def __str__(self) -> str:
        """Returns "block.py:17 forward"."""
        return f"{self.file.rpartition('/')[2]}:{self.line} {self.function}"


Stack = Sequence[SourceLine]  # innermost first


def caller_of(stack: Stack) -> str:
    """Returns the innermost line outside of PyTorch, "block.py:17 forward", if the innermost line is PyTorch's."""
    if not stack or not _is_pytorchs(stack[0]):
        return ""
    frame = next((each for each in stack if not _is_pytorchs(each)), None)
    return str(frame) if frame is not None else ""


def _is_pytorchs(frame: SourceLine) -> bool:
    return "/torch/" in frame.file or frame.file.startswith("torch/")


def read_traceback(text: str) -> tuple[SourceLine, ...]:
    """Parses the call stack that PyTorch's exporter writes to a node."""
    return tuple(SourceLine(file, int(line), function) for file, line, function in reversed(_FRAME.findall(text)))


class SourceRoot:
    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._root = Path(os.path.realpath(folder or "."))

    def below(self, file: str | os.PathLike[str]) -> str | None:
        """Returns the path of a local file relative to the root; None if it is not below the root."""
        path = Path(os.path.realpath(file))
        return path.relative_to(self._root).as_posix() if self._root in path.parents else None

    def find(self, source: str) -> str | None:
        """Returns a recorded path relative to the root, or None. Looks up suffixes of the path below the root, because
        the model may have been recorded in a container or on another machine. Ignores installed packages."""
        if not source or source.startswith("<") or "\0" in source or any(each in source for each in _INSTALLED):
            return None
        if source.startswith("/") and (path := self.below(source)) is not None:
            return path
        parts = source.strip("/").split("/")
        suffixes = ("/".join(parts[at:]) for at in range(min(len(parts), _MAX_PARTS)))
        existing = next((suffix for suffix in suffixes if os.path.isfile(self._root / suffix)), None)
        return None if existing is None else self.below(self._root / existing)

    def line_in(self, stack: Stack) -> tuple[str, int] | None:
        """Returns path and line of the innermost frame below the root, or else of the innermost frame with its full
        path."""
        frames = [frame for frame in stack if frame.file and not frame.file.startswith("<eval_with_key>")]
        local = next(((path, frame.line) for frame in frames if (path := self.find(frame.file)) is not None), None)
        return local or next(((frame.file, frame.line) for frame in frames), None)
