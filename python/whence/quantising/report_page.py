"""The report as a self-contained HTML page with a plot and a table of the error and savings of each module."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..base.page_style import STYLE
from ..base.report_printing import size_text

if TYPE_CHECKING:
    from .report import ModuleSensitivity, SensitivityReport

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 1100, 320, 60, 40


def to_html(report: SensitivityReport, headlines: Sequence[str]) -> str:
    title = f"{html.escape(report.path.name)}: sensitivity by module"
    return (f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
            f"<h1>{title}</h1><pre>{html.escape(chr(10).join(headlines))}</pre>{_plot(report)}{_table(report)}</html>\n")


def _plot(report: SensitivityReport) -> str:
    """Plots error against bytes saved, both on logarithmic scales. Modules at the lower right are best to quantise."""
    rows = [row for row in report.modules if row.status == "measured" and 0 < row.error < math.inf]
    if not rows:
        return ""
    left, right = _decades([row.saved for row in rows if row.saved > 0] or [1.0])
    low, high = _decades([row.error for row in rows])

    def across(saved: float) -> float:
        """Returns the x coordinate: the left edge for a module that saves nothing."""
        if saved <= 0:
            return _LEFT
        return _LEFT + (math.log10(saved) - left) / (right - left) * (_WIDTH - _LEFT - 20)

    def height(error: float) -> float:
        return 10 + (high - math.log10(error)) / (high - low) * (_HEIGHT - _BOTTOM - 10)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role=img aria-label="error against bytes saved">']
    for exponent in range(low, high + 1):
        y = height(10.0 ** exponent)
        parts.append(f'<line x1={_LEFT} x2={_WIDTH} y1={y:.1f} y2={y:.1f} stroke="var(--line)"/>'
                     f'<text x={_LEFT - 8} y={y + 4:.1f} text-anchor=end>1e{exponent}</text>')
    for exponent in range(left, right + 1):
        anchor = "end" if exponent == right else "middle"
        parts.append(f'<text x={across(10.0 ** exponent):.1f} y={_HEIGHT - 24} text-anchor={anchor}>'
                     f"{size_text(10 ** exponent)}</text>")
    excluded = set(report.choice.excluded) if report.choice else set()
    for row in rows:
        colour = "var(--bad)" if row.module in excluded else "var(--good)"
        parts.append(f'<circle cx={across(row.saved):.1f} cy={height(row.error):.1f} r=5 fill="{colour}" '
                     f'fill-opacity=".75"><title>{html.escape(_name(row))}: error {row.error:.2g}, '
                     f"{size_text(row.saved)} saved</title></circle>")
    for row in sorted(rows, key=lambda row: -row.error)[:5]:
        x = across(row.saved)
        anchor, x = ("end", x - 9) if x > _WIDTH * 0.7 else ("start", x + 9)
        parts.append(f'<text x={x:.1f} y={height(row.error) + 4:.1f} text-anchor={anchor}>'
                     f"{html.escape(_name(row))}</text>")
    parts.append(f"<text x={_LEFT} y={_HEIGHT - 6}>error at the outputs (y) against bytes saved (x; left edge: none) "
                 "for each module "
                 f"{'left out' if report.left_out else 'quantised'} alone"
                 + ("; red: unquantised in the choice" if excluded else "") + "</text></svg>")
    return "".join(parts)


def _decades(values: list[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    return low, max(high, low + 1)


def _name(row: ModuleSensitivity) -> str:
    return row.module or "(root)"


def _table(report: SensitivityReport) -> str:
    excluded = set(report.choice.excluded) if report.choice else set()
    lines = ["<table><tr><th>module<th>nodes<th>error<th>SQNR dB<th>saved<th>time</tr>"]
    for row in report.modules:
        kind = " class=first" if row.module in excluded else ""
        if row.status != "measured":
            lines.append(f"<tr{kind}><td>{html.escape(_name(row))}<td>{row.nodes}<td colspan=4 class=note>"
                         f"{html.escape(row.status)} {html.escape(row.note)}</tr>")
            continue
        time = "" if row.time_saved is None else f"{-row.time_saved:+.1%}"
        lines.append(f"<tr{kind}><td>{html.escape(_name(row))}<td>{row.nodes}<td>{row.error:.2g}<td>{row.sqnr:.1f}"
                     f"<td>{size_text(row.saved)}<td>{time}</tr>")
    return "".join(lines) + "</table>"
