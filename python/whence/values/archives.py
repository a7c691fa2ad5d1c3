"""Opens archives in this process after the command has checked them, and reads input files."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from ..command.process import run_json
from ..errors import error


def open_archive(archive: str | os.PathLike[str], inputs: str | os.PathLike[str] | None = None,
           sidecar: str | os.PathLike[str] | None = None) -> Any:
    """Returns the torch.jit.ScriptModule of a .pt, or the torch.export.ExportedProgram of a .pt2.

    ``inputs`` is a file with the inputs of one run, required for a .pt without example inputs. The recorded sidecar is
    written to ``sidecar``, or discarded. Raises WhenceError if `whence record` rejects the archive.
    """
    archive = os.fspath(archive)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        # The command rejects unsafe archives before PyTorch loads them here.
        example = ["--inputs", str(inputs)] if inputs is not None and not archive.endswith(".pt2") else []
        run_json("record", archive, "-o", str(sidecar or Path(folder) / "model.whence.json"), *example)
    import torch

    if archive.endswith(".pt2"):
        return _exported(archive)
    return torch.jit.load(archive, map_location="cpu")


_LIBRARIES = ("transformers", "diffusers", "timm")  # they register their classes with PyTorch when imported


def _exported(archive: str) -> Any:
    """Loads a .pt2. Imports the modules of the argument and result classes that the archive names."""
    import torch

    with zipfile.ZipFile(archive) as files:
        text = b"".join(files.read(name) for name in files.namelist() if name.endswith(".json"))
    modules = set(re.findall(r'"((?:%s)(?:\.\w+)+)\.\w+\\*"' % "|".join(_LIBRARIES), text.decode(errors="replace")))
    for module in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    level = logging.getLogger("torch").level
    try:
        logging.getLogger("torch").setLevel(logging.ERROR)  # torch.export.load logs tracebacks of its exceptions
        return torch.export.load(archive)
    except (RuntimeError, NotImplementedError, ImportError, KeyError, ValueError) as failure:
        raise error("E0207", "run_failed", f"PyTorch cannot load {archive} here: {failure}", "import the library that "
                    "defines the model, then pass torch.export.load(path) to whence.record_values", file=archive) \
            from failure
    finally:
        logging.getLogger("torch").setLevel(level)


def inputs_from(path: Path) -> tuple[Any, ...]:
    """Reads the args of a run from an .npz or .pt file. A dict at the end contains keyword arguments."""
    import numpy
    import torch

    if not path.is_file():
        raise error("E0102", "missing_file", f"{path} does not exist", "check the path", file=str(path))
    try:
        if path.suffix == ".npz":
            with numpy.load(path, allow_pickle=False) as archive:
                return ({name: torch.from_numpy(archive[name]) for name in archive.files},)
        stored = torch.load(path, weights_only=True)
    except Exception as failure:  # zip, pickle and numpy raise many exception classes
        raise error("E0203", "wrong_kind", f"{path} is neither an .npz file nor written by torch.save: {failure}",
                    "use numpy.savez(path, name=array) or torch.save({'name': tensor}, path)", file=str(path)) from None
    return tuple(stored) if isinstance(stored, (tuple, list)) else (stored,)
