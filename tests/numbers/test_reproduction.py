"""``whence.accuracy(..., repro=DIR)``: the bundle's script runs without whence and PyTorch, fails on the piece of the wrong
file, and passes on the right one."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import command
import whence

HEADER = "import sys; sys.modules.update(torch=None, whence=None)\n"  # imports of these fail


class Wide(nn.Module):
    """x [batch, 6, 40] -> [batch, 3]: one result is recorded as a sketch."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.stem, self.mix = nn.Conv1d(6, 32, 3, padding=1), nn.Conv1d(32, 48, 3)
        self.bucket, self.head = Bucket(), nn.Linear(48, 3)

    def forward(self, x):
        hidden = torch.relu(self.mix(torch.tanh(self.stem(x))))
        return self.head(hidden.mean(-1)), self.bucket(x)


class Bucket(nn.Module):
    def forward(self, x):
        return torch.floor(x * 3).to(torch.int64).remainder(5)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide")
    model, x = Wide().eval(), torch.randn(2, 6, 40)
    whence.export(model, (x,), folder / "m.onnx")
    whence.record_values(model, (x,), folder / "m.values.safetensors", operations=True)
    return folder


def wrong_weight(model, name="mix.weight"):
    weight = next(each for each in model.graph.initializer if each.name == name)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight)[::-1].copy(), weight.name))


def wrong_divisor(model):
    """Shifts the result of the remainder by one."""
    one = numpy_helper.from_array(np.array(1, dtype=np.int64), "one")
    node = next(node for node in model.graph.node if node.output[0] == model.graph.output[1].name)
    more = onnx.helper.make_node("Add", ["inner", "one"], [node.output[0]], name="more")
    more.metadata_props.extend(node.metadata_props)
    node.output[0] = "inner"
    model.graph.node.append(more)
    model.graph.initializer.append(one)


def unknown_operator(model):
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "NoSuchOperator"


def reproduced(wide, tmp_path, change, **options):
    model = onnx.load(wide / "m.onnx")
    change(model)
    onnx.save(model, tmp_path / "wrong.onnx", **options)
    return whence.accuracy(tmp_path / "wrong.onnx", wide / "m.values.safetensors", sidecar=wide / "m.whence.json",
                           repro=tmp_path / "bundle")


def run_script(folder):
    script = folder / "reproduce.py"
    (folder / "guarded.py").write_text(HEADER + script.read_text())
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run([sys.executable, folder / "guarded.py"], cwd="/", capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("external", [False, True])
def test_the_script_fails_on_the_wrong_piece_and_passes_on_the_right_one(wide, tmp_path, external):
    options = {"save_as_external_data": True, "size_threshold": 0, "location": "w.bin"} if external else {}
    report = reproduced(wide, tmp_path, wrong_weight, **options)
    bundle = tmp_path / "bundle"
    assert report.first.module == "mix" and str(bundle) in report.bundle
    assert sorted(path.name for path in bundle.iterdir()) == ["expected.npz", "inputs.npz", "issue.md", "piece.onnx",
                                                              "reproduce.py"]
    piece = onnx.load(bundle / "piece.onnx")
    onnx.checker.check_model(piece, full_check=True)
    assert [node.op_type for node in piece.graph.node] == ["Conv"] and not piece.graph.node[0].metadata_props
    failed = run_script(bundle)
    assert failed.returncode == 1 and "relative difference" in failed.stderr, failed.stderr
    text = (bundle / "issue.md").read_text()
    assert "aten::_convolution" in text and "| module | mix |" in text and str(tmp_path) not in text
    wrong_weight(piece)  # reverses the channels again
    onnx.save(piece, bundle / "piece.onnx")
    passed = run_script(bundle)
    assert passed.returncode == 0 and passed.stdout == "equal\n", passed.stderr


class Rolled(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.stem, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.stem(x)).roll(3, 1))


