"""Turns modules of an annotated file into ONNX functions, one for each unique block, and inlines them again."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.report_printing import Printed, Table, counted
from ..command.process import run_json
from ..files.model_files import Model, takes_models


@dataclass(frozen=True)
class Function:
    """One function: its name, its numbers of calls and nodes, and the modules that call it, in the file's order."""

    name: str
    calls: int
    nodes: int
    modules: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class FunctionsReport(Printed):
    """The functions of a file. ``refused`` lists chosen modules that are not a contiguous part of the graph, with
    the reason."""

    path: Path
    functions: tuple[Function, ...]
    refused: tuple[tuple[str, str], ...]
    nodes_before: int
    nodes_after: int  # nodes of the graph and of the functions

    def _headline(self) -> str:
        return (f"{self.path.name}: {counted(len(self.functions), 'function')}, {counted(self.nodes_before, 'node')} became {self.nodes_after:,}"
                + (f", {counted(len(self.refused), 'module')} refused" if self.refused else ""))

    def _details(self) -> list[str]:
        return [f"refused: {module or '(root)'}: {reason}" for module, reason in self.refused]

    def _table(self) -> Table:
        return Table(("function", "calls", "nodes"), [(each.name, each.calls, each.nodes) for each in self.functions])


@takes_models("model", written="output")
def functions(model: Model, *, output: str | os.PathLike[str] | None = None, modules: Sequence[str] = (),
              types: Collection[str] = (), depth: int | None = None, overwrite: bool = False,
              copy_data: bool = False) -> FunctionsReport:
    """Turns modules of an annotated ONNX file into functions, in place by default.

    modules  globs over qualified names, "encoder.layer.*"; ``types``: classes, "BertLayer"; ``depth``: all modules down
             to this many calls below the root. By default, the repeated blocks that save the most nodes.
    overwrite  replace existing weight files at the paths that the output needs.
    copy_data  copy the weights if ``output`` is in the model's folder; by default it refers to the model's files.

    Writes a file only if inlining the functions gives the original graph. Raises WhenceError: E0101 if a choice matches
    nothing, E0302 if no chosen module is a contiguous part of the graph.
    """
    target = Path(output or model)
    options = [word for glob in modules for word in ("--modules", glob)]
    options += ["--types", ",".join(types)] if types else []
    options += ["--depth", depth] if depth is not None else []
    options += [flag for flag, is_set in (("--overwrite", overwrite), ("--copy-data", copy_data)) if is_set]
    report = run_json("functions", model, "-o", target, *options)
    return FunctionsReport(
        target, tuple(Function(each["name"], each["calls"], each["nodes"], tuple(each["modules"]))
                      for each in report["functions"]),
        tuple((each["module"], each["reason"]) for each in report["refused"]),
        report["nodes_before"], report["nodes_after"])


@takes_models("model", written="output")
def inline(model: Model, *, output: str | os.PathLike[str] | None = None, all: bool = False,
           overwrite: bool = False, copy_data: bool = False) -> Path:
    """Inlines the functions that ``functions`` created, or ``all`` functions; nodes get their original metadata back.
    ``overwrite`` and ``copy_data`` as for ``functions``."""
    target = Path(output or model)
    flags = (("--all", all), ("--overwrite", overwrite), ("--copy-data", copy_data))
    run_json("inline", model, "-o", target, *(flag for flag, is_set in flags if is_set))
    return target
