"""Builds the fully static command and its wheel when a test needs them."""

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import command

BUILD = command.ROOT / "build"
ARCHITECTURE = os.uname().machine


@functools.cache
def static_command() -> Path:
    """Returns build/static/whence, linked from the objects of `make build` in a second or two."""
    cmake = BUILD / "venv" / "bin" / "cmake"
    with open(BUILD / "static.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first test process links it
        build = subprocess.run([cmake, "--build", BUILD, "--target", "whence_static"], capture_output=True, text=True)
    if "unknown target" in build.stdout + build.stderr:
        pytest.skip("the archives of a static command are not installed: protobuf, Boost, expat, zlib, RE2")
    assert build.returncode == 0, build.stdout[-3000:] + build.stderr[-3000:]
    return BUILD / "static" / "whence"


def make_wheel(folder: Path, binary: Path, architecture: str = ARCHITECTURE) -> Path:
    """Builds the wheel of a command like `make wheel`."""
    build = subprocess.run([sys.executable, command.ROOT / "tools" / "setup" / "wheel.py", binary, architecture,
                            folder], capture_output=True, text=True, check=True)
    return Path(build.stdout.strip())


def in_empty_root(folder: Path, *arguments: object, program: tuple[str, ...] = ("/whence",)) -> subprocess.CompletedProcess:
    """Runs a command in a root that contains only `folder`: no libc, no /proc, no /dev."""
    if os.geteuid() == 0:
        enter = ["chroot", str(folder)]
    else:
        enter = ["unshare", "--map-root-user", "chroot", str(folder)]
    enter[0] = shutil.which(enter[0], path="/usr/sbin:/usr/bin:/sbin:/bin") or enter[0]
    result = subprocess.run([*enter, *program, *map(str, arguments)], capture_output=True, text=True, timeout=120, env={})
    if result.returncode != 0 and "not permitted" in result.stderr:
        pytest.skip("only root may change the root of a process on this system")
    return result
