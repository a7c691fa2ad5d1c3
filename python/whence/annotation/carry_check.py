"""Finds the tool that broke the numbers of a file, and of a tool that consists of steps, the step: the tool runs again
with the first steps only, by bisection."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import WhenceError
from ..tool_steps import Request, Step, observed

if TYPE_CHECKING:
    from ..numerics.chain import ChainReport
    from ..numerics.report import AccuracyReport
    from ..values.value_file import Values

_FAILED = "fails"  # the tool, without some of its steps


@dataclass(frozen=True)
class BrokenStep:
    """The step after which the file differs. Without it, it did not differ."""

    step: Step
    needs: tuple[Step, ...]  # earlier steps, without which this one does not do it: one of them may be at fault
    number: int      # from 1, in the order in which the steps run
    count: int
    without: str     # verdict on the file that the tool makes without all steps of this name
    repairs: bool    # that file does not differ

    def __str__(self) -> str:
        place = f" ({self.step.place})" if self.step.place else ""
        return f"{self.step}{place}, step {self.number} of {self.count}" + (
            f", only together with {' and '.join(each.name for each in self.needs)}" if self.needs else "")


@dataclass(frozen=True)
class CarryCheck:
    """The files before and after each tool, compared with recorded values."""

    chain: ChainReport
    tools: tuple[str, ...]
    step: BrokenStep | None = None
    reason: str = ""  # why no step is known

    @property
    def broken(self) -> int | None:
        """The index of the first tool that broke the numbers."""
        return next((at for at in range(len(self.tools)) if self.chain.changes(at + 1)), None)

    @property
    def report(self) -> AccuracyReport | None:
        """The report on the file of the broken tool."""
        return None if self.broken is None else self.chain.files[self.broken + 1]

    @property
    def clean(self) -> bool:
        return self.chain.broken is None

    def lines(self) -> list[str]:
        names = [self.chain.files[0].path.name, *self.tools]
        lines = [f"{name}: {self.chain.summary(at)}" for at, name in enumerate(names)]
        if self.report is None:
            return lines
        first = self.report.first
        found = [f"`{self.tools[self.broken]}` broke the numbers: {first}" +
                 (f", {first.operation}" if first.operation else "") + (f", {first.source}" if first.source else "")]
        if self.step is None:
            return [*lines, *found, f"  step: unknown; {self.reason}"]
        return [*lines, *found, f"  step: {self.step}", f"  without it: {self.step.without}"]

    def to_json(self) -> dict[str, Any]:
        step = self.step
        return {"broken": self.broken,
                "files": [{"tool": name, "summary": self.chain.summary(at), **_place(self.chain.files[at])}
                          for at, name in enumerate((None, *self.tools))],
                "step": None if step is None else {
                    "tool": step.step.tool, "name": step.step.name, "place": step.step.place, "number": step.number,
                    "needs": [each.name for each in step.needs],
                    "count": step.count, "without": step.without, "repairs": step.repairs},
                "reason": self.reason}


def _place(report: AccuracyReport) -> dict[str, Any]:
    first = report.first
    if first is None:
        return {"differs": False, "module": None, "operation": None, "source": None}
    return {"differs": True, "module": first.module, "operation": first.operation, "source": first.source}


RunTool = Callable[[int, Path, Path], object]  # the tool's index, the model and the output


def check(files: list[Path], tools: list[str], values: Values | str | os.PathLike[str],
          sidecar: str | os.PathLike[str] | None, run: RunTool) -> CarryCheck:
    """Compares the files: the model, and that of each tool. ``run`` runs a tool again. Raises WhenceError like
    ``accuracy``."""
    from ..numerics.api import accuracy, recorded_of  # need PyTorch
    from ..numerics.chain import ChainReport

    recorded = recorded_of(values)

    def measure(file: Path) -> AccuracyReport:
        return accuracy(file, recorded, sidecar=sidecar)

    done = CarryCheck(ChainReport(tuple(measure(file) for file in files)), tuple(tools))
    at = done.broken
    if at is None:
        return done
    if done.chain.files[at].first is not None:
        return replace(done, reason="its input already differs")
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        bisection = _Bisection(Path(folder), lambda file: run(at, files[at], file), measure, _kind_of(done.report))
        step, reason = bisection.broken_step()
    return replace(done, step=step, reason=reason)


def _kind_of(report: AccuracyReport) -> str:
    if report.first is None:
        return ""
    return "does not run" if report.first.failure else "differs"


@dataclass(frozen=True)
class _Trial:
    kind: str              # how the file differs
    steps: list[Step]
    verdict: str


@dataclass
class _Bisection:
    """Runs a tool with some of its steps. A file that differs in another way than ``kind`` counts as one without the
    difference: a file between two steps may not run."""

    folder: Path
    run: Callable[[Path], object]
    measure: Callable[[Path], AccuracyReport]
    kind: str

    def broken_step(self) -> tuple[BrokenStep | None, str]:
        complete = self._trial(Request())
        steps = complete.steps
        if complete.kind == _FAILED:
            return None, f"the tool fails while whence observes its steps: {complete.verdict}"
        if not steps:
            return None, "whence knows no steps of this tool"
        if complete.kind != self.kind:
            return None, "the tool does not do it again"
        if self._trial(Request(0)).kind == self.kind:
            return None, f"the tool does it even without its {len(steps)} steps that can be switched off"
        right, wrong = 0, len(steps)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            trial = self._trial(Request(middle))
            if trial.kind == self.kind:
                wrong, steps = middle, trial.steps
            else:
                right = middle
        step = steps[wrong - 1]
        needs = self._needed(steps[:wrong]) if step.is_switch else ()
        without = self._trial(Request(without=(step.name,)))
        return BrokenStep(step, needs, wrong, len(complete.steps), without.verdict, not without.kind), ""

    def _needed(self, steps: list[Step]) -> tuple[Step, ...]:
        """Returns the steps before the last one without which the file does not differ. A tool that repeats its passes may
        do the last one's damage in an earlier one."""
        needed: list[Step] = [steps[-1]]
        candidates = steps[:-1]
        while not self._differs_with(needed):
            left, kept = 0, len(candidates)  # the file differs without the first ``left`` candidates
            if kept == 0:
                break
            while kept - left > 1:
                middle = (left + kept) // 2
                if self._differs_with([*candidates[middle:], *needed]):
                    left = middle
                else:
                    kept = middle
            needed.insert(-1, candidates[left])
            candidates = candidates[left + 1:]
        return tuple(needed[:-1])

    def _differs_with(self, steps: list[Step]) -> bool:
        return self._trial(Request(only=tuple(each.name for each in steps))).kind == self.kind

    def _trial(self, request: Request) -> _Trial:
        with self._empty_folder("log") as log, self._empty_folder("out") as out, observed(log, request) as steps:
            try:
                self.run(out / "model.onnx")
                report = self.measure(out / "model.onnx")
            except WhenceError as failure:
                return _Trial(_FAILED, steps.taken(), str(failure))
            return _Trial(_kind_of(report), steps.taken(), report.verdict)

    @contextmanager
    def _empty_folder(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix=name, dir=self.folder) as folder:
            yield Path(folder)
