"""Files that take their place when all of them are complete, and never the place of a file from elsewhere."""

from __future__ import annotations

import filecmp
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from .errors import error


def folder_of(target: Path) -> Path:
    if not target.parent.is_dir():
        raise error("E0401", "cannot_write", f"there is no folder {target.parent}", "make it first", file=str(target))
    return target.parent


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """The target is replaced as a whole or not touched; where it is a link, the file that it leads to
    is. Devices are written to."""
    if target.exists() and not target.is_file():
        write(target)
        return
    real = Path(os.path.realpath(target))
    handle, name = tempfile.mkstemp(prefix=".whence-", dir=folder_of(real))
    os.close(handle)
    try:
        write(Path(name))
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def place(made: Path, target: Path, overwrite: bool) -> None:
    """Moves the model that stands in the folder ``made`` to ``target``, and what stands there besides, its weights,
    beside it.

    Raises WhenceError E0401, with everything as it was, when the weights would replace something else.
    """
    weights = {file: target.with_name(file.name) for file in sorted(made.iterdir()) if file.name != target.name}
    for file, final in list(weights.items()):
        if not os.path.lexists(final):
            continue
        plain = final.is_file() and not final.is_symlink()
        if plain and filecmp.cmp(file, final, shallow=False):
            del weights[file]
        elif not plain or not overwrite:
            raise error("E0401", "cannot_write",
                        f"the weights of {target} go into {final}, where something else stands",
                        "give another name" + (", or overwrite=True to replace that file" if plain else ""),
                        file=str(target))
    for file, final in weights.items():
        os.replace(file, final)
    os.replace(made / target.name, os.path.realpath(target))


def require_sidecar_place(record: Path, option: str, overwrite: bool = False) -> None:
    """A name that was derived, and that no caller gave, replaces an older sidecar alone, and follows no link.

    ``option``: what names another. Raises WhenceError E0401.
    """
    if not os.path.lexists(record):
        return
    plain = record.is_file() and not record.is_symlink()
    if plain and (overwrite or _is_sidecar(record)):
        return
    raise error("E0401", "cannot_write", f"the sidecar would replace another file: {record}",
                option + (", or overwrite=True to replace that file" if plain else ""), file=str(record))


def _is_sidecar(file: Path) -> bool:
    with file.open("rb") as opened:
        return re.search(rb'^\s*{\s*"format"\s*:\s*"whence-sidecar"', opened.read(256)) is not None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
