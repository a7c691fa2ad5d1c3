"""Model inputs with other values than the recorded ones, archives of models, and a comparison of results within the
precision of two runtimes."""

import warnings

import numpy as np
import torch

from models import zoo


def other_values(inputs: dict) -> dict:
    """Returns inputs of equal sizes with other values; masks stay, and image points (input_points) swap coordinates."""
    generator = torch.Generator().manual_seed(5)
    changed = {}
    for name, tensor in inputs.items():
        if name.endswith("mask"):
            changed[name] = tensor
        elif tensor.is_floating_point() and name != "input_points":
            changed[name] = torch.randn(tensor.shape, generator=generator)
        else:
            changed[name] = tensor.flip(-1)
    return changed


def saved(entry: zoo.Entry, form: str, folder) -> list:
    """Saves the archive model.pt or model.pt2 of a model; returns its path and the options that its export needs."""
    model, example = entry.model(), entry.inputs(entry.first)
    archive = folder / f"model.{form}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if form == "pt2":
            torch.export.save(torch.export.export(model, (), dict(example), strict=False), archive)
            return [archive]
        zoo.trace_module(model, example).save(str(archive))
    torch.save(example, folder / "inputs.pt")
    return [archive, "--inputs", folder / "inputs.pt"]


def is_near(ours: np.ndarray, theirs: torch.Tensor) -> bool:
    """Compares results of complete models, in which a result near 0 is the difference of large numbers."""
    if ours.dtype != theirs.numpy().dtype or ours.shape != tuple(theirs.shape):
        return False
    scale = max(1.0, float(theirs.abs().max())) if theirs.numel() and theirs.is_floating_point() else 1.0
    return bool(np.allclose(ours, theirs.numpy(), rtol=1e-3, atol=2e-4 * scale, equal_nan=True))
