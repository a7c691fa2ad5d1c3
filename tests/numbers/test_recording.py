"""Compares record_values with forward hooks, and reads its file with the safetensors library."""

import json
import os

import numpy
import pytest
import safetensors
import safetensors.torch
import torch
from torch import nn

import command
import whence
from numbers_models import Encoder, save_archive, example, results_of_hooks
from whence.values import value_file
from whence.values.sketch import MAX_COMPLETE


def test_every_call_has_the_hooks_results():
    model = Encoder()
    values = whence.record_values(model, example(), full=["**"])
    hooked = results_of_hooks(Encoder(), example())
    calls = values.runs[0].calls
    assert {(call.module, call.call) for call in calls} == set(hooked)
    assert ("scale", 1) in hooked
    for call in calls:
        expected = hooked[call.module, call.call]
        assert len(call.results) == len(expected)
        for recorded, tensor in zip(call.results, expected, strict=True):
            assert torch.equal(values.whole(recorded), tensor), call.name


def test_a_glob_may_be_the_name_of_a_module():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleDict({"x[0]": nn.Linear(4, 4), "x0": nn.Linear(4, 4), "x1": nn.Linear(4, 4)})

        def forward(self, x):
            return [head(x) for head in self.heads.values()]

    x = torch.ones(2000, 4)
    values = whence.record_values(Named(), (x,), full=["heads.x[0]"])
    complete = {call.module for call in values.runs[0].calls if call.results and call.results[0].form == "whole"}
    assert {"heads.x[0]", "heads.x0"} <= complete and "heads.x1" not in complete


def test_calls_store_their_parents_and_arguments():
    calls = whence.record_values(Encoder(), example()).runs[0].calls
    by_name = {(call.module, call.call): call for call in calls}
    query = by_name["layers.1.attention.query", 0]
    assert calls[query.parent].module == "layers.1.attention"
    assert calls[calls[query.parent].parent].module == "layers.1"
    assert calls[-1].module == "" and calls[-1].parent is None
    # A result that another module reads is stored once.
    assert query.given == by_name["layers.0.second_norm", 0].results == by_name["layers.0", 0].results
    assert query.type == "torch.nn.modules.linear.Linear"
    # The model's arguments are stored under the keys of the inputs.
    assert calls[-1].given == by_name["embedding", 0].given
    assert [tensor.key for tensor in calls[-1].given] == ["0/input/ids"]


def test_an_exported_program_has_the_same_calls_and_numbers():
    program = torch.export.export(Encoder(), example())
    values = whence.record_values(program, full=["**"])
    hooked = results_of_hooks(Encoder(), example())
    calls = {(call.module, call.call): call for call in values.runs[0].calls}
    assert set(calls) == set(hooked)
    for key, tensors in hooked.items():
        single = len(tensors) == 1 and len(calls[key].results) == 1
        if single and calls[key].results[0].dims == tuple(tensors[0].shape):
            torch.testing.assert_close(values.whole(calls[key].results[0]), tensors[0])


def comparable_calls(values) -> list:
    """Returns every call with its tensors, to compare two recordings."""
    return [(call.module, call.call, call.type, call.parent, [values.whole(tensor).tolist() for tensor in call.results],
             [tensor.key for tensor in call.given]) for call in values.runs[0].calls]


def test_a_trace_has_the_same_calls_and_numbers():
    traced = torch.jit.trace(Encoder(), example(), check_trace=False)
    before = str(traced.head.graph)
    live = whence.record_values(Encoder(), example(1, 4), full=["**"])
    scripted = whence.record_values(traced, example(1, 4), full=["**"])
    assert len(live.runs[0].calls) == 28 and comparable_calls(scripted) == comparable_calls(live)
    assert str(traced.head.graph) == before


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, parts: list[torch.Tensor]) -> tuple[torch.Tensor, tuple[torch.Tensor, list[torch.Tensor]]]:
        y = self.linear(x)
        return y, (y + 1, [x, y])


class Loops(nn.Module):
    """Calls modules in a loop and in a data-dependent branch."""

    def __init__(self):
        super().__init__()
        self.steps, self.other = nn.ModuleList([Step(), Step()]), Step()

    def forward(self, x, count: int = 3):
        for _ in range(count):
            for step in self.steps:
                x, _ = step(x, [x])
            if x.sum() < 0:
                x = self.other(x, [x, x])[1][0]
        return x


