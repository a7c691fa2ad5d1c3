"""Runs programs as live C++ modules, which tests/native/interpreter.cpp exports by whence's C++ API.

`python -m native.built`, `make test` and `make random` build it; otherwise the first program takes a minute. One
process answers many requests. A process that dies is replaced.
"""

import functools
import os
import subprocess

import command
from native.built import interpreter, without_whence_variables


class Interpreter:
    def __init__(self):
        environment = {**without_whence_variables(), "WHENCE": str(command.BINARY)}
        self.process = subprocess.Popen([interpreter()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**environment, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)

    def send(self, request: str) -> tuple[int, str]:
        """Returns the exit code, negative for a signal, and the output."""
        lines = []
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                if line.startswith("exit "):
                    return int(line.split()[1]), "".join(lines)
                lines.append(line)
        except BrokenPipeError:
            pass
        return self.process.wait(), "".join(lines)


@functools.cache
def interpreter_of(process: int) -> Interpreter:
    return Interpreter()


def send(request: str) -> tuple[int, str]:
    code, output = interpreter_of(os.getpid()).send(request)
    if interpreter_of(os.getpid()).process.poll() is not None:
        interpreter_of.cache_clear()
    return code, output
