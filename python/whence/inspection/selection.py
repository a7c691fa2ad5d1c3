"""Nodes of chosen modules, in the form that other tools take."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.report_printing import Printed, Table, counted
from ..command.process import run_json
from ..errors import Diagnostic, require_list
from ..files.model_files import Model, takes_models


@dataclass(frozen=True)
class SelectedNode:
    """One node: its name and operator, the module that it belongs to, and how sure that is. ``modules``: every one that a
    fused node stands for; ``nested``: it stands in the body of another node."""

    name: str
    op_type: str
    module: str
    confidence: str
    modules: tuple[str, ...] = ()
    nested: bool = False


@dataclass(frozen=True, repr=False)
class Selection(Printed):
    """Nodes in the file's order. ``text``: the same in the format that was asked for; empty without one."""

    nodes: tuple[SelectedNode, ...]
    text: str
    diagnostics: tuple[Diagnostic, ...]

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [node.name for node in self.nodes]

    @property
    def data(self) -> Any:
        """The text of a format in JSON as data: ``nncf.IgnoredScope(**select(..., format="nncf").data)``."""
        return json.loads(self.text)

    @property
    def arguments(self) -> list[str]:
        """The lines of a format for a command line: ``["trtexec", *select(..., format="trt-precisions").arguments]``."""
        return self.text.splitlines()

    def _headline(self) -> str:
        modules = len({node.module for node in self.nodes})
        return f"{counted(len(self.nodes), 'node')} of {counted(modules, 'module')}"

    def _details(self) -> list[str]:
        return [f"{each.severity}: {each}" for each in self.diagnostics]

    def _table(self) -> Table:
        return Table(("node", "operator", "module", "confidence"),
                     [(each.name, each.op_type, each.module or "(root)", each.confidence) for each in self.nodes], texts=4)


@takes_models("model")
def select(model: Model, modules: Sequence[str] = (), *, types: Collection[str] = (), exclude: Sequence[str] = (),
           ops: Collection[str] = (), format: str | None = None, setting: str | None = None, partial: bool = False,
           sidecar: str | os.PathLike[str] | None = None) -> Selection:
    """The nodes of modules of an annotated ONNX file.

    modules  globs over qualified names, each a module and all below it; all by default. ``types``: by class, beside these.
             ``exclude``: but not these.
    ops      only nodes of these operator types, of which the file need not have all.
    format   a tool's form: "ort-quant", "olive", "trt-precisions", "trt-devices", "polygraphy", "nncf",
             "nncf-openvino", "modelopt", "graphsurgeon", "modules", "names". ``setting``: what the nodes are to be, for
             those that say it: "fp32", "DLA".
    partial  leave out nodes that the tool cannot be given, with a warning among the diagnostics.
    sidecar  for a file that was exported and not yet annotated.

    Raises WhenceError E0101 when a choice matches nothing, and for nodes that the tool would silently ignore.
    """
    for choice in (modules, types, exclude, ops):
        require_list(choice)
    chosen = [word for glob in modules for word in ("--modules", glob)]
    chosen += ["--types", ",".join(types)] if types else []
    chosen += [word for glob in exclude for word in ("--not", glob)]
    chosen += ["--ops", ",".join(ops)] if ops else []
    chosen += ["--format", format] if format else []
    chosen += ["--as", setting] if setting else []
    chosen += ["--partial"] if partial else []
    chosen += ["--sidecar", sidecar] if sidecar is not None else []
    report = run_json("select", model, *chosen)
    nodes = tuple(SelectedNode(**{**node, "modules": tuple(node["modules"])}) for node in report["nodes"])
    return Selection(nodes, report.get("text", ""), tuple(map(Diagnostic.from_json, report["diagnostics"])))
