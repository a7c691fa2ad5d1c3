"""carry: runs a tool (a command or a Python function) on a model and keeps the origins of its nodes."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from ..command.process import run_json
from ..errors import Diagnostic, WhenceError, error, require_path
from ..files.model_files import Model, takes_models
from . import carry_check
from .reports import AnnotateReport

if TYPE_CHECKING:
    from ..values.value_file import Values

Function = Callable[[str, str], object]
Command = Sequence[str]
Tool = Union[Function, Command]

# The command runs this script in place of a Python function. It passes the two paths to the function's process, waits,
# and exits with the function's status.
_SCRIPT = """printf '%s\\0' {number} "$1" "$2" > '{folder}/ask' && read -r status < '{folder}/answer' && exit "$status"
"""
_FIELDS = 3  # fields of a request: the tool's index, the model's path and the output path


@takes_models("model", written="output")
def carry(model: Model, tool: Tool | Sequence[Tool], output: str | os.PathLike[str] | None = None, *,
          timeout: float | None = None, overwrite: bool = False, check: Values | str | os.PathLike[str] | None = None,
          sidecar: str | os.PathLike[str] | None = None) -> AnnotateReport:
    """Runs a tool on an annotated ONNX file, and writes its result with the origins of the nodes.

        whence.carry("bert.onnx", lambda src, dst: quantize_dynamic(src, dst), "bert.int8.onnx")
        whence.carry("bert.onnx", ["onnxslim", "{in}", "{out}"], "bert.slim.onnx")

    tool     a function of two paths that reads a model from the first and writes one to the second, or changes the
             first; or a command as a list of words, in which {in} and {out} are replaced with these paths. A command
             without {out} changes {in}. Several tools in a list run one after the other.
    output   the file to write; model.carried.onnx next to model.onnx by default. ``model`` itself is never written to.
    timeout  time limit of a command in seconds; none by default.
    overwrite  replace existing weight files at the paths that the output needs.
    check    the PyTorch model's values from ``record_values``, or the path of their file: compares the file of each tool
             with them. ``check`` of the result states which tool broke the numbers, and which of its passes or rules, if
             it is onnxoptimizer, onnxscript, onnxsim, onnxslim, ONNX Runtime's optimiser or onnx's version converter:
             the tool runs again with a part of its steps, several times.
    sidecar  for ``check``: states the operation of each node.

    The result keeps the names, node order and weights that the tool wrote. Raises WhenceError: E0210 if a tool fails or
    writes no ONNX file (it contains the command's output, or is chained to the function's exception); E0203 if
    ``model`` has no origins; E0102 for a missing program; and the errors of ``annotate``.
    """
    require_path(model, "the model")
    tools = _tools(tool)
    target = Path(output) if output is not None else Path(model).with_suffix(".carried.onnx")
    options = ["--timeout", timeout] if timeout is not None else []
    options += ["--overwrite"] if overwrite else []
    if check is None:
        return AnnotateReport.from_json(target, run_tools(model, tools, target, options))
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        files = [Path(folder) / f"{at}" / target.name for at in range(len(tools) - 1)]
        report: dict[str, Any] = {}
        for each, source, file in zip(tools, [Path(model), *files], [*files, target], strict=True):
            file.parent.mkdir(exist_ok=True)
            report = run_tools(source, [each], file, options)
        done = carry_check.check([Path(model), *files, target], [_name_of(each) for each in tools], check, sidecar,
                                 lambda at, source, file: run_tools(source, [tools[at]], file, options))
    return replace(AnnotateReport.from_json(target, report), check=done)


def run_tools(model: str | os.PathLike[str], tools: list[Tool], target: Path, options: list[Any]) -> dict[str, Any]:
    """Runs the command, and returns its report."""
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        server = _FunctionServer(Path(folder))
        words = server.command_of(tools[0])
        for next_tool in tools[1:]:
            words += ["--then", *server.command_of(next_tool)]
        arguments = ("carry", model, "-o", target, *options, "--", *words)
        return server.serve(lambda: run_json(*arguments)) if server.functions else run_json(*arguments)


def _name_of(tool: Tool) -> str:
    return _FunctionServer._name(tool) if callable(tool) else " ".join(tool)


def _tools(tool: Tool | Sequence[Tool]) -> list[Tool]:
    """Returns one tool or several as a list. Raises WhenceError E0101 for anything else."""
    if callable(tool):
        return [tool]
    if isinstance(tool, (list, tuple)) and tool:
        if all(isinstance(word, str) for word in tool):
            return [tool]
        if all(callable(each) or isinstance(each, (list, tuple)) and each and all(isinstance(word, str) for word in each)
               for each in tool):
            return list(tool)
    raise error("E0101", "usage", f"{tool!r} is not a tool",
                "pass a function of two paths, a command such as ['onnxslim', '{in}', '{out}'], or a list of tools")


class _FunctionServer:
    """Python functions as tools of the command. The command runs on another thread and sends requests through a pipe in
    ``folder``; the functions run on the caller's thread."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.functions: list[Function] = []

    def command_of(self, tool: Tool) -> list[str]:
        if not callable(tool):
            return list(tool)
        script = self.folder / f"{len(self.functions)}" / self._name(tool)
        script.parent.mkdir()
        script.write_text(_SCRIPT.format(number=len(self.functions), folder=self.folder))
        self.functions.append(tool)
        return ["sh", str(script), "{in}", "{out}"]

    @staticmethod
    def _name(tool: Function) -> str:
        name = getattr(tool, "__name__", "") or type(tool).__name__
        return re.sub(r"\W+", "", name) or "function"

    def serve(self, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Calls ``run``, which runs the command, and returns its result. Raises E0210 if a function raised."""
        for name in ("ask", "answer"):
            os.mkfifo(self.folder / name)
        # Opens both ends, so that opening and writing never block, even if the command dies.
        requests, replies = (os.open(self.folder / name, os.O_RDWR) for name in ("ask", "answer"))
        failure: BaseException | None = None
        try:
            with ThreadPoolExecutor(1) as thread:
                running = thread.submit(run)
                running.add_done_callback(lambda _: os.write(requests, b"\0" * _FIELDS))
                while (request := self._next_request(requests))[0]:
                    number, source, target = request
                    try:
                        _call(self.functions[int(number)], source, target)
                    except BaseException as raised:
                        failure = raised
                        break
                    finally:
                        os.write(replies, b"1\n" if failure else b"0\n")
            return self._result(running, failure)
        finally:
            os.close(requests)
            os.close(replies)

    def _next_request(self, requests: int) -> list[str]:
        text = b""
        while text.count(b"\0") < _FIELDS:
            text += os.read(requests, 65536)
        return [os.fsdecode(each) for each in text.split(b"\0")[:_FIELDS]]

    def _result(self, running: Any, failure: BaseException | None) -> dict[str, Any]:
        if failure is not None and not isinstance(failure, Exception):
            raise failure
        try:
            return running.result()
        except WhenceError as reported:
            if failure is not None:
                raise error("E0210", "tool_failed", f"the tool raised {type(failure).__name__}: {failure}",
                            "run it without whence to see whether it accepts the model") from failure
            raise WhenceError([self._readable(each) for each in reported.diagnostics]) from None

    def _readable(self, diagnostic: Diagnostic) -> Diagnostic:
        """Replaces the paths of scripts with the names of their functions."""
        return replace(diagnostic, message=re.sub(rf"sh {re.escape(str(self.folder))}/\d+/", "", diagnostic.message))


def _call(function: Function, source: str, target: str) -> None:
    before = _state(source)
    function(source, target)
    if not os.path.lexists(target) and _state(source) != before:  # changed in place
        shutil.copyfile(source, target)


def _state(path: str) -> tuple[Any, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
