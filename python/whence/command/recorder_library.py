"""Finds the recorder that matches this Python's PyTorch: a library built for one minor version of PyTorch."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path

from ..base.version import package_version
from ..errors import WhenceError, error
from .binary import binary

LIBRARY = "libwhence_recorder.so"
MISSING = "WHENCE_RECORDER_MISSING"  # read by tools/whence/static/recorder_process.cpp


def torch_version() -> str | None:
    """Returns "2.13.0" without importing PyTorch; None if it is not installed."""
    try:
        return importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def built_folder() -> Path:
    """Returns the folder into which `whence recorder build` compiles for this PyTorch."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "whence" / f"recorder-{package_version()}" / f"torch-{torch_version()}"


def candidates() -> list[Path]:
    """Returns possible paths of the library, in order of preference."""
    paths = [binary().resolve().parents[1] / "lib" / LIBRARY]  # a build puts its recorder next to the command
    version = torch_version()
    if version:
        paths.append(built_folder() / "lib" / LIBRARY)
        paths += [folder / f"torch-{minor(version)}" / LIBRARY for folder in package_folders()]
    return paths


def package_folders() -> list[Path]:
    """Returns the folders of whence-onnx-recorder; an empty list if it is not installed."""
    package = importlib.util.find_spec("whence_recorder")
    return [Path(folder) for folder in (package.submodule_search_locations or [])] if package else []


def versions_in_package() -> list[str]:
    """Returns the minor versions of PyTorch for which the installed whence-onnx-recorder has a recorder, newest
    first."""
    versions = {path.parent.name.removeprefix("torch-") for folder in package_folders()
                for path in folder.glob(f"torch-*/{LIBRARY}")}
    return sorted(versions, key=lambda each: [int(number) for number in each.split(".")], reverse=True)


def package_runs_here() -> bool:
    """Returns true if pip has a whence-onnx-recorder for this system: wheels are tagged manylinux and x86-64."""
    return platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"


def fitting() -> Path | None:
    """Returns $WHENCE_RECORDER, else the first existing candidate; None if no library is installed for this PyTorch."""
    configured = os.environ.get("WHENCE_RECORDER")
    if configured:
        return Path(configured) if Path(configured).exists() else None
    return next((path for path in candidates() if path.exists()), None)


def is_installed() -> bool:
    """Returns true if a recorder is installed or $WHENCE_RECORDER is set; a wrong path is reported when it is used."""
    return bool(os.environ.get("WHENCE_RECORDER")) or fitting() is not None


def for_command() -> dict[str, str]:
    """Returns environment variables for the command: the recorder's path unless it is next to the command, or two lines
    with the reason why it is missing and a remedy. A static command cannot search Python packages."""
    if os.environ.get("WHENCE_RECORDER"):
        return {}
    library = fitting()
    if library is None:
        return {MISSING: "\n".join(why_missing())}
    return {} if library == candidates()[0] else {"WHENCE_RECORDER": str(library)}


def why_missing() -> tuple[str, str]:
    """Returns the reason why no recorder fits, and the command that installs one."""
    version, packaged = torch_version(), versions_in_package()
    if version is None:
        package = " whence-onnx-recorder" if package_runs_here() and not packaged else ""
        return "PyTorch is not installed", "pip install " + (f"torch=={packaged[0]}.*" if packaged else f"torch{package}")
    if packaged:
        return (f"whence-onnx-recorder has no recorder for PyTorch {version}, only for {', '.join(packaged)}",
                "whence recorder build")
    if not package_runs_here():
        return "no recorder is built for this PyTorch", "whence recorder build"
    return "the recorder, which reads TorchScript and traces, is not installed", "pip install whence-onnx-recorder"


def missing() -> WhenceError:
    """Returns E0307 with the command that installs a recorder."""
    configured = os.environ.get("WHENCE_RECORDER")
    if configured:
        return error("E0307", "needs_libtorch", f"no recorder at {configured}", "correct WHENCE_RECORDER, or unset it",
                     file=configured)
    return error("E0307", "needs_libtorch", *why_missing())
