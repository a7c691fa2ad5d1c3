"""Reads the constraints on input sizes from an exported file."""

import json
from pathlib import Path

import onnx


def constraints_of(path: Path) -> list[str]:
    metadata = {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}
    return json.loads(metadata.get("pkg.whence.constraints", "[]"))
