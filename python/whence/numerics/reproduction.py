"""Writes the nodes at which a difference begins as a bundle that runs without whence: a small ONNX file with its inputs,
PyTorch's result, a script that compares them, and a text for an issue."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..base.optional_packages import import_optional
from ..errors import error
from ..values.value_file import Recorded, Values
from . import node_pieces, quantised_values
from .annotated_file import File, Node
from .corrected_values import correct_value
from .measurements import Measured
from .recorded_program import RecordedProgram
from .report import FirstDifference
from .runtimes import Runtime
from .tensor_differences import is_number, samples_of

_FAILS = 1  # exit code of the script if the result differs or the piece does not run

_SCRIPT = '''"""Runs piece.onnx and compares its result with PyTorch's. Exit code 1: they differ. Needs numpy and onnxruntime."""
import os, sys
import numpy as np
import onnxruntime

os.chdir(os.path.dirname(os.path.abspath(__file__)))
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
result, = onnxruntime.InferenceSession("piece.onnx", options, providers=["{provider}"]).run(None, dict(np.load("inputs.npz")))
'''

_COMPLEX = '''result = result[..., 0] + 1j * result[..., 1]
'''

_COMPARISON = '''expected = np.load("expected.npz")
if list(result.shape) != expected["sizes"].tolist():
    sys.exit(f"sizes {list(result.shape)} instead of {expected['sizes'].tolist()}")
got, want = result.reshape(-1)[expected["positions"]], expected["elements"]
'''

_NUMBERS = '''both = np.isfinite(got) & np.isfinite(want)
if not np.array_equal(got[~both].astype(want.dtype), want[~both], equal_nan=True):
    sys.exit("NaN or infinite elements differ")
difference = np.linalg.norm((got - want)[both]) / max(np.linalg.norm(want[both]), 1e-30)
if difference > {limit:.3g}:
    sys.exit(f"relative difference {{difference:.3g}}; up to {limit:.3g} is rounding")
'''

_INTEGERS = '''if not np.array_equal(got, want):
    sys.exit(f"{(got != want).sum()} of {want.size} elements differ")
'''

_DTYPE = '''if got.dtype != want.dtype:
    sys.exit(f"dtype {got.dtype} instead of {want.dtype}")
