"""The recorder that fits the PyTorch of this Python: a library that is built for one minor version of PyTorch."""

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
    """"2.13.0", without importing PyTorch; None without it."""
    try:
        return importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def built_folder() -> Path:
    """The folder of what `whence recorder build` compiled for this PyTorch."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "whence" / f"recorder-{package_version()}" / f"torch-{torch_version()}"


def candidates() -> list[Path]:
    """Paths at which the library may be, in the order of preference."""
    places = [binary().resolve().parents[1] / "lib" / LIBRARY]  # a build has its recorder beside the command
    version = torch_version()
    if version:
        places.append(built_folder() / "lib" / LIBRARY)
        places += [folder / f"torch-{minor(version)}" / LIBRARY for folder in package_folders()]
    return places


def package_folders() -> list[Path]:
    """The folders of whence-onnx-recorder; none where it is not installed."""
    package = importlib.util.find_spec("whence_recorder")
    return [Path(folder) for folder in (package.submodule_search_locations or [])] if package else []


def versions_in_package() -> list[str]:
    """The minor versions of PyTorch that the installed whence-onnx-recorder has a recorder for, the newest first."""
    found = {place.parent.name.removeprefix("torch-") for folder in package_folders() for place in folder.glob(f"torch-*/{LIBRARY}")}
    return sorted(found, key=lambda each: [int(number) for number in each.split(".")], reverse=True)


def package_runs_here() -> bool:
    """Whether pip finds a whence-onnx-recorder for this system: its tag is manylinux on x86-64."""
    return platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"


def fitting() -> Path | None:
    """The library: $WHENCE_RECORDER, else the first that there is; None where none is installed for this PyTorch."""
    given = os.environ.get("WHENCE_RECORDER")
    if given:
        return Path(given) if Path(given).exists() else None
    return next((place for place in candidates() if place.exists()), None)


def is_installed() -> bool:
    """True, too, where $WHENCE_RECORDER names none: what needs it says so."""
    return bool(os.environ.get("WHENCE_RECORDER")) or fitting() is not None


def for_command() -> dict[str, str]:
    """The variables that the command needs: where a recorder is that does not stand beside it, or why there is none and
    what helps, in two lines: a static command cannot look at the packages of a Python."""
    if os.environ.get("WHENCE_RECORDER"):
        return {}
    found = fitting()
    if found is None:
        return {MISSING: "\n".join(why_missing())}
    return {} if found == candidates()[0] else {"WHENCE_RECORDER": str(found)}


def why_missing() -> tuple[str, str]:
    """The reason why no recorder fits, and the one command that helps."""
    version, packaged = torch_version(), versions_in_package()
    if version is None:
        package = " whence-onnx-recorder" if package_runs_here() and not packaged else ""
        return "PyTorch is not installed", "pip install " + (f"torch=={packaged[0]}.*" if packaged else f"torch{package}")
    if packaged:
        return f"whence-onnx-recorder has none for PyTorch {version}, but for {', '.join(packaged)}", "whence recorder build"
    if not package_runs_here():
        return "no recorder is built for this PyTorch", "whence recorder build"
    return "no recorder is installed, which reads TorchScript and traces", "pip install whence-onnx-recorder"


def missing() -> WhenceError:
    """E0307 with the one command that helps."""
    given = os.environ.get("WHENCE_RECORDER")
    if given:
        return error("E0307", "needs_libtorch", f"no recorder at {given}", "correct WHENCE_RECORDER, or unset it", file=given)
    return error("E0307", "needs_libtorch", *why_missing())
