"""Prints a command and its output, as a terminal shows them; the scripts of this folder share it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

WHENCE = os.environ.get("WHENCE", "whence")


def folder_named_on_the_command_line() -> None:
    """Goes into the folder, which is made; the scripts and the commands name files as a user does."""
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    os.chdir(sys.argv[1])


def whence(line: str) -> str:
    """Runs `whence ...`; a failure ends the script."""
    print(f"$ whence {line}", flush=True)
    done = subprocess.run([WHENCE, *shlex.split(line)], stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="", flush=True)
    return done.stdout
