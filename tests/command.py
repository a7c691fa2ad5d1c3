"""Runs the `whence` command that was built: $WHENCE, else build/bin/whence.

A test that wants an error has to get one of the command's own: a signal, exit 70 or E0901 is a defect in whence and
fails every test that does not ask for exactly that.
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
LOADS_LIBTORCH = ("export", "record", "ops")  # the subcommands that do, unless the archive is a .pt2
BUG = 70  # exit code of a defect in whence
TIMEOUT = 600


def has_server() -> bool:
    """Returns false without one that was built with the command."""
    return SERVER.exists() and SERVER.stat().st_mtime >= BINARY.stat().st_mtime


@functools.cache
def server(archive: Path = WITH_LIBTORCH) -> CommandServer | None:
    """A server of this test process, which has exported the archive."""
    return CommandServer(SERVER, archive) if has_server() else None


def run_process(arguments: list[str], environment: dict, timeout: float = TIMEOUT) -> subprocess.CompletedProcess:
    """A process that starts as a user's does."""
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=timeout, env=environment,
                          stdin=subprocess.DEVNULL)


def run_quickly(arguments: list[str], environment: dict, timeout: float = TIMEOUT) -> subprocess.CompletedProcess:
    """In a process that a server forks, where that makes no difference."""
    loads = bool(arguments) and arguments[0] in LOADS_LIBTORCH and not any(each.endswith(".pt2") for each in arguments)
    chosen = server(WITH_LIBTORCH if loads else WITHOUT_LIBTORCH)
    if chosen and chosen.can_run(environment):
        # The server stands for the command, also to the Python that a subcommand may become.
        return chosen.run([str(BINARY), *arguments], {"WHENCE": str(BINARY), **environment}, timeout)
    return run_process(arguments, environment, timeout)


def require_no_defect(code: int, error: str, line: str) -> None:
    """Fails when the command died of a signal or reported a defect of its own."""
    assert code >= 0 and code != BUG and "E0901" not in error, f"{line}\ndefect in whence, exit {code}\n{error[-4000:]}"


def run(*arguments, code: int | None = 0, env: dict | None = None,
        own_process: bool = False) -> subprocess.CompletedProcess:
    """Runs whence and asserts its exit code (None: any but that of a defect). The message of a failed assertion holds
    its output. With own_process, memory is laid out anew, as for a user who runs the command twice."""
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
