"""The report as a self-contained HTML page with a plot of the error along the model and the tree in colours."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..base.page_style import STYLE
from .module_tree import in_order, labels, paths

if TYPE_CHECKING:
    from .report import AccuracyReport, ModuleAccuracy

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 1100, 280, 60, 24


def to_html(report: AccuracyReport, headlines: Sequence[str]) -> str:
    summary = "\n".join(headlines)
    return (f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(report.path.name)}: accuracy by module"
            f"</title><style>{STYLE}</style><h1>{html.escape(report.path.name)}: accuracy by module</h1>"
            f"<pre>{html.escape(summary)}</pre>{_plot(report)}{_table(report)}</html>\n")


def _plot(report: AccuracyReport) -> str:
    """Plots the tolerance and the relative error of innermost modules in execution order, on a logarithmic scale."""
    enclosing = {path for row in report.modules if row.module for path in ("", *paths(row.module)[:-1])}
    rows = [row for row in report.modules if row.status != "not observable" and row.module not in enclosing]
    finite = [row.relative for row in rows if 0 < row.relative < math.inf] + [report.tolerance or 1e-6]
    low, high = math.floor(math.log10(min(finite))), math.ceil(math.log10(max(finite)) + 1e-9)
    high = max(high, low + 1)

    def height(relative: float) -> float:
        decade = low if relative <= 0 else high if math.isinf(relative) else math.log10(relative)
        return 10 + (high - min(max(decade, low), high)) / (high - low) * (_HEIGHT - _BOTTOM - 10)

    def across(at: int) -> float:
        return _LEFT + (at + 0.5) * (_WIDTH - _LEFT - 10) / max(len(rows), 1)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role=img aria-label="relative error along the model">']
    for exponent in range(low, high + 1):
        y = height(10.0 ** exponent)
        parts.append(f'<line x1={_LEFT} x2={_WIDTH} y1={y:.1f} y2={y:.1f} stroke="var(--line)"/>'
                     f'<text x={_LEFT - 8} y={y + 4:.1f} text-anchor=end>1e{exponent}</text>')
    if report.tolerance > 0:
        y = height(report.tolerance)
        parts.append(f'<line x1={_LEFT} x2={_WIDTH} y1={y:.1f} y2={y:.1f} stroke="var(--bad)" stroke-dasharray="5 4"/>'
                     f'<text x={_WIDTH - 4} y={y - 5:.1f} text-anchor=end>above {report.tolerance:.2g} differs</text>')
    path = " ".join(f"{across(at):.1f},{height(row.relative):.1f}" for at, row in enumerate(rows))
    parts.append(f'<polyline points="{path}" fill=none stroke="var(--faint)" stroke-opacity=".5"/>')
    first = report.first_row
    for at, row in enumerate(rows):
        colour = "var(--good)" if row.status == "equal" else "var(--bad)"
        radius = 6 if row is first else 3
        parts.append(f'<circle cx={across(at):.1f} cy={height(row.relative):.1f} r={radius} fill="{colour}">'
                     f"<title>{html.escape(row.name)}: {row.relative:.3g}</title></circle>")
    parts.append(f'<text x={_LEFT} y={_HEIGHT - 6}>relative difference of the innermost modules, in the order in which '
                 f"they ended; first: {html.escape(str(report.first) if report.first else 'none')}</text></svg>")
    return "".join(parts)


def _table(report: AccuracyReport) -> str:
    rows, first = in_order(report.modules), report.first_row
    lines = ["<table><tr><th>module<th>relative<th>largest<th>SQNR dB<th>cosine<th>inherited</tr>"]
    for row, label in zip(rows, labels(rows)):
        if row.status == "not observable":
            lines.append(f"<tr><td>{html.escape(label)}<td colspan=5 class=note>{html.escape(row.note)}</tr>")
            continue
        kind = " class=first" if row is first else ""
        figures = (row.relative, row.largest, row.sqnr, row.cosine, row.inherited)
        shown = "".join(f"<td>{figure:.3g}" for figure in figures)
        lines.append(f'<tr{kind} style="background:{_colour(report, row)}"><td>{html.escape(label)}{shown}</tr>')
    return "".join(lines) + "</table>"


def _colour(report: AccuracyReport, row: ModuleAccuracy) -> str:
    """Returns "none" up to the tolerance, and above it a red that grows stronger with the error."""
    if row.status == "equal":
        return "none"
    decades = 3.0 if math.isinf(row.relative) else math.log10(row.relative / max(report.tolerance, 1e-12))
    return f"rgb(192 57 43 / {min(0.08 + 0.1 * max(decades, 0.0), 0.4):.2f})"
