"""One export while it runs: what is asked, the command that does it, and what was learnt on the way."""

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
    """One export: what is asked, where it goes, and what was learnt on the way."""

    request: ExportRequest
    target: Path
    sidecar: Path
    options: Options
    artifacts: Artifacts
    axes_of: Callable[[calls.Call], Axes]
    call: calls.Call | None = None
    observed: lasting_writes.Observed | None = None
    lost_writes: list[Diagnostic] = field(default_factory=list)  # in the exporter's words
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

    def command(self, archive: Path, *words: object, axes: Axes, folder: Path) -> None:
        """`whence export` of an archive, whose warnings become ours."""
        self.artifacts.keep(archive)
        makers = self.options.makers()
        with self.stage("export"), _staged(self, bool(makers)) as (target, sidecar):
            try:
                report = run_json("export", archive, "-o", target, "--sidecar-out", sidecar, *words,
                                  *self.options.for_command(axes, folder, self.artifacts.draft()))
            except WhenceError as failure:
                diagnostics = [_of_own_archive(in_python(each), archive) for each in failure.diagnostics]
                raise WhenceError(diagnostics) from None
            if makers:
                expand(target, makers, self.options.custom_opsets)
        self.seconds |= {f"export: {name}": seconds for name, seconds in report.get("seconds", {}).items()}
        entries = list(map(Diagnostic.from_json, report["diagnostics"]))
        self.lost_writes = [in_python(entry) for entry in entries if entry.code == "E0308"]
        for entry in entries:
            # torch.onnx holds registered symbolics for the whole process, so that this model may not have the operator.
            of_any_model = entry.code == "E0105" and entry.where.get("op") in self.options.symbolics
            if entry.severity == "warning" and entry.code != "E0308" and not of_any_model:
                warnings.warn(str(_of_own_archive(in_python(entry), archive)), WhenceWarning, stacklevel=2)

    def warn_of_writes(self, verify: Callable[[], Any]) -> None:
        """``verify``: compares the file, in ONNX Runtime, with the model."""
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


def _of_own_archive(diagnostic: Diagnostic, archive: Path) -> Diagnostic:
    """An archive that PyTorch wrote for this export is not a file of the user's that could be damaged."""
    where = {name: value for name, value in diagnostic.where.items() if name != "file" or value != str(archive)}
    if diagnostic.code not in ("E0203", "E0204", "E0209"):
        return replace(diagnostic, where=where)
    return Diagnostic("E0303", "unsupported_feature", "error", "what PyTorch made of the model cannot be saved whole: "
                      + diagnostic.message, "another backend may do; a model that writes through .data, or to a tensor "
                      "that is not there while torch.export looks, has to write to its own tensors", where)


@contextmanager
def _staged(job: Job, is_staged: bool) -> Iterator[tuple[Path, Path]]:
    """Paths to write to if the files are not finished when the command is done: in a folder of their own, from which
    they move when all went well, so that a failure leaves older files as they were."""
    target, sidecar = job.target, job.sidecar
    if not is_staged or not target.parent.is_dir() or not sidecar.parent.is_dir():
        yield target, sidecar
        return
    with draft_folder(target.parent) as made, draft_folder(sidecar.parent) as recorded:
        yield made / target.name, recorded / sidecar.name
        place(made, target, job.options.overwrite)
        place(recorded, sidecar, job.options.overwrite)
