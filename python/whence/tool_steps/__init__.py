"""Observes the steps (passes, rules, fusions) of tools written in Python, and switches them off one by one.

``observed`` does so for Python functions in this process and for the processes that it starts. There, PyTorch's and
whence's packages may be missing, so this package imports only the standard library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .patches import Patches
from .steps import FOLDER_VARIABLE, Request, Step, Steps

__all__ = ["Request", "Step", "observed"]

_STARTUP = Path(__file__).resolve().parent / "startup"  # Python imports its sitecustomize.py first


@contextmanager
def observed(folder: Path, request: Request) -> Iterator[Steps]:
    """Observes the tools that run inside the block, as ``request`` states. ``folder``, which must be empty, holds the
    request and the log. Processes with ``python -I`` or ``-E`` are not observed."""
    steps = Steps.start(folder, request)
    variables = {FOLDER_VARIABLE: str(folder),
                 "PYTHONPATH": os.pathsep.join(filter(None, (str(_STARTUP), os.environ.get("PYTHONPATH", ""))))}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    patches = Patches(steps)
    patches.install()
    try:
        yield steps
    finally:
        patches.remove()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
