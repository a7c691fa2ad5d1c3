"""Finds the ``whence`` command."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import error

FOLDER = Path(__file__).resolve().parents[1]


def binary() -> Path:
    """Returns the path of the command: $WHENCE, else the one in this package, else the one built in this source tree.
    Raises WhenceError E0102 if there is none."""
    installed, source = FOLDER / "bin" / "whence", FOLDER.parents[1]
    built = source / "build" / "bin" / "whence" if (source / "CMakeLists.txt").exists() else installed
    path = Path(os.environ.get("WHENCE") or (installed if installed.exists() else built))
    if not path.exists():
        raise error("E0102", "missing_file", f"no command at {path}",
                    "pip install whence-onnx, or set WHENCE to the path of a built command", file=str(path))
    return path
