"""The report of an accuracy measurement, as objects, tree and JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..base.report_printing import Bar, Printed, Table, short_number
from . import report_page, tool_formats, model_structure
from .module_tree import in_order, labels
from .source_lines import Stack, caller_of
from .value_proofs import Contradiction


@dataclass(frozen=True)
class ModuleAccuracy:
    """One call of one module. The figures are those of the result with the largest error."""

    module: str            # qualified name; the root is ""
    call: int
    type: str
    status: str            # "equal", "differs", "passing" (differs, but later values agree), "adds up" (above the
    # tolerance, but no difference begins in the file) or "not observable"
    value: str = ""        # the result's value in the file
    relative: float = 0.0  # norm of the difference divided by the norm of the recorded result
    largest: float = 0.0   # largest absolute difference; a lower bound if ``estimated``
    sqnr: float = math.inf  # in dB
    cosine: float = 1.0
    unequal: float | None = None  # share of unequal elements; None for floating-point results
    estimated: bool = False       # computed from a sketch
    inherited: float = 0.0        # the largest ``relative`` of the result's inputs
    not_finite: bool = False      # elements are NaN or infinite in only one of the two
    layout: str = ""              # the order of axes in the file, if it differs
    made: float | None = None     # ``relative`` of the module run alone on the file's values, without inherited errors
    source: str = ""              # the source line of the node that computes ``value``
    stack: Stack = field(default=(), repr=False)  # its call stack with full paths, innermost first
    proved: bool = False          # equals a recorded result that no other module has
    note: str = ""                # why it is not observable, and where a later value is observable

    @property
    def name(self) -> str:
        return (self.module or "(root)") + (f" call {self.call}" if self.call else "")


@dataclass(frozen=True, repr=False)
class FirstDifference(Printed):
    """A value that differs although its inputs agree."""

    module: str                   # the innermost module that encloses all ``nodes``
    call: int
    suspects: tuple[str, ...]     # the modules of ``nodes``; several if nodes are fused
    operation: str                # the recorded operation, "aten::linear", if only one is possible; else ""
    source: str                   # the source line of the operation, or of the first node
    value: str                    # the first value that differs
    nodes: tuple[str, ...]        # the nodes that compute it from values that agree
    relative: float
    largest: float
    estimated: bool
    inherited: float              # the largest ``relative`` of its inputs
    lasts: bool = True            # False: all later observed values agree
    made: float | None = None     # as in ``ModuleAccuracy``
    stack: Stack = field(default=(), repr=False)  # as in ``ModuleAccuracy``
    form: str = ""                # "its sizes are [1, 1] instead of []"
    ranges: str = ""              # of PyTorch's values, if NaN or infinite elements differ: "from -3.2 to 4"
    failure: str = ""             # the message of the runtime that cannot run the node; no value was computed

    def __str__(self) -> str:
        return (self.module or "(root)") + (f" call {self.call}" if self.call else "")

    def _headline(self) -> str:
        return f"{self}: {self.extent}" + (f", {self.place}" if self.place else "")

    @property
    def place(self) -> str:
        """The source line and, if it is PyTorch's own, the line of the model that led to it."""
        caller = caller_of(self.stack)
        return self.source + (f", called at {caller}" if self.source and caller and caller != self.source else "")

    @property
    def extent(self) -> str:
        """The difference in a few words."""
        return "does not run" if self.failure else self.form or f"off by {_percent(self.relative)}"

    def _table(self) -> Table:
        entries = (("suspects", ", ".join(each or "(root)" for each in self.suspects)), ("operation", self.operation),
                   ("value", self.value), ("nodes", ", ".join(self.nodes)))
        return Table(("", ""), [(name, text) for name, text in entries if text], texts=2)


