"""Globs for modules, as `whence select --modules` has them: a glob means a module and all below it; ``*`` is one segment
of a qualified name or a part of one, ``**`` any number of segments, ``[0-3]`` one of a set."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable


def matcher(globs: Iterable[str]) -> Callable[[str], bool]:
    """A function that says whether a qualified name, or one around it, matches one of ``globs``."""
    patterns = [re.compile(_pattern(glob) + r"(\..*)?") for glob in globs]
    return lambda path: any(pattern.fullmatch(path) for pattern in patterns)


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
