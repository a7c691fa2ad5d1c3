"""One export in progress: its request, the command that runs it, and its intermediate results."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..annotation.reports import annotate, validate
from ..arguments import calls
from ..axes.dynamic_axes import Axes
from ..capture import lasting_writes
from ..command.process import run_json
from ..converters.call_expansion import expand
from ..errors import Diagnostic, WhenceError, WhenceWarning, in_python
from ..files.atomic_files import draft_folder, place
from ..state.export_settings import log
from .artifacts import Artifacts
from .options import Options
from .program import Exported
from .request import ExportRequest


@dataclass
class Job:
    """One export: its request, its target files and its intermediate results."""

    request: ExportRequest
    target: Path
    sidecar: Path
    options: Options
    artifacts: Artifacts
    axes_of: Callable[[calls.Call], Axes]
    call: calls.Call | None = None
    observed: lasting_writes.Observation | None = None
    lost_writes: list[Diagnostic] = field(default_factory=list)  # as the exporter reported them
    archive: str = ""
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        log.info("%s...", name)
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0) + time.perf_counter() - start

    def command(self, archive: Path, *arguments: object, axes: Axes, folder: Path) -> None:
        """Runs `whence export` on an archive, and passes on its warnings."""
        self.artifacts.keep(archive)
        makers = self.options.makers()
        with self.stage("export"), _staged(self, bool(makers)) as (target, sidecar):
            try:
                report = run_json("export", archive, "-o", target, "--sidecar-out", sidecar, *arguments,
                                  *self.options.for_command(axes, folder, self.artifacts.draft()))
            except WhenceError as failure:
                diagnostics = [_without_own_archive(in_python(each), archive) for each in failure.diagnostics]
                raise WhenceError(diagnostics) from None
            if makers:
                expand(target, makers, self.options.custom_opsets)
        self.seconds |= {f"export: {name}": seconds for name, seconds in report.get("seconds", {}).items()}
        entries = list(map(Diagnostic.from_json, report["diagnostics"]))
        self.lost_writes = [in_python(entry) for entry in entries if entry.code == "E0308"]
        for entry in entries:
            # torch.onnx registers symbolics for the whole process, so this model may lack the operator.
            may_be_unrelated = entry.code == "E0105" and entry.where.get("op") in self.options.symbolics
            if entry.severity == "warning" and entry.code != "E0308" and not may_be_unrelated:
                warnings.warn(str(_without_own_archive(in_python(entry), archive)), WhenceWarning, stacklevel=2)

    def warn_of_writes(self, verify: Callable[[], Any]) -> None:
        """Warns about writes that the file loses. ``verify`` compares the file, in ONNX Runtime, with the model."""
        inputs = self.observed.inputs if self.observed else ()
        tensors = list(self.call.tensors) if self.call else list(inputs)
        names = dict(zip(tensors, [*self.options.input_names, *tensors[len(self.options.input_names):]]))
        lasting_writes.warn(lasting_writes.diagnostics_of(self.observed, self.lost_writes, names,
                                                          lambda: lasting_writes.differs_in_runtime(verify)))

    def finish(self, program: Any = None) -> Exported:
        with self.stage("annotate"):
            annotated = annotate(self.target, self.sidecar)
        with self.stage("validate"):
            validation = validate(self.target, self.sidecar)
        return Exported(self.target, self.sidecar, annotated, validation, program, archive=self.archive)


def _without_own_archive(diagnostic: Diagnostic, archive: Path) -> Diagnostic:
    """Removes the path of an archive that PyTorch wrote for this export, which the user does not have. An error about a
    damaged archive becomes E0303."""
    where = {name: value for name, value in diagnostic.where.items() if name != "file" or value != str(archive)}
    if diagnostic.code not in ("E0203", "E0204", "E0209"):
        return replace(diagnostic, where=where)
    return Diagnostic("E0303", "unsupported_feature", "error", "PyTorch cannot save the captured model completely: "
                      + diagnostic.message, "try another backend; a model that writes through .data, or to a tensor "
                      "that does not exist during torch.export, must write to its own tensors instead; a model with a "
                      "module named by a keyword or with quotes exports by torch.export.save and `whence export`", where)


@contextmanager
def _staged(job: Job, is_staged: bool) -> Iterator[tuple[Path, Path]]:
    """Yields the paths to write to. If the command's output still needs changes, they are in draft folders. The files
    are moved from there on success, so that a failure leaves older files unchanged."""
    target, sidecar = job.target, job.sidecar
    if not is_staged or not target.parent.is_dir() or not sidecar.parent.is_dir():
        yield target, sidecar
        return
    with draft_folder(target.parent) as model_draft, draft_folder(sidecar.parent) as sidecar_draft:
        yield model_draft / target.name, sidecar_draft / sidecar.name
        place(model_draft, target, job.options.overwrite)
        place(sidecar_draft, sidecar, job.options.overwrite)