def test_calls_in_loops_and_branches_of_a_script_are_recorded():
    torch.manual_seed(3)
    model, x = Loops().eval(), torch.ones(2, 3)
    live = whence.record_values(model, (x,), full=["**"])
    scripted = whence.record_values(torch.jit.script(model), (x,), full=["**"])
    calls = {(call.module, call.call) for call in live.runs[0].calls}
    assert ("steps.1.linear", 2) in calls and ("other", 0) in calls
    assert ([row[:2] + row[4:5] for row in comparable_calls(scripted)]
            == [row[:2] + row[4:5] for row in comparable_calls(live)])


@pytest.mark.parametrize("kind", ["pt", "pt2"])
def test_the_command_records_archives(kind, tmp_path):
    archive, target = save_archive(tmp_path, kind), tmp_path / "m.values.safetensors"
    for at, shape in enumerate([(3, 24), (3, 24)] if kind == "pt2" else [(3, 24), (1, 5)]):
        numpy.savez(tmp_path / f"{at}.npz", ids=example(*shape)[0].numpy())
    result = command.run("record", archive, "--inputs", tmp_path / "0.npz", "--inputs", tmp_path / "1.npz", "--values", target,
                         "--full", "layers.0", "-o", tmp_path / "m.whence.json")
    assert result.stdout.startswith(f"{target}: 2 runs, ") and (tmp_path / "m.whence.json").stat().st_size > 1000
    values = value_file.read(target)
    live = whence.record_values(Encoder(), example(), full=["layers.0"])
    calls = {(call.module, call.call): call for call in values.runs[0].calls}
    assert set(calls) == {(call.module, call.call) for call in live.runs[0].calls}
    for call in live.runs[0].calls:
        if len(call.results) == 1 and call.results[0].form == "whole":
            torch.testing.assert_close(values.whole(calls[call.module, call.call].results[0]), live.whole(call.results[0]))


def test_invalid_arguments_of_the_command_are_refused(tmp_path, run_main):
    archive = tmp_path / "m.pt"
    torch.jit.trace(Encoder(), example(), check_trace=False).save(archive)
    (tmp_path / "damaged.npz").write_bytes(b"PK no")
    numpy.savez(tmp_path / "others.npz", something=numpy.zeros(3))
    target = tmp_path / "v.safetensors"
    for arguments, code in [([tmp_path / "no.pt"], 2), ([archive, "--inputs", tmp_path / "no.npz"], 2),
                            ([archive, "--inputs", tmp_path / "damaged.npz"], 3),
                            ([archive, "--inputs", tmp_path / "others.npz"], 2), ([archive, "--frobnicate"], 2)]:
        text = run_main("record", *arguments, "--values", target, code=code).err
        assert text.startswith("E0") and "; try: " in text, arguments
    assert not target.exists()


def test_a_refused_command_keeps_both_files(tmp_path, run_main):
    archive, values, sidecar = tmp_path / "m.pt", tmp_path / "m.values.safetensors", tmp_path / "m.whence.json"
    torch.jit.trace(Encoder(), example(), check_trace=False).save(archive)
    numpy.savez(tmp_path / "0.npz", ids=example()[0].numpy())
    values.write_bytes(b"old values")
    sidecar.write_bytes(b"old sidecar")
    for options, code in [(["--values", values, "-o", sidecar, "--full", "nothing.*"], 2),
                          (["--values", tmp_path / "no" / "v.safetensors", "-o", sidecar], 5),
                          (["--values", tmp_path, "-o", sidecar], 5), (["--values", values, "-o", tmp_path], 5),
                          (["--values", values, "-o", tmp_path / "no" / "m.whence.json"], 5)]:
        text = run_main("record", archive, "--inputs", tmp_path / "0.npz", "--operations", *options, code=code).err
        assert text.startswith("E0") and "; try: " in text, options
        assert values.read_bytes() == b"old values" and sidecar.read_bytes() == b"old sidecar", options


def test_runs_may_have_different_sizes():
    values = whence.record_values(Encoder(), example(), more=[example(1, 5)])
    assert [run.inputs["ids"].dims for run in values.runs] == [(3, 24), (1, 5)]
    assert torch.equal(values.whole(values.runs[1].inputs["ids"]), example(1, 5)[0])


