"""whence.record(path, values=...) records a model's values during a trace; they are compared with PyTorch's hooks."""

import json
import os
import re

import pytest
import torch
from torch import nn

import whence
from numbers_models import results_of_hooks
from whence.values import value_file


class Mixer(nn.Module):
    """Uses keyword arguments, a nested result, dropout, a module called twice, and a module that is not a child."""

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix, self.drop = nn.Linear(6, 6), nn.Dropout(0.5)

        def forward(self, x, *, scale):
            y = self.drop(torch.tanh(self.mix(x)) * scale)
            return {"mixed": y, "pair": (y + x, [scale])}

    def __init__(self, seed=4):
        super().__init__()
        torch.manual_seed(seed)
        self.part, self.scale, self.out = Mixer.Part(), nn.Linear(6, 6), nn.Linear(6, 3)
        self.unregistered = [nn.Linear(6, 6).requires_grad_(False)]

    def forward(self, x):
        for _ in range(2):
            x = self.part(x, scale=self.scale(self.unregistered[0](x)))["pair"][0]
        return self.out(x)


def inputs(seed=0, count=5):
    return (torch.randn(count, 6, generator=torch.Generator().manual_seed(seed)),)


def assert_results_equal(values, run, model, args):
    """Asserts that every recorded result of the run equals the result that a hook received."""
    expected = {key: leaves(results) for key, results in results_of_hooks(model, args).items()}
    assert {(call.module, call.call) for call in run.calls} == set(expected)
    for call in run.calls:
        assert len(call.results) == len(expected[call.module, call.call])
        for recorded, tensor in zip(call.results, expected[call.module, call.call], strict=True):
            assert torch.equal(values.whole(recorded), tensor), call.name


def leaves(value):
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


# Unless check_trace is False, tracing runs the model two more times.
CAPTURES = {"trace": lambda model, path: torch.jit.trace(model, inputs()),
            "unchecked": lambda model, path: torch.jit.trace(model, inputs(), check_trace=False),
            "onnx": lambda model, path: torch.onnx.export(model, inputs(), str(path), dynamo=False)}


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_trace_records_the_results_of_hooks(capture, tmp_path):
    model, path = Mixer().eval(), tmp_path / "m.values.safetensors"
    with whence.record(tmp_path / "m.whence.json", path) as recording:
        CAPTURES[capture](model, tmp_path / "m.onnx")
    assert recording.values == [path] and recording.complete
    values = value_file.read(path)
    assert len(values.runs) == 1 and torch.equal(values.whole(values.runs[0].inputs["x"]), inputs()[0])
    assert_results_equal(values, values.runs[0], model, inputs())
    part = next(call for call in values.runs[0].calls if (call.module, call.call) == ("part", 1))
    scale = next(call for call in values.runs[0].calls if (call.module, call.call) == ("scale", 1))
    assert part.given[1] == scale.results[0]  # a keyword argument


class Sized(nn.Module):
    """Returns sizes, as image embeddings do."""

    class Patches(nn.Module):
        def forward(self, x):
            return x * 2, (x.shape[0], x.shape[1])

    def __init__(self):
        super().__init__()
        self.patches = Sized.Patches()

    def forward(self, x):
        y, (height, width) = self.patches(x)
        return y.reshape(height * width)


def test_sizes_are_not_recorded_as_tensors(tmp_path):
    """Sizes are tensors during a trace."""
    with whence.record(tmp_path / "m.whence.json", tmp_path / "m.values.safetensors"):
        torch.jit.trace(Sized(), inputs())
    traced, plain = value_file.read(tmp_path / "m.values.safetensors"), whence.record_values(Sized(), inputs())
    assert traced.runs == plain.runs and len(plain.runs[0].calls[0].results) == 1


