"""Loads the LibTorch plugin, the recorder, into this process and collects its diagnostics."""

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
    """Returns the path of the plugin for this PyTorch. Raises WhenceError E0307 if there is none."""
    path = recorder_library.fitting()
    if path is None:
        raise recorder_library.missing()
    return path


_load_failures: dict[str, WhenceError] = {}  # by path; a second attempt to load succeeds, but without operators


def operators() -> Any:
    """Returns ``torch.ops.whence``; loads it on first use. Raises WhenceError E0307 if it does not fit this PyTorch."""
    try:
        import torch
    except ImportError:
        raise error("E0307", "needs_libtorch", "PyTorch is not installed", "pip install torch") from None
    path = str(library())
    if path in _load_failures:
        raise _load_failures[path]
    try:
        torch.ops.load_library(path)
    except OSError as failure:
        load_error = from_operator(failure.__cause__ or failure)
        if not isinstance(load_error, WhenceError):
            load_error = error("E0307", "needs_libtorch", f"the plugin could not be loaded: {load_error}",
                           "whence recorder build")
        _load_failures[path] = load_error
        raise load_error from failure
    return torch.ops.whence


class _WithoutPlugin:
    """Replaces ``torch.ops.whence`` if no recorder is installed. Programs of torch.export do not need the recorder;
    traces need it and are refused when they start."""

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
    """Returns ``operators()``, or a stand-in if no recorder is installed. Raises E0307 if the recorder does not fit."""
    if recorder_library.torch_version() is not None and not recorder_library.is_installed():
        return _WithoutPlugin()
    return operators()


@contextmanager
def listening() -> Iterator[list[Diagnostic] | None]:
    """Yields a list that receives the plugin's diagnostics of traces in the block; the recording itself is dropped.

    Yields None without a plugin. The list stays empty if a recording is already running, which reports them.
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
                pass  # nothing was recorded
