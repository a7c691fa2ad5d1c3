"""``show``, ``explain``, ``diff``, ``extract`` and ``profile``: run these commands and return their output as objects.

Rows are lists of frozen dataclasses, which ``pandas.DataFrame`` accepts directly.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.report_printing import Bar, Printed, Table, counted, module_labels
from ..command.process import run_json
from ..files.model_files import Model, takes_models


@dataclass(frozen=True)
class ModuleRow:
    """One module of a tree, in depth-first order. ``nodes`` counts the nodes of the module and all modules below it;
    ``own_nodes`` only those of the module. For a sidecar or an archive, both count recorded operations."""

    path: str                    # qualified name; the root is ""
    type: str | None             # class
    parent: str | None           # path; None for the root
    aliases: tuple[str, ...]
    calls: int | None            # None for a container that is never called
    nodes: int
    own_nodes: int
    operators: dict[str, int]    # own nodes by operator
    parameters: int | None       # elements, at and below the module
    trainable: int | None        # None if the file does not state it


class ModuleRows(Printed, list[ModuleRow]):
    """The rows of a tree as a list."""

    def _headline(self) -> str:
        labels = [f"{each.path or '(root)'} ({each.nodes:,})" for each in self[:_MAX_LABELS]]
        more = len(self) - len(labels)
        return f"{counted(len(self), 'module')}: " + ", ".join(labels) + (f" and {more} more" if more else "")

    def _table(self) -> Table:
        most = max((each.nodes for each in self), default=0) or 1
        return Table(("module", "type", "calls", "nodes", "parameters", ""), [
            (label, (each.type or "").rpartition(".")[2], each.calls, each.nodes, each.parameters, Bar.of(each.nodes / most))
            for label, each in zip(module_labels([each.path for each in self]), self)], texts=2)


_MAX_LABELS = 4


@dataclass(frozen=True, repr=False)
class Explanation(Printed):
    """A node's origin and the evidence for it; ``raw`` is the complete output of `whence explain --json`."""

    node: str
    op_type: str
    module: str | None
    modules: tuple[str, ...]     # all modules that it belongs to
    primary: str | None          # the module of its main operation
    type: str | None
    call: str | None
    source: str | None           # "modeling_bert.py:212 forward"
    file: str | None             # the innermost line below the source root: "src/model.py:17 forward"
    confidence: str
    rule: str | None
    reason: str
    raw: dict[str, Any]

    def _headline(self) -> str:
        where = "unknown" if self.primary is None else self.primary or "(root)"
        return f"{self.node}: {where}" + (f", {self.source}" if self.source else "") + f" ({self.confidence})"

    def _table(self) -> Table:
        entries = (("operator", self.op_type), ("modules", ", ".join(self.modules)), ("type", self.type),
                   ("call", self.call), ("because", self.reason))
        return Table(("", ""), [(name, value) for name, value in entries if value], texts=2)


@dataclass(frozen=True)
class ModuleChange:
    """One module in two files: counts (before, after), and counts of nodes by kind of change."""

    path: str | None             # None for nodes of unknown modules
    nodes: tuple[int, int]
    own_nodes: tuple[int, int]
    parameters: tuple[int, int]
    added: int
    removed: int
    fused: int
    replaced: int
    changed: int                 # other attributes, weights or inputs
    renamed: int
    moved: int


@dataclass(frozen=True, repr=False)
class Difference(Printed):
    """Changes from one file to another; ``raw`` is the output of `whence diff --json` (schema/diff.schema.json)."""

    same: bool
    changes: dict[str, int]
    modules: list[ModuleChange]
    raw: dict[str, Any]

    def _headline(self) -> str:
        return "no difference" if self.same else ", ".join(f"{count:,} {what}" for what, count in self.changes.items() if count)

    def _table(self) -> Table:
        kinds = ("added", "removed", "fused", "renamed", "moved")
        return Table(("module", "before", "after", *kinds), [
            (label, *each.nodes, *(getattr(each, kind) or "" for kind in kinds))
            for label, each in zip(module_labels([each.path for each in self.modules]), self.modules)])


@dataclass(frozen=True)
class ModuleTime:
    """One module of a profile, in the profile's unit."""

    path: str
    type: str | None
    own: int
    total: int                   # time of the module and all modules below it
    at_most: int                 # ``total`` and operators that fuse nodes of this module and others
    share: float                 # share of the time of all operators, 0 to 1


@dataclass(frozen=True, repr=False)
class Profile(Printed):
    """A profile by module; ``raw`` is the output of `whence profile --format json` (schema/profile.schema.json)."""

    unit: str                    # "microseconds", "cycles", "bytes" or "nodes"
    runs: int                    # number of counted runs
    operator_time: int
    unattributed: int            # amount spent in operators of unknown modules
    modules: list[ModuleTime]
    raw: dict[str, Any]

    def _headline(self) -> str:
        unknown = f", {self.unattributed:,} of no known module" if self.unattributed else ""
        return f"{counted(self.runs, 'run')}, {self.operator_time:,} {self.unit} in operators{unknown}"

    def _table(self) -> Table:
        return Table(("module", "type", self.unit, "share", "own", ""), [
            (label, (each.type or "").rpartition(".")[2], each.total, f"{each.share:.1%}", each.own or "", Bar.of(each.share))
            for label, each in zip(module_labels([each.path for each in self.modules]), self.modules)], texts=2)


