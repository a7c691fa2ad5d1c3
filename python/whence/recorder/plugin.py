"""The recorder inside this process: loads the plugin of LibTorch and listens to it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from ..command import recorder_library
from ..errors import Diagnostic, WhenceError, error, from_operator


def library() -> Path:
    """The plugin that fits this PyTorch. Raises WhenceError E0307 when there is none."""
    path = recorder_library.fitting()
    if path is None:
        raise recorder_library.missing()
    return path


_refused: dict[str, WhenceError] = {}  # by path; loaded again they seem to be there, and have no operators


def operators() -> Any:
    """``torch.ops.whence``, loaded when it is first needed. Raises WhenceError E0307 when it does not fit this torch.
    """
    try:
        import torch
    except ImportError:
        raise error("E0307", "needs_libtorch", "PyTorch is not installed", "pip install torch") from None
    path = str(library())
    if path in _refused:
        raise _refused[path]
    try:
        torch.ops.load_library(path)
    except OSError as failure:
        failed = from_operator(failure.__cause__ or failure)
        if not isinstance(failed, WhenceError):
            failed = error("E0307", "needs_libtorch", f"the plugin could not be loaded: {failed}",
                           "whence recorder build")
        _refused[path] = failed
        raise failed from failure
    return torch.ops.whence


class _WithoutPlugin:
    """Takes the place of ``torch.ops.whence`` where no recorder is installed: programs of torch.export need none. A trace
    does, and is refused where it begins."""

    _TRACERS = ("trace", "_get_trace_graph")  # torch.jit.trace; torch.onnx.export(dynamo=False)

    def start(self, path: str) -> None:
        import torch

        self.originals = {name: getattr(torch.jit, name) for name in self._TRACERS}
        for name in self._TRACERS:
            setattr(torch.jit, name, self._refuse)

    def stop(self) -> str:
        import torch

        for name, original in self.originals.items():
            setattr(torch.jit, name, original)
        return json.dumps({"files": [], "diagnostics": []})

    @staticmethod
    def _refuse(*args: object, **kwargs: object) -> NoReturn:
        raise recorder_library.missing()


def operators_or_stand_in() -> Any:
    """Raises WhenceError E0307 for a recorder that does not fit, and without PyTorch."""
    if recorder_library.torch_version() is not None and not recorder_library.is_installed():
        return _WithoutPlugin()
    return operators()


@contextmanager
def listening() -> Iterator[list[Diagnostic] | None]:
    """Yields a list that afterwards holds what the plugin has to say of what was traced inside; nothing is kept.

    None where there is no plugin that could listen. A recording that is running already tells, so the list stays empty.
    """
    try:
        whence = operators()
    except WhenceError:
        yield None
        return
    diagnostics: list[Diagnostic] = []
    if json.loads(whence.status()).get("recording"):
        yield diagnostics
        return
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        whence.start(str(Path(folder) / "trace.whence.json"))
        try:
            yield diagnostics
        finally:
            try:
                report = json.loads(whence.stop())
                diagnostics += [Diagnostic.from_json(entry) for entry in report["diagnostics"]]
            except RuntimeError:
                pass  # nothing that it could record: nothing to tell
