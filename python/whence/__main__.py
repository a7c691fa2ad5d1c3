"""``python -m whence`` and the console script: the command, with the subcommands that need Python."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from .command.arguments import run_guarded
from .command.binary import binary
from .command.process import environment
from .errors import error


def _in_python(name: str, options: list[str]) -> str | None:
    """Returns the module of this package that runs the subcommand; None if the command itself runs it."""
    if name in ("annotate", "record", "validate"):
        if not any(each == "--values" or each.startswith("--values=") for each in options):
            return None
        return {"annotate": "numerics.annotate_command", "record": "values.command_line",
                "validate": "numerics.validate_command"}[name]
    return {"accuracy": "numerics.command_line", "sensitivity": "quantising.command_line",
            "fleet": "fleet.command_line", "recorder": "recorder.build"}.get(name)


def main() -> int:
    """Runs a subcommand of this package, or replaces this process with the command."""
    name, *rest = sys.argv[1:] or [""]
    if name == "help" and rest and _in_python(rest[0], []):  # the command would search python3, not this Python
        name, rest = rest[0], ["--help"]
    module = _in_python(name, rest)

    def run_it(options: Sequence[str]) -> int:
        if module is None:
            named = name == "doctor" and any(each == "--python" or each.startswith("--python=") for each in rest)
            own = [name, "--python", sys.executable] if name == "doctor" and not named else sys.argv[1:2]
            # Settings found in this Python do not apply to the Python that --python names.
            os.execve(str(binary()), ["whence", *own, *rest], dict(os.environ) if named else environment())
        try:
            return importlib.import_module(f"whence.{module}").main(list(options))
        except ModuleNotFoundError as missing:
            if str(missing.name).partition(".")[0] == "whence":
                raise
            raise error("E0307", "needs_libtorch", f"`whence {name}` needs the Python package {missing.name}, which "
                        f"{sys.executable} does not have", "set WHENCE_PYTHON to a Python that has it, or "
                        f"pip install {missing.name}") from None

    return run_guarded(rest, run_it)


if __name__ == "__main__":
    sys.exit(main())
