"""The recorder that fits the PyTorch of this Python: a library that is built for one minor version of PyTorch."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from pathlib import Path

from .command import binary
from .errors import WhenceError, error

LIBRARY = "libwhence_recorder.so"


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
    from . import __version__

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "whence" / f"recorder-{__version__}" / f"torch-{torch_version()}"


def candidates() -> list[Path]:
    """Paths at which the library may be, in the order of preference."""
    places = [binary().resolve().parents[1] / "lib" / LIBRARY]  # a build has its recorder beside the command
    version = torch_version()
    if version:
        places.append(built_folder() / "lib" / LIBRARY)
        package = importlib.util.find_spec("whence_recorder")
        for folder in (package.submodule_search_locations or []) if package else []:
            places.append(Path(folder) / f"torch-{minor(version)}" / LIBRARY)
    return places


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
    """The variable that the command needs to find a recorder that does not stand beside it."""
    found = fitting()
    if os.environ.get("WHENCE_RECORDER") or found is None or found == candidates()[0]:
        return {}
    return {"WHENCE_RECORDER": str(found)}


def missing() -> WhenceError:
    """E0307 with the one command that helps."""
    given = os.environ.get("WHENCE_RECORDER")
    if given:
        return error("E0307", "needs_libtorch", f"no recorder at {given}", "correct WHENCE_RECORDER, or unset it", file=given)
    version = torch_version()
    if version is None:
        return error("E0307", "needs_libtorch", "PyTorch is not installed", "pip install torch")
    if importlib.util.find_spec("whence_recorder") is None:
        return error("E0307", "needs_libtorch", "the recorder is not installed, which reads TorchScript and traces",
                     "pip install whence-onnx-recorder")
    return error("E0307", "needs_libtorch", f"whence-onnx-recorder has none for PyTorch {version}", "whence recorder build")
