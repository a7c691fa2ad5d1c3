"""Runs test scripts like `python SCRIPT`, but in forks of a process that has already imported torch: the import takes
two seconds (transformers three), most of a test script's time.

    python forking.py MODULE...    reads requests, one per line: {"script", "arguments", "environment", "folder",
                                   "output", "error"}; answers each with the exit code, negative for a signal

The script is __main__, and its process exits like an interpreter. It loads all other modules and the plugin itself.
"""

import functools
import importlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import types
from pathlib import Path

TIMEOUT = 120


@functools.cache
def server(*modules: str) -> subprocess.Popen:
    """Starts the server for this test process; it exits when its standard input is closed."""
    return subprocess.Popen([sys.executable, __file__, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run(script: Path, folder: Path, *arguments, modules: tuple[str, ...] = ("torch",),
        environment: dict | None = None) -> subprocess.CompletedProcess:
    """Like subprocess.run([sys.executable, script, *arguments], cwd=folder, capture_output=True, text=True,
    stdin=DEVNULL) with additional environment variables. `modules` are already imported."""
    serving = server(*modules)
    with tempfile.TemporaryDirectory() as outputs:
        output, error = Path(outputs, "output"), Path(outputs, "error")
        request = {"script": script, "arguments": list(map(str, arguments)), "environment": environment or {},
                   "folder": folder, "output": output, "error": error}
        print(json.dumps(request, default=str), file=serving.stdin, flush=True)
        with selectors.DefaultSelector() as waiting:
            waiting.register(serving.stdout, selectors.EVENT_READ)
            if not waiting.select(TIMEOUT):
                serving.kill()
                raise subprocess.TimeoutExpired([str(script)], TIMEOUT)
        return subprocess.CompletedProcess([str(script)], int(serving.stdout.readline()), output.read_text(),
                                           error.read_text())


def redirect(request: dict) -> None:
    os.chdir(request["folder"])
    for number, (path, flags) in enumerate([(os.devnull, os.O_RDONLY),
                                            (request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
                                            (request["error"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)]):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)


def serve() -> dict:
    """Forks a process for each request and returns the request there; exits in the server process."""
    for module in sys.argv[1:]:
        importlib.import_module(module)
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit(f"{' '.join(sys.argv)}: a module started a thread, which a fork would lose")
    for line in sys.stdin:
        if (process := os.fork()) == 0:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
    sys.exit()


if __name__ == "__main__":
    request = serve()
    redirect(request)
    os.environ.update(request["environment"])
    sys.argv, sys.path[0] = [request["script"], *request["arguments"]], os.path.dirname(request["script"])
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = request["script"]
    exec(compile(Path(main.__file__).read_text(), main.__file__, "exec"), vars(main))  # noqa: S102
