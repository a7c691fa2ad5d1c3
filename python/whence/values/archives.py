"""Opens archives that PyTorch runs here, after the command has read them with care, and files of inputs."""

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


def opened(archive: str | os.PathLike[str], inputs: str | os.PathLike[str] | None = None,
           sidecar: str | os.PathLike[str] | None = None) -> Any:
    """The torch.jit.ScriptModule, or the torch.export.ExportedProgram of a .pt2. ``inputs``: of one run, which a .pt that
    holds none needs. ``sidecar``: where to keep the one that is recorded on the way.

    Raises WhenceError: what `whence record` says of the archive.
    """
    archive = os.fspath(archive)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        # It refuses what must not be run, before PyTorch loads it here.
        example = ["--inputs", str(inputs)] if inputs is not None and not archive.endswith(".pt2") else []
        run_json("record", archive, "-o", str(sidecar or Path(folder) / "model.whence.json"), *example)
    import torch

    if archive.endswith(".pt2"):
        return _exported(archive)
    return torch.jit.load(archive, map_location="cpu")


_LIBRARIES = ("transformers", "diffusers", "timm")  # whose classes PyTorch knows once their modules are imported


def _exported(archive: str) -> Any:
    """The program. Classes of what it takes and returns are named in the archive, and known where their library is."""
    import torch

    with zipfile.ZipFile(archive) as opened:
        stated = b"".join(opened.read(name) for name in opened.namelist() if name.endswith(".json"))
    named = set(re.findall(r'"((?:%s)(?:\.\w+)+)\.\w+\\*"' % "|".join(_LIBRARIES), stated.decode(errors="replace")))
    for module in named:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    level = logging.getLogger("torch").level
    try:
        logging.getLogger("torch").setLevel(logging.ERROR)  # it logs the traceback of what it raises
        return torch.export.load(archive)
    except (RuntimeError, NotImplementedError, ImportError, KeyError, ValueError) as failure:
        raise error("E0207", "run_failed", f"PyTorch does not load {archive} here: {failure}", "import the library that "
                    "the model is of, and give whence.record_values what torch.export.load returns", file=archive) \
            from failure
    finally:
        logging.getLogger("torch").setLevel(level)


def inputs_from(path: Path) -> tuple[Any, ...]:
    """The args of a run, from an .npz or a .pt; a dict at their end is taken for keyword arguments."""
    import numpy
    import torch

    if not path.is_file():
        raise error("E0102", "missing_file", f"there is no file {path}", "check the path", file=str(path))
    try:
        if path.suffix == ".npz":
            with numpy.load(path, allow_pickle=False) as archive:
                return ({name: torch.from_numpy(archive[name]) for name in archive.files},)
        stored = torch.load(path, weights_only=True)
    except Exception as failure:  # zip, pickle and numpy have classes of their own
        raise error("E0203", "wrong_kind", f"{path} is neither .npz nor what torch.save wrote: {failure}",
                    "numpy.savez(path, name=array), or torch.save({'name': tensor}, path)", file=str(path)) from None
    return tuple(stored) if isinstance(stored, (tuple, list)) else (stored,)
