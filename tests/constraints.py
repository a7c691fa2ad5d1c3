"""What an exported file says that the sizes of its inputs have to be."""

import json
from pathlib import Path

import onnx


def constraints_of(path: Path) -> list[str]:
    written = {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}
    return json.loads(written.get("pkg.whence.constraints", "[]"))
