"""Files that an export leaves for people: its report, and the archive that was exported."""

from __future__ import annotations

import datetime
import os
import shutil
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import WhenceError, error
from ..files.atomic_files import write_whole
from ..state.export_settings import log

_TITLE = "# Export"


@dataclass
class Artifacts:
    """Their paths: ``onnx_export_TIME_RESULT.md`` and ``onnx_export_TIME.pt2``, the names of torch.onnx."""

    folder: Path
    report: bool | Path = False  # True: in the folder, under the name that says what the export came to
    dump: bool = False
    before: str | None = None    # the report that stands at the path already
    time: str = field(default_factory=lambda: datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f"))

    @classmethod
    def asked(cls, folder: str | os.PathLike[str], report: bool | str | os.PathLike[str] | None, dump: bool) -> Artifacts:
        made = cls(Path(folder), Path(report) if report and not isinstance(report, bool) else bool(report), dump)
        if isinstance(made.report, Path) and _is_report(made.report):
            made.before = made.report.read_text(encoding="utf-8")
        if made.report is True or dump:
            try:
                made.folder.mkdir(parents=True, exist_ok=True)
            except OSError as failure:
                raise error("E0401", "cannot_write", f"the folder {folder} cannot be made: {failure.strerror}",
                            "give another artifacts_dir", file=str(folder)) from None
        return made

    def keep(self, archive: Path) -> None:
        """The archive that is being exported."""
        if not self.dump:
            return
        place = self.folder / f"onnx_export_{self.time}{archive.suffix}"
        write_whole(place, lambda path: shutil.copyfile(archive, path))
        log.info("the exported program is in %s", place)

    def draft(self) -> Path | None:
        """The path where the command writes its report; the final name is known when the export has ended."""
        if self.report is True:
            return self.folder / f"onnx_export_{self.time}.md"
        return self.report or None

    def finish(self, failure: BaseException | None, verification: Any = None, archive: str = "",
               in_memory: Path | None = None) -> Path | None:
        """Completes the report and gives it its name. ``in_memory``: a file that the caller does not see.

        Where the export was refused because of what would stand in the report's place, the report does not stay there.
        """
        draft = self.draft()
        if draft is None:
            return None
        if failure is not None and _concerns(failure, draft):
            self._take_back(draft)
            return None
        text = draft.read_text(encoding="utf-8") if draft.exists() else ""
        text = text.replace(f"`{in_memory}`", "in memory") if in_memory else text
        result = _result(failure, verification, captured=bool(text))
        if not text:  # it ended before the command began
            said = "".join(traceback.format_exception(failure)) if failure else ""
            text = f"{_TITLE}\n\nNothing was written: the program could not be captured.\n\n```\n{said}```\n"
        if verification is not None:
            text += f"\n## Verification\n\nONNX Runtime against PyTorch.\n\n```\n{verification}\n```\n"
        if archive:
            text += f"\n## The exported program\n\n```python\n{archive.rstrip()}\n```\n"
        write_whole(draft, lambda path: path.write_text(text, encoding="utf-8"))
        if self.report is not True:
            return draft
        place = self.folder / f"onnx_export_{self.time}_{result}.md"
        os.replace(draft, place)
        log.info("the report is in %s", place)
        return place

    def _take_back(self, draft: Path) -> None:
        """The command has written there what it says of the failure."""
        if self.before is not None:
            write_whole(draft, lambda path: path.write_text(self.before, encoding="utf-8"))
        elif _is_report(draft):
            draft.unlink()


def require_report_place(report: Path, target: Path, overwrite: bool) -> None:
    """A file with the name that weights of ``target`` may have can be an earlier export's, and is not replaced by a
    report, unless it is one. Raises WhenceError E0401."""
    beside = report.parent.resolve() == target.parent.resolve() and report.name.startswith(target.name + ".")
    if beside and report.is_file() and not overwrite and not _is_report(report):
        raise error("E0401", "cannot_write", f"the report would replace another file: {report}",
                    "give another name for the report, or overwrite=True to replace that file", file=str(report))


def _is_report(file: Path) -> bool:
    """Returns true for a report of an export, of this package or of the command."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(len(_TITLE)) == _TITLE.encode()


def _concerns(failure: BaseException, file: Path) -> bool:
    """Returns true for an error of this file, or one that says that it is in the way of ``failure``'s own."""
    found = failure.diagnostics if isinstance(failure, WhenceError) else ()
    return any(os.path.realpath(each.where.get("file") or "") == os.path.realpath(file)
               or each.code == "E0401" and str(file) in each.message for each in found)


def _result(failure: BaseException | None, verification: Any, captured: bool) -> str:
    if failure is not None:
        refused = isinstance(failure, WhenceError) and failure.code.startswith("E03")
        return "conversion" if captured or refused else "pt_export"
    return "accuracy" if verification is not None and not verification.ok else "success"
