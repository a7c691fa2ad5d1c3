"""Errors, exit codes and progress of this package's command lines, formatted like those of the native command."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from ..errors import WhenceError, error


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise error("E0101", "usage", message, f"`{self.prog} --help` lists the options")


def run_guarded(arguments: Sequence[str], run: Callable[[Sequence[str]], int]) -> int:
    """Runs a command line and returns its exit code. Prints errors to standard error, and with --json also as JSON to
    standard output."""
    try:
        code = run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except WhenceError as failure:
        if "--json" in arguments:
            print(json.dumps({"diagnostics": [
                {"code": entry.code, "name": entry.name, "severity": entry.severity, "message": entry.message,
                 "remedy": entry.remedy, "where": entry.where} for entry in failure.diagnostics]}, indent=2))
        for entry in failure.diagnostics:
            print(entry, file=sys.stderr)
        return _exit_code(failure.code)


def run_module(name: str, module: str, options: Sequence[str], **settings: bool) -> int:
    """Imports a module of this package and runs its ``main``. Raises WhenceError E0307 if a Python package is missing."""
    try:
        return importlib.import_module(f"whence.{module}").main(list(options), **settings)
    except ModuleNotFoundError as missing:
        if str(missing.name).partition(".")[0] == "whence":
            raise
        raise error("E0307", "needs_libtorch", f"`whence {name}` needs the Python package {missing.name}, which "
                    f"{sys.executable} does not have", "set WHENCE_PYTHON to a Python that has it, or "
                    f"pip install {missing.name}") from None


def _exit_code(code: str) -> int:
    """Returns the exit code of an error: 2 for E01.., 3 for E02.., and so on (docs/errors.md)."""
    return 70 if code == "E0901" else int(code[1:3]) + 1


def show_progress(done: int, count: int, what: str) -> None:
    """Shows progress on one line that is overwritten, and cleared at the end."""
    width = max(min(os.get_terminal_size(sys.stderr.fileno()).columns, 100), 40)
    full = round(20 * done / count)
    line = f"[{'#' * full}{'.' * (20 - full)}] {done}/{count} {what}"
    print("\r" + ("" if done == count else line)[:width - 1].ljust(width - 1), end="\r", file=sys.stderr, flush=True)
