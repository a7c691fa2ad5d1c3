"""Files that take their place when all of them are complete, and never the place of a file from elsewhere.

What is half done has a name and a lock by which the command knows a dead process's files from a living one's, and removes
them (schema/files/leftovers.h).
"""

from __future__ import annotations

import fcntl
import filecmp
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import error


def folder_of(target: Path) -> Path:
    if not target.parent.is_dir():
        raise error("E0401", "cannot_write", f"there is no folder {target.parent}", "make it first", file=str(target))
    return target.parent


def require_writable(path: str | os.PathLike[str], example: str) -> None:
    """Raises WhenceError E0401 before the work where a file could not be written."""
    if not os.fspath(path) or Path(path).is_dir():
        raise error("E0401", "cannot_write", f"'{path}' is not a file", f"name a file, such as {example}")
    if not os.access(folder_of(Path(path)), os.W_OK):
        raise error("E0401", "cannot_write", f"{path} is in a folder that may not be written to", "name another file",
                    file=str(path))


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """The target is replaced as a whole or not touched; where it is a link, the file that it leads to
    is. Devices are written to."""
    if target.exists() and not target.is_file():
        write(target)
        return
    real = Path(os.path.realpath(target))
    handle, name = _made(lambda: tempfile.mkstemp(prefix=".whence-", suffix=".part", dir=folder_of(real)))
    try:
        write(Path(name))
        os.chmod(name, 0o666 & ~_umask())
        _sync(Path(name))
        os.replace(name, real)
        _sync(real.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def require_apart(targets: Mapping[str, str | os.PathLike[str] | None], sources: Iterable[str | os.PathLike[str] | None]) -> None:
    """Raises WhenceError E0101 where one of ``targets``, by option, would replace a file that is read, or another target.
    """
    seen: dict[Path, str] = {}
    read = {Path(os.path.realpath(each)) for each in sources if each is not None}
    for option, target in targets.items():
        if target is None:
            continue
        place = Path(os.path.realpath(target))
        if place in read:
            raise error("E0101", "usage", f"{option} {target} would replace a file that is read", "give another name",
                        file=str(target))
        if place in seen:
            raise error("E0101", "usage", f"{option} and {seen[place]} name the same file, {target}",
                        "give each a name of its own", file=str(target))
        seen[place] = option


def write_text(target: Path, text: str) -> None:
    """The same for a text. Raises WhenceError E0401."""
    try:
        write_whole(target, lambda path: path.write_text(text, encoding="utf-8"))
    except OSError as failure:
        raise error("E0401", "cannot_write", f"{target} cannot be written: {failure.strerror}", "name another file",
                    file=str(target)) from failure


@contextmanager
def draft_folder(beside: Path) -> Iterator[Path]:
    """A folder for files that are not complete, in the folder ``beside``; gone in the end."""
    def make() -> tuple[int, tempfile.TemporaryDirectory[str]]:
        folder = tempfile.TemporaryDirectory(prefix=".whence-", suffix=".parts", dir=beside)
        return os.open(folder.name, os.O_RDONLY), folder

    handle, folder = _made(make)
    try:
        with folder as name:
            yield Path(name)
    finally:
        os.close(handle)


def _made(make: Callable[..., Any]) -> tuple[Any, ...]:
    """A new file or folder with a lock: made again where the command has taken it for a dead process's meanwhile."""
    while True:
        handle, made = make()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        except OSError:  # a file system without locks: nothing is removed there
            return handle, made
        if os.fstat(handle).st_nlink > 0:
            return handle, made
        os.close(handle)


def _sync(path: Path) -> None:
    """Brings the content to the disk, where the file system can."""
    with suppress(PermissionError):  # a folder that may not be listed
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """One process at a time gives files of a folder their names (schema/files/locks.h)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


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
    for file in (*weights, made / target.name):
        _sync(file)
    with _folder_lock(target.parent):
        _move([*weights.items(), (made / target.name, Path(os.path.realpath(target)))], made)
        _sync(target.parent)


def place_together(made: Path, new: Sequence[Path], replaced: Sequence[Path], overwrite: bool) -> None:
    """Moves files of the folder ``made`` beside it, all or none: ``replaced`` take the place of their older selves,
    ``new`` that of another file only with ``overwrite`` (E0401)."""
    for file in new:
        if os.path.lexists(file) and not overwrite:
            raise error("E0401", "cannot_write", f"something else stands at {file}",
                        "give another name, or overwrite=True to replace that file", file=str(file))
    names = [(made / file.name, Path(os.path.realpath(file))) for file in (*new, *replaced)]
    for file, _ in names:
        _sync(file)
    with _folder_lock(made.parent):
        _move(names, made)
        _sync(made.parent)


def _move(names: list[tuple[Path, Path]], made: Path) -> None:
    """Gives all files their names, or leaves the old files where one cannot have its own."""
    done = []
    try:
        for number, (file, final) in enumerate(names):
            old = made / f".old-{number}"
            with suppress(OSError):  # there is no old file, or the file system has no second names
                os.link(final, old)
            was_there = os.path.lexists(final)
            os.replace(file, final)
            done.append((final, old, was_there))
    except BaseException:
        for final, old, was_there in reversed(done):
            if old.exists():
                os.replace(old, final)
            elif not was_there:
                final.unlink()
        raise


def require_model_name(model: Path) -> None:
    """A model does not take a sidecar's name, where it would replace one; the command has the same rule
    (schema/sidecar/file_names.h). Raises WhenceError E0101."""
    if model.name.endswith(".whence.json"):
        raise error("E0101", "usage", f"'{model}' is named as a sidecar, but an ONNX file is written",
                    "name it model.onnx", file=str(model))


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
