"""Finds the sidecar and the weights next to a model, from which whence determines the origins of its nodes."""

from __future__ import annotations

from pathlib import Path

# Common names of published weights, in order of preference.
_WEIGHTS = ("model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json", "pytorch_model.bin")


def sidecar_beside(model: Path) -> Path | None:
    """Returns ``bert.whence.json`` for ``bert.onnx``, if it exists."""
    sidecar = model.with_suffix(".whence.json")
    return sidecar if sidecar.is_file() else None


def weights_beside(model: Path) -> Path | None:
    """Returns the published weights: ``bert.safetensors`` for ``bert.onnx``, or else a common name in its folder, or in
    the parent folder if its folder is called ``onnx``."""
    folders = [model.parent, *([model.parent.parent] if model.parent.name == "onnx" else [])]
    candidates = [model.with_suffix(".safetensors"), *(folder / name for folder in folders for name in _WEIGHTS)]
    return next((path for path in candidates if path.is_file()), None)
