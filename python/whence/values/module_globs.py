"""Globs for modules, as in `whence select --modules`. A glob matches a module and all modules below it. ``*`` matches a
segment of a qualified name or part of one, ``**`` any number of segments, ``[0-3]`` one character of a set. A glob also
matches the module whose name is equal to it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable

from ..errors import error


def matcher(globs: Iterable[str]) -> Callable[[str], bool]:
    """Returns a function that tests if a module or an enclosing module matches one of ``globs``."""
    patterns = [_compiled(glob) for glob in globs]
    return lambda path: any(pattern.fullmatch(path) for pattern in patterns)


def require_matches(globs: Iterable[str], paths: Collection[str]) -> None:
    """Raises WhenceError E0101 for a glob that matches no module."""
    for glob in globs:
        if not any(map(matcher([glob]), paths)):
            similar = difflib.get_close_matches(glob, list(paths), 3, 0.3)
            raise error("E0101", "usage", f"no module matches '{glob}'",
                        f"the nearest are {', '.join(similar)}" if similar else "`whence show` lists the modules")


def _compiled(glob: str) -> re.Pattern[str]:
    try:
        return re.compile(rf"({_pattern(glob)}|{re.escape(glob)})(\..*)?")
    except re.error:
        raise error("E0101", "usage", f"invalid glob '{glob}'", "use a glob such as encoder.layer.[0-3].**") from None


def _pattern(glob: str) -> str:
    """Converts a glob to a regular expression. ``encoder.**`` also matches ``encoder``."""
    pattern = ""
    for part in re.split(r"(\.\*\*(?=\.|$)|^\*\*\.|\*\*|\*|\?|\[[^]]+\])", glob):
        if part.startswith("["):
            pattern += part
        else:
            pattern += {".**": r"(\..+)?", "**.": r"(.+\.)?", "**": ".*", "*": r"[^.]*",
                        "?": r"[^.]"}.get(part, re.escape(part))
    return pattern
