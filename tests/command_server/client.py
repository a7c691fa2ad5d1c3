"""Runs the command through server.cpp, with the same result as from subprocess.run."""

import os
import selectors
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[1] / "torch_versions" / "fixtures" / "2.13.0"
WITH_LIBTORCH, WITHOUT_LIBTORCH = FIXTURES / "traced.pt", FIXTURES / "static.pt2"  # exported by the server
# Prefixes of variables that libraries read when they are loaded: other values need a new process.
LOAD_TIME_PREFIXES = ("ATEN_", "GLIBC_", "GOMP_", "KMP_", "LD_", "MALLOC_", "MIMALLOC_", "MKL_", "OMP_", "PYTORCH_",
                      "TORCH_", "WHENCE_")


def load_time_variables(environment) -> dict:
    return {name: value for name, value in environment.items() if name.startswith(LOAD_TIME_PREFIXES)}


class CommandServer:
    """A server process, which ends with this test process. A server whose archive needs no LibTorch is small and forks
    in a third of the time. `environment` is added to the environment of this process."""

    def __init__(self, program: Path, archive: Path = WITH_LIBTORCH, environment: dict | None = None):
        environment = {**os.environ, **(environment or {})}
        self.environment = load_time_variables(environment)
        self.folder = tempfile.TemporaryDirectory(prefix="whence-server-")
        with socket.socket(socket.AF_UNIX) as listening:  # open only in the server, so it ends with the server
            listening.bind(b"")  # an unused name outside the file system
            listening.listen(64)
            self.address = listening.getsockname()
            self.process = subprocess.Popen([program, str(listening.fileno()), archive, self.folder.name],
                                            stdin=subprocess.PIPE, pass_fds=[listening.fileno()],
                                            env={"OMP_NUM_THREADS": "1", **environment})  # a fork loses other threads

    def can_run(self, environment) -> bool:
        return load_time_variables(environment) == self.environment

    def start(self, arguments: list[str], environment) -> "Running":
        return Running(self.address, arguments, environment)

    def run(self, arguments: list[str], environment, timeout: float) -> subprocess.CompletedProcess:
        """Works like subprocess.run(arguments, env=environment, stdin=DEVNULL, capture_output=True, text=True)."""
        return self.start(arguments, environment).finish(timeout)


class Running:
    """One run of the command, in process `process`."""

    def __init__(self, address: bytes, arguments: list[str], environment):
        self.arguments = arguments
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(address)
        self.pipes = self._send([os.getcwd(), str(len(arguments)), *arguments,
                                 *(f"{name}={value}" for name, value in environment.items())])
        self.process = self._receive()

    def finish(self, timeout: float) -> subprocess.CompletedProcess:
        with self.connection:
            try:
                output, error = read_all(self.pipes, time.monotonic() + timeout)
            except TimeoutError:
                os.kill(self.process, signal.SIGKILL)
                raise subprocess.TimeoutExpired(self.arguments, timeout) from None
            code = os.waitstatus_to_exitcode(self._receive())
        return subprocess.CompletedProcess(self.arguments, code, output, error)

    def _send(self, strings: list[str]) -> list[int]:
        """Sends a request. Returns the pipes for its output and errors."""
        request = b"".join(os.fsencode(text) + b"\0" for text in strings)
        (output, output_end), (error, error_end), nothing = os.pipe(), os.pipe(), os.open(os.devnull, os.O_RDONLY)
        socket.send_fds(self.connection, [struct.pack("=I", len(request))], [nothing, output_end, error_end])
        for descriptor in (nothing, output_end, error_end):
            os.close(descriptor)
        self.connection.sendall(request)
        return [output, error]

    def _receive(self) -> int:
        answer = self.connection.recv(4, socket.MSG_WAITALL)
        if len(answer) != 4:
            raise RuntimeError("the command server ended before it answered")
        return struct.unpack("=i", answer)[0]


def read_all(pipes: list[int], deadline: float) -> list[str]:
    """Reads pipes until their other ends are closed. Returns texts with normalised line ends."""
    contents = {pipe: bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as waiting:
        for pipe in pipes:
            waiting.register(pipe, selectors.EVENT_READ)
        try:
            while waiting.get_map():
                if time.monotonic() > deadline:
                    raise TimeoutError
                for key, _ in waiting.select(max(0, deadline - time.monotonic())):
                    if part := os.read(key.fd, 1 << 16):
                        contents[key.fd] += part
                    else:
                        waiting.unregister(key.fd)
        finally:
            for pipe in pipes:
                os.close(pipe)
    return [content.decode().replace("\r\n", "\n").replace("\r", "\n") for content in contents.values()]
