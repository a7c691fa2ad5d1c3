"""Functions that the scripts of this folder share: print a command and its output, as in a terminal."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

WHENCE = os.environ.get("WHENCE", "whence")


def enter_output_folder() -> None:
    """Makes the folder and changes to it, so that scripts and commands use plain file names."""
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    os.chdir(sys.argv[1])


def whence(line: str) -> str:
    """Runs `whence ...` and returns its output. A failure ends the script."""
    print(f"$ whence {line}", flush=True)
    done = subprocess.run([WHENCE, *shlex.split(line)], stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="", flush=True)
    return done.stdout
