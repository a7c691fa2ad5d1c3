"""The version of this package."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path


def package_version() -> str:
    """Returns the version in the source tree's CMakeLists.txt, or that of the installed distribution."""
    source = Path(__file__).resolve().parents[3] / "CMakeLists.txt"
    match = re.search(r"project\(whence VERSION ([0-9.]+)", source.read_text()) if source.exists() else None
    return match[1] if match else metadata.version("whence-onnx")
