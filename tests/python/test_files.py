"""The package does not replace other programs' files, and a failure leaves all files unchanged."""

import hashlib
import os

import numpy as np
import onnxruntime
import pytest
import torch
import whence


class Net(torch.nn.Module):
    def __init__(self, seed: int):
        super().__init__()
        torch.manual_seed(seed)
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.linear(x)


def net(seed: int) -> Net:
    return Net(seed).eval()


X = torch.ones(2, 64)


def files(folder) -> dict:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def assert_computes(path, model):
    x = torch.linspace(-1, 1, 128).reshape(2, 64)  # not the example inputs
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(output, model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["native", "native-export", "torch-dynamo", "torch-torchscript"])
def test_model_does_not_replace_a_sidecar(backend, tmp_path):
    (tmp_path / "m.whence.json").write_text("before")
    before = files(tmp_path)
    refused = "E0101.*m.whence.json.*model.onnx"
    with pytest.raises(whence.WhenceError, match=refused):
        whence.export(net(1), (X,), tmp_path / "m.whence.json", backend, sidecar=tmp_path / "s.whence.json")
    assert files(tmp_path) == before
    program = whence.export(net(1), (X,), backend=backend)
    for data in (False, True):
        with pytest.raises(whence.WhenceError, match=refused):
            program.save(tmp_path / "m.whence.json", external_data=data)
    assert files(tmp_path) == before


@pytest.mark.parametrize("backend", ["native", "native-export", "torch-dynamo"])
def test_weights_of_another_program_are_kept(backend, tmp_path):
    (tmp_path / "m.onnx.data").write_text("somebody's")
    (tmp_path / "m.onnx").write_text("before")
    before = files(tmp_path)
    with pytest.raises(whence.WhenceError) as refused:
        whence.export(net(1), (X,), tmp_path / "m.onnx", backend, external_data=True)
    assert refused.value.code == "E0401" and "overwrite=True" in refused.value.remedy
    after = files(tmp_path)
    after.pop("m.whence.json", None)  # whence records PyTorch's exporters while they run
    assert after == before
    whence.export(net(1), (X,), tmp_path / "m.onnx", backend, external_data=True, overwrite=True)
    assert_computes(tmp_path / "m.onnx", net(1))


def test_weights_read_by_a_copy_are_not_replaced(tmp_path):
    """An annotated copy in the same folder reads the first export's weights, which a second export must not change."""
    whence.export(net(1), (X,), tmp_path / "m.onnx", external_data=True)
    whence.annotate(tmp_path / "m.onnx", output=tmp_path / "copy.onnx")
    whence.export(net(1), (X,), tmp_path / "m.onnx", external_data=True)  # the same bytes
    with pytest.raises(whence.WhenceError, match="E0401"):
        whence.export(net(2), (X,), tmp_path / "m.onnx", external_data=True)
    for name in ("m.onnx", "copy.onnx"):
        assert_computes(tmp_path / name, net(1))


def test_save_keeps_weights_of_another_program(tmp_path):
    program = whence.export(net(1), (X,), external_data=True)
    (tmp_path / "s.onnx.data").write_text("somebody's")
    with pytest.raises(whence.WhenceError, match="E0401"):
        program.save(tmp_path / "s.onnx")
    assert os.listdir(tmp_path) == ["s.onnx.data"] and (tmp_path / "s.onnx.data").read_text() == "somebody's"
    program.save(tmp_path / "s.onnx", overwrite=True)
    program.save(tmp_path / "s.onnx")  # the same bytes
    assert_computes(tmp_path / "s.onnx", net(1))
    saved = whence.export(net(1), (X,), tmp_path / "k.onnx", external_data=True)
    with pytest.raises(whence.WhenceError, match="weights"):
        saved.save(tmp_path / "k.onnx.data")
    assert_computes(tmp_path / "k.onnx", net(1))


@pytest.mark.parametrize("backend", ["native", "torch-dynamo"])
def test_model_and_sidecar_must_be_different_files(backend, tmp_path):
    (tmp_path / "m.onnx").write_text("before")
    with pytest.raises(whence.WhenceError, match="would be one file"):
        whence.export(net(1), (X,), tmp_path / "m.onnx", backend, sidecar=tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_text() == "before"


def test_annotate_and_html_in_another_folder(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        whence.export(net(seed), (X,), tmp_path / name / "model.onnx", external_data=True)
    (tmp_path / "out").mkdir()
    for name in "ab":
        whence.annotate(tmp_path / name / "model.onnx", output=tmp_path / "out" / f"{name}.onnx")
    for name, seed in (("a", 1), ("b", 2)):
        assert_computes(tmp_path / "out" / f"{name}.onnx", net(seed))
    report = whence.validate(tmp_path / "out" / "a.onnx")
    [weights] = (tmp_path / "out").glob("a.onnx*data")
    for path in (tmp_path / "out" / "a.onnx", weights):
        with pytest.raises(whence.WhenceError, match="would replace a file that is read"):
            report.to_html(path)
    assert_computes(tmp_path / "out" / "a.onnx", net(1))


# ---- sidecars with a derived name ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["native", "native-export", "torch-dynamo", "torch-torchscript"])
def test_derived_sidecar_path_replaces_only_sidecars(backend, tmp_path):
    sidecar = tmp_path / "m.whence.json"
    sidecar.write_text('{"hyper": "parameters, not \\"format\\": \\"whence-sidecar\\""}')
    before = files(tmp_path)
    with pytest.raises(whence.WhenceError) as refused:
        whence.export(net(1), (X,), tmp_path / "m.onnx", backend)
    assert refused.value.code == "E0401" and "sidecar=" in refused.value.remedy and "overwrite=True" in refused.value.remedy
    assert files(tmp_path) == before
    whence.export(net(1), (X,), tmp_path / "m.onnx", backend, sidecar=tmp_path / "other.json")
    assert files(tmp_path)[sidecar.name] == before[sidecar.name]
    for overwrite in True, False:  # the second time, the existing file is a sidecar
        program = whence.export(net(1), (X,), tmp_path / "m.onnx", backend, overwrite=overwrite)
        assert program.sidecar == sidecar and b'"whence-sidecar"' in sidecar.read_bytes()[:60]


@pytest.mark.parametrize("to", ["mine.txt", "older.whence.json", "nothing"])
def test_derived_sidecar_path_does_not_follow_links(to, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    whence.export(net(1), (X,), tmp_path / "older.onnx")
    (tmp_path / "m.whence.json").symlink_to(to)
    names, before = sorted(os.listdir(tmp_path)), (tmp_path / "mine.txt").read_text()
    with pytest.raises(whence.WhenceError) as refused:
        whence.export(net(2), (X,), tmp_path / "m.onnx", overwrite=True)
    assert refused.value.code == "E0401" and "overwrite" not in refused.value.remedy
    assert sorted(os.listdir(tmp_path)) == names and (tmp_path / "mine.txt").read_text() == before
    if to != "nothing":
        whence.export(net(2), (X,), tmp_path / "m.onnx", sidecar=tmp_path / "m.whence.json")  # explicit path


def test_numbered_sidecars_replace_only_sidecars(tmp_path):
    (tmp_path / "m.2.whence.json").write_text("mine")
    with pytest.raises(whence.WhenceError) as refused, whence.record(tmp_path / "m.whence.json"):
        torch.export.export(net(1), (X,))
        torch.export.export(net(2), (X,))
    assert refused.value.code == "E0401" and (tmp_path / "m.2.whence.json").read_text() == "mine"
