"""Runs each task in a separate process, because ONNX Runtime and PyTorch may crash or hang. Each result is a line in
a file, so that an interrupted run can continue."""

import json
import os
import signal
import tempfile
import time
import traceback
from pathlib import Path
from typing import Callable, Iterable, Iterator, TextIO, TypeVar

Task = TypeVar("Task")
# Arguments: the task, the output file (JSON Lines), and a folder for temporary files.
Work = Callable[[Task, TextIO, Path], None]

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # parent of the temporary folders


class Running:
    def __init__(self, task: Task, work: Work, seconds: float):
        self.task, self.seconds, self.folder = task, seconds, tempfile.TemporaryDirectory(prefix="whence-tests-", dir=MEMORY)
        self.lines, self.end = Path(self.folder.name, "outcomes"), time.monotonic() + seconds
        self.process = os.fork()
        if self.process == 0:
            try:
                with self.lines.open("w") as lines:
                    work(task, lines, Path(self.folder.name))
            except BaseException:  # noqa: BLE001, a forked process must not return
                traceback.print_exc()
                os._exit(1)
            os._exit(0)

    def ended(self) -> tuple[list[dict], str] | None:
        """Returns the lines written and the reason for an early end, or None while the process runs."""
        ended, status = os.waitpid(self.process, os.WNOHANG)
        if not ended and time.monotonic() < self.end:
            return None
        if not ended:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        lines = [json.loads(line) for line in self.lines.read_text().splitlines()] if self.lines.exists() else []
        self.folder.cleanup()
        if not ended:
            return lines, f"took more than {self.seconds} s"
        return lines, f"the process ended with {os.waitstatus_to_exitcode(status)}" if status else ""


def run_each(tasks: Iterable[Task], work: Work, seconds: float, jobs: int) -> Iterator[tuple[Task, list[dict], str]]:
    """Yields each task when it ends, with the result of Running.ended(). Runs `jobs` at a time, each for at most
    `seconds`."""
    waiting, running = list(tasks), []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(Running(waiting.pop(0), work, seconds))
        time.sleep(0.02)
        for process in list(running):
            if (ended := process.ended()) is not None:
                running.remove(process)
                yield process.task, *ended


class Results:
    """Collects rows, optionally in a JSON Lines file. Reads existing rows first."""

    def __init__(self, path: Path | None):
        self.path = path
        self.rows = [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []

    def add(self, row: dict) -> None:
        self.rows.append(row)
        if self.path:
            with self.path.open("a") as file:
                print(json.dumps(row), file=file)