@takes_models("path")
def show(path: Model, sidecar: str | os.PathLike[str] | None = None, *, depth: int | None = None,
         select: str | None = None) -> ModuleRows:
    """Returns the module tree of an annotated model, a sidecar or an archive: a list of ``ModuleRow``.

    path     a path, or an ONNX model in memory: ONNXProgram, onnx.ModelProto or onnx_ir.Model.
    sidecar  the sidecar of an ONNX file, which adds types, aliases, and modules without nodes.
    depth    levels to show below the first; ``select``: a glob, to show only matching modules and those below.

    Raises WhenceError: E0105 for a glob that matches nothing, E02xx for unreadable files.
    """
    options = ["--sidecar", sidecar] if sidecar else []
    options += ["--depth", depth] if depth is not None else []
    options += ["--select", select] if select is not None else []
    return ModuleRows(ModuleRow(row["path"], row["type"], row["parent"], tuple(row["aliases"]), row["calls"],
                                row["nodes"] if "nodes" in row else row["operations"],
                                row["own_nodes"] if "own_nodes" in row else row["own_operations"],
                                row["operators"], row["parameters"], row["trainable"])
                      for row in run_json("show", path, *options)["modules"])


@takes_models("model")
def explain(model: Model, node: str, sidecar: str | os.PathLike[str] | None = None, *,
            source_root: str | os.PathLike[str] | None = None) -> Explanation:
    """Explains where a node comes from. ``node`` is its name, or the name of one of its outputs; ``sidecar`` adds the
    recorded operations. ``Explanation.file`` is relative to ``source_root``, by default the working directory. Raises
    WhenceError: E0105 for a name that the file does not have, E02xx."""
    raw = run_json("explain", model, node, *(["--sidecar", sidecar] if sidecar else []),
                   *(["--source-root", source_root] if source_root else []))
    return Explanation(raw["node"], raw["op_type"], raw.get("module"), tuple(raw.get("modules") or ()), raw.get("primary"),
                       raw.get("type"), raw.get("call"), raw.get("source"), raw["file"], raw["confidence"], raw.get("rule"), raw["reason"], raw)


@takes_models("before", "after")
def diff(before: Model, after: Model, sidecar: str | os.PathLike[str] | None = None, *,
         depth: int | None = None) -> Difference:
    """Compares the nodes of two files by module, down to ``depth`` levels. ``sidecar`` is needed for files that whence
    exported and that are not annotated. Raises WhenceError for unreadable files."""
    options = ["--sidecar", sidecar] if sidecar else []
    options += ["--depth", depth] if depth is not None else []
    raw = run_json("diff", before, after, "--all", *options)
    modules = [ModuleChange(row["path"], tuple(row["nodes"]), tuple(row["own_nodes"]), tuple(row["parameters"]),
                            **row["changes"]) for row in raw["modules"]]
    return Difference(raw["same"], raw["changes"], modules, raw)


@takes_models("model")
def extract(model: Model, module: str | Sequence[str], output: str | os.PathLike[str], *, call: int | None = None,
            partial: bool = False, overwrite: bool = False, copy_data: bool = False) -> Path:
    """Extracts one call of a module, or of several modules together, to a model, and returns its path.

    module   a qualified name, or a list of names and globs: ["layers.[0-1]"].
    call     number of the call; by default 0, the first call.
    partial  write the known nodes of the module, even if there may be more.
    overwrite  replace existing weight files at the paths that the output needs.
    copy_data  copy the weights if ``output`` is in the model's folder; by default it refers to the model's files.

    Raises WhenceError: E0105 for a module that the file does not have, E0302 if it is not a contiguous
    part of the graph.
    """
    options = ["--call", call] if call is not None else []
    flags = (("--partial", partial), ("--overwrite", overwrite), ("--copy-data", copy_data))
    options += [flag for flag, is_set in flags if is_set]
    module_options = ["--module", module] if isinstance(module, str) else [
        word for each in module for word in ("--modules", each)]
    run_json("extract", model, *module_options, "-o", output, *options)
    return Path(output)


@takes_models("model", "optimized")
def profile(model: Model, measured: str | os.PathLike[str], *further: str | os.PathLike[str],
            optimized: Model | None = None, warmup: int | None = None) -> Profile:
    """Sums a runtime's measurements by module of the annotated file that ran.

    measured   the profile from ONNX Runtime, OpenVINO, TensorRT or QNN, recognised by its content; ``further``:
               TensorRT's layer information, QNN's operator trace.
    optimized  the model as ONNX Runtime saved it: a fused operator counts for the nodes that it replaced.
    warmup     number of initial runs to skip; by default 1 if there are several.

    Raises WhenceError: E0203 for a file that is not a profile, other E02xx.
    """
    options = [word for file in (measured, *further) for word in ("--profile", file)]
    options += ["--optimized", optimized] if optimized else []
    options += ["--warmup", warmup] if warmup is not None else []
    raw = run_json("profile", model, *options)
    modules = [ModuleTime(row["path"], row["type"], row["own"], row["total"], row.get("at_most", row["total"]), row["share"])
               for row in raw["modules"]]
    return Profile(raw["unit"], raw["runs"], raw["operator_time"], raw["unattributed"], modules, raw)
