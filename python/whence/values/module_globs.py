"""Globs for modules, as `whence select --modules` has them: a glob means a module and all below it; ``*`` is one segment
of a qualified name or a part of one, ``**`` any number of segments, ``[0-3]`` one of a set."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable

from ..errors import error


def matcher(globs: Iterable[str]) -> Callable[[str], bool]:
    """A function that says whether a qualified name, or one around it, matches one of ``globs``."""
    patterns = [_compiled(glob) for glob in globs]
    return lambda path: any(pattern.fullmatch(path) for pattern in patterns)


def require_matches(globs: Iterable[str], paths: Collection[str]) -> None:
    """Raises WhenceError E0101 for a glob that none of the modules matches: it was probably meant to."""
    for glob in globs:
        if not any(map(matcher([glob]), paths)):
            near = difflib.get_close_matches(glob, list(paths), 3, 0.3)
            raise error("E0101", "usage", f"no module matches '{glob}'",
                        f"the nearest are {', '.join(near)}" if near else "`whence show` lists the modules")


def _compiled(glob: str) -> re.Pattern[str]:
    try:
        return re.compile(_pattern(glob) + r"(\..*)?")
    except re.error:
        raise error("E0101", "usage", f"'{glob}' is not a glob", "encoder.layer.[0-3].**, for instance") from None


def _pattern(glob: str) -> str:
    """``encoder.**`` matches ``encoder`` too: no segment is a number of segments."""
    pattern = ""
    for part in re.split(r"(\.\*\*(?=\.|$)|^\*\*\.|\*\*|\*|\?|\[[^]]+\])", glob):
        if part.startswith("["):
            pattern += part
        else:
            pattern += {".**": r"(\..+)?", "**.": r"(.+\.)?", "**": ".*", "*": r"[^.]*",
                        "?": r"[^.]"}.get(part, re.escape(part))
    return pattern
