"""Entry point of ``python -m whence`` and of the console script: the command plus the subcommands written in Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .command.arguments import run_guarded, run_module
from .command.binary import binary
from .command.process import environment


# Subcommands of the binary that this package runs if they have the option.
_OPTIONS = {"annotate": ("--values", "numerics.annotate_command"), "attest": ("--values", "editing.attest_command"),
            "carry": ("--check", "annotation.carry_command"),
            "record": ("--values", "values.command_line"), "validate": ("--values", "numerics.validate_command")}


def _python_module(name: str, options: list[str]) -> str | None:
    """Returns the module of this package that runs the subcommand; None if the binary runs it."""
    if name in _OPTIONS:
        option, module = _OPTIONS[name]
        own = options[:options.index("--")] if "--" in options else options
        return module if any(each == option or each.startswith(option + "=") for each in own) else None
    return {"accuracy": "numerics.crash_guard", "sensitivity": "quantising.command_line",
            "fleet": "fleet.command_line", "recorder": "recorder.build"}.get(name)


def main() -> int:
    """Runs a subcommand of this package, or replaces this process with the binary."""
    name, *rest = sys.argv[1:] or [""]
    if name == "help" and rest and _python_module(rest[0], []):  # the binary would look in python3, not in this Python
        name, rest = rest[0], ["--help"]
    module = _python_module(name, rest)

    def run_subcommand(options: Sequence[str]) -> int:
        if module is None:
            has_python = name == "doctor" and any(
                option == "--python" or option.startswith("--python=") for option in rest)
            subcommand = [name, "--python", sys.executable] if name == "doctor" and not has_python else sys.argv[1:2]
            # This Python's settings do not apply to the one that --python specifies.
            os.execve(str(binary()), ["whence", *subcommand, *rest], dict(os.environ) if has_python else environment())
        return run_module(name, module, options)

    return run_guarded(rest, run_subcommand)


if __name__ == "__main__":
    sys.exit(main())
