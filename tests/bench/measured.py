"""Measures the cost of one process, as counted by the kernel."""

import os
import subprocess
import time
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """CPU is user plus system time; `mib` is the peak of resident memory, including mapped files.

    A child starts with its parent's peak, so a measuring process must stay small and create models in other processes.
    """

    cpu: float   # seconds
    wall: float  # seconds
    mib: float

    @property
    def gib(self) -> float:
        return self.mib / 1024


def measure(arguments: list, output: Path | str = os.devnull, codes: tuple = (0,)) -> Cost:
    """Runs one process with its standard output in a file. If its exit code is not in `codes`, raises RuntimeError with
    the end of its error output."""
    start = time.perf_counter()
    with open(output, "wb") as out:
        process = subprocess.Popen([str(argument) for argument in arguments], stdout=out, stderr=subprocess.PIPE)
    errors = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in codes:
        raise RuntimeError(f"exit {process.returncode}: {errors.strip()[-500:]}")
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss / 1024)
