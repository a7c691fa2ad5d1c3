"""Assigns modules to devices for ONNX Runtime's layer assignment, and compares them with its providers."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.report_printing import Bar, Printed, Table, counted
from ..command.process import run_json
from ..errors import Diagnostic, require_list
from ..files.model_files import Model, takes_models


@dataclass(frozen=True)
class DeviceShare:
    """The load of a device: its nodes, the weights that they read, and their time if there is a profile."""

    device: str
    nodes: int
    weights: int
    bytes: int
    microseconds: int | None


@dataclass(frozen=True)
class Crossing:
    """The number of values that nodes of one device pass to nodes of another."""

    source: str
    target: str
    values: int


@dataclass(frozen=True)
class PlacementDifference:
    """A node that ONNX Runtime assigned to a provider of another device."""

    node: str
    module: str
    device: str
    provider: str


@dataclass(frozen=True, repr=False)
class PlaceReport(Printed):
    """The devices of a model. ``settings`` is the value of the session config entry
    ``session.layer_assignment_settings``. Without ``assigned``, ``as_placed`` and ``unknown_device`` (the number of nodes
    on providers whose devices are unknown) are None and there are no differences."""

    devices: tuple[DeviceShare, ...]
    crossings: tuple[Crossing, ...]
    settings: str
    as_placed: int | None
    unknown_device: int | None
    differences: tuple[PlacementDifference, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def clean(self) -> bool:
        """True if ONNX Runtime assigned no node to another device, or if ``assigned`` was not passed."""
        return not self.differences

    def _headline(self) -> str:
        shares = ", ".join(f"{counted(each.nodes, 'node')} on {each.device}" for each in self.devices)
        return shares + (f"; {len(self.differences):,} placed elsewhere" if self.differences else "")

    def _details(self) -> list[str]:
        lines = [f"{each.severity}: {each}" for each in self.diagnostics]
        return lines + [f"{counted(each.values, 'value')} from {each.source} to {each.target}" for each in self.crossings]

    def _table(self) -> Table:
        total = sum(each.nodes for each in self.devices) or 1
        return Table(("device", "nodes", "weights", "bytes", "microseconds", ""), [
            (each.device, each.nodes, each.weights, each.bytes, each.microseconds, Bar.of(each.nodes / total))
            for each in self.devices])


def providers_of(session: Any) -> list[dict[str, Any]]:
    """Returns the providers that an ONNX Runtime session chose, with their devices. The session config entry
    ``session.record_ep_graph_assignment_info`` must be "1"."""
    import onnxruntime

    devices: dict[str, list[dict[str, Any]]] = {}
    for each in onnxruntime.get_ep_devices():
        devices.setdefault(each.ep_name, []).append(
            {"type": each.device.type.name, "vendor": each.device.vendor, "vendor_id": each.device.vendor_id})
    return [{"provider": part.ep_name, "devices": devices.get(part.ep_name, []),
             "nodes": [{"name": node.name, "op_type": node.op_type} for node in part.get_nodes()]}
            for part in session.get_provider_graph_assignment_info()]


@takes_models("model", "optimized")
def place(model: Model, rules: Sequence[str] = (), *, default: str | None = None,
          output: str | os.PathLike[str] | None = None, assigned: Any = None,
          profile: str | os.PathLike[str] | None = None, optimized: Model | None = None,
          sidecar: str | os.PathLike[str] | None = None, overwrite: bool = False, copy_data: bool = False) -> PlaceReport:
    """Assigns modules of an annotated ONNX file to devices. Writes a file only if ``output`` is set.

    rules    "gpu=encoder.**": a device and a glob over qualified names. The first rule that matches a node's module
             decides. Without rules, the file's own devices are used. ``default``: the device of all other nodes.
    assigned  the choice of ONNX Runtime: an InferenceSession, or the file described in docs/dialects.md.
    profile  a runtime's profile, for the time of each device; ``optimized``: the model that the session saved.
    sidecar  for an exported file that is not annotated yet.
    overwrite  replace existing weight files at the paths that the output needs.
    copy_data  copy the weights if ``output`` is in the model's folder; by default it refers to the model's files.

    Raises WhenceError E0101 for a glob that matches nothing, a rule that places no node, an unknown device, and nodes
    without a device.
    """
    require_list(rules)
    options = [word for rule in rules for word in ("--rule", rule)]
    for option, value in [("--default", default), ("-o", output), ("--profile", profile),
                          ("--optimized", optimized), ("--sidecar", sidecar)]:
        options += [option, value] if value is not None else []
    options += [flag for flag, is_set in (("--overwrite", overwrite), ("--copy-data", copy_data)) if is_set]
    with tempfile.TemporaryDirectory() as folder:
        if hasattr(assigned, "get_provider_graph_assignment_info"):
            providers_file = Path(folder) / "providers.json"
            providers_file.write_text(json.dumps(providers_of(assigned)))
            assigned = providers_file
        options += ["--assigned", assigned] if assigned is not None else []
        report = run_json("place", model, *options, accepted=(0, 1))
    comparison = report.get("assigned")
    return PlaceReport(
        tuple(DeviceShare(**each) for each in report["devices"]),
        tuple(Crossing(each["from"], each["to"], each["values"]) for each in report["crossings"]), report["settings"],
        comparison["as_placed"] if comparison else None,
        comparison["unknown_device"] if comparison else None,
        tuple(PlacementDifference(**each) for each in comparison["differences"]) if comparison else (),
        tuple(map(Diagnostic.from_json, report["diagnostics"])))
