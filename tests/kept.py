"""Files that PyTorch and other people's tools make for tests, kept in the build folder from one run to the next. whence
makes none of them. What they are made from names their folder: sources, packages, Python; when it changes, they are made
anew."""

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
def surroundings() -> str:
    """Python, every package with its version, and the place of the tree, which the files name where they name lines."""
    packages = sorted(path.name for path in Path(sysconfig.get_path("purelib")).glob("*-info"))
    return "\n".join([sys.version, str(command.ROOT), *packages])


@functools.cache
def folder(name: str, *sources: Path) -> Path:
    """A folder for what the code in `sources` makes; what other code made under this name is removed."""
    digest = hashlib.sha256(surroundings().encode())
    for path in sorted([Path(__file__), Path(__file__).with_name("torch_caches.py"), *sources]):
        digest.update(f"\n{path} {path.stat().st_size}\n".encode() + path.read_bytes())
    chosen = FOLDER / name / digest.hexdigest()[:20]
    chosen.mkdir(parents=True, exist_ok=True)
    for other in chosen.parent.iterdir():
        if other != chosen:
            shutil.rmtree(other, ignore_errors=True)
    return chosen


def made(path: Path, make: Callable[[Path], object]) -> Path:
    """`path`, which `make` writes if it is not there: elsewhere first, so that a run that is stopped leaves no part."""
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as elsewhere:
            make(Path(elsewhere) / path.name)
            (Path(elsewhere) / path.name).rename(path)
    return path
