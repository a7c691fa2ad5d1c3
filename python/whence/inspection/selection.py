"""Selects nodes by module, in the formats of other tools."""

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
    """One node, its module and the confidence in it. ``modules`` are all modules of a fused node, and ``primary`` the
    module of its main operation; ``nested`` is true if the node is in the body of another node."""

    name: str
    op_type: str
    module: str
    confidence: str
    modules: tuple[str, ...] = ()
    primary: str = ""
    nested: bool = False


@dataclass(frozen=True, repr=False)
class Selection(Printed):
    """Nodes in the file's order. ``text`` has them in the requested format; it is empty without a format."""

    nodes: tuple[SelectedNode, ...]
    text: str
    diagnostics: tuple[Diagnostic, ...]

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.nodes]

    @property
    def data(self) -> Any:
        """``text`` of a JSON format, parsed: ``nncf.IgnoredScope(**select(..., format="nncf").data)``."""
        return json.loads(self.text)

    @property
    def arguments(self) -> list[str]:
        """``text`` of a command-line format as arguments: ``["trtexec", *select(...,
        format="trt-precisions").arguments]``."""
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
    """Selects the nodes of modules of an annotated ONNX file.

    modules  globs over qualified names, each with all modules below it; all modules by default. ``types``: also modules
             of these classes. ``exclude``: globs of modules to leave out.
    ops      only nodes of these operator types; the file need not have all of them.
    format   a tool's format: "ort-quant", "olive", "trt-precisions", "trt-devices", "polygraphy", "nncf",
             "nncf-openvino", "modelopt", "graphsurgeon", "modules", "names". ``setting``: the setting of the nodes, for
             formats with one: "fp32", "DLA".
    partial  leave out nodes that the format cannot express, with a warning in the diagnostics.
    sidecar  for an exported file that is not annotated yet.

    Raises WhenceError E0101 if a glob, type or operator matches nothing, and for nodes that the tool would silently
    ignore."""
    for choice in (modules, types, exclude, ops):
        require_list(choice)
    options = [word for glob in modules for word in ("--modules", glob)]
    options += ["--types", ",".join(types)] if types else []
    options += [word for glob in exclude for word in ("--not", glob)]
    options += ["--ops", ",".join(ops)] if ops else []
    options += ["--format", format] if format else []
    options += ["--as", setting] if setting else []
    options += ["--partial"] if partial else []
    options += ["--sidecar", sidecar] if sidecar is not None else []
    report = run_json("select", model, *options)
    nodes = tuple(SelectedNode(**{**node, "modules": tuple(node["modules"])}) for node in report["nodes"])
    return Selection(nodes, report.get("text", ""), tuple(map(Diagnostic.from_json, report["diagnostics"])))
