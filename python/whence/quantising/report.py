"""The report of a sensitivity measurement, as objects, table and JSON."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..base.report_printing import Bar, Printed, Table, counted, short_number, size_text
from ..numerics import model_structure
from ..numerics.report import number_or_none
from . import report_page


@dataclass(frozen=True)
class ModuleSensitivity:
    """One module, quantised alone (or left out alone)."""

    module: str         # qualified name; all its calls are included
    nodes: int          # nodes that the quantiser may change
    status: str         # "measured", "unchanged" (nothing to quantise) or "failed"
    error: float = math.nan        # maximum relative difference over all outputs and inputs
    saved: int = 0                 # bytes by which the file shrinks
    time_saved: float | None = None  # share of the file's operator time; negative if slower; None: not measured
    note: str = ""                 # why it failed

    @property
    def sqnr(self) -> float:
        """Signal to quantisation noise at the outputs, in dB."""
        if not 0 < self.error < math.inf:
            return math.inf if self.error == 0 else -math.inf
        return -20 * math.log10(self.error)


@dataclass(frozen=True, repr=False)
class Choice(Printed):
    """The modules to leave unquantised for a budget, with figures measured for this choice."""

    budget: str
    met: bool
    quantised: int                     # number of quantised modules
    excluded: tuple[str, ...]          # modules left unquantised
    nodes_to_exclude: tuple[str, ...]  # all nodes that the quantiser must not change
    error: float
    size: int
    time_saved: float | None           # sum over the quantised modules

    @property
    def quantized(self) -> int:
        """Same as ``quantised``."""
        return self.quantised

    def _headline(self) -> str:
        return (f"budget {self.budget}: {'met' if self.met else 'cannot be met'}, {counted(self.quantised, 'module')} quantised, "
                f"{len(self.excluded):,} unquantised: error {short_number(self.error)}, {size_text(self.size)}")

    def _table(self) -> Table:
        return Table(("unquantised",), [(module or "(root)",) for module in self.excluded])


@dataclass(frozen=True, repr=False)
class SensitivityReport(Printed):
    path: Path
    quantiser: str
    left_out: bool                # True: each module was left out alone; False: quantised alone
    size: int                     # bytes of the file and its external weights
    modules: tuple[ModuleSensitivity, ...]  # the most sensitive first
    together_error: float         # with all modules quantised
    together_size: int
    operators: tuple[str, ...]    # ``op_types_to_quantize`` of ONNX Runtime's quantiser; empty: all
    choice: Choice | None = None
    notes: tuple[str, ...] = ()

    @property
    def quantizer(self) -> str:
        """Same as ``quantiser``."""
        return self.quantiser

    def to_json(self) -> dict[str, Any]:
        """Returns the report as in schema/sensitivity.schema.json. Infinite and unknown numbers are null."""
        return {
            "model": self.path.name, "quantiser": self.quantiser, "left_out": self.left_out, "size": self.size,
            "together": {"error": number_or_none(self.together_error), "size": self.together_size},
            "op_types_to_quantize": list(self.operators),
            "modules": [{**asdict(each), "error": number_or_none(each.error), "sqnr_db": number_or_none(each.sqnr)}
                        for each in self.modules],
            "choice": self.choice and {**asdict(self.choice), "error": number_or_none(self.choice.error),
                                       "excluded": list(self.choice.excluded),
                                       "nodes_to_exclude": list(self.choice.nodes_to_exclude)},
            "notes": list(self.notes)}

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Writes a self-contained page with error and bytes by module. Returns its path."""
        return model_structure.write_report(self.path, "the page", path, report_page.to_html(self, head(self)))

    def __str__(self) -> str:
        return "\n".join([*head(self), "", *_table(self)])

    def _headline(self) -> str:
        return "; ".join(head(self)[:2])

    def _details(self) -> list[str]:
        return head(self)[2:]

    def _table(self) -> Table:
        largest = max((each.error for each in self.modules if 0 < each.error < math.inf), default=1.0)
        return Table(("module", "nodes", "error", "SQNR dB", "saved", ""), [
            (each.module or "(root)", each.nodes, short_number(each.error), f"{each.sqnr:.1f}", size_text(each.saved),
             Bar.of(each.error / largest)) if each.status == "measured" else
            (each.module or "(root)", each.nodes, each.status, "", "", each.note) for each in self.modules])


def head(report: SensitivityReport) -> list[str]:
    how = "left out alone, all others quantised" if report.left_out else "quantised alone"
    lines = [f"{report.path.name}: {report.quantiser}, each of {len(report.modules)} modules {how}",
             f"all modules quantised: error {short_number(report.together_error)}, {size_text(report.together_size)} "
             f"({report.together_size / report.size:.0%} of {size_text(report.size)})"]
    lines += [f"note: {each}" for each in report.notes]
    if (choice := report.choice) is not None:
        counts = f"{choice.quantised} modules quantised, {len(choice.excluded)} unquantised" if choice.quantised \
            else "no module quantised"
        lines.append(f"budget {choice.budget}: " + ("met" if choice.met else "cannot be met") + f", {counts}: error "
                     f"{short_number(choice.error)}, {size_text(choice.size)}" + (
                         f"; unquantised, with op_types_to_quantize {', '.join(report.operators)}:"
                         if choice.excluded and report.operators else ""))
        lines += [f"  {module or '(root)'}" for module in choice.excluded]
    return lines


def _table(report: SensitivityReport) -> list[str]:
    names = [each.module or "(root)" for each in report.modules]
    width = max(map(len, names), default=6)
    timed = any(each.time_saved is not None for each in report.modules)
    lines = [f"{'module':<{width}}  {'nodes':>5}  {'error':>9}  {'SQNR dB':>8}  {'saved':>9}" + ("     time" if timed else "")]
    for row, name in zip(report.modules, names):
        if row.status != "measured":
            lines.append(f"{name:<{width}}  {row.nodes:>5}  {row.status}{': ' + row.note if row.note else ''}")
            continue
        time = "" if not timed else f"  {'':>7}" if row.time_saved is None else f"  {-row.time_saved:>+7.1%}"
        lines.append(f"{name:<{width}}  {row.nodes:>5}  {short_number(row.error):>9}  {row.sqnr:>8.1f}  "
                     f"{size_text(row.saved):>9}{time}")
    return lines
