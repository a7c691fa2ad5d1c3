"""The state of a registry: totals as JSON, and totals with one row per model as one self-contained page."""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..annotation.reports import CONFIDENCES
from ..base.page_style import STYLE
from ..base.report_printing import CONFIDENCE_COLOURS
from .one_model import Row

_STYLE = STYLE + """
.bar{display:inline-flex;width:9em;height:.8em;vertical-align:middle;background:var(--line)}.bar i{height:100%}
body{max-width:110em}td,th{white-space:nowrap}.bad{color:var(--bad)}a{color:inherit}
th.text,td.text{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:16em}
td:first-child{min-width:14em;overflow-wrap:anywhere;white-space:normal}td{vertical-align:top}
.key i{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}
@media(max-width:1100px){
table,tbody,tr,td{display:block}tr:first-child{display:none}tr{border-bottom:1px solid var(--line);padding:.4em 0}
td,td.note{border:0;padding:0 .5em;text-align:left}td:empty{display:none}
td[data-name]{display:inline-block}td[data-name]::before{content:attr(data-name) " ";color:var(--faint)}}
"""


@dataclass
class Totals:
    """Sums over a registry. ``left`` counts models that no run has processed."""

    models: int = 0
    done: int = 0
    failed: int = 0
    left: int = 0
    with_findings: int = 0
    nodes: int = 0
    covered: int = 0
    by: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CONFIDENCES, 0))
    errors: Counter[str] = field(default_factory=Counter)  # by code

    @property
    def percent(self) -> float:
        return _percent(self.covered, self.nodes)

    def to_json(self) -> dict[str, Any]:
        return {"models": self.models, "done": self.done, "failed": self.failed, "left": self.left,
                "with_findings": self.with_findings, "nodes": self.nodes, "covered": self.covered,
                "percent": round(self.percent, 2), **self.by, "errors": dict(self.errors)}


def totals_of(files: Iterable[str], rows: dict[str, Row]) -> Totals:
    totals = Totals()
    for file in files:
        totals.models += 1
        row = rows.get(file)
        if row is None:
            totals.left += 1
        elif not row["ok"]:
            totals.failed += 1
            totals.errors[row["errors"][0]["code"] or "other"] += 1
        else:
            totals.done += 1
            totals.with_findings += not row["clean"]
            totals.nodes += row["nodes"]
            totals.covered += row["covered"]
            for word in CONFIDENCES:
                totals.by[word] += row[word]
    return totals


def to_html(name: str, files: list[str], rows: dict[str, Row], folder: Path) -> Iterable[str]:
    """Yields the page in pieces; links are relative to ``folder``. Failed models come first, then the least covered."""
    totals = totals_of(files, rows)
    title = f"{html.escape(name)}: where the nodes of {totals.models} models come from"
    key = "".join(f'<i style="background:{colour}"></i>{word}' for word, colour in CONFIDENCE_COLOURS.items())
    yield ("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width,initial-scale=1'>"
           f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>")
    yield (f"<pre>{html.escape(_head(totals))}</pre><p>{_bar(totals.by, totals.nodes)} <span class=key>{key}</span></p>"
           "<table><tr><th>model<th>nodes<th>covered<th>by confidence"
           + "".join(f"<th>{word}" for word in CONFIDENCES) + "<th>seconds<th class=text>found by, findings, errors</tr>\n")
    root = Path(os.path.commonpath([str(Path(file).parent) for file in files]))
    for file in sorted(files, key=lambda each: _order(rows.get(each))):
        yield _row(file, rows.get(file), folder, root)
    yield "</table></html>\n"


def _head(totals: Totals) -> str:
    lines = [f"{totals.models} models: {totals.done} done, {totals.failed} failed"
             + (f", {totals.left} not done yet" if totals.left else ""),
             f"{totals.nodes} nodes, {totals.covered} covered ({totals.percent:.1f} %): "
             + ", ".join(f"{count} {word}" for word, count in totals.by.items())]
    if totals.with_findings:
        lines.append(f"with findings: {totals.with_findings}")
    if totals.errors:
        lines.append("errors: " + ", ".join(f"{code} x{count}" for code, count in totals.errors.most_common()))
    return "\n".join(lines)


def _order(row: Row | None) -> tuple[int, float]:
    if row is None:
        return 2, 0.0
    return (1, _percent(row["covered"], row["nodes"])) if row["ok"] else (0, 0.0)


def _row(file: str, row: Row | None, folder: Path, root: Path) -> str:
    name = html.escape(os.path.relpath(file, root))
    if row is None:
        return f"<tr><td>{name}<td colspan=10 class=note>not done yet</tr>\n"
    if not row["ok"]:
        errors = "<br>".join(_problem(each) for each in row["errors"])
        return f"<tr><td>{name}<td colspan=10 class=text><b class=bad>failed</b> {errors}</tr>\n"
    link = _link(row["output"], name, folder)
    if row["wishes"]["reports"]:
        link += f" ({_link(row['report'], 'report', folder)})"
    remarks = [html.escape(row["found_by"]), *map(html.escape, row["notes"]), *map(_problem, row["findings"])]
    covered = f"{_percent(row['covered'], row['nodes']):.1f} %"
    return (f"<tr><td>{link}<td data-name=nodes>{row['nodes']}<td data-name=covered>{covered}<td>{_bar(row, row['nodes'])}"
            + "".join(f"<td data-name={word}>{row[word] or ''}" for word in CONFIDENCES)
            + f"<td data-name=seconds>{row['seconds']:.1f}<td class=text>{'<br>'.join(remarks)}</tr>\n")


def _problem(each: dict[str, str]) -> str:
    kind = "bad" if each.get("severity", "error") == "error" else "note"
    remedy = f"; try: {each['remedy']}" if each["remedy"] else ""
    return f"<span class={kind}>{html.escape(' '.join(filter(None, [each['code'], each['message']])))}</span>{html.escape(remedy)}"


def _link(target: str, text: str, folder: Path) -> str:
    """Returns a link; ``text`` is HTML."""
    return f'<a href="{html.escape(quote(os.path.relpath(target, folder)))}">{text}</a>'


def _bar(counts: dict[str, Any], nodes: int) -> str:
    parts = "".join(f'<i style="width:{100 * counts[word] / nodes:.2f}%;background:{colour}" title="{word}: {counts[word]}"></i>'
                    for word, colour in CONFIDENCE_COLOURS.items() if nodes and counts[word])
    return f"<span class=bar>{parts}</span>"


def _percent(part: int, nodes: int) -> float:
    return 100 * part / nodes if nodes else 100.0
