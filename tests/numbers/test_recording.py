"""record_values: against forward hooks of the test's own, and the file as any program reads it."""

import json
import os

import pytest
import safetensors
import safetensors.torch
import torch
from torch import nn

import whence
from numbers_models import Encoder, example
from whence.values.sketch import WHOLE


def hooked(model, args) -> dict:
    """What each call of each module returned: by path and call."""
    seen, counts = {}, {}

    def note(path):
        def hook(module, inputs, result):
            counts[path] = counts.get(path, -1) + 1
            seen[path, counts[path]] = result if isinstance(result, tuple) else (result,)
        return hook

    handles = [module.register_forward_hook(note(path)) for path, module in model.named_modules()]
    with torch.no_grad():
        model(*args)
    for handle in handles:
        handle.remove()
    return seen


def test_every_call_has_what_hooks_see():
    model = Encoder()
    values = whence.record_values(model, example(), full=["**"])
    seen = hooked(Encoder(), example())
    calls = values.runs[0].calls
    assert {(each.module, each.call) for each in calls} == set(seen)
    assert ("scale", 1) in seen
    for each in calls:
        expected = seen[each.module, each.call]
        assert len(each.results) == len(expected)
        for recorded, tensor in zip(each.results, expected, strict=True):
            assert torch.equal(values.whole(recorded), tensor), each.name


def test_calls_know_the_calls_around_them_and_what_they_were_given():
    calls = whence.record_values(Encoder(), example()).runs[0].calls
    by_name = {(each.module, each.call): each for each in calls}
    query = by_name["layers.1.attention.query", 0]
    assert calls[query.parent].module == "layers.1.attention"
    assert calls[calls[query.parent].parent].module == "layers.1"
    assert calls[-1].module == "" and calls[-1].parent is None
    # What one module returned is kept once, under its own key.
    assert query.given == by_name["layers.0.second_norm", 0].results == by_name["layers.0", 0].results
    assert query.type == "torch.nn.modules.linear.Linear"
    # And what the model was given, under the input's.
    assert calls[-1].given == by_name["embedding", 0].given
    assert [each.key for each in calls[-1].given] == ["0/input/ids"]


def test_a_program_of_torch_export_has_the_same_modules_and_numbers():
    program = torch.export.export(Encoder(), example())
    values = whence.record_values(program, full=["**"])
    seen = hooked(Encoder(), example())
    found = {(each.module, each.call): each for each in values.runs[0].calls}
    assert set(found) == set(seen)
    for key, tensors in seen.items():
        single = len(tensors) == 1 and len(found[key].results) == 1
        if single and found[key].results[0].dims == tuple(tensors[0].shape):
            torch.testing.assert_close(values.whole(found[key].results[0]), tensors[0])


def test_runs_have_sizes_of_their_own():
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


def test_nested_values_are_opened():
    a, b = torch.ones(2), torch.full((2,), 3.0)
    values = whence.record_values(Nested(), (a, b))
    inner = values.runs[0].calls[0]
    assert [values.whole(each).tolist() for each in inner.given] == [[1, 1], [3, 3]]
    assert [values.whole(each).tolist() for each in inner.results] == [[4, 4], [1, 1]]


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
    calls = {each.module: each for each in values.runs[0].calls}
    with torch.no_grad():
        expected = model.first(x)
    assert bool((expected < 0).any())
    assert torch.equal(values.whole(calls["first"].results[0]), expected)
    assert torch.equal(values.whole(calls["act"].results[0]), expected.clamp(min=0))
    assert calls["second"].given == calls["act"].results


def test_the_model_is_as_before():
    model = Encoder().train()
    model.layers[0].eval()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    whence.record_values(model, example())
    assert model.training and not model.layers[0].training and model.layers[1].training
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_the_file_is_a_safetensors_file_that_says_what_is_in_it(tmp_path):
    path = tmp_path / "m.values.safetensors"
    whence.record_values(Encoder(), example(), path, full=["layers.0.attention"])
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, framework="pt") as file:
        stated = json.loads(file.metadata()["whence"])
    assert stated["version"] == 1
    forms = {}
    for run in stated["runs"]:
        for call in run["calls"]:
            for each in (*call["given"], *call["results"]):
                forms[each["key"]] = each["form"]
                if each["form"] == "whole":
                    assert list(tensors[each["key"]].shape) == each["dims"]
                else:
                    assert tensors[each["key"] + ":samples"].numel() == 1024
                    assert tensors[each["key"] + ":projection"].shape == (251,)
                    assert tensors[each["key"] + ":moments"].shape == (9,)
    assert tensors["0/input/ids"].dtype == torch.int64
    assert forms["0/layers.0.attention.query#0/result.0"] == "whole"
    assert forms["0/layers.1.attention.query#0/result.0"] == "sketch"
    assert Encoder()(*example())[0].numel() < WHOLE and forms["0/head#0/result.0"] == "whole"


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "m.values.safetensors"
    path.write_bytes(b"old")
    with pytest.raises(whence.WhenceError) as raised:
        whence.record_values(Encoder(), (torch.zeros(2, 3),), path)  # floats are no indices
    assert raised.value.code == "E0207" and path.read_bytes() == b"old"
    whence.record_values(Encoder(), example(), path)
    assert path.stat().st_size > 1000 and os.listdir(tmp_path) == ["m.values.safetensors"]


@pytest.mark.parametrize(("call", "code"), [
    (lambda: whence.record_values(Encoder(), ()), "E0104"),
    (lambda: whence.record_values(torch.jit.script(nn.ReLU()), (torch.ones(2),)), "E0303"),
    (lambda: whence.record_values(Encoder(), example(), full="encoder"), "E0101"),
    (lambda: whence.record_values(Encoder(), example(), "/nowhere/at/all.safetensors"), "E0401"),
])
def test_bad_input(call, code):
    with pytest.raises(whence.WhenceError) as raised:
        call()
    assert raised.value.code == code and raised.value.remedy
