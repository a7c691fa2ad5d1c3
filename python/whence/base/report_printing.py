"""Formats reports: one line for repr(), text for print(), a table with bars in a notebook.

A report is a subclass of ``Printed`` that provides its lines and its table. All formatting is in this module.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE_COLOURS = {"exact": "#2f7d4f", "matched": "#3d7eb8", "inferred": "#c9a227", "ancestor": "#d07c3c",
                      "unattributed": "#c0392b"}
BAR_COLOUR = "#3d7eb8"
_BAR_WIDTH = 20  # characters of a full bar in text
_ROWS = 200      # maximum rows of a table in a notebook; the page of to_html() has all rows


@dataclass(frozen=True)
class Bar:
    """A table cell with a bar: parts as (share from 0 to 1, colour, name), where the name is the tooltip."""

    parts: tuple[tuple[float, str, str], ...]

    @classmethod
    def of(cls, share: float) -> Bar:
        """Returns a bar with one part."""
        return cls(((min(max(share, 0.0), 1.0), BAR_COLOUR, f"{share:.1%}"),))

    @classmethod
    def of_confidences(cls, counts: dict[str, int]) -> Bar:
        """Returns a bar of the numbers of nodes by confidence."""
        nodes = sum(counts[word] for word in CONFIDENCE_COLOURS)
        return cls(tuple((counts[word] / nodes, colour, f"{word}: {counts[word]}")
                         for word, colour in CONFIDENCE_COLOURS.items() if counts[word]))

    def __str__(self) -> str:
        share = sum(each for each, _, _ in self.parts)
        return "#" * max(round(share * _BAR_WIDTH), 1 if share > 0 else 0)

    def to_html(self) -> str:
        inside = "".join(f'<i style="display:inline-block;height:100%;width:{share:.2%};background:{colour}" '
                         f'title="{html.escape(name)}"></i>' for share, colour, name in self.parts)
        return ('<span style="display:inline-block;width:9em;height:.8em;vertical-align:middle;white-space:nowrap;'
                f'line-height:0;text-align:left;background:#8883">{inside}</span>')


@dataclass(frozen=True)
class Table:
    """A table. The first ``texts`` columns contain left-aligned text; the others contain numbers and bars."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]  # leading spaces indent a cell
    texts: int = 1

    def lines(self) -> list[str]:
        """Returns the table as lines of text."""
        cells = [self.columns, *([_text(each) for each in row] for row in self.rows)]
        widths = [max(len(row[at]) for row in cells) for at in range(len(self.columns))]
        return ["  ".join(self._aligned(row[at], widths[at], at) for at in range(len(widths))).rstrip() for row in cells]

    def _aligned(self, text: str, width: int, at: int) -> str:
        is_bar = any(isinstance(row[at], Bar) for row in self.rows)
        return text.ljust(width) if at < self.texts or is_bar else text.rjust(width)

    def to_html(self) -> str:
        head = "".join(self._cell("th", html.escape(name), at) for at, name in enumerate(self.columns))
        rows = "".join("<tr>" + "".join(self._cell("td", each.to_html() if isinstance(each, Bar) else
                                                   html.escape(_text(each)), at) for at, each in enumerate(row)) + "</tr>"
                       for row in self.rows[:_ROWS])
        more = f"<p>and {len(self.rows) - _ROWS} more rows</p>" if len(self.rows) > _ROWS else ""
        return (f'<div style="max-height:36em;overflow:auto"><table style="border-collapse:collapse">'
                f"<tr>{head}</tr>{rows}</table></div>{more}")

    def _cell(self, kind: str, content: str, at: int) -> str:
        side = "left" if at < self.texts else "right"
        font = ";font-family:monospace;white-space:pre" if at == 0 and kind == "td" else ""
        return f'<{kind} style="text-align:{side};padding:.1em .7em{font}">{content}</{kind}>'


def _text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def counted(count: int, noun: str) -> str:
    """Returns "1 node" or "1,200 nodes"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def short_number(number: float) -> str:
    return f"{number:.2g}" if math.isfinite(number) else "inf"


def size_text(count: float) -> str:
    """Returns "3 B" or "1.2 MB"."""
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= step:
            return f"{count / step:.1f} {unit}"
    return f"{count} B"


def module_labels(paths: Sequence[str | None]) -> list[str]:
    """Returns an indented label for each module of a tree: the part of its qualified name below its parent."""
    labels, shown = [], set(paths)
    for path in paths:
        if not path:
            labels.append("(no module known)" if path is None else "(root)")
            continue
        parent = _shown_parent(path, shown)
        depth = 1 if "" in shown else 0
        at = parent
        while at:
            depth += 1
            at = _shown_parent(at, shown)
        labels.append("  " * depth + path[len(parent):].lstrip("."))
    return labels


def _shown_parent(path: str, shown: set[str | None]) -> str:
    """Returns the nearest enclosing module that is in ``shown``; "" if there is none."""
    while "." in path:
        path = path.rpartition(".")[0]
        if path in shown:
            return path
    return ""


class Printed:
    """Base class of reports that print themselves."""

    def _headline(self) -> str:
        """Returns the report in one line."""
        raise NotImplementedError

    def _details(self) -> list[str]:
        """Returns further lines, printed above the table."""
        return []

    def _table(self) -> Table | None:
        return None

    def __repr__(self) -> str:
        line = self._headline()
        return f"<whence.{type(self).__name__} {line if len(line) < 300 else line[:297] + '...'}>"

    def __str__(self) -> str:
        table = self._table()
        return "\n".join([self._headline(), *self._details(), *(["", *table.lines()] if table and table.rows else [])])

    def _repr_html_(self) -> str:
        """Returns the HTML that notebooks display."""
        table = self._table()
        lines = "\n".join([self._headline(), *self._details()])
        return f'<pre style="white-space:pre-wrap">{html.escape(lines)}</pre>' + (table.to_html() if table and table.rows else "")
