"""Changes the values of recorded inputs, saves model archives, and compares results within the precision of two
runtimes."""

import warnings

import numpy as np
import torch

from models import zoo


def other_values(inputs: dict) -> dict:
    """Returns different inputs of the same sizes: random floats, reversed integers and points, unchanged masks."""
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
    """Saves a model as model.pt or model.pt2; returns its path and the options for exporting it."""
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


def is_near(actual: np.ndarray, expected: torch.Tensor) -> bool:
    """Compares results of complete models, whose values near 0 are differences of large numbers."""
    if actual.dtype != expected.numpy().dtype or actual.shape != tuple(expected.shape):
        return False
    scale = max(1.0, float(expected.abs().max())) if expected.numel() and expected.is_floating_point() else 1.0
    return bool(np.allclose(actual, expected.numpy(), rtol=1e-3, atol=2e-4 * scale, equal_nan=True))
