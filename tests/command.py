"""Runs the built `whence` command: $WHENCE, or else build/bin/whence.

A signal, exit code 70 or E0901 is a defect in whence. It fails every test that does not expect exactly that.
"""

import functools
import json
import os
import subprocess
from pathlib import Path

from command_server.client import WITH_LIBTORCH, WITHOUT_LIBTORCH, CommandServer

ROOT = Path(__file__).resolve().parents[1]
BINARY = Path(os.environ.get("WHENCE", ROOT / "build" / "bin" / "whence"))
SERVER = BINARY.parent / "command_server"
LOADS_LIBTORCH = ("export", "record", "ops")  # subcommands that load LibTorch, unless the archive is a .pt2
BUG = 70  # exit code of a defect in whence
TIMEOUT = 600


def has_server() -> bool:
    """Returns true if a server was built with the command."""
    return SERVER.exists() and SERVER.stat().st_mtime >= BINARY.stat().st_mtime


@functools.cache
def server(archive: Path = WITH_LIBTORCH) -> CommandServer | None:
    """Returns this test process's server, which has already exported the archive."""
    return CommandServer(SERVER, archive) if has_server() else None


def run_process(arguments: list[str], environment: dict, timeout: float = TIMEOUT) -> subprocess.CompletedProcess:
    """Runs the command in a new process, like a user."""
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=timeout, env=environment,
                          stdin=subprocess.DEVNULL)


def run_quickly(arguments: list[str], environment: dict, timeout: float = TIMEOUT) -> subprocess.CompletedProcess:
    """Runs the command in a fork of a server, if the environment permits it."""
    loads = bool(arguments) and arguments[0] in LOADS_LIBTORCH and not any(
        argument.endswith(".pt2") for argument in arguments)
    forking_server = server(WITH_LIBTORCH if loads else WITHOUT_LIBTORCH)
    if forking_server and forking_server.can_run(environment):
        # The server replaces the command, also for Python subcommands.
        return forking_server.run([str(BINARY), *arguments], {"WHENCE": str(BINARY), **environment}, timeout)
    return run_process(arguments, environment, timeout)


def require_no_defect(code: int, error: str, line: str) -> None:
    """Fails if the command died of a signal or reported a defect in whence."""
    assert code >= 0 and code != BUG and "E0901" not in error, f"{line}\ndefect in whence, exit {code}\n{error[-4000:]}"


def run(*arguments, code: int | None = 0, env: dict | None = None,
        own_process: bool = False) -> subprocess.CompletedProcess:
    """Runs whence and asserts its exit code (None: any except that of a defect). A failed assertion shows the output.
    With own_process, runs a new process with a different memory layout."""
    arguments = [str(argument) for argument in arguments]
    result = (run_process if own_process else run_quickly)(arguments, {**os.environ, **(env or {})})
    line = " ".join(["whence", *arguments])
    if code is None or result.returncode != code:
        require_no_defect(result.returncode, result.stderr, line)
    assert code is None or result.returncode == code, (
        f"{line}\nexit {result.returncode}, not {code}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}")
    return result


def run_json(*arguments, code: int | None = 0) -> dict:
    """Runs whence with --json and returns the object on standard output."""
    return json.loads(run(*arguments, "--json", code=code).stdout)
