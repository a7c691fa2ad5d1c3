"""Makes the virtual environments with the versions that have a bug, each once.

An environment holds its own pins only. It finds everything else in its base: the environment that runs this program, or,
if it pins another torch, an environment with that torch and the packages of the first one that need no torch.
REAL_BUGS_ENVIRONMENTS is another folder for them, such as one that several clones share.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("REAL_BUGS_ENVIRONMENTS") or ROOT / "build" / "real_bugs" / "environments")

# The packages that an environment with another torch takes from the environment that runs this program, by version.
SHARED = ("numpy", "onnx", "onnxruntime", "ml_dtypes", "protobuf", "flatbuffers", "packaging", "safetensors")


def python_of(pins: tuple[str, ...]) -> Path:
    """Returns the Python of an environment with these packages, which is made if it does not exist. Pins are installed
    without their dependencies, which are therefore pins too if the base lacks them."""
    torch = next((pin for pin in pins if pin.startswith("torch==")), None)
    base = None
    if torch and torch != f"torch=={importlib.metadata.version('torch').partition('+')[0]}":
        base = _base(torch)
    own = tuple(sorted(pin for pin in pins if pin != torch))
    if not own:
        return base or Path(sys.executable)
    digest = hashlib.sha256(repr((torch if base else "", own)).encode()).hexdigest()[:8]
    names = "_".join(pin.partition("==")[0] + "-" + pin.partition("==")[2] for pin in own[:2])
    return _make(FOLDER / f"{names}_{digest}", own, base or Path(sys.executable))


def _base(torch: str) -> Path:
    """Returns the Python of the environment with this torch. PyPI's torch loads CUDA's libraries even without a GPU, so
    pip installs its dependencies too."""
    folder = FOLDER / f"base_{torch.replace('==', '_')}"
    with _lock(folder):
        if not (folder / "installed.txt").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            shared = [f"{name}=={importlib.metadata.version(name)}" for name in SHARED]
            _pip(folder / "bin" / "python", "install", torch, *shared)
            (folder / "installed.txt").write_text("\n".join([torch, *shared]) + "\n")
    return folder / "bin" / "python"


def _make(folder: Path, pins: tuple[str, ...], base: Path) -> Path:
    python = folder / "bin" / "python"
    with _lock(folder):
        if not (folder / "installed.txt").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
            packages = next(folder.glob("lib/python*/site-packages"))
            (packages / "base.pth").write_text(_packages_of(base) + "\n")
            _pip(Path(sys.executable), "install", "--no-deps", "--target", packages, "--upgrade", *pins)
            (folder / "installed.txt").write_text("\n".join(pins) + "\n")
    return python


def _packages_of(python: Path) -> str:
    """Returns the site-packages of an environment."""
    if python == Path(sys.executable):
        return sysconfig.get_path("purelib")
    return str(next(python.parents[1].glob("lib/python*/site-packages")))


def _pip(python: Path, command: str, *arguments: object) -> None:
    done = subprocess.run([python, "-m", "pip", command, "-q", "--disable-pip-version-check", *arguments], check=False,
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"pip {command} {' '.join(map(str, arguments))} failed:\n{done.stderr[-2000:]}")


@contextmanager
def _lock(folder: Path):
    """Lets one process make an environment while others wait."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
