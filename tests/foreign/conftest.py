"""Exports an archive that needs no LibTorch, because these tests also run with a command without the recorder."""

import pytest

import command


@pytest.fixture(scope="session")
def small_export(tmp_path_factory):
    """Returns (ONNX file, sidecar) of a model of four layers."""
    folder = tmp_path_factory.mktemp("small_export")
    model, sidecar = folder / "small.onnx", folder / "small.whence.json"
    archive = command.ROOT / "tests" / "torch_versions" / "fixtures" / "2.13.0" / "static.pt2"
    command.run("export", archive, "-o", model, "--sidecar-out", sidecar)
    return model, sidecar
