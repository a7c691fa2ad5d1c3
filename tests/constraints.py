"""Reads the constraints on input sizes that an exported file states."""

import json
from pathlib import Path

import onnx


def constraints_of(path: Path) -> list[str]:
    written = {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}
    return json.loads(written.get("pkg.whence.constraints", "[]"))