'''

_END = 'print("equal")\n'


@dataclass(frozen=True)
class Piece:
    """The nodes at which a difference begins."""

    nodes: list[Node]            # in the file's order
    value: str                   # the wrong value
    expected: Recorded | None    # PyTorch's result; None if the last node does not run
    differing: Mapping[str, Measured] = field(default_factory=dict)  # values that the nodes may read and that differ


def write(folder: Path, file: File, piece: Piece, first: FirstDifference, values: Values, feed: dict[str, torch.Tensor],
          runtime: Runtime, limit: float, program: RecordedProgram | None) -> str:
    """Writes the bundle to ``folder``, which does not exist or is empty, if its script fails there, on PyTorch's inputs,
    too. Returns a sentence on what was written, or why nothing was."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise error("E0101", "usage", f"{folder} already exists", "pass a new folder")
    onnx = import_optional("onnx", "reading a model")
    nodes = node_pieces.with_constants(file, piece.nodes)
    inputs = node_pieces.inputs_of(file, nodes)
    tensors = {name: tensor for name, tensor in runtime.take(feed, inputs) if isinstance(tensor, torch.Tensor)}
    tensors |= {name: feed[name] for name in inputs if name in feed}
    missing = [name for name in inputs if name not in tensors]
    if missing:
        return f"no bundle was written: the value {missing[0]} is not a tensor"
    if any(tensor.dtype is torch.bfloat16 for tensor in tensors.values()):
        return "no bundle was written: numpy does not have bfloat16"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".whence-", dir=folder.parent) as temporary:
        inside = Path(temporary) / "bundle"
        inside.mkdir()
        actual = next((tensor for _, tensor in runtime.take(feed, [piece.value])), None) if piece.expected is not None else None
        if actual is not None and actual.dtype is torch.bfloat16:
            return "no bundle was written: numpy does not have bfloat16"
        # If the node does not run, the type is the declared one, or the runtime infers it.
        model = node_pieces.model_of(file, nodes, tensors, {piece.value: actual}, declared=True)
        quantised_values.add_dequantised(file, model, piece.value)
        onnx.save(model, inside / "piece.onnx")
        (inside / "reproduce.py").write_text(_script(piece, first, runtime, limit), encoding="utf-8")
        message = _failure_on(inside, tensors, values, piece)
        if not message:
            return "no bundle was written: the piece alone does not fail, so the fault is in how the file uses it"
        right = _right_inputs(file, tensors, values, piece)
        if right:
            message = _failure_on(inside, {**tensors, **right}, values, piece)
        if not message:
            return "no bundle was written: on PyTorch's inputs, the piece does not fail, so the fault is before it"
        (inside / "issue.md").write_text(_issue(onnx, file, first, nodes, message, program), encoding="utf-8")
        if folder.exists():
            folder.rmdir()
        os.replace(inside, folder)
    return f"{len(nodes)} of {len(file.nodes)} nodes were written to {folder}: `python {folder / 'reproduce.py'}` fails"


def _right_inputs(file: File, tensors: Mapping[str, torch.Tensor], values: Values, piece: Piece) -> dict[str, torch.Tensor]:
    """Returns PyTorch's tensors for the inputs that differ, if they were recorded completely."""
    right = {name: correct_value(file, values, piece.differing[name], tensor) for name, tensor in tensors.items()
             if name in piece.differing}
    return {name: tensor for name, tensor in right.items() if tensor is not None and tensor.shape == tensors[name].shape}


def _failure_on(folder: Path, tensors: Mapping[str, torch.Tensor], values: Values, piece: Piece) -> str:
    """Runs the script on the inputs. Returns the last line that it prints if it fails, or else an empty string."""
    _save_arrays(folder, tensors, values, piece.expected)
    ran = subprocess.run([sys.executable, "reproduce.py"], cwd=folder, capture_output=True, text=True, timeout=600)
    lines = (ran.stderr or ran.stdout).strip().splitlines()
    return lines[-1] if lines and ran.returncode == _FAILS else ""


def _script(piece: Piece, first: FirstDifference, runtime: Runtime, limit: float) -> str:
    start = _SCRIPT.format(provider=runtime.provider)
    if piece.expected is None:
        return start
    comparison = _NUMBERS.format(limit=limit) if is_number(piece.expected) else _INTEGERS
    if piece.expected.dtype.startswith("complex"):
        start += _COMPLEX
    return start + _COMPARISON + (_DTYPE if "dtype" in first.form else "") + comparison + _END


def _save_arrays(folder: Path, tensors: Mapping[str, torch.Tensor], values: Values, expected: Recorded | None) -> None:
    import numpy

    numpy.savez(folder / "inputs.npz", **{name: tensor.numpy() for name, tensor in tensors.items()})
    if expected is not None:
        positions, elements = samples_of(values, expected)
        if expected.form == "whole":
            elements = values.whole(expected).reshape(-1)
            positions = torch.arange(elements.numel())
        numpy.savez(folder / "expected.npz", positions=positions.numpy(), elements=_as_numpy(elements),
                    sizes=numpy.array(expected.dims, dtype=numpy.int64))


def _as_numpy(tensor: torch.Tensor) -> Any:
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor.resolve_conj()).numpy()


def _exporter(file: File) -> str:
    """Returns the file's producer and, if it is PyTorch, which of its exporters wrote the file, if nodes show it."""
    producer = f"{file.model.producer_name} {file.model.producer_version}".strip()
    if file.model.producer_name != "pytorch":
        return producer
    originals = [_before_annotation(node) for node in file.model.graph.node]
    if any(name.startswith("node_") or any(key.startswith("pkg.torch.onnx.") for key in keys) for name, keys in originals):
        return f"{producer}, torch.onnx.export with dynamo=True"
    is_torchscript = any(name.startswith("/") for name, _ in originals)  # "/encoder/Conv", the path of the module
    return f"{producer}, torch.onnx.export with dynamo=False" if is_torchscript else producer


def _before_annotation(node: Any) -> tuple[str, set[str]]:
    """Returns the name and the metadata keys that the node had before it was annotated."""
    keys = {each.key: each.value for each in node.metadata_props}
    kept = set(keys.get("pkg.whence.kept", "").split(",")) if "pkg.whence.version" in keys else set(keys)
    return keys.get("pkg.whence.original_name", node.name), kept


def _arguments(first: FirstDifference, nodes: list[Node], program: RecordedProgram | None) -> str:
    """Returns the arguments of the operation; an empty string if several operations of the call have its name."""
    if program is None:
        return ""
    numbers = [number for number, target in enumerate(program.targets)
               if target == first.operation and program.calls[number] == (first.module, first.call)]
    own = {number for node in nodes for number in node.operations}
    texts = {program.arguments[number] for number in [each for each in numbers if each in own] or numbers}
    return texts.pop() if len(texts) == 1 else ""


def _issue(onnx: Any, file: File, first: FirstDifference, nodes: list[Node], said: str,
           program: RecordedProgram | None) -> str:
    return "\n".join(_issue_lines(onnx, file, first, nodes, said, program)) + "\n"


def _issue_lines(onnx: Any, file: File, first: FirstDifference, nodes: list[Node], said: str,
                 program: RecordedProgram | None) -> Iterator[str]:
    runtime = import_optional("onnxruntime", "running a file")
    operation = first.operation or ", ".join(dict.fromkeys(node.op_type for node in nodes))
    yield f"# {operation}: the ONNX file " + ("does not run" if first.failure else "computes another result than PyTorch")
    yield ""
    yield "```sh"
    yield f"pip install numpy onnxruntime=={runtime.__version__}"
    yield "python reproduce.py"
    yield "```"
    yield ""
    yield f"It prints `{said}`."
    yield ""
    yield "`piece.onnx` has the nodes of one operation of a model; `inputs.npz` are their inputs in the model" + (
        "." if first.failure else ", `expected.npz` PyTorch's result.")
    yield ""
    rows = (("operation", first.operation), ("arguments", _arguments(first, nodes, program)),
            ("module", first.module or "(root)"), ("source line", first.source),
            ("nodes", ", ".join(f"{node.op_type} {node.name}".strip() for node in nodes)),
            ("exported by", _exporter(file)),
            ("opset", ", ".join(f"{each.domain or 'ai.onnx'} {each.version}" for each in file.model.opset_import)),
            ("versions", f"onnxruntime {runtime.__version__}, onnx {onnx.__version__}, torch {torch.__version__}"))
    yield "| | |"
    yield "|---|---|"
    for name, text in rows:
        if text:
            yield f"| {name} | {text} |"
