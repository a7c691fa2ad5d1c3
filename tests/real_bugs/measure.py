"""Does what a user of whence does with the files of one bug: `python measure.py NAME`. Writes whence.json beside them.

Records the model and its values in the environment that runs this program, annotates both files with the sidecar, and
calls `whence.accuracy` on both.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from make_files import FILES, SIDES  # first, because it sets the search path

import whence
from bug import Bug, selected_bugs


def record(bug: Bug, folder: Path) -> tuple[Path, Path]:
    """Records the sidecar, by torch.export or else by a trace, and the values of the modules and operations."""
    import torch

    sidecar, values = folder / "model.whence.json", folder / "model.values.safetensors"
    model, inputs = bug.build(), bug.example()
    try:
        with whence.record(sidecar):
            torch.export.export(model, inputs)
    except Exception:  # torch.export refuses some models that both exporters accept
        with whence.record(sidecar):
            torch.jit.trace(model, inputs, check_trace=False)
    whence.record_values(model, inputs, values, operations=True)
    return sidecar, values


def report_of(file: Path, sidecar: Path, values: Path, annotated: Path) -> dict[str, Any]:
    """Annotates a file and measures its accuracy. Returns the first module that differs, or the error."""
    start = time.monotonic()
    try:
        whence.annotate(file, sidecar, output=annotated, overwrite=True)
        report = whence.accuracy(annotated, values, sidecar=sidecar)
    except whence.WhenceError as failure:
        return {"error": str(failure), "seconds": round(time.monotonic() - start, 2)}
    except Exception:
        return {"crash": traceback.format_exc(), "seconds": round(time.monotonic() - start, 2)}
    first = report.first
    return {"verdict": report.verdict, "module": first.module if first else None,
            "operation": first.operation if first else None, "line": first.source if first else None,
            "suspects": [str(each) for each in first.suspects] if first else [],
            "nodes": [str(each) for each in first.nodes] if first else [],
            "notes": list(report.notes), "seconds": round(time.monotonic() - start, 2)}


def bundle_of(folder: Path, sidecar: Path, values: Path) -> str:
    """Returns what `--repro` states of the wrong file: how many nodes it wrote, whose script fails, or why none."""
    with tempfile.TemporaryDirectory() as place:
        try:
            return whence.accuracy(folder / "wrong.annotated.onnx", values, sidecar=sidecar, repro=Path(place) / "bundle").bundle
        except Exception as failure:
            return f"no bundle was written: {failure}"


def measure(bug: Bug) -> dict[str, Any]:
    """Returns the reports on both files."""
    folder = FILES / bug.name
    start = time.monotonic()
    try:
        sidecar, values = record(bug, folder)
    except Exception:
        return {"record": traceback.format_exc()}
    recorded = round(time.monotonic() - start, 2)
    return {"recording_seconds": recorded,
            **{side: report_of(folder / f"{side}.onnx", sidecar, values, folder / f"{side}.annotated.onnx")
               for side in SIDES},
            "bundle": bundle_of(folder, sidecar, values)}


def main() -> int:
    warnings.filterwarnings("ignore")
    for bug in selected_bugs(sys.argv[1:]):
        result = measure(bug)
        (FILES / bug.name / "whence.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