@dataclass(frozen=True, repr=False)
class AccuracyReport(Printed):
    path: Path
    settings: str                 # the runtime and how it ran
    tolerance: float              # relative difference above which a value differs
    tolerance_of: str             # its reason: a number format such as "float16", or "as given"
    modules: tuple[ModuleAccuracy, ...]  # in the order in which calls ended
    first: FirstDifference | None        # None: nothing differs, or no difference lasts
    beginnings: tuple[FirstDifference, ...]  # all places where differences begin, in execution order
    contradictions: tuple[Contradiction, ...] = ()  # values that belong to a module other than the annotated one
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()  # ``max_error`` as passed
    findings: tuple[dict[str, Any], ...] = field(default=())  # modules above ``limits``, and one that does not run
    faults: tuple[FirstDifference, ...] = ()  # with ``all_faults``: ``first``, and each that is first when earlier ones
    # are corrected
    bundle: str = ""              # what ``repro`` wrote, or why it wrote nothing

    @property
    def observable(self) -> int:
        return sum(each.status != "not observable" for each in self.modules)

    @property
    def first_row(self) -> ModuleAccuracy | None:
        """The row of the first differing module or, if the module agrees, the innermost row with its value."""
        if self.first is None:
            return None
        module, call, value = self.first.module, self.first.call, self.first.value
        differing = [each for each in self.modules if each.status == "differs"]
        return next((each for each in differing if (each.module, each.call) == (module, call)),
                    next((each for each in differing if each.value == value), None))

    @property
    def verdict(self) -> str:
        """The result in one sentence, consistent with the rows."""
        if self.first is None:
            return _no_first_reason(self)
        if self.first.failure:
            return f"first module that does not run: {self.first}"
        row = self.first_row
        if row is not None and (row.module, row.call) == (self.first.module, self.first.call):
            return f"first module that differs: {self.first}"
        return f"first difference: in {self.first}, seen at " + (row.name if row is not None else self.first.value)

    @property
    def clean(self) -> bool:
        """True if nothing differs or, with limits, if no module is above its limit."""
        return not self.findings if self.limits else self.first is None

    def of(self, module: str, call: int = 0) -> ModuleAccuracy:
        return next(each for each in self.modules if (each.module, each.call) == (module, call))

    def to_json(self) -> dict[str, Any]:
        """Returns the report as in schema/accuracy.schema.json. Infinite figures are null."""
        return {
            "model": self.path.name, "settings": self.settings, "tolerance": self.tolerance,
            "tolerance_of": self.tolerance_of, "observable": self.observable,
            "first": self.first and _beginning(self.first), "beginnings": [_beginning(each) for each in self.beginnings],
            "modules": [_module(each) for each in self.modules],
            "contradictions": [asdict(each) for each in self.contradictions], "notes": list(self.notes),
            "findings": list(self.findings), "faults": [_beginning(each) for each in self.faults],
            "bundle": self.bundle}

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Writes a self-contained page with a plot of the error and the tree in colours. Returns its path."""
        return model_structure.write_report(self.path, "the page", path, report_page.to_html(self, head(self)))

    def to_sarif(self, source_root: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Returns SARIF 2.1.0 for code scanning: the findings, and the first module that differs. Locations are source
        lines, if possible below ``source_root`` (by default the working folder)."""
        return tool_formats.to_sarif(self, source_root)

    def to_model_explorer(self, path: str | os.PathLike[str]) -> Path:
        """Writes node data for Model Explorer that colour nodes by their modules' error. Returns the path."""
        return model_structure.write_report(self.path, "the node data", path,
                                            json.dumps(tool_formats.to_model_explorer(self)))

    def __str__(self) -> str:
        return "\n".join([*head(self), "", *_tree(self)])

    def _headline(self) -> str:
        """Returns the file, the runtime, and the first module that differs or the reason why there is none."""
        measured, observable, *more = head(self)
        found = more[len(self.notes)]
        return f"{measured}, {observable.partition(';')[0]}, {found}"

    def _details(self) -> list[str]:
        return head(self)[1:]

    def _table(self) -> Table:
        rows = in_order(self.modules)
        return Table(("module", "relative", "largest", "SQNR dB", "cosine", "", "relative, 1e-8 to 1"), [
            (label, *_figures(each), _bar_of(each)) for each, label in zip(rows, labels(rows))])


def _figures(row: ModuleAccuracy) -> tuple[str, ...]:
    """Returns the cells of a row. The last cell is the verdict."""
    if row.status == "not observable":
        return "", "", "", "", row.note
    return (short_number(row.relative), short_number(row.largest), f"{row.sqnr:.1f}", f"{row.cosine:.5f}",
            "differs" if row.status == "differs" else "")


def _bar_of(row: ModuleAccuracy) -> Bar | str:
    """Returns the relative difference as a bar on a logarithmic scale: empty at 1e-8, full at 1."""
    if row.status == "not observable" or not row.relative > 1e-8:
        return ""
    return Bar.of(1 + math.log10(min(row.relative, 1.0)) / 8)


def number_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _beginning(difference: FirstDifference) -> dict[str, Any]:
    return {"module": difference.module, "call": difference.call, "suspects": list(difference.suspects),
            "operation": difference.operation, "source": difference.source, "value": difference.value,
            "nodes": list(difference.nodes), "form": difference.form, "ranges": difference.ranges, "failure": difference.failure,
            "inherited": number_or_none(difference.inherited), "lasts": difference.lasts,
            "made": number_or_none(difference.made),
            "error": {"relative": number_or_none(difference.relative), "largest": number_or_none(difference.largest),
                      "estimated": difference.estimated}}


def _module(row: ModuleAccuracy) -> dict[str, Any]:
    entry = {"module": row.module, "call": row.call, "type": row.type, "status": row.status}
    if row.status == "not observable":
        return {**entry, "note": row.note}
    return {**entry, "value": row.value, "relative": number_or_none(row.relative),
            "largest": number_or_none(row.largest), "sqnr_db": number_or_none(row.sqnr), "cosine": row.cosine,
            "unequal": row.unequal, "estimated": row.estimated, "inherited": number_or_none(row.inherited),
            "made": number_or_none(row.made), "not_finite": row.not_finite, "layout": row.layout,
            "source": row.source, "proved": row.proved}


