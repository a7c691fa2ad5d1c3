"""Commands that use values never overwrite their input files, and refuse impossible requests."""

import json

import numpy
import onnx
import pytest
import torch

import command
import whence
from numbers_models import Encoder, example


@pytest.fixture
def folder(encoder, tmp_path):
    """Returns a folder with copies of all inputs."""
    for name in ("encoder.onnx", "encoder.whence.json", "encoder.values.safetensors"):
        (tmp_path / name).write_bytes((encoder / name).read_bytes())
    model = Encoder()
    torch.jit.save(torch.jit.trace(model, example()), tmp_path / "model.pt")
    numpy.savez(tmp_path / "inputs.npz", ids=example()[0].numpy())
    numpy.savez(tmp_path / "dump.npz", **{onnx.load(tmp_path / "encoder.onnx").graph.output[0].name: numpy.zeros((3, 24, 5))})
    return tmp_path


NAMES = {"model.pt", "inputs.npz", "encoder.onnx", "encoder.whence.json", "encoder.values.safetensors", "dump.npz", "link", "out",
         "page", "v", "w", "empty.npz", "others.npz", "folder", "deep.json"}


def resolve_paths(folder, arguments):
    return [folder / argument if argument in NAMES else argument for argument in arguments]


ACCURACY = ["accuracy", "encoder.onnx", "--values", "encoder.values.safetensors"]
SENSITIVITY = ["sensitivity", "encoder.onnx", "--inputs", "inputs.npz", "--no-time"]


@pytest.mark.parametrize("arguments", [
    ["record", "model.pt", "--inputs", "inputs.npz", "--values", "model.pt"],
    ["record", "model.pt", "--inputs", "inputs.npz", "--values", "inputs.npz"],
    ["record", "model.pt", "--inputs", "inputs.npz", "--values", "out", "-o", "out"],
    [*ACCURACY, "--html", "encoder.values.safetensors"],
    [*ACCURACY, "--sidecar", "encoder.whence.json", "--html", "encoder.whence.json"],
    [*ACCURACY, "--outputs", "dump.npz", "--html", "dump.npz"],
    [*ACCURACY, "--model", "model.pt", "--model-explorer", "model.pt"],
    [*ACCURACY, "--html", "page", "--model-explorer", "page"],
    [*ACCURACY, "--html", "link"],
    [*SENSITIVITY, "--html", "inputs.npz"],
    [*SENSITIVITY, "--budget", "error=1", "--exclude-list", "encoder.onnx"],
], ids=lambda arguments: " ".join(arguments[-2:]))
def test_input_files_are_not_overwritten(folder, run_main, arguments):
    (folder / "link").symlink_to(folder / "encoder.values.safetensors")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    error = run_main(*resolve_paths(folder, arguments), code=2).err
    assert error.startswith("E0101") and "; try: " in error
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(("arguments", "code"), [
    (["--max-error", "1e-9@nothing.*"], 2), (["--max-error", "1e-9@[a"], 2), (["--outputs", "empty.npz"], 2),
    (["--outputs", "others.npz"], 2), (["--outputs", "folder"], 2), (["--outputs", "deep.json"], 3), (["--outputs", ""], 2),
    (["--html", ""], 2), (["--outputs", "dump.npz", "--runtime", "reference"], 2),
    (["--runtime", "reference", "--provider", "CPUExecutionProvider"], 2), (["--runtime", "openvino", "--optimised"], 2),
    (["--memory", "²"], 2), (["--tolerance", "nan"], 2),
])
def test_impossible_requests_are_refused(folder, run_main, arguments, code):
    numpy.savez(folder / "empty.npz")
    numpy.savez(folder / "others.npz", nothing=numpy.zeros(3))
    (folder / "folder").mkdir()
    (folder / "deep.json").write_text("[" * 100000)
    error = run_main(*resolve_paths(folder, [*ACCURACY, *arguments]), code=code).err
    assert error.startswith("E0") and "; try: " in error


@pytest.mark.parametrize(("arguments", "code"), [
    (["--full", "nothing.*", "--values", "v"], 2), (["--full", "[a", "--values", "v"], 2), (["--values", "folder"], 5),
    (["--values", ""], 5),
])
def test_impossible_recordings_are_refused(folder, run_main, arguments, code):
    (folder / "folder").mkdir()
    text = run_main(*resolve_paths(folder, ["record", "model.pt", "--inputs", "inputs.npz", *arguments]), code=code).err
    assert text.startswith("E0") and "; try: " in text
    assert not (folder / "v").exists()


