"""Errors and warnings in the form of the command: a stable code, a place, and a remedy."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Diagnostic:
    """One error, warning or note. ``code`` is stable (``whence codes`` lists them all); notes have none."""

    code: str
    name: str
    severity: str
    message: str
    remedy: str = ""
    where: dict[str, Any] = field(default_factory=dict)
    count: int = 1

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Diagnostic:
        return cls(entry.get("code", ""), entry.get("name", ""), entry["severity"], entry["message"],
                   entry.get("remedy", ""), entry.get("where", {}), entry.get("count", 1))

    def __str__(self) -> str:
        place = ", ".join(str(self.where[key]) for key in ("file", "module", "op", "source")
                          if key in self.where and str(self.where[key]) not in self.message)
        code = f"{self.code} {self.name.replace('_', ' ')}: " if self.code else ""
        return (f"{code}{self.message}" + (f" at {place}" if place else "")
                + (f"; try: {self.remedy}" if self.remedy else ""))


# Options of the command, as remedies name them, and the same options of `export`.
_OPTIONS = (
    (r"add a converter \(annotator/convert/README\.md\) or give one with --converters FILE",
     "give a converter in custom_translation_table"),
    (r"give a converter with --converters FILE", "give a converter in custom_translation_table"),
    (r"--custom-opset (\w+)=1", r"custom_opsets={'\1': 1}"),
    (r"--on-unsupported=domain", "operator_export_type='ONNX_ATEN_FALLBACK'"),
    (r"out of --dynamic", "out of dynamic_shapes or dynamic_axes"),
    (r"name the library that defines it: --library (\S+);", r"torch.ops.load_library('\1') before;"),
    (r"with (it with )?--input or --inputs", "as args"),
    (r"--opset (\d+)", r"opset_version=\1"),
    (r"--keep-bfloat16", "keep_bfloat16=True"),
    (r"--overwrite", "overwrite=True"),
    (r"--copy-data", "copy_data=True"),
)


def in_python(diagnostic: Diagnostic) -> Diagnostic:
    """A diagnostic of the command with remedies that a caller of ``export`` can follow."""
    remedy = diagnostic.remedy
    for words, ours in _OPTIONS:
        remedy = re.sub(words, ours, remedy)
    return replace(diagnostic, remedy=remedy)


class WhenceError(RuntimeError):
    """Something failed; ``code`` is that of the first error, ``diagnostics`` holds all of them.

    A RuntimeError, as the errors of PyTorch's exporters are, so that code that expects those goes on to work.
    """

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        self.diagnostics = diagnostics
        super().__init__("\n".join(map(str, diagnostics)))

    @property
    def code(self) -> str:
        return self.diagnostics[0].code

    @property
    def remedy(self) -> str:
        return self.diagnostics[0].remedy


class WhenceWarning(UserWarning):
    """Something that a user should know, and that did not stop the work."""


def error(code: str, name: str, message: str, remedy: str, **where: str) -> WhenceError:
    return WhenceError([Diagnostic(code, name, "error", message, remedy, where)])


def require_list(given: object) -> None:
    """Raises WhenceError E0101 for what is not a list of texts: of one text its letters would be taken for them."""
    if isinstance(given, str):
        raise error("E0101", "usage", f"{given!r} is one text, where a list is expected", f"give [{given!r}]")
    if not isinstance(given, Iterable) or not all(isinstance(each, str) for each in given):
        raise error("E0101", "usage", f"{given!r} is not a list of texts", "give a list of str")


def require_path(given: object, what: str) -> None:
    """Raises WhenceError E0101 for what is not the path of a file."""
    if not isinstance(given, (str, os.PathLike)):
        raise error("E0101", "usage", f"{what} is {type(given).__name__}, where a path is expected", "give a str or a Path")


def from_operator(raised: Exception) -> Exception:
    """An error of an operator of the plugin, as a WhenceError; any other error is returned unchanged."""
    match = re.match(r"(E\d{4}) (.*?): (.*?)(?:; try: (.*?))?(?:\n|$)", str(raised))
    if match is None:
        return raised
    code, name, message, remedy = match.groups()
    return WhenceError([Diagnostic(code, name.replace(" ", "_"), "error", message, remedy or "")])


def from_command(output: str, complaint: str, exit_code: int) -> WhenceError:
    """The errors of a command that failed: JSON on standard output, lines on standard error, or whatever it said instead."""
    try:
        entries = [Diagnostic.from_json(entry) for entry in json.loads(output)["diagnostics"]]
        errors = [entry for entry in entries if entry.severity == "error"]
        if errors:
            return WhenceError(errors)
    except (ValueError, KeyError, TypeError):
        pass
    said = [found for line in complaint.splitlines() if isinstance(found := from_operator(RuntimeError(line)), WhenceError)]
    if said:  # a subcommand of which JSON is not asked
        return WhenceError([each for failure in said for each in failure.diagnostics])
    if exit_code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT):  # from outside; any other signal is a defect
        return error("E0306", "over_limit", f"the command was ended by {signal.Signals(-exit_code).name}, for want of memory "
                     "for example", "give it more memory, or less to do at the same time")
    message = (complaint or output).strip() or f"the command ended with exit code {exit_code}"
    return error("E0901", "internal", message, "please report this with the file")
