"""Runs a file in ONNX Runtime in a process of its own, so that a crash of the runtime does not end this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import error
from .annotated_file import File

_FAILED = 3  # exit code if the runtime raised an exception

# Imports no PyTorch, which takes longer than a small file.
_PROGRAM = """
import sys
import numpy, onnxruntime
model, optimized, external, provider, inputs, outputs, *names = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
if not int(optimized):
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
source = model
if external:
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", external)
    source = open(model, "rb").read()
try:
    session = onnxruntime.InferenceSession(source, options, providers=[provider])
    available = {each.name for each in session.get_outputs() if each.type.startswith("tensor(")}
    requested = [name for name in names if name in available]
    results = session.run(requested, dict(numpy.load(inputs)))
except Exception as failure:
    print(failure, file=sys.stderr)
    sys.exit(%d)
numpy.savez(outputs, **{str(names.index(name)): result for name, result in zip(requested, results)})
""" % _FAILED


def run(file: File, model: str | bytes, optimized: bool, provider: str, feed: Mapping[str, torch.Tensor],
        names: list[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the values. ``model``: its path, or its bytes with weights in files next to that of ``file``. Raises
    WhenceError: E0207 if the runtime fails or crashes, E0303 for bfloat16."""
    import numpy

    if any(tensor.dtype is torch.bfloat16 for tensor in feed.values()):
        raise error("E0303", "unsupported_feature", "a runtime that crashes cannot be examined with inputs in bfloat16",
                    "use a float32 copy of the model", file=file.path)
    with tempfile.TemporaryDirectory(prefix="whence-") as name:
        folder = Path(name)
        external = ""
        if isinstance(model, bytes):
            (folder / "model.onnx").write_bytes(model)
            model, external = str(folder / "model.onnx"), os.path.dirname(os.path.abspath(file.path))
        numpy.savez(folder / "inputs.npz", **{key: tensor.numpy() for key, tensor in feed.items()})
        done = subprocess.run([sys.executable, "-c", _PROGRAM, model, str(int(optimized)), external, provider,
                               str(folder / "inputs.npz"), str(folder / "outputs.npz"), *names],
                              capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode:
            raise _failure(file, done)
        with numpy.load(folder / "outputs.npz") as results:
            for key in results.files:
                yield names[int(key)], torch.as_tensor(results[key])


def _failure(file: File, done: Any) -> Exception:
    if done.returncode < 0:
        what = f"the runtime crashes ({signal.Signals(-done.returncode).name})"
    else:
        what = f"the runtime cannot run the file: {done.stderr.strip()[-1000:]}"
    return error("E0207", "run_failed", what, "report it to the runtime's developers, with --repro", file=file.path)
