"""The recorder inside this process: loads the plugin and starts and stops recordings."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .command import binary
from .errors import Diagnostic, WhenceError, WhenceWarning, error, from_operator
from .placing import require_sidecar_place


@dataclass
class Recording:
    """The result of a recording; filled when it ends."""

    path: Path
    files: list[dict] = field(default_factory=list)  # {"file", "operations", "modules", "complete"}
    diagnostics: list[Diagnostic] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return bool(self.files) and all(entry["complete"] for entry in self.files)


def library() -> Path:
    """The plugin: $WHENCE_RECORDER, else the one that was installed with the command."""
    given = os.environ.get("WHENCE_RECORDER")
    path = Path(given) if given else binary().resolve().parents[1] / "lib" / "libwhence_recorder.so"
    if not path.exists():
        raise error("E0307", "needs_libtorch", f"no plugin at {path}", "install whence with its recorder",
                    file=str(path))
    return path


def operators():
    """``torch.ops.whence``, loaded when it is first needed. Raises WhenceError E0307 when it does not fit this torch.
    """
    try:
        import torch
    except ImportError:
        raise error("E0307", "needs_libtorch", "PyTorch is not installed", "pip install torch") from None
    try:
        torch.ops.load_library(str(library()))
    except OSError as failure:
        failed = from_operator(failure.__cause__ or failure)
        if not isinstance(failed, WhenceError):
            failed = error("E0307", "needs_libtorch", f"the plugin could not be loaded: {failed}",
                         "install whence again with this PyTorch")
        raise failed from failure
    return torch.ops.whence


@contextmanager
def record(path: str | os.PathLike) -> Iterator[Recording]:
    """Records whatever is traced or exported inside the block: torch.jit.trace, torch.export.export, torch.onnx.export.

    Writes the sidecar ``path``; further programs go beside it (``model.2.whence.json``), traces before what
    torch.export made. Yields a Recording, whose ``files`` are known afterwards. When the block raises, what was traced
    until then is written and marked incomplete, and the block's exception goes on.

    Raises WhenceError: E0106 (a recording is running, or nothing was traced or exported), E0303 (a program that PyTorch
    cannot save), E0307, E0401. Warns (WhenceWarning) of branches on the values of tensors, with the source line.
    """
    whence = operators()
    from . import exported, module_calls

    recording = Recording(Path(path))
    try:
        whence.start(str(path))
    except RuntimeError as raised:
        raise from_operator(raised) from None
    try:
        with exported.captured() as programs, module_calls.named():
            yield recording
    except BaseException:
        try:
            _stop(whence, recording)
        except (RuntimeError, WhenceError):
            pass  # the block's own exception says more
        raise
    _stop(whence, recording, traced=not programs)
    for program in programs:
        place = _beside(recording.path, len(recording.files) + 1)
        if place != recording.path:
            require_sidecar_place(place, "move that file, or record into another folder")
        file, diagnostics = exported.write(program, place)
        recording.files.append(file)
        recording.diagnostics += diagnostics
    for diagnostic in recording.diagnostics:
        warnings.warn(str(diagnostic), WhenceWarning, stacklevel=3)


@contextmanager
def listening() -> Iterator[list[Diagnostic] | None]:
    """Yields a list that afterwards holds what the plugin has to say of what was traced inside; nothing is kept.

    None where there is no plugin that could listen. A recording that is running already tells, so the list stays empty.
    """
    try:
        whence = operators()
    except WhenceError:
        yield None
        return
    diagnostics: list[Diagnostic] = []
    if json.loads(whence.status()).get("recording"):
        yield diagnostics
        return
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        whence.start(str(Path(folder) / "trace.whence.json"))
        try:
            yield diagnostics
        finally:
            try:
                report = json.loads(whence.stop())
                diagnostics += [Diagnostic.from_json(entry) for entry in report["diagnostics"]]
            except RuntimeError:
                pass  # nothing that it could record: nothing to tell


def _stop(whence, recording: Recording, traced: bool = True) -> None:
    """``traced``: there must be something to write."""
    try:
        report = json.loads(whence.stop())
    except RuntimeError as raised:
        failure = from_operator(raised)
        if failure.code == "E0106" and not traced:
            return
        raise failure from None
    recording.files = report["files"]
    recording.diagnostics = [Diagnostic.from_json(entry) for entry in report["diagnostics"]]


def _beside(path: Path, number: int) -> Path:
    """model.whence.json -> model.2.whence.json, as the plugin names them."""
    if number == 1:
        return path
    stem, dot, rest = path.name.partition(".")
    return path.with_name(f"{stem}.{number}{dot}{rest}")