@pytest.mark.parametrize("dynamo", [False, True])
def test_the_issue_has_the_exporter_and_the_arguments(tmp_path, dynamo):
    model, x = Rolled().eval(), torch.randn(5, 6)
    torch.onnx.export(model, (x,), tmp_path / "m.onnx", dynamo=dynamo, opset_version=18, verbose=False)
    with whence.record(tmp_path / "m.whence.json"):
        torch.export.export(model, (x,))
    whence.record_values(model, (x,), tmp_path / "m.values.safetensors", operations=True)
    wrong = onnx.load(tmp_path / "m.onnx")
    concat = next(node for node in wrong.graph.node if node.op_type == "Concat")
    concat.input[:] = list(concat.input)[::-1]
    onnx.save(wrong, tmp_path / "wrong.onnx")
    whence.annotate(tmp_path / "wrong.onnx", tmp_path / "m.whence.json", output=tmp_path / "annotated.onnx")
    report = whence.accuracy(tmp_path / "annotated.onnx", tmp_path / "m.values.safetensors", sidecar=tmp_path / "m.whence.json",
                             repro=tmp_path / "bundle")
    assert report.first.operation == "aten::roll", report
    text = (tmp_path / "bundle" / "issue.md").read_text()
    assert "| arguments | shifts=[3], dims=[1] |" in text and f"dynamo={dynamo} |" in text and "changed by" not in text, text


class Cast(nn.Module):
    def forward(self, x):
        return torch.tanh(x).to(torch.int32) + 1


def test_the_piece_keeps_a_declared_type_that_is_the_fault(tmp_path):
    x = torch.randn(4, 5)
    whence.export(Cast(), (x,), tmp_path / "m.onnx")
    whence.record_values(Cast(), (x,), tmp_path / "m.values.safetensors")
    model = onnx.load(tmp_path / "m.onnx")
    cast = next(node for node in model.graph.node if node.op_type == "Cast")
    kept = [each for each in model.graph.value_info if each.name != cast.output[0]]
    del model.graph.value_info[:]
    model.graph.value_info.extend([*kept, onnx.helper.make_tensor_value_info(cast.output[0], onnx.TensorProto.INT64, [4, 5])])
    onnx.save(model, tmp_path / "wrong.onnx")
    report = whence.accuracy(tmp_path / "wrong.onnx", tmp_path / "m.values.safetensors", repro=tmp_path / "bundle")
    assert report.first.failure and (tmp_path / "bundle").exists(), report
    failed = run_script(tmp_path / "bundle")
    assert failed.returncode == 1 and "tensor(int64)" in failed.stderr, failed.stderr


def test_integers_are_compared_exactly(wide, tmp_path):
    reproduced(wide, tmp_path, wrong_divisor)
    failed = run_script(tmp_path / "bundle")
    assert failed.returncode == 1 and "of 480 elements differ" in failed.stderr, failed.stderr


def test_a_node_that_does_not_run_is_a_bundle_without_a_result(wide, tmp_path):
    report = reproduced(wide, tmp_path, unknown_operator)
    assert report.first.failure and not (tmp_path / "bundle" / "expected.npz").exists()
    failed = run_script(tmp_path / "bundle")
    assert failed.returncode == 1 and "NoSuchOperator" in failed.stderr


def test_no_bundle_is_written_for_a_right_file(wide, tmp_path):
    report = reproduced(wide, tmp_path, lambda model: None)
    assert report.first is None and "nothing differs" in report.bundle and not (tmp_path / "bundle").exists()


def test_an_existing_folder_is_kept(wide, tmp_path):
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "notes.txt").write_text("mine")
    with pytest.raises(whence.WhenceError) as raised:
        reproduced(wide, tmp_path, wrong_weight)
    assert raised.value.code == "E0101" and [path.name for path in (tmp_path / "bundle").iterdir()] == ["notes.txt"]


def test_the_command_writes_a_bundle(wide, tmp_path):
    model = onnx.load(wide / "m.onnx")
    wrong_weight(model)
    onnx.save(model, tmp_path / "wrong.onnx")
    result = command.run("accuracy", tmp_path / "wrong.onnx", "--values", wide / "m.values.safetensors",
                         "--sidecar", wide / "m.whence.json", "--repro", tmp_path / "bundle")
    assert "reproduce.py" in result.stdout and run_script(tmp_path / "bundle").returncode == 1
