"""The report in formats of other tools: SARIF for code scanning, and node data for Model Explorer."""

from __future__ import annotations

import math
import os
import re
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.version import package_version
from . import annotated_file
from .source_lines import SourceRoot, Stack

if TYPE_CHECKING:
    from .report import AccuracyReport

_RULES = [
    {"id": "A101", "name": "module_above_limit", "shortDescription": {"text": "modules whose error is above a limit"},
     "fullDescription": {"text": "The relative difference of a module's result from PyTorch's is above --max-error."},
     "help": {"text": "`whence accuracy` shows where it begins"}, "defaultConfiguration": {"level": "error"}},
    {"id": "A102", "name": "first_module_that_differs", "shortDescription": {"text": "where a difference begins"},
     "fullDescription": {"text": "The module's result differs from PyTorch's although its inputs agree."},
     "help": {"text": "compare the module's nodes with its source"}, "defaultConfiguration": {"level": "note"}},
]


def to_sarif(report: AccuracyReport, source_root: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Returns SARIF 2.1.0: a result for each finding, and a note for the first module that differs. Locations are
    source lines from the file or the sidecar, or else the ONNX file."""
    root, stacks = SourceRoot(source_root), {(each.module, each.call): each.stack for each in report.modules}
    results = [_result(0, "error", f"{report.path.name}: {each['message']}", each["module"], each["source"],
                       stacks.get((each["module"], each["call"]), ()), report, root) for each in report.findings]
    if report.first is not None:
        results.append(_result(1, "note", f"{report.path.name}: {report.verdict}, by {report.first.relative:.3g}",
                               report.first.module, report.first.source, report.first.stack, report, root))
    driver = {"name": "whence", "version": package_version(), "rules": _RULES}
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(rule: int, level: str, text: str, module: str, source: str, stack: Stack, report: AccuracyReport,
            root: SourceRoot) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": _artifact(root.below(report.path) or os.path.realpath(report.path))}
    line = root.line_in(stack)
    if line is None and (match := re.match(r"(.+?):(\d+)\b", source)):  # `source` has no folder
        line = (root.find(match[1]) or match[1], int(match[2]))
    if line is not None:
        location = {"artifactLocation": _artifact(line[0]), "region": {"startLine": line[1]}}
    return {"ruleId": _RULES[rule]["id"], "ruleIndex": rule, "level": level, "message": {"text": text}, "locations": [
        {"physicalLocation": location, "logicalLocations": [{"fullyQualifiedName": module or "(root)"}]}]}


def _artifact(path: str) -> dict[str, str]:
    """Returns the location of a file, relative to the root of the repository if it is inside."""
    if path.startswith("/"):
        return {"uri": Path(path).as_uri()}
    return {"uri": urllib.parse.quote(path), "uriBaseId": "%SRCROOT%"}


def to_model_explorer(report: AccuracyReport) -> dict[str, Any]:
    """Returns node data: for each node the relative difference of the innermost observable module that encloses it,
    coloured from green to red on a logarithmic scale. Infinity is written as 1e38."""
    file = annotated_file.read(report.path)
    rows = {(each.module, each.call): each for each in report.modules if each.status != "not observable"}
    results: dict[str, Any] = {}
    for node in file.nodes:
        row = next((rows[key] for key in _enclosing_modules(node) if key in rows), None)
        if row is not None and node.name:
            results[node.name] = {"value": row.relative if math.isfinite(row.relative) else 1e38,
                                  "bgColor": _colour(row.relative, report.tolerance)}
    return {file.model.graph.name or "main_graph": {"name": "relative difference from PyTorch", "results": results}}


def _enclosing_modules(node: annotated_file.Node):
    """Yields the module of the node's main operation and its enclosing modules, each with the node's call number and with 0."""
    module = node.primary
    while True:
        yield module, node.call
        yield module, 0
        if not module:
            return
        module = module.rpartition(".")[0]


def _colour(relative: float, tolerance: float) -> str:
    """Returns a colour: green up to 1/1,000 of the tolerance, yellow at the tolerance, red from 1,000 times the
    tolerance."""
    decades = math.log10(relative / max(tolerance, 1e-12)) if 0 < relative < math.inf else math.copysign(3, relative - 1)
    hue = 60 - 20 * max(-3.0, min(3.0, decades))
    return f"hsl({hue:.0f} 80% 80%)"