@pytest.mark.parametrize("call", [
    lambda path, values: whence.accuracy(path, values, memory="2G"), lambda path, values: whence.accuracy(path, values, memory=0),
    lambda path, values: whence.accuracy(path, values, tolerance="x"), lambda path, values: whence.accuracy(path, values, tolerance=-1),
    lambda path, values: whence.accuracy(path, values, tolerance=float("nan")),
    lambda path, values: whence.accuracy(path, values, max_error=[1e-3]), lambda path, values: whence.accuracy(3, values),
    lambda path, values: whence.accuracy(path, None), lambda path, values: whence.record_values("text"),
    lambda path, values: whence.record_values(Encoder(), example(), full=[3]), lambda path, values: whence.record_values(Encoder(), example(), 3),
], ids=range(11))
def test_arguments_of_a_wrong_type_are_refused(encoder, call):
    with pytest.raises(whence.WhenceError) as raised:
        call(encoder / "encoder.onnx", encoder / "encoder.values.safetensors")
    assert raised.value.code == "E0101" and raised.value.remedy


def test_a_flipped_bit_in_the_values_is_detected(folder):
    path = folder / "encoder.values.safetensors"
    content = bytearray(path.read_bytes())
    content[-1000] ^= 0x40
    path.write_bytes(content)
    with pytest.raises(whence.WhenceError) as raised:
        whence.accuracy(folder / "encoder.onnx", path)
    assert raised.value.code == "E0204" and "checksum" in str(raised.value)


def test_metadata_that_is_not_text_is_refused(folder):
    path = folder / "encoder.onnx"
    path.write_bytes(path.read_bytes().replace(b"pkg.whence.module", b"pkg.whence.m\xffdule"))
    with pytest.raises(whence.WhenceError) as raised:
        whence.accuracy(path, folder / "encoder.values.safetensors")
    assert raised.value.code in ("E0203", "E0204")


def test_missing_external_weights_are_reported(tmp_path, encoder):
    whence.export(Encoder(), example(), tmp_path / "m.onnx", external_data=True)
    for path in tmp_path.glob("m.onnx?*"):
        path.unlink()
    with pytest.raises(whence.WhenceError) as raised:
        whence.accuracy(tmp_path / "m.onnx", encoder / "encoder.values.safetensors")
    assert raised.value.code == "E0102" and "weights" in str(raised.value)


def test_a_runtime_error_names_the_users_file(folder):
    path = folder / "encoder.onnx"
    model = onnx.load(path)
    node = next(node for node in model.graph.node if node.op_type == "Tanh")
    node.op_type = "Bogus"
    onnx.save(model, path)
    with pytest.raises(whence.WhenceError) as raised:
        whence.accuracy(path, folder / "encoder.values.safetensors", runtime="openvino")
    assert raised.value.code == "E0207" and "more_outputs" not in str(raised.value) and str(path) in str(raised.value)


def test_an_archive_of_transformers_is_recorded_in_a_fresh_process(tmp_path):
    """PyTorch can unpickle the class of its result only after importing the transformers module."""
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                 intermediate_size=32)).eval()
    program = torch.export.export(model, (), {"input_ids": torch.randint(0, 50, (1, 6))}, strict=False)
    torch.export.save(program, tmp_path / "m.pt2")
    report = json.loads(command.run("record", tmp_path / "m.pt2", "--values", tmp_path / "v.safetensors", "--json").stdout)
    assert report["calls"][0] > 10
    numpy.savez(tmp_path / "wrong.npz", other=numpy.zeros(3))
    result = command.run("record", tmp_path / "m.pt2", "--inputs", tmp_path / "wrong.npz", "--values", tmp_path / "w", code=2)
    assert result.stderr.startswith("E0104") and "TreeSpec" not in result.stderr and "input_ids" in result.stderr


def test_a_parameter_written_by_forward_is_reported():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.count, self.constant = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.ones(1))
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x):
            self.count += 1
            self.seen += 1
            return x + self.constant

    model = Counting()
    with pytest.warns(whence.WhenceWarning, match="'count'"):
        whence.record_values(model, (torch.zeros(2),))
    assert model.seen.item() == 0 and model.constant.item() == 1
