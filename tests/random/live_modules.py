"""Programs as live C++ modules: tests/native/interpreter.cpp runs them and exports them by whence's C++ API.

`python -m native.built` builds it, as do `make test` and `make random`; otherwise the first program takes a minute. One
process answers many requests; a process that dies is replaced.
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

    def ask(self, request: str) -> tuple[int, str]:
        """Returns the exit code, as of the command, and the output. The code of a signal is negative."""
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


def ask(request: str) -> tuple[int, str]:
    code, said = interpreter_of(os.getpid()).ask(request)
    if interpreter_of(os.getpid()).process.poll() is not None:
        interpreter_of.cache_clear()
    return code, said
