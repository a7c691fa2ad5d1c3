"""``whence.record``: records everything that is traced or exported inside a block."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TYPE_CHECKING

from ..base import library_warnings
from ..base.report_printing import Printed, Table, counted
from ..errors import Diagnostic, WhenceError, WhenceWarning, error, from_operator, require_list
from ..files.atomic_files import require_apart, require_sidecar_path
from ..recorder.plugin import operators_or_stand_in

if TYPE_CHECKING:
    from ..capture.exported_programs import Captured
    from ..values.value_recorder import Recorder


@dataclass(repr=False)
class Recording(Printed):
    """The result of a recording, complete when the block ends."""

    path: Path
    files: list[dict[str, Any]] = field(default_factory=list)  # {"file", "operations", "modules", "complete"}
    diagnostics: list[Diagnostic] = field(default_factory=list)
    values: list[Path] = field(default_factory=list)  # files of values, one for each model
    unrecorded: int = 0  # programs that could not be recorded; ``diagnostics`` has their warnings

    @property
    def complete(self) -> bool:
        return bool(self.files) and not self.unrecorded and all(entry["complete"] for entry in self.files)

    def _headline(self) -> str:
        operations = sum(entry["operations"] for entry in self.files)
        return (f"{self.path.name}: {counted(len(self.files), 'program')}, {counted(operations, 'operation')}, "
                + ("complete" if self.complete else "incomplete"))

    def _details(self) -> list[str]:
        return [f"{each.severity}: {each}" for each in self.diagnostics]

    def _table(self) -> Table:
        return Table(("file", "operations", "modules", "complete"), [
            (Path(each["file"]).name, each["operations"], each["modules"], each["complete"]) for each in self.files])


@contextmanager
def record(path: str | os.PathLike[str], values: str | os.PathLike[str] | None = None, *,
           full: Collection[str] = ()) -> Iterator[Recording]:
    """Records everything traced or exported inside the block: torch.jit.trace, torch.export.export, torch.onnx.export.

    Writes the sidecar ``path``. Further programs get sidecars next to it (``model.2.whence.json``): first traces, then
    torch.export programs. Yields a Recording; its ``files`` are filled when the block ends. If the block raises, the
    traces so far are written and marked incomplete, and the exception propagates. A program that cannot be recorded
    causes a warning; the numbers of the other sidecars do not change.

    values  a file of reference values, in the format of ``record_values``: ``model.values.safetensors``. Tracing runs
            the model, and this run is recorded in the model's current mode. Later calls of the model in the block are
            further runs, unless an earlier run had the same inputs, as in calls that check a trace. A program of
            torch.export does not run when it is created, so it runs on its example at the end of the block. Each model
            has a separate file next to the first (``model.2.values.safetensors``): models in the order of their first
            trace, then exported programs. If the block raises, no values are written.
    full    globs of modules whose tensors are recorded in full; each glob must match in every model.

    Raises WhenceError: E0101 for a glob that matches nothing, E0106 if a recording is already running or nothing was
    traced or exported, E0307 if PyTorch is not installed, or the recorder for a trace, E0401, and with ``values`` the
    errors of ``record_values``. Warns (WhenceWarning) about programs that cannot be recorded, for example because
    PyTorch cannot save them (E0303), and about branches on tensor values, with the source line.
    """
    whence = operators_or_stand_in()
    from ..capture import exported_programs
    from . import module_names
    if values is not None:  # only these modules need numpy and safetensors
        from ..values import traced_models, value_file

    _require_writable(path, values, full)
    recording = Recording(Path(path))
    try:
        whence.start(str(path))
    except RuntimeError as raised:
        raise from_operator(raised) from None
    try:
        with exported_programs.captured() as programs, module_names.reporting_names(), \
                nullcontext([]) if values is None else traced_models.watching(full) as recorders:
            yield recording
        runs: dict[Path, Recorder] = {}
        diagnostics: list[Diagnostic] = []
        if values is not None:
            with library_warnings.hidden():
                recorders, diagnostics = traced_models.recorded(recorders, programs, full)
            runs = _value_files(Path(values), recorders)
    except BaseException:
        try:
            _stop(whence, recording)
        except (RuntimeError, WhenceError):
            pass  # the block's exception is more informative
        raise
    _stop(whence, recording, traced=not programs)
    recording.diagnostics += diagnostics
    traces = len(recording.files)
    failures: list[WhenceError] = []  # raised after all other files are written
    for number, program in enumerate(programs, traces + 1):
        try:
            with library_warnings.hidden():
                _write_program(recording, program, _numbered(recording.path, number))
        except WhenceError as failure:
            failures.append(failure)
    for file, recorder in runs.items():
        value_file.write(file, recorder.runs, recorder.tensors)
        recording.values.append(file)
    for diagnostic in recording.diagnostics:
        warnings.warn(str(diagnostic), WhenceWarning, stacklevel=3)
    if failures:
        raise failures[0]


def _write_program(recording: Recording, program: Captured, sidecar: Path) -> None:
    """Writes the sidecar of a program. Warns if PyTorch cannot save it or the command cannot record it, because the
    block has already done its work. Raises WhenceError E0401."""
    from ..capture import exported_programs

    if sidecar != recording.path:
        require_sidecar_path(sidecar, "move that file, or record into another folder")
    try:
        file, diagnostics = exported_programs.write(program, sidecar)
    except WhenceError as failure:
        if failure.code == "E0401":
            raise
        recording.unrecorded += 1
        diagnostics = exported_programs.unrecorded(program, failure, sidecar)
    else:
        recording.files.append(file)
    recording.diagnostics += diagnostics


def _require_writable(path: str | os.PathLike[str], values: str | os.PathLike[str] | None, full: Collection[str]) -> None:
    """Checks, before the block runs, that its values can be written. Raises WhenceError if not."""
    require_list(full)
    if values is not None:
        from ..values.value_file import require_place

        require_place(values)
        require_apart({"path": path, "values": values}, [])
    elif full:
        raise error("E0101", "usage", "full selects modules to record in full, but no values are recorded",
                    "set values to a file: model.values.safetensors")


def _value_files(path: Path, recorders: list[Recorder]) -> dict[Path, Recorder]:
    """Returns the file for each recorder. Raises WhenceError E0401 if a numbered file would replace a file of another
    kind."""
    from ..values.value_file import is_values

    files = [_numbered(path, number + 1) for number in range(len(recorders))]
    for file in files[1:]:
        if os.path.lexists(file) and (file.is_symlink() or not is_values(file)):
            raise error("E0401", "cannot_write", f"the values would replace another file: {file}",
                        "move that file, or record into another folder", file=str(file))
    return dict(zip(files, recorders))


def _stop(whence: Any, recording: Recording, traced: bool = True) -> None:
    """Stops the recording and stores its report. With ``traced``, raises an error if there is no trace."""
    try:
        report = json.loads(whence.stop())
    except RuntimeError as raised:
        failure = from_operator(raised)
        if failure.code == "E0106" and not traced:
            return
        raise failure from None
    recording.files = report["files"]
    recording.diagnostics = [Diagnostic.from_json(entry) for entry in report["diagnostics"]]


def _numbered(path: Path, number: int) -> Path:
    """Returns model.2.whence.json for model.whence.json, numbered like the plugin's files."""
    if number == 1:
        return path
    stem, dot, suffix = path.name.partition(".")
    return path.with_name(f"{stem}.{number}{dot}{suffix}")
