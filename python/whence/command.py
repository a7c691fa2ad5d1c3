"""The ``whence`` command, which does the work: it is run as a process of its own, with JSON on its standard output.

Not bound into this process: ONNX and its protobuf never meet PyTorch's own copies there, a limit or a crash on a broken
file ends the command and not the caller, and what users see on the command line is what they get here.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .command_lines import run_guarded
from .errors import error, from_command

FOLDER = Path(__file__).resolve().parent


def binary() -> Path:
    """The command: $WHENCE, else the one in this package, else the one that was built in this source tree. Raises
    WhenceError E0102 when there is none."""
    installed, source = FOLDER / "bin" / "whence", FOLDER.parents[1]
    built = source / "build" / "bin" / "whence" if (source / "CMakeLists.txt").exists() else installed
    path = Path(os.environ.get("WHENCE") or (installed if installed.exists() else built))
    if not path.exists():
        raise error("E0102", "missing_file", f"no command at {path}",
                    "pip install whence-onnx, or set WHENCE to the command that was built", file=str(path))
    return path


def environment() -> dict[str, str]:
    """Tells the command where this Python's LibTorch and its recorder are, unless the caller did."""
    from .recorders import for_command

    values = dict(os.environ) | for_command()
    if not values.get("TORCH_DIR") and not values.get("WHENCE_TORCH_DIR"):
        found = importlib.util.find_spec("torch")
        if found is not None and found.submodule_search_locations:
            values["WHENCE_TORCH_DIR"] = str(next(iter(found.submodule_search_locations)))
    return values


def run(arguments: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own, and waits for it."""
    return subprocess.run(arguments, capture_output=True, text=True, env=variables, stdin=subprocess.DEVNULL,
                          check=False)


def run_json(subcommand: str, *arguments: object, accepted: tuple[int, ...] = (0,)) -> dict:
    """Runs the command with --json and returns what it printed. Raises WhenceError for other exit codes."""
    return json.loads(run_text(subcommand, "--json", *arguments, accepted=accepted))


def run_text(*arguments: object, accepted: tuple[int, ...] = (0,)) -> str:
    """Runs the command and returns what it printed. Raises WhenceError for other exit codes."""
    result = run([str(binary()), *map(str, arguments)], environment())
    if result.returncode not in accepted:
        raise from_command(result.stdout, result.stderr, result.returncode)
    return result.stdout


def _in_python(name: str, options: list[str]) -> str | None:
    """The module of this package that runs the subcommand; None where the command itself does."""
    if name in ("annotate", "record", "validate"):
        if not any(each == "--values" or each.startswith("--values=") for each in options):
            return None
        return {"annotate": "numerics.annotating", "record": "values.command_line", "validate": "numerics.validating"}[name]
    return {"accuracy": "numerics.command_line", "sensitivity": "quantising.command_line",
            "fleet": "fleet.command_line", "recorder": "recorder_building"}.get(name)


def main() -> int:
    """The console script: a subcommand of this package, or the command itself in the place of this process."""
    name, *rest = sys.argv[1:] or [""]
    if name == "help" and rest and _in_python(rest[0], []):  # the command would look for the package in python3
        name, rest = rest[0], ["--help"]
    module = _in_python(name, rest)

    def run_it(options: Sequence[str]) -> int:
        if module is None:
            named = name == "doctor" and any(each == "--python" or each.startswith("--python=") for each in rest)
            own = [name, "--python", sys.executable] if name == "doctor" and not named else sys.argv[1:2]
            # Variables of this Python are no answer to a question about another one.
            os.execve(str(binary()), ["whence", *own, *rest], dict(os.environ) if named else environment())
        try:
            return importlib.import_module(f"whence.{module}").main(list(options))
        except ModuleNotFoundError as missing:
            if str(missing.name).partition(".")[0] == "whence":
                raise
            raise error("E0307", "needs_libtorch", f"`whence {name}` needs the Python package {missing.name}, which "
                        f"{sys.executable} does not have", "name the Python that has it in $WHENCE_PYTHON, or "
                        f"pip install {missing.name}") from None

    return run_guarded(rest, run_it)
