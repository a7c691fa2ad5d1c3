"""Provides exported files of each model, made once in each test process."""

import functools
from pathlib import Path

import pytest
import torch
import whence

import small_models as models


class Files:
    """Files of one model: checkpoint, sidecar, exports and what tools make of them."""

    def __init__(self, folder: Path, name: str, seed: int):
        self.folder, self.name = folder, name
        folder.mkdir()
        self.model = models.model_of(name, seed)
        self.weights = models.save_weights(self.model, folder / "model.safetensors")
        self.sidecar = folder / "model.whence.json"

    @functools.cache
    def export(self, exporter: str) -> Path:
        return models.export(self.model, self.name, exporter, self.folder / f"{exporter}.onnx")

    @functools.cache
    def tool(self, exporter: str, tool: str) -> Path:
        target = self.folder / f"{exporter}.{tool}.onnx"
        source = self.export(exporter)
        models.TOOLS[tool](source, target, models.calibration(source, self.name))
        return target

    @functools.cache
    def values(self) -> Path:
        """Records two runs, on other inputs than those of the export and the calibration."""
        target = self.folder / "model.values.safetensors"
        whence.record_values(self.model, models.inputs_of(self.name, 2), target, more=[models.inputs_of(self.name, 3)],
                             operations=True)
        return target

    def record(self) -> None:
        with whence.record(self.sidecar):
            torch.export.export(self.model, models.inputs_of(self.name))


@pytest.fixture(scope="session")
def files_of(tmp_path_factory):
    root = tmp_path_factory.mktemp("derivation")

    @functools.cache
    def make(name: str, seed: int = 0) -> Files:
        files = Files(root / f"{name}_{seed}", name, seed)
        if seed == 0:
            files.record()
        return files

    return make
