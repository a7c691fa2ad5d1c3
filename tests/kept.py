"""Keeps files that PyTorch and other tools create for tests in the build folder between runs; whence creates none of
them. Their folder is named after their sources, the packages and Python; after a change they are created again."""

import functools
import hashlib
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Callable

import command

FOLDER = command.ROOT / "build" / "kept"


@functools.cache
def environment_text() -> str:
    """Returns Python's version, every package with its version, and the tree's path, which is in the files."""
    packages = sorted(path.name for path in Path(sysconfig.get_path("purelib")).glob("*-info"))
    return "\n".join([sys.version, str(command.ROOT), *packages])


@functools.cache
def folder(name: str, *sources: Path) -> Path:
    """Returns a folder for the results of the code in `sources`; results of other code under this name are removed."""
    digest = hashlib.sha256(environment_text().encode())
    for path in sorted([Path(__file__), Path(__file__).with_name("torch_caches.py"), *sources]):
        digest.update(f"\n{path} {path.stat().st_size}\n".encode() + path.read_bytes())
    chosen = FOLDER / name / digest.hexdigest()[:20]
    chosen.mkdir(parents=True, exist_ok=True)
    for other in chosen.parent.iterdir():
        if other != chosen:
            shutil.rmtree(other, ignore_errors=True)
    return chosen


def made(path: Path, make: Callable[[Path], object]) -> Path:
    """Returns `path` after creating it by `make` if necessary, elsewhere first, so that no partial file remains."""
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as elsewhere:
            make(Path(elsewhere) / path.name)
            (Path(elsewhere) / path.name).rename(path)
    return path
