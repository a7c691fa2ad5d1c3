"""Exports of zoo models that say their modules: by whence with all keys, by PyTorch's dynamo exporter with its own."""

import functools

import pytest
import torch

import command
from models import zoo


class Exports:
    """Files by name of the model, made once."""

    def __init__(self, exporter: str, factory):
        self.exporter, self.factory, self.made = exporter, factory, {}

    def __call__(self, name: str):
        if name not in self.made:
            self.made[name] = self.export(name)
        return self.made[name]

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
        """One for both exporters."""
        entry = zoo.MODELS[name]
        return torch.export.export(Exports.model(name), (), dict(entry.inputs(entry.first)), strict=False)

    @staticmethod
    def model(name: str):
        """The model, with the weights that the export has: zoo models are made from a fixed seed."""
        model = zoo.MODELS[name].model().eval()
        if hasattr(model, "config"):
            model.config.return_dict = False
        return model


@pytest.fixture(scope="module", params=["whence", "dynamo"])
def exported(request, tmp_path_factory):
    return Exports(request.param, tmp_path_factory)
