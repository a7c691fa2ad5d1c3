"""Opens archives that PyTorch runs here, after the command has read them with care."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from ..command import run_json


def opened(archive: str | os.PathLike, inputs: str | os.PathLike | None = None,
           sidecar: str | os.PathLike | None = None) -> Any:
    """The torch.jit.ScriptModule, or the torch.export.ExportedProgram of a .pt2. ``inputs``: of one run, which a .pt that
    holds none needs. ``sidecar``: where to keep the one that is recorded on the way.

    Raises WhenceError: what `whence record` says of the archive.
    """
    archive = os.fspath(archive)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        # It refuses what must not be run, before PyTorch loads it here.
        example = ["--inputs", str(inputs)] if inputs is not None and not archive.endswith(".pt2") else []
        run_json("record", archive, "-o", str(sidecar or Path(folder) / "model.whence.json"), *example)
    import torch

    if archive.endswith(".pt2"):
        return torch.export.load(archive)
    return torch.jit.load(archive, map_location="cpu")
