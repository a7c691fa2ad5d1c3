"""Files that an export writes for the user to read: its report, and the exported archive."""

from __future__ import annotations

import datetime
import os
import shutil
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import WhenceError, error
from ..files.atomic_files import write_atomically
from ..state.export_settings import log

_TITLE = "# Export"


@dataclass
class Artifacts:
    """Paths of the report, ``onnx_export_TIME_RESULT.md``, and the archive, ``onnx_export_TIME.pt2``."""

    folder: Path
    report: bool | Path = False  # True: in the folder, with a name that contains the result
    dump: bool = False
    earlier_report: str | None = None  # the text of a report that was at the path before
    time: str = field(default_factory=lambda: datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f"))

    @classmethod
    def from_request(cls, folder: str | os.PathLike[str], report: bool | str | os.PathLike[str] | None,
                     dump: bool) -> Artifacts:
        artifacts = cls(Path(folder), Path(report) if report and not isinstance(report, bool) else bool(report), dump)
        if isinstance(artifacts.report, Path) and _is_report(artifacts.report):
            artifacts.earlier_report = artifacts.report.read_text(encoding="utf-8")
        if artifacts.report is True or dump:
            try:
                artifacts.folder.mkdir(parents=True, exist_ok=True)
            except OSError as failure:
                raise error("E0401", "cannot_write", f"the folder {folder} cannot be created: {failure.strerror}",
                            "choose another artifacts_dir", file=str(folder)) from None
        return artifacts

    def keep(self, archive: Path) -> None:
        """Copies the exported archive into the folder, if a dump was requested."""
        if not self.dump:
            return
        target = self.folder / f"onnx_export_{self.time}{archive.suffix}"
        write_atomically(target, lambda path: shutil.copyfile(archive, path))
        log.info("the exported program is in %s", target)

    def draft(self) -> Path | None:
        """Returns the path at which the command writes its report. The final name is known only after the export."""
        if self.report is True:
            return self.folder / f"onnx_export_{self.time}.md"
        return self.report or None

    def finish(self, failure: BaseException | None, verification: Any = None, archive: str = "",
               in_memory: Path | None = None) -> Path | None:
        """Completes the report and renames it. ``in_memory``: the path of a temporary file, replaced with "in memory".

        If the export was refused because of a file at the report's path, removes the report or restores an earlier one.
        """
        draft = self.draft()
        if draft is None:
            return None
        if failure is not None and _is_about(failure, draft):
            self._restore_earlier(draft)
            return None
        text = draft.read_text(encoding="utf-8") if draft.exists() else ""
        text = text.replace(f"`{in_memory}`", "in memory") if in_memory else text
        result = _result(failure, verification, captured=bool(text))
        if not text:  # the export ended before the command ran
            failure_text = "".join(traceback.format_exception(failure)) if failure else ""
            text = f"{_TITLE}\n\nNothing was written: the program could not be captured.\n\n```\n{failure_text}```\n"
        if verification is not None:
            text += f"\n## Verification\n\nONNX Runtime against PyTorch.\n\n```\n{verification}\n```\n"
        if archive:
            text += f"\n## The exported program\n\n```python\n{archive.rstrip()}\n```\n"
        write_atomically(draft, lambda path: path.write_text(text, encoding="utf-8"))
        if self.report is not True:
            return draft
        target = self.folder / f"onnx_export_{self.time}_{result}.md"
        os.replace(draft, target)
        log.info("the report is in %s", target)
        return target

    def _restore_earlier(self, draft: Path) -> None:
        """Restores the earlier report, or removes the one that the command wrote about the failure."""
        if self.earlier_report is not None:
            write_atomically(draft, lambda path: path.write_text(self.earlier_report, encoding="utf-8"))
        elif _is_report(draft):
            draft.unlink()


def require_report_path(report: Path, target: Path, overwrite: bool) -> None:
    """Raises WhenceError E0401 if the report would replace another file next to ``target`` whose name starts with the
    model's name, because it may contain weights of an earlier export. A report may be replaced."""
    may_be_weights = report.parent.resolve() == target.parent.resolve() and report.name.startswith(target.name + ".")
    if may_be_weights and report.is_file() and not overwrite and not _is_report(report):
        raise error("E0401", "cannot_write", f"the report would replace another file: {report}",
                    "choose another name for the report, or overwrite=True to replace that file", file=str(report))


def _is_report(file: Path) -> bool:
    """Returns true for a report of an export, written by this package or by the command."""
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(len(_TITLE)) == _TITLE.encode()


def _is_about(failure: BaseException, file: Path) -> bool:
    """Returns true if a diagnostic of ``failure`` is about the file, or states that the file would be overwritten."""
    diagnostics = failure.diagnostics if isinstance(failure, WhenceError) else ()
    return any(os.path.realpath(each.where.get("file") or "") == os.path.realpath(file)
               or each.code == "E0401" and str(file) in each.message for each in diagnostics)


def _result(failure: BaseException | None, verification: Any, captured: bool) -> str:
    if failure is not None:
        refused = isinstance(failure, WhenceError) and failure.code.startswith("E03")
        return "conversion" if captured or refused else "pt_export"
    return "accuracy" if verification is not None and not verification.ok else "success"
