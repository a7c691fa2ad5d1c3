"""``whence.record``: a recording of whatever is traced or exported inside a block."""

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
from ..files.atomic_files import require_apart, require_sidecar_place
from ..recorder.plugin import operators_or_stand_in

if TYPE_CHECKING:
    from ..capture.exported_programs import Captured
    from ..values.value_recorder import Recorder


@dataclass(repr=False)
class Recording(Printed):
    """The result of a recording; filled when it ends."""

    path: Path
    files: list[dict[str, Any]] = field(default_factory=list)  # {"file", "operations", "modules", "complete"}
    diagnostics: list[Diagnostic] = field(default_factory=list)
    values: list[Path] = field(default_factory=list)  # files of values, one a model
    unrecorded: int = 0  # programs that could not be recorded, of which ``diagnostics`` have warnings

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
    """Records whatever is traced or exported inside the block: torch.jit.trace, torch.export.export, torch.onnx.export.

    Writes the sidecar ``path``; further programs go beside it (``model.2.whence.json``), traces before what
    torch.export made. Yields a Recording, whose ``files`` are known afterwards. When the block raises, what was traced
    until then is written and marked incomplete, and the block's exception goes on. A program that cannot be recorded is
    a warning, and the others have the files that they would have beside it.

    values  a file of reference values that is written, too: ``model.values.safetensors``, as ``record_values`` writes
            it. A trace runs the model, and that run is recorded, in the mode that the model is in. Later calls of the model
            in the block are further runs, those with inputs that a run had already aside, such as the ones that check a
            trace. A program of torch.export has no values of its own, so it runs on its example at the end of the block.
            Each model has a file: those of further ones go beside it (``model.2.values.safetensors``) in the order in
            which they were first traced, then those of exported programs. A block that raises leaves no values.
    full    globs of modules whose tensors are kept whole; each must match in every model.

    Raises WhenceError: E0101 for a glob that matches nothing, E0106 (a recording is running, or nothing was traced or
    exported), E0307 (PyTorch, or for a trace the recorder, is not installed), E0401; with ``values`` what ``record_values`` raises. Warns (WhenceWarning) of programs that cannot be
    recorded, such as one that PyTorch cannot save (E0303), and of branches on the values of tensors, with the source line.
    """
    whence = operators_or_stand_in()
    from ..capture import exported_programs
    from . import module_names
    if values is not None:  # numpy and safetensors are needed for these alone
        from ..values import traced_models, value_file

    _require_writable(path, values, full)
    recording = Recording(Path(path))
    try:
        whence.start(str(path))
    except RuntimeError as raised:
        raise from_operator(raised) from None
    try:
        with exported_programs.captured() as programs, module_names.named(), \
                nullcontext([]) if values is None else traced_models.watching(full) as recorders:
            yield recording
        runs: dict[Path, Recorder] = {}
        diagnostics: list[Diagnostic] = []
        if values is not None:
            with library_warnings.hidden():
                recorders, diagnostics = traced_models.recorded(recorders, programs, full)
            runs = _placed(Path(values), recorders)
    except BaseException:
        try:
            _stop(whence, recording)
        except (RuntimeError, WhenceError):
            pass  # the block's own exception says more
        raise
    _stop(whence, recording, traced=not programs)
    recording.diagnostics += diagnostics
    traces = len(recording.files)
    refused: list[WhenceError] = []  # raised when all other files are written
    for number, program in enumerate(programs, traces + 1):
        try:
            with library_warnings.hidden():
                _write_program(recording, program, _beside(recording.path, number))
        except WhenceError as failure:
            refused.append(failure)
    for place, recorder in runs.items():
        value_file.write(place, recorder.runs, recorder.tensors)
        recording.values.append(place)
    for diagnostic in recording.diagnostics:
        warnings.warn(str(diagnostic), WhenceWarning, stacklevel=3)
    if refused:
        raise refused[0]


def _write_program(recording: Recording, program: Captured, place: Path) -> None:
    """Raises WhenceError E0401. What PyTorch cannot save, or the command not record, is a warning: the block's work is done."""
    from ..capture import exported_programs

    if place != recording.path:
        require_sidecar_place(place, "move that file, or record into another folder")
    try:
        file, diagnostics = exported_programs.write(program, place)
    except WhenceError as failure:
        if failure.code == "E0401":
            raise
        recording.unrecorded += 1
        diagnostics = exported_programs.unrecorded(program, failure, place)
    else:
        recording.files.append(file)
    recording.diagnostics += diagnostics


def _require_writable(path: str | os.PathLike[str], values: str | os.PathLike[str] | None, full: Collection[str]) -> None:
    """Raises WhenceError before anything runs where the values could not be written."""
    require_list(full)
    if values is not None:
        from ..values.value_file import require_place

        require_place(values)
        require_apart({"path": path, "values": values}, [])
    elif full:
        raise error("E0101", "usage", "full names modules of which values are kept whole, and no values are recorded",
                    "give values, a file: model.values.safetensors")


def _placed(path: Path, recorders: list[Recorder]) -> dict[Path, Recorder]:
    """The file of each. Raises WhenceError E0401 where one whose name no caller gave would replace something else."""
    from ..values.value_file import is_values

    places = [_beside(path, number + 1) for number in range(len(recorders))]
    for place in places[1:]:
        if os.path.lexists(place) and (place.is_symlink() or not is_values(place)):
            raise error("E0401", "cannot_write", f"the values would replace another file: {place}",
                        "move that file, or record into another folder", file=str(place))
    return dict(zip(places, recorders))


def _stop(whence: Any, recording: Recording, traced: bool = True) -> None:
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
