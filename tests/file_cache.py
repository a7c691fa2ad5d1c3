"""Caches files that PyTorch and other tools, but not whence, create for tests. The cache is in the build folder. If the
sources of a file, a package or Python change, the file is created again."""

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
    """Returns the versions of Python and all packages, and the path of the tree, which the files contain."""
    packages = sorted(path.name for path in Path(sysconfig.get_path("purelib")).glob("*-info"))
    return "\n".join([sys.version, str(command.ROOT), *packages])


@functools.cache
def folder(name: str, *sources: Path) -> Path:
    """Returns the folder of files created by `sources`; removes files of earlier sources under this name."""
    digest = hashlib.sha256(environment_text().encode())
    for path in sorted([Path(__file__), Path(__file__).with_name("torch_caches.py"), *sources]):
        digest.update(f"\n{path} {path.stat().st_size}\n".encode() + path.read_bytes())
    current = FOLDER / name / digest.hexdigest()[:20]
    current.mkdir(parents=True, exist_ok=True)
    for other in current.parent.iterdir():
        if other != current:
            shutil.rmtree(other, ignore_errors=True)
    return current


def cached(path: Path, make: Callable[[Path], object]) -> Path:
    """Returns `path`; if it is missing, `make` first creates it in a temporary folder, so no partial file remains."""
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
            make(Path(temporary) / path.name)
            (Path(temporary) / path.name).rename(path)
    return path
