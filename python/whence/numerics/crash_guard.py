"""Runs a command line, such as ``whence accuracy``, in a process of its own, so that a crash of ONNX Runtime can be explained."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence

from ..command.arguments import run_guarded, run_module

_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


def main(arguments: Sequence[str]) -> int:
    return run(arguments, _run)


def run(arguments: Sequence[str], command: Callable[..., int]) -> int:
    """Runs the command in a process of its own. If ONNX Runtime crashes there, runs it again, with the runtime in further
    processes, to find the node. Runs it in this process if another thread of Python runs, because it may hold locks.

    This process does not import PyTorch first: the other one would copy most of its memory, page by page."""
    if threading.active_count() > 1:
        return command(arguments)
    child = os.fork()
    if child == 0:
        os._exit(run_guarded(arguments, command))
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    status = _wait(child)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    if os.WTERMSIG(status) not in _CRASHES:
        os.kill(os.getpid(), os.WTERMSIG(status))
    return command(arguments, isolated=True)


def _run(arguments: Sequence[str], isolated: bool = False) -> int:
    return run_module("accuracy", "numerics.command_line", arguments, isolated=isolated)


def _wait(child: int) -> int:
    """Waits for the process, which gets the same Ctrl-C."""
    while True:
        try:
            return os.waitpid(child, 0)[1]
        except KeyboardInterrupt:
            continue