@pytest.mark.parametrize("capture", CAPTURES)
def test_recording_values_does_not_change_the_sidecar_or_the_trace(capture, tmp_path):
    texts, graphs = [], []
    for name, options in [("plain", {}), ("values", {"values": tmp_path / "m.values.safetensors", "full": ["part"]})]:
        with whence.record(tmp_path / f"{name}.whence.json", **options):
            captured = CAPTURES[capture](Mixer().eval(), tmp_path / "m.onnx")
        texts.append((tmp_path / f"{name}.whence.json").read_text())
        graphs.append((tmp_path / "m.onnx").read_bytes() if capture == "onnx"
                      else re.sub(r"___torch_mangle_\d+\.", "", str(captured.inlined_graph)))
    assert texts[0] == texts[1] and '"aten::tanh"' in texts[0]
    assert graphs[0] == graphs[1]


def test_accuracy_reads_the_recorded_files(tmp_path):
    path, record, values = tmp_path / "m.onnx", tmp_path / "m.whence.json", tmp_path / "m.values.safetensors"
    model = Mixer().eval()
    with whence.record(record, values):
        torch.onnx.export(model, inputs(), str(path), dynamo=False, input_names=["x"])
    whence.annotate(path, record)
    report = whence.accuracy(path, values, sidecar=record)
    assert report.first is None and report.observable > 5
    with torch.no_grad():
        model.scale.bias += 1.0
    torch.onnx.export(model, inputs(), str(path), dynamo=False, input_names=["x"])
    whence.annotate(path, record)
    assert whence.accuracy(path, values, sidecar=record).first.module == "scale"


def test_later_calls_of_the_model_are_further_runs(tmp_path):
    """Ignores calls before the trace, calls with inputs that are already recorded, and calls of other models."""
    model, other, path = Mixer().eval(), Mixer(9).eval(), tmp_path / "m.values.safetensors"
    with whence.record(tmp_path / "m.whence.json", path), torch.no_grad():
        model(*inputs(1))
        torch.jit.trace(model, inputs())
        model(x=inputs(2, 3)[0])
        model(*inputs())
        other(*inputs(2, 3))
        model.part(inputs(2)[0], scale=torch.ones(()))
    values = value_file.read(path)
    assert [run.inputs["x"].dims for run in values.runs] == [(5, 6), (3, 6)]
    assert_results_equal(values, values.runs[0], model, inputs())
    assert_results_equal(values, values.runs[1], model, inputs(2, 3))


def test_each_model_gets_its_own_file(tmp_path):
    first, second = Mixer(1).eval(), nn.Sequential(nn.Linear(6, 2), nn.ReLU()).eval()
    with whence.record(tmp_path / "m.whence.json", tmp_path / "m.values.safetensors") as recording:
        torch.jit.trace(first, inputs())
        torch.jit.trace(second, inputs())
        torch.export.export(Mixer(2).eval(), inputs(3))
    assert [path.name for path in recording.values] == [
        "m.values.safetensors", "m.2.values.safetensors", "m.3.values.safetensors"]
    assert len(recording.files) == 3
    values = [value_file.read(path) for path in recording.values]
    assert_results_equal(values[0], values[0].runs[0], first, inputs())
    assert_results_equal(values[1], values[1].runs[0], second, inputs())
    # In its program, torch.export decides which results a module has.
    head = next(call for call in values[2].runs[0].calls if call.module == "out")
    with torch.no_grad():
        torch.testing.assert_close(values[2].whole(head.results[0]), Mixer(2).eval()(*inputs(3)))


@pytest.mark.parametrize("strict", [True, False])
def test_recording_does_not_affect_torch_export(strict, tmp_path):
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh()).eval()
    with whence.record(tmp_path / "m.whence.json", tmp_path / "m.values.safetensors") as recording:
        torch.jit.trace(model, inputs())
        torch.export.export(model, inputs(1), strict=strict)
    assert [len(value_file.read(path).runs) for path in recording.values] == [1, 1]


