"""Finds the files beside a model from which its nodes' origins can be read: sidecar and weights."""

from __future__ import annotations

from pathlib import Path

# Usual names of published weights, in order of preference.
_WEIGHTS = ("model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json", "pytorch_model.bin")


def sidecar_beside(model: Path) -> Path | None:
    """Returns ``bert.whence.json`` for ``bert.onnx``, if it exists."""
    sidecar = model.with_suffix(".whence.json")
    return sidecar if sidecar.is_file() else None


def weights_beside(model: Path) -> Path | None:
    """Returns the published weights: ``bert.safetensors`` for ``bert.onnx``, else a usual name in its folder, or in the
    parent folder if the folder is called ``onnx``."""
    folders = [model.parent, *([model.parent.parent] if model.parent.name == "onnx" else [])]
    candidates = [model.with_suffix(".safetensors"), *(folder / name for folder in folders for name in _WEIGHTS)]
    return next((each for each in candidates if each.is_file()), None)