class Nested(nn.Module):
    class Inner(nn.Module):
        def forward(self, pair):
            return {"sum": pair[0] + pair[1]["b"], "list": [pair[0], None, 3]}

    def __init__(self):
        super().__init__()
        self.inner = Nested.Inner()

    def forward(self, a, b):
        result = self.inner((a, {"b": b}))
        return result["sum"], result["list"][0]


def test_nested_values_are_flattened():
    a, b = torch.ones(2), torch.full((2,), 3.0)
    values = whence.record_values(Nested(), (a, b))
    inner = values.runs[0].calls[0]
    assert [values.whole(tensor).tolist() for tensor in inner.given] == [[1, 1], [3, 3]]
    assert [values.whole(tensor).tolist() for tensor in inner.results] == [[4, 4], [1, 1]]


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.second = nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4)

    def forward(self, x):
        return self.second(self.act(self.first(x)))


def test_a_result_is_recorded_before_it_is_written_to():
    torch.manual_seed(2)
    model, x = InPlace().eval(), torch.randn(3, 4)
    values = whence.record_values(model, (x,))
    calls = {call.module: call for call in values.runs[0].calls}
    with torch.no_grad():
        expected = model.first(x)
    assert bool((expected < 0).any())
    assert torch.equal(values.whole(calls["first"].results[0]), expected)
    assert torch.equal(values.whole(calls["act"].results[0]), expected.clamp(min=0))
    assert calls["second"].given == calls["act"].results


def test_recording_does_not_change_the_model():
    model = Encoder().train()
    model.layers[0].eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    whence.record_values(model, example())
    assert model.training and not model.layers[0].training and model.layers[1].training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_the_file_is_a_safetensors_file_with_metadata(tmp_path):
    path = tmp_path / "m.values.safetensors"
    whence.record_values(Encoder(), example(), path, full=["layers.0.attention"])
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = json.loads(file.metadata()["whence"])
    assert metadata["version"] == 1
    forms = {}
    for run in metadata["runs"]:
        for call in run["calls"]:
            for entry in (*call["given"], *call["results"]):
                forms[entry["key"]] = entry["form"]
                if entry["form"] == "whole":
                    assert list(tensors[entry["key"]].shape) == entry["dims"]
                else:
                    assert tensors[entry["key"] + ":samples"].numel() == 1024
                    assert tensors[entry["key"] + ":projection"].shape == (251,)
                    assert tensors[entry["key"] + ":moments"].shape == (9,)
    assert tensors["0/input/ids"].dtype == torch.int64
    assert forms["0/layers.0.attention.query#0/result.0"] == "whole"
    assert forms["0/layers.1.attention.query#0/result.0"] == "sketch"
    assert Encoder()(*example())[0].numel() < MAX_COMPLETE and forms["0/head#0/result.0"] == "whole"


def test_a_file_is_replaced_atomically(tmp_path):
    path = tmp_path / "m.values.safetensors"
    path.write_bytes(b"old")
    with pytest.raises(whence.WhenceError) as raised:
        whence.record_values(Encoder(), (torch.zeros(2, 3),), path)  # floats are not indices
    assert raised.value.code == "E0207" and path.read_bytes() == b"old"
    whence.record_values(Encoder(), example(), path)
    assert path.stat().st_size > 1000 and os.listdir(tmp_path) == ["m.values.safetensors"]


@pytest.mark.parametrize(("call", "code"), [
    (lambda: whence.record_values(Encoder(), ()), "E0104"),
    (lambda: whence.record_values(torch.jit.script(nn.ReLU()), (1, 2, 3)), "E0104"),
    (lambda: whence.record_values(torch.jit.trace(Encoder(), example()), (torch.zeros(2, 3),)), "E0207"),
    (lambda: whence.record_values(Encoder(), example(), full="encoder"), "E0101"),
    (lambda: whence.record_values(Encoder(), example(), "/nowhere/at/all.safetensors"), "E0401"),
])
def test_bad_input_is_refused(call, code):
    with pytest.raises(whence.WhenceError) as raised:
        call()
    assert raised.value.code == code and raised.value.remedy
