"""Modules of an annotated file as ONNX functions, one for each unique block, and the graph back again."""

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
    """One function: its name, how often it is called, its nodes, and the modules that call it, in the file's order."""

    name: str
    calls: int
    nodes: int
    modules: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class FunctionsReport(Printed):
    """The functions of a file. ``refused``: chosen modules that are not a single part of the graph, with the reason."""

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
    """Cuts functions out of an annotated ONNX file; in place unless ``output`` is given.

    modules  globs over qualified names, "encoder.layer.*"; ``types``: classes, "BertLayer"; ``depth``: all modules down
             to so many calls below the root. With none of them, the repeated blocks that save the most nodes.
    overwrite  replace files of weights that stand where those of ``output`` go and hold something else.
    copy_data  files of weights of its own for an ``output`` in the model's folder, which names the model's otherwise.

    Nothing is written unless the functions, written out again, give the same graph. Raises WhenceError: E0101 when a
    choice matches nothing, E0302 when no chosen module is a single part of the graph.
    """
    target = Path(output or model)
    chosen = [word for glob in modules for word in ("--modules", glob)]
    chosen += ["--types", ",".join(types)] if types else []
    chosen += ["--depth", depth] if depth is not None else []
    chosen += [flag for flag, given in (("--overwrite", overwrite), ("--copy-data", copy_data)) if given]
    report = run_json("functions", model, "-o", target, *chosen)
    return FunctionsReport(
        target, tuple(Function(each["name"], each["calls"], each["nodes"], tuple(each["modules"]))
                      for each in report["functions"]),
        tuple((each["module"], each["reason"]) for each in report["refused"]),
        report["nodes_before"], report["nodes_after"])


@takes_models("model", written="output")
def inline(model: Model, *, output: str | os.PathLike[str] | None = None, all: bool = False,
           overwrite: bool = False, copy_data: bool = False) -> Path:
    """Writes out the calls of functions that ``functions`` made, or of ``all``, with the metadata the nodes had;
    ``overwrite`` and ``copy_data`` as for ``functions``."""
    target = Path(output or model)
    flags = (("--all", all), ("--overwrite", overwrite), ("--copy-data", copy_data))
    run_json("inline", model, "-o", target, *(flag for flag, given in flags if given))
    return target