def head(report: AccuracyReport) -> list[str]:
    """Returns the lines above the tree: settings, notes and where differences begin."""
    lines = [f"{report.path.name}: {report.settings}",
             f"{report.observable} of {len(report.modules)} module calls observable; a relative difference above "
             f"{report.tolerance:g} counts ({report.tolerance_of})"]
    lines += [f"note: {each}" for each in report.notes]
    first = report.first
    if first is None:
        return [*lines, report.verdict, *([report.bundle] if report.bundle else [])]
    lines += [report.verdict + (f", {first.place}" if first.place else ""), _extent_of(report, first)]
    if first.made is not None:
        lines.append(f"  run alone on the file's values, it is off by {_percent(first.made)}")
    if first.operation:
        lines.append(f"  operation: {first.operation}")
    if len(first.suspects) > 1:
        lines.append("  one of: " + ", ".join(each or "(root)" for each in first.suspects[:8])
                     + (f" and {len(first.suspects) - 8} more" if len(first.suspects) > 8 else ""))
    shown = ", ".join(first.nodes[:6]) + (f" and {len(first.nodes) - 6} more" if len(first.nodes) > 6 else "")
    lines.append(f"  nodes: {shown}")
    if report.bundle:
        lines.append(f"  {report.bundle}")
    for fault in report.faults[1:]:
        details = ", ".join(each for each in (fault.operation, fault.source, fault.extent) if each)
        lines.append(f"with earlier differences corrected, the next one: {fault}, {details}")
    later = [each for each in report.beginnings if each is not first]
    if later and not report.faults:
        lines.append("  differences also begin in: " + _listed(later))
    return lines


def _extent_of(report: AccuracyReport, first: FirstDifference) -> str:
    if first.failure:
        is_observed = any(each.status != "not observable" for each in report.modules)
        return f"  {first.failure}; " + ("all values observed before it agree" if is_observed else "no value before it is observable")
    extent = first.form or (f"relative difference {_percent(first.relative)}, largest {first.largest:.3g}"
                            + (" at least" if first.estimated else "")
                            + (f", NaN or infinite where PyTorch's values are {first.ranges}" if first.ranges else ""))
    return (f"  {extent}; its inputs " + ("agree" if first.inherited <= report.tolerance / 10
                                          else f"are off by {short_number(first.inherited)} at most")
            + ("" if first.lasts else ", and later values agree"))


def _listed(beginnings: Sequence[FirstDifference]) -> str:
    shown = [f"{each} ({each.extent.removeprefix('off by ')}{'' if each.lasts else ', in passing'})"
             for each in beginnings[:6]]
    return ", ".join(shown) + (f" and {len(beginnings) - 6} more" if len(beginnings) > 6 else "")


def _no_first_reason(report: AccuracyReport) -> str:
    above = [row for row in report.modules if row.status not in ("equal", "not observable")]
    if report.beginnings:
        return ("no difference lasts: all values computed from a difference agree, " + _listed(report.beginnings))
    if not above:
        return "no module differs"
    ran_alone = any(row.made is not None for row in report.modules)
    return (f"no module is the first: differences grow from step to step, and are above {report.tolerance:g} from "
            f"{above[0].name} on" + (
                "" if ran_alone else "; --model (the PyTorch model) shows the error of each module"))


def _percent(relative: float) -> str:
    return "infinite" if not math.isfinite(relative) else f"{relative:.2g}"


_MARKS = {"equal": "", "differs": "  differs", "passing": "  differs in passing", "adds up": "  adds up"}


def _tree(report: AccuracyReport) -> list[str]:
    """Returns the lines of the tree: parents first, siblings in the order in which they ended."""
    rows, first = in_order(report.modules), report.first_row
    names = labels(rows)
    width = max(map(len, names), default=0)
    ran_alone = any(row.made is not None for row in rows)
    lines = [f"{'module':<{width}}  {'relative':>9}  " + (f"{'alone':>9}  " if ran_alone else "")
             + f"{'largest':>9}  {'SQNR dB':>8}  {'cosine':>8}"]
    for row, label in zip(rows, names):
        if row.status == "not observable":
            lines.append(f"{label:<{width}}  {row.note}")
            continue
        mark = _MARKS[row.status] + (", first" if row is first else "")
        alone = f"{'' if row.made is None else short_number(row.made):>9}  " if ran_alone else ""
        lines.append(f"{label:<{width}}  {short_number(row.relative):>9}  {alone}{short_number(row.largest):>9}  "
                     f"{row.sqnr:>8.1f}  {row.cosine:>8.5f}{mark}")
    return lines
