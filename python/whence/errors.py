"""Errors and warnings in the command's form: a stable code, a location and a remedy."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Diagnostic:
    """One error, warning or note. ``code`` is stable (see ``whence codes``); notes have none."""

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
        location = ", ".join(str(self.where[key]) for key in ("file", "module", "op", "source")
                          if key in self.where and str(self.where[key]) not in self.message)
        code = f"{self.code} {self.name.replace('_', ' ')}: " if self.code else ""
        return (f"{code}{self.message}" + (f" at {location}" if location else "")
                + (f"; try: {self.remedy}" if self.remedy else ""))


# Command-line options in remedies (as patterns) and the equivalent arguments of `export`.
_OPTIONS = (
    (r"add a converter \(annotator/convert/README\.md\) or pass one with --converters FILE",
     "pass a converter in custom_translation_table"),
    (r"pass a converter with --converters FILE", "pass a converter in custom_translation_table"),
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
    """Rewrites the remedy to name arguments of ``export`` instead of command-line options."""
    remedy = diagnostic.remedy
    for pattern, replacement in _OPTIONS:
        remedy = re.sub(pattern, replacement, remedy)
    return replace(diagnostic, remedy=remedy)


class WhenceError(RuntimeError):
    """An error with one or more diagnostics; ``code`` is the code of the first one.

    It is a RuntimeError like the errors of PyTorch's exporters, so existing ``except`` clauses catch it.
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
    """A problem that the user should know about but that did not stop the work."""


def error(code: str, name: str, message: str, remedy: str, **where: str) -> WhenceError:
    return WhenceError([Diagnostic(code, name, "error", message, remedy, where)])


@contextmanager
def renamed_in_errors(path: str | os.PathLike[str], name: str) -> Iterator[None]:
    """Replaces the path of a temporary file in the errors of the block: it is removed before the user reads them."""
    def rename(text: Any) -> Any:
        return text.replace(os.fspath(path), name) if isinstance(text, str) else text

    try:
        yield
    except WhenceError as failure:
        raise WhenceError([replace(entry, message=rename(entry.message), remedy=rename(entry.remedy),
                                   where={key: rename(value) for key, value in entry.where.items()})
                           for entry in failure.diagnostics]) from failure.__cause__


def require_list(value: object) -> None:
    """Raises WhenceError E0101 unless ``value`` is a list of str. A single str would be split into letters."""
    if isinstance(value, str):
        raise error("E0101", "usage", f"{value!r} is a single str, but a list is expected", f"pass [{value!r}]")
    if not isinstance(value, Iterable) or not all(isinstance(item, str) for item in value):
        raise error("E0101", "usage", f"{value!r} is not a list of str", "pass a list of str")


def require_path(value: object, what: str) -> None:
    """Raises WhenceError E0101 unless ``value`` is a path."""
    if not isinstance(value, (str, os.PathLike)):
        raise error("E0101", "usage", f"{what} is {type(value).__name__}, not a path", "pass a str or a Path")


def from_operator(raised: Exception) -> Exception:
    """Converts an error raised by one of the plugin's operators to a WhenceError; returns other errors unchanged."""
    match = re.match(r"(E\d{4}) (.*?): (.*?)(?:; try: (.*?))?(?:\n|$)", str(raised))
    if match is None:
        return raised
    code, name, message, remedy = match.groups()
    return WhenceError([Diagnostic(code, name.replace(" ", "_"), "error", message, remedy or "")])


def from_command(output: str, error_output: str, exit_code: int) -> WhenceError:
    """Converts the output of a failed command to an error: its JSON on standard output, or else its standard error."""
    try:
        entries = [Diagnostic.from_json(entry) for entry in json.loads(output)["diagnostics"]]
        errors = [entry for entry in entries if entry.severity == "error"]
        if errors:
            return WhenceError(errors)
    except (ValueError, KeyError, TypeError):
        pass
    failures = [parsed for line in error_output.splitlines()
                if isinstance(parsed := from_operator(RuntimeError(line)), WhenceError)]
    if failures:  # a subcommand without JSON output
        return WhenceError([diagnostic for failure in failures for diagnostic in failure.diagnostics])
    if exit_code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT):  # other signals are bugs
        return error("E0306", "over_limit", f"the command was killed by {signal.Signals(-exit_code).name}, possibly "
                     "because memory ran out", "add memory, or run fewer commands at the same time")
    message = (error_output or output).strip() or f"the command failed with exit code {exit_code}"
    return error("E0901", "internal", message, "please report this with the file")
