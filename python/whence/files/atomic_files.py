"""Writes files completely or not at all, and never over a file from another tool.

The command recognises incomplete files by name and lock, and removes those of dead processes
(schema/files/leftovers.h).
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
        raise error("E0401", "cannot_write", f"the folder {target.parent} does not exist", "create it first",
                    file=str(target))
    return target.parent


def require_writable(path: str | os.PathLike[str], example: str) -> None:
    """Raises WhenceError E0401 if the file cannot be written. Called before the work starts."""
    if not os.fspath(path) or Path(path).is_dir():
        raise error("E0401", "cannot_write", f"'{path}' is not a file", f"pass a file, such as {example}")
    if not os.access(folder_of(Path(path)), os.W_OK):
        raise error("E0401", "cannot_write", f"{path} is in a folder without write permission", "choose another folder",
                    file=str(path))


def write_atomically(target: Path, write: Callable[[Path], object]) -> None:
    """Replaces the target completely or not at all. Follows a link to its file. Writes directly to a device."""
    if target.exists() and not target.is_file():
        write(target)
        return
    final = Path(os.path.realpath(target))
    handle, name = _locked(lambda: tempfile.mkstemp(prefix=".whence-", suffix=".part", dir=folder_of(final)))
    try:
        write(Path(name))
        os.chmod(name, 0o666 & ~_umask())
        _sync(Path(name))
        os.replace(name, final)
        _sync(final.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def require_apart(targets: Mapping[str, str | os.PathLike[str] | None], sources: Iterable[str | os.PathLike[str] | None]) -> None:
    """Raises WhenceError E0101 if one of ``targets``, paths by option, would replace a source or another target."""
    options: dict[Path, str] = {}
    source_paths = {Path(os.path.realpath(source)) for source in sources if source is not None}
    for option, target in targets.items():
        if target is None:
            continue
        path = Path(os.path.realpath(target))
        if path in source_paths:
            raise error("E0101", "usage", f"{option} {target} would replace a file that is read", "choose another name",
                        file=str(target))
        if path in options:
            raise error("E0101", "usage", f"{option} and {options[path]} name the same file, {target}",
                        "choose different names", file=str(target))
        options[path] = option


def write_text(target: Path, text: str) -> None:
    """Writes text atomically. Raises WhenceError E0401."""
    try:
        write_atomically(target, lambda path: path.write_text(text, encoding="utf-8"))
    except OSError as failure:
        raise error("E0401", "cannot_write", f"{target} cannot be written: {failure.strerror}", "choose another file",
                    file=str(target)) from failure


@contextmanager
def draft_folder(parent: Path) -> Iterator[Path]:
    """Yields a temporary folder in ``parent`` for incomplete files."""
    def make() -> tuple[int, tempfile.TemporaryDirectory[str]]:
        folder = tempfile.TemporaryDirectory(prefix=".whence-", suffix=".parts", dir=parent)
        return os.open(folder.name, os.O_RDONLY), folder

    handle, folder = _locked(make)
    try:
        with folder as name:
            yield Path(name)
    finally:
        os.close(handle)


def _locked(make: Callable[..., Any]) -> tuple[Any, ...]:
    """Creates and locks a file or folder. Retries if the command removed it as a leftover before it was locked."""
    while True:
        handle, created = make()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        except OSError:  # without locks on this file system, the command removes no leftovers
            return handle, created
        if os.fstat(handle).st_nlink > 0:
            return handle, created
        os.close(handle)


def _sync(path: Path) -> None:
    """Flushes the content to disk if the file system supports it."""
    with suppress(PermissionError):  # a folder without read permission
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Locks the folder so that only one process at a time renames files in it (schema/files/locks.h)."""
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


def place(draft: Path, target: Path, overwrite: bool) -> None:
    """Moves the model in the folder ``draft`` to ``target``, and its weights, the folder's other files, next to it.

    Raises WhenceError E0401 and changes nothing if the weights would replace a file with other content.
    """
    weights = {file: target.with_name(file.name) for file in sorted(draft.iterdir()) if file.name != target.name}
    for file, final in list(weights.items()):
        if not os.path.lexists(final):
            continue
        is_regular = final.is_file() and not final.is_symlink()
        if is_regular and filecmp.cmp(file, final, shallow=False):
            del weights[file]
        elif not is_regular or not overwrite:
            raise error("E0401", "cannot_write",
                        f"the weights of {target} would replace another file: {final}",
                        "choose another name" + (", or pass overwrite=True to replace that file" if is_regular else ""),
                        file=str(target))
    for file in (*weights, draft / target.name):
        _sync(file)
    with _folder_lock(target.parent):
        _move([*weights.items(), (draft / target.name, Path(os.path.realpath(target)))], draft)
        _sync(target.parent)


def move_together(draft: Path, new: Sequence[Path], replaced: Sequence[Path], overwrite: bool) -> None:
    """Moves files from the folder ``draft`` to its parent, all or none. Files in ``replaced`` overwrite their old
    versions. Files in ``new`` overwrite existing files only with ``overwrite``, else raise WhenceError E0401."""
    for file in new:
        if os.path.lexists(file) and not overwrite:
            raise error("E0401", "cannot_write", f"{file} already exists",
                        "choose another name, or pass overwrite=True to replace that file", file=str(file))
    moves = [(draft / file.name, Path(os.path.realpath(file))) for file in (*new, *replaced)]
    for file, _ in moves:
        _sync(file)
    with _folder_lock(draft.parent):
        _move(moves, draft)
        _sync(draft.parent)


def _move(moves: list[tuple[Path, Path]], draft: Path) -> None:
    """Renames all files, or restores the old files if one rename fails."""
    moved = []
    try:
        for number, (file, final) in enumerate(moves):
            old = draft / f".old-{number}"
            with suppress(OSError):  # no old file, or no hard links on this file system
                os.link(final, old)
            existed = os.path.lexists(final)
            os.replace(file, final)
            moved.append((final, old, existed))
    except BaseException:
        for final, old, existed in reversed(moved):
            if old.exists():
                os.replace(old, final)
            elif not existed:
                final.unlink()
        raise


def require_model_name(model: Path) -> None:
    """Raises WhenceError E0101 if a model has a sidecar's name and might replace one. The command checks this too
    (schema/sidecar/file_names.h)."""
    if model.name.endswith(".whence.json"):
        raise error("E0101", "usage", f"'{model}' is the name of a sidecar, not of an ONNX file",
                    "name it model.onnx", file=str(model))


def require_sidecar_path(sidecar: Path, option: str, overwrite: bool = False) -> None:
    """Raises WhenceError E0401 if a sidecar path that the user did not choose is a link or not a sidecar.

    ``option`` is the remedy: how to specify another path.
    """
    if not os.path.lexists(sidecar):
        return
    is_regular = sidecar.is_file() and not sidecar.is_symlink()
    if is_regular and (overwrite or _is_sidecar(sidecar)):
        return
    raise error("E0401", "cannot_write", f"the sidecar would replace another file: {sidecar}",
                option + (", or pass overwrite=True to replace that file" if is_regular else ""), file=str(sidecar))


def _is_sidecar(file: Path) -> bool:
    with file.open("rb") as stream:
        return re.search(rb'^\s*{\s*"format"\s*:\s*"whence-sidecar"', stream.read(256)) is not None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
