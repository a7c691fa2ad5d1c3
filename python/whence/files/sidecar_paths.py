"""Files beside a model that say where its nodes come from."""

from __future__ import annotations

from pathlib import Path

# Names under which weights are published, the first that is there.
_WEIGHTS = ("model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json", "pytorch_model.bin")


def sidecar_beside(model: Path) -> Path | None:
    """``bert.whence.json`` of ``bert.onnx``."""
    record = model.with_suffix(".whence.json")
    return record if record.is_file() else None


def weights_beside(model: Path) -> Path | None:
    """The weights as they were published: ``bert.safetensors`` of ``bert.onnx``, else the usual names in its folder, or
    around it where the folder is called ``onnx``."""
    folders = [model.parent, *([model.parent.parent] if model.parent.name == "onnx" else [])]
    candidates = [model.with_suffix(".safetensors"), *(folder / name for folder in folders for name in _WEIGHTS)]
    return next((each for each in candidates if each.is_file()), None)
