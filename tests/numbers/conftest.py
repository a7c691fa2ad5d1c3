"""Fixtures for this folder: a small encoder, its export and its recorded values."""

import os
import sys
import warnings

import pytest
import torch

import command

sys.path.insert(0, str(command.ROOT / "python"))
os.environ.setdefault("WHENCE", str(command.BINARY))

from numbers_models import Encoder, example  # noqa: E402


@pytest.fixture(autouse=True)
def ignore_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """Returns the folder of encoder.onnx, encoder.whence.json and encoder.values.safetensors."""
    import whence

    folder = tmp_path_factory.mktemp("encoder")
    model = Encoder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whence.export(model, example(), folder / "encoder.onnx", dynamic_axes={"ids": {0: "batch", 1: "seq"}})
    whence.record_values(model, example(), folder / "encoder.values.safetensors")
    return folder


@pytest.fixture(scope="session")
def export_changed(tmp_path_factory):
    """Returns a function that exports the encoder after a change. A named change is exported only once."""
    import whence

    files = {}

    def export(change, name=None):
        if name in files:
            return files[name]
        model = Encoder()
        with torch.no_grad():
            change(model)
        path = tmp_path_factory.mktemp("changed") / "changed.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whence.export(model, example(), path, dynamic_axes={"ids": {0: "batch", 1: "seq"}})
        if name is not None:
            files[name] = path
        return path
    return export


@pytest.fixture
def run_main(capfd, monkeypatch):
    """Runs a Python subcommand in this process or a fork of it, because PyTorch takes seconds to start, and checks the exit
    code. Returns standard output and standard error as text."""
    from whence.__main__ import main

    def run(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["whence", *map(str, arguments)])
        exit_code = main()
        output = capfd.readouterr()
        assert exit_code == code, f"exit {exit_code}, not {code}\n{output.out[-2000:]}\n{output.err[-4000:]}"
        return output
    return run