def test_modules_recorded_in_full_have_no_sketches(tmp_path):
    big = (torch.randn(500, 6),)
    with whence.record(tmp_path / "m.whence.json", tmp_path / "m.values.safetensors", full=["part.mix"]):
        torch.jit.trace(Mixer().eval(), big)
    forms = {call.module: call.results[0].form
             for call in value_file.read(tmp_path / "m.values.safetensors").runs[0].calls}
    assert forms["part.mix"] == "whole" and forms["part.drop"] == forms["scale"] == "sketch"


# ---- bad input ----------------------------------------------------------------------------------------------------


def assert_fails(tmp_path, code, model=None, **options):
    """Asserts that the block fails with the code and that no file changes."""
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(whence.WhenceError) as raised:
        with whence.record(tmp_path / "m.whence.json", **options):
            torch.jit.trace(model or Mixer().eval(), inputs())
    assert raised.value.code == code and raised.value.remedy
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_invalid_requests_are_refused_before_writing(tmp_path):
    values = tmp_path / "m.values.safetensors"
    values.write_bytes(b"old")
    (tmp_path / "m.whence.json").write_text('{"format": "whence-sidecar", "old": true}')
    assert_fails(tmp_path, "E0101", values=values, full=["nothing.*"])
    assert_fails(tmp_path, "E0101", values=values, full="part")
    assert_fails(tmp_path, "E0101", full=["part"])
    assert_fails(tmp_path, "E0101", values=tmp_path / "m.whence.json")
    assert_fails(tmp_path, "E0101", values=3)
    assert_fails(tmp_path, "E0401", values=tmp_path / "none" / "m.values.safetensors")
    assert_fails(tmp_path, "E0401", values=tmp_path)


def test_a_glob_that_matches_no_module_is_refused(tmp_path):
    with pytest.raises(whence.WhenceError) as raised:
        with whence.record(tmp_path / "m.whence.json", tmp_path / "m.values.safetensors", full=["part"]):
            torch.export.export(nn.Sequential(nn.Linear(6, 2)).eval(), inputs())
    assert raised.value.code == "E0101" and os.listdir(tmp_path) == []


def test_recording_values_of_a_function_is_refused(tmp_path):
    with pytest.raises(whence.WhenceError) as raised:
        with whence.record(tmp_path / "m.whence.json", tmp_path / "m.values.safetensors"):
            torch.jit.trace(torch.tanh, inputs())
    assert raised.value.code == "E0106" and not (tmp_path / "m.values.safetensors").exists()


def test_a_block_that_raises_writes_no_values_and_restores_modules(tmp_path):
    original = nn.Module._call_impl
    with pytest.raises(ValueError, match="mine"):
        with whence.record(tmp_path / "m.whence.json", tmp_path / "m.values.safetensors"):
            assert nn.Module._call_impl is not original
            torch.jit.trace(Mixer().eval(), inputs())
            raise ValueError("mine")
    assert nn.Module._call_impl is original and os.listdir(tmp_path) == ["m.whence.json"]
    assert json.loads((tmp_path / "m.whence.json").read_text())["format"] == "whence-sidecar"


def test_a_failed_call_is_not_a_run(tmp_path):
    model, path = Mixer().eval(), tmp_path / "m.values.safetensors"
    with whence.record(tmp_path / "m.whence.json", path):
        torch.jit.trace(model, inputs())
        with pytest.raises(RuntimeError):
            model(torch.randn(2, 5))
        model(*inputs(1))
    values = value_file.read(path)
    assert len(values.runs) == 2
    assert_results_equal(values, values.runs[1], model, inputs(1))


def test_a_numbered_file_does_not_overwrite_other_files(tmp_path):
    occupied = tmp_path / "m.2.values.safetensors"
    occupied.write_bytes(b"mine")
    with pytest.raises(whence.WhenceError) as raised:
        with whence.record(tmp_path / "m.whence.json", tmp_path / "m.values.safetensors"):
            torch.jit.trace(Mixer().eval(), inputs())
            torch.jit.trace(nn.Sequential(nn.Linear(6, 2)).eval(), inputs())
    assert raised.value.code == "E0401" and occupied.read_bytes() == b"mine"
    assert not (tmp_path / "m.values.safetensors").exists()
