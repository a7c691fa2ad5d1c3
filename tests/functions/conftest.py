"""Exports of zoo models with module metadata: from whence with all keys, from PyTorch's dynamo exporter with
PyTorch's keys."""

import functools

import pytest
import torch

import command
from models import zoo


class Exports:
    """Returns the exported file of a model of the zoo. Exports each model once."""

    def __init__(self, exporter: str, factory):
        self.exporter, self.factory, self.files = exporter, factory, {}

    def __call__(self, name: str):
        if name not in self.files:
            self.files[name] = self.export(name)
        return self.files[name]

    def export(self, name: str):
        folder = self.factory.mktemp(f"{name}_{self.exporter}")
        program, path = self.program(name), folder / f"{name}.onnx"
        if self.exporter == "whence":
            torch.export.save(program, folder / f"{name}.pt2")
            command.run("export", folder / f"{name}.pt2", "-o", path, "--annotate")
        else:
            torch.onnx.export(program, dynamo=True, f=path, opset_version=18, verbose=False, external_data=False)
        return path

    @staticmethod
    @functools.cache
    def program(name: str) -> torch.export.ExportedProgram:
        """Returns the program that both exporters use."""
        entry = zoo.MODELS[name]
        return torch.export.export(Exports.model(name), (), dict(entry.inputs(entry.first)), strict=False)

    @staticmethod
    def model(name: str):
        """Returns the model. Its weights equal the exported weights, because zoo models have a fixed seed."""
        model = zoo.MODELS[name].model().eval()
        if hasattr(model, "config"):
            model.config.return_dict = False
        return model


@pytest.fixture(scope="module", params=["whence", "dynamo"])
def exported(request, tmp_path_factory):
    return Exports(request.param, tmp_path_factory)
