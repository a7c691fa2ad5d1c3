"""Runs the ``whence`` command in its own process, with JSON on its standard output.

The command is not loaded into this process, so that ONNX's protobuf does not clash with PyTorch's, and a memory limit
or a crash on a broken file ends only the command. The results are the same as on the command line.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from typing import Any

from ..errors import from_command
from . import recorder_library
from .binary import binary


def environment() -> dict[str, str]:
    """Returns the command's environment, with the paths of this Python's LibTorch and recorder unless the caller's
    environment sets them."""
    values = dict(os.environ) | recorder_library.for_command()
    if not values.get("TORCH_DIR") and not values.get("WHENCE_TORCH_DIR"):
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.submodule_search_locations:
            values["WHENCE_TORCH_DIR"] = str(next(iter(spec.submodule_search_locations)))
    return values


def run(arguments: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the command in its own process and waits for it."""
    return subprocess.run(arguments, capture_output=True, text=True, env=variables, stdin=subprocess.DEVNULL,
                          check=False)


def run_json(subcommand: str, *arguments: object, accepted: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """Runs the command with --json and returns its parsed output. Raises WhenceError for other exit codes."""
    return json.loads(run_text(subcommand, "--json", *arguments, accepted=accepted))


def run_text(*arguments: object, accepted: tuple[int, ...] = (0,)) -> str:
    """Runs the command and returns its output. Raises WhenceError for other exit codes."""
    result = run([str(binary()), *map(str, arguments)], environment())
    if result.returncode not in accepted:
        raise from_command(result.stdout, result.stderr, result.returncode)
    return result.stdout
