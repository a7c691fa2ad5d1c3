"""Inputs of models with other values than those that were recorded, archives of them, and results that are as near as
two runtimes can be."""

import warnings

import numpy as np
import torch

from models import zoo


def other_values(inputs: dict) -> dict:
    """Inputs of the same sizes with other values; masks stay, and places in an image (input_points) change places."""
    generator = torch.Generator().manual_seed(5)
    made = {}
    for name, tensor in inputs.items():
        if name.endswith("mask"):
            made[name] = tensor
        elif tensor.is_floating_point() and name != "input_points":
            made[name] = torch.randn(tensor.shape, generator=generator)
        else:
            made[name] = tensor.flip(-1)
    return made


def saved(entry: zoo.Entry, form: str, folder) -> list:
    """The archive model.pt or model.pt2 of a model, and the options that its export needs."""
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
    """Of whole models, where a result near 0 is the difference of large ones."""
    if ours.dtype != theirs.numpy().dtype or ours.shape != tuple(theirs.shape):
        return False
    scale = max(1.0, float(theirs.abs().max())) if theirs.numel() and theirs.is_floating_point() else 1.0
    return bool(np.allclose(ours, theirs.numpy(), rtol=1e-3, atol=2e-4 * scale, equal_nan=True))
