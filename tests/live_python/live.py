"""Records with the plugin loaded by torch.ops.load_library, without whence's Python package."""

import json
import os
from contextlib import contextmanager
from pathlib import Path

import torch

import command
from sidecar import Sidecar

PLUGIN = Path(os.environ.get("WHENCE_PLUGIN", command.BINARY.parents[1] / "lib" / "libwhence_recorder.so"))


@contextmanager
def recording(path):
    """Records the traces of the block to `path`; yields a dict that receives stop()'s report at the end."""
    torch.ops.load_library(str(PLUGIN))
    report = {}
    torch.ops.whence.start(str(path))
    try:
        yield report
    finally:
        report.update(json.loads(torch.ops.whence.stop()))


def recorded_operations(path) -> list[tuple]:
    """Returns (operator, module path, call number, source line) of each operation of a sidecar."""
    sidecar = Sidecar(path)
    modules, scopes = sidecar.table("modules"), sidecar.table("scopes")
    rows = []
    for row in sidecar.operations():
        scope = scopes[row["scope"]]
        frame = row["frames"][0] if row["frames"] else None
        rows.append((row["target"], modules[scope["module"]]["path"], scope["call"],
                     frame and (frame["file"], frame["line"], frame["function"])))
    return rows
