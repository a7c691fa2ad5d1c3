"""The roads from a model to a file that bugs share: PyTorch's two exporters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def dynamo(**options: Any) -> Callable:
    """Returns a writer that uses the dynamo exporter with these options."""

    def write(model: Any, inputs: tuple, path: Path) -> None:
        import torch

        program = torch.onnx.export(model, inputs, dynamo=True, verbose=False, **options)
        program.save(path, external_data=False)

    return write


def torchscript(**options: Any) -> Callable:
    """Returns a writer that uses the TorchScript exporter with these options."""

    def write(model: Any, inputs: tuple, path: Path) -> None:
        import torch

        torch.onnx.export(model, inputs, path, dynamo=False, **options)

    return write


def native(**options: Any) -> Callable:
    """Returns a writer that uses whence's own exporter, for operators that both of PyTorch's exporters get wrong."""

    def write(model: Any, inputs: tuple, path: Path) -> None:
        import subprocess
        import sys

        sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
        import whence
        from whence.command.binary import binary

        whence.export(model, inputs, path, **options)
        subprocess.run([binary(), "strip", path, "-o", path], check=True, stdout=subprocess.DEVNULL)

    return write


def optimized(writer: Callable) -> Callable:
    """Returns a writer that lets onnxscript optimise the file of another one."""

    def write(model: Any, inputs: tuple, path: Path) -> None:
        import onnx
        import onnxscript.optimizer

        writer(model, inputs, path)
        onnx.save(onnxscript.optimizer.optimize(onnx.load(path)), path)

    return write
