"""Annotates, validates and reports one model by separate commands. The result is one row.

A worker holds only the row; the commands read the model's structure and leave weights on disk.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..annotation.reports import CONFIDENCES
from ..command.process import run_json
from ..errors import WhenceError
from ..files.sidecar_paths import sidecar_beside, weights_beside
from .registry import Model

Row = dict[str, Any]
OTHER_MODEL = "E0206"


@dataclass(frozen=True)
class ModelOptions:
    """Options for all models. A model that was processed with other options is processed again."""

    minima: tuple[str, ...] = ()
    reports: bool = True


def process(model: Model, options: ModelOptions, replace: bool) -> Row:
    """Processes one model and returns its row. Does not raise, so that a failing model does not stop the others.

    ``replace``: results of an earlier run, including weights, may be replaced.
    """
    start = time.monotonic()
    row: Row = {**asdict(model), "wishes": asdict(options), "ok": False}
    try:
        row.update(_results(model, options, replace), ok=True)
    except WhenceError as failure:
        row["errors"] = [{"code": each.code, "message": each.message, "remedy": each.remedy} for each in failure.diagnostics]
    except OSError as failure:
        row["errors"] = [{"code": "E0401", "message": str(failure), "remedy": "name another folder with --output"}]
    row["seconds"] = round(time.monotonic() - start, 3)
    return row


def row_of_lost_worker(model: Model, options: ModelOptions, message: str, remedy: str) -> Row:
    """Returns the row of a model whose worker was lost."""
    return {**asdict(model), "wishes": asdict(options), "ok": False, "seconds": 0.0,
            "errors": [{"code": "", "message": message, "remedy": remedy}]}


def stamps(model: Model) -> dict[str, list[int]]:
    """Returns the sizes and modification times of the model's input files by name, which change with the files."""
    file = Path(model.file)
    used = [file, sidecar_beside(file), weights_beside(file)]
    return {str(each): [each.stat().st_size, each.stat().st_mtime_ns] for each in used if each is not None and each.exists()}


def _results(model: Model, options: ModelOptions, replace: bool) -> Row:
    file, output = Path(model.file), Path(model.output)
    before = stamps(model)
    output.parent.mkdir(parents=True, exist_ok=True)
    found_by, notes = _annotate(file, output, replace)
    minima = [word for each in options.minima for word in ("--min", each)]
    validated = run_json("validate", output, *minima, accepted=(0, 1))
    if options.reports:
        run_json("report", output, "-o", model.report)
    coverage = validated["coverage"]
    return {"stamps": before, "found_by": found_by, "notes": notes, "nodes": coverage["nodes"], "covered": coverage["covered"],
            **{word: coverage[word] for word in CONFIDENCES}, "clean": validated["clean"],
            "findings": [*({"code": each["code"], "severity": each["severity"], "message": each["summary"],
                            "remedy": each["remedy"]} for each in validated["findings"]),
                         *({"code": each["code"], "severity": "error", "message": _shortfall_text(each), "remedy": ""}
                           for each in validated["shortfalls"])]}


def _shortfall_text(shortfall: dict[str, Any]) -> str:
    return (f"{shortfall['subject']}: " if shortfall["subject"] else "") + shortfall["message"]


def _annotate(file: Path, output: Path, replace: bool) -> tuple[str, list[str]]:
    """Annotates the model. Returns the source of the origins, and notes about it."""
    def run(*options: object) -> None:
        run_json("annotate", file, "-o", output, *options, *(["--overwrite"] if replace else []))

    if record := sidecar_beside(file):
        run("--sidecar", record)
        return f"sidecar {record.name}", []
    weights = weights_beside(file)
    if weights is None or _is_complete(file):
        run()
        return "its own metadata and names", []
    try:
        run("--weights", weights)
        return f"weights {weights.name}", []
    except WhenceError as failure:
        if failure.code != OTHER_MODEL:
            raise
        run()
        return "its own metadata and names", [
            f"the weights next to it belong to another model: {failure.diagnostics[0].message}"]


def _is_complete(file: Path) -> bool:
    """Returns true if every node already has an origin."""
    coverage = run_json("validate", file, accepted=(0, 1))["coverage"]
    return coverage["covered"] == coverage["nodes"]
