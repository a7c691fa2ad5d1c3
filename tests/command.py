"""Runs the `whence` command that was built: $WHENCE, else build/bin/whence."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BINARY = Path(os.environ.get("WHENCE", ROOT / "build" / "bin" / "whence"))


def run(*arguments, code: int | None = 0, env: dict | None = None) -> subprocess.CompletedProcess:
    """Runs whence and asserts its exit code (None: any). The message of a failed assertion holds its output."""
    result = subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=600,
                            env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
    line = " ".join(map(str, arguments))
    assert code is None or result.returncode == code, (
        f"whence {line}\nexit {result.returncode}, not {code}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}")
    return result


def run_json(*arguments, code: int | None = 0) -> dict:
    """Runs whence with --json and returns the object on standard output."""
    return json.loads(run(*arguments, "--json", code=code).stdout)
