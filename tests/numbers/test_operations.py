"""Recorded operations: their results compared with PyTorch, and their use in whence.accuracy."""

import inspect
import json

import numpy
import onnx
import pytest
import safetensors
import safetensors.torch
import torch
from torch import nn

import command
import whence
from numbers_models import Encoder, archived, example
from test_recording import Loops
from whence.values import value_file


class Norm(nn.Module):
    """Several operations of its own around one child module, one of them in place."""

    def __init__(self, size=16, eps=1e-5, power=2.0, gate=0.5, shift=0.1, axis=-1):
        super().__init__()
        self.eps, self.power, self.gate, self.shift, self.axis = eps, power, gate, shift, axis
        self.inner, self.weight = nn.Linear(size, size), nn.Parameter(torch.randn(size))

    def forward(self, x):
        y = self.inner(x)
        spread = y.pow(self.power).mean(-1, keepdim=True)
        y = y * torch.rsqrt(spread + self.eps)
        y = y * self.weight
        y = y * torch.sigmoid(y * self.gate) + self.shift
        scores = torch.softmax(y @ y.transpose(1, 2) / 8, self.axis)
        return x + (scores @ y).relu_()


class Norms(nn.Module):
    """Has axes of equal size, so that sizes do not distinguish their order."""

    def __init__(self, **second):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second, self.out = Norm(), Norm(**second), nn.Linear(16, 4)
        self.eval()

    def forward(self, x):
        return self.out(self.second(self.first(x)))


def norms_input(seed=0):
    return (torch.randn(2, 16, 16, generator=torch.Generator().manual_seed(seed)),)


def line_of(text: str) -> str:
    """Returns the line of Norm.forward that contains this text, in the form that nodes use."""
    lines, first = inspect.getsourcelines(Norm.forward)
    return f"{__file__.rpartition('/')[2]}:{first + next(at for at, line in enumerate(lines) if text in line)}"


# ---- recording ----------------------------------------------------------------------------------------------------


def computed_by_hand(norm: Norm, x) -> list:
    """Returns each step of Norm.forward: the operator and a copy of its result."""
    steps = []

    def step(operator, result):
        steps.append((f"aten::{operator}", result.clone()))
        return result

    with torch.no_grad():
        y = norm.inner(x)
        spread = step("mean", step("pow", y.pow(2.0)).mean(-1, keepdim=True))
        y = step("mul", y * step("rsqrt", torch.rsqrt(step("add", spread + norm.eps))))
        y = step("mul", y * norm.weight)
        gate = step("sigmoid", torch.sigmoid(step("mul", y * norm.gate)))
        y = step("add", step("mul", y * gate) + norm.shift)
        product = step("matmul", y @ step("transpose", y.transpose(1, 2)))
        scores = step("softmax", torch.softmax(step("div", product / 8), -1))
        mixed = step("relu_", step("matmul", scores @ y).relu_())
        step("add", x + mixed)
    return steps


def recorded_as(kind: str, model, recorded_with, x):
    """Records values with operations of a model that was captured on other inputs."""
    if kind == "traced":
        model = torch.jit.trace(model, recorded_with, check_trace=False)
    elif kind == "scripted":
        model = torch.jit.script(model)
    elif kind == "exported":
        model = torch.export.export(model, recorded_with)
    return whence.record_values(model, x, full=["**"], operations=True)


@pytest.mark.parametrize("kind", ["live", "traced", "scripted", "exported"])
def test_every_operation_has_pytorchs_result(kind):
    model, x = Norms(), norms_input(7)
    values = recorded_as(kind, model, norms_input(), x)
    call = next(each for each in values.runs[0].calls if each.module == "second")
    with torch.no_grad():
        expected = computed_by_hand(model.second, model.first(*x))
    assert [each.operator for each in call.operations] == [operator for operator, _ in expected]
    for operation, (operator, tensor) in zip(call.operations, expected, strict=True):
        assert len(operation.results) == 1
        torch.testing.assert_close(values.whole(operation.results[0]), tensor, msg=operator)
    inner = next(each for each in values.runs[0].calls if each.module == "second.inner")
    assert [each.operator for each in inner.operations] == ["aten::linear"]
    assert inner.operations[0].results == inner.results  # one tensor, stored under one key


@pytest.mark.parametrize("kind", ["live", "traced", "exported"])
def test_operations_do_not_change_the_calls(kind):
    model = {"live": lambda: Encoder(), "traced": lambda: torch.jit.trace(Encoder(), example(), check_trace=False),
             "exported": lambda: torch.export.export(Encoder(), example())}[kind]()
    plain = whence.record_values(model, example(), full=["**"])
    with_operations = whence.record_values(model, example(), full=["**"], operations=True)
    assert len(plain.runs[0].calls) == len(with_operations.runs[0].calls) == 28
    for before, after in zip(plain.runs[0].calls, with_operations.runs[0].calls, strict=True):
        assert before.operations is None and after.operations is not None
        assert (before.module, before.call, before.type, before.parent) == (after.module, after.call, after.type, after.parent)
        for one, other in zip((*before.given, *before.results), (*after.given, *after.results), strict=True):
            assert torch.equal(plain.whole(one), with_operations.whole(other))


class Views(nn.Module):
    """Writes to a tensor through its view."""

    def forward(self, x):
        y = x * 2
        y[:, 1] = 7.0
        y.view(-1)[0] = 5.0
        return y + 1


def test_a_result_is_stored_before_later_writes():
    x = torch.ones(2, 3)
    values = whence.record_values(Views(), (x,), operations=True)
    found = {each.operator: values.whole(each.results[0]) for each in values.runs[0].calls[-1].operations}
    assert torch.equal(found["aten::mul"], torch.full((2, 3), 2.0))
    assert torch.equal(found["aten::view"], torch.tensor([2.0, 7, 2, 2, 7, 2]))
    assert torch.equal(found["aten::add"], Views()(x))


def test_a_script_has_operations_for_each_loop_iteration():
    torch.manual_seed(3)
    model, x = Loops().eval(), torch.ones(2, 3)

    def rows(values):
        return [(each.module, each.call, [(one.operator, values.whole(one.results[0])) for one in each.operations])
                for each in values.runs[0].calls if each.module]

    live, scripted = (rows(whence.record_values(each, (x,), operations=True)) for each in (model, torch.jit.script(model)))
    assert [row[:2] for row in scripted] == [row[:2] for row in live]
    for (path, _, one), (_, _, other) in zip(live, scripted, strict=True):
        assert [operator for operator, _ in one] == [operator for operator, _ in other], path
        assert all(torch.equal(a, b) for (_, a), (_, b) in zip(one, other, strict=True))


class Branch(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))


def test_operations_in_a_branch_of_an_exported_program():
    program = torch.export.export(Branch(), (torch.ones(3),))
    for x, operator, expected in [(torch.ones(3), "aten::sin", torch.ones(3).sin()), (-torch.ones(3), "aten::cos",
                                                                                       (-torch.ones(3)).cos())]:
        values = whence.record_values(program, (x,), operations=True)
        found = {one.operator: one for each in values.runs[0].calls for one in each.operations}
        assert torch.equal(values.whole(found[operator].results[0]), expected)
        assert len(found.keys() & {"aten::sin", "aten::cos"}) == 1


def test_a_model_can_be_trained_afterwards():
    model = Encoder()
    whence.record_values(model, example(), operations=True)
    model(*example())[0].sum().backward()
    assert model.head.weight.grad is not None


# ---- the file -----------------------------------------------------------------------------------------------------


def stated(path) -> dict:
    with safetensors.safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["whence"])


def test_the_file_adds_operations_to_its_calls(tmp_path):
    """A reader without support for operations finds the same calls with all their tensors."""
    plain, more = tmp_path / "plain.safetensors", tmp_path / "more.safetensors"
    whence.record_values(Encoder(), example(), plain)
    recorded = whence.record_values(Encoder(), example(), more, operations=True)
    before, after = stated(plain), stated(more)
    assert before["version"] == after["version"] == 1
    tensors = safetensors.torch.load_file(more)
    for one, other in zip(before["runs"][0]["calls"], after["runs"][0]["calls"], strict=True):
        assert "operations" not in one and other.keys() - one.keys() == {"operations"}
        for a, b in zip(one["given"] + one["results"], other["given"] + other["results"], strict=True):
            assert {**a, "key": ""} == {**b, "key": ""}
            assert {b["key"], f"{b['key']}:samples"} & tensors.keys()
        for operation in other["operations"]:
            assert operation["operator"].startswith("aten::") and operation["results"]
    again = value_file.read(more)
    assert again.runs == recorded.runs
    operation = again.runs[0].calls[-1].operations[-1]
    assert operation.operator == "aten::argmax" and torch.equal(again.whole(operation.results[0]), Encoder()(*example())[1])


def test_large_results_are_sketches_except_in_full():
    values = whence.record_values(Encoder(), example(), full=["layers.1.attention"], operations=True)
    forms = {each.module: {one.results[0].form for one in each.operations if one.results[0].count > 2048}
             for each in values.runs[0].calls}
    assert forms["layers.1.attention"] == forms["layers.1.attention.query"] == {"whole"}
    assert forms["layers.0.attention"] == {"sketch"}


@pytest.mark.parametrize("entry", [{"operator": "aten::add"}, {"results": []}, 3, {"operator": "a", "results": [{"key": 1}]}])
def test_damaged_operations_are_refused(tmp_path, entry):
    path = tmp_path / "m.safetensors"
    whence.record_values(Encoder(), example(), path, operations=True)
    changed = stated(path)
    changed["runs"][0]["calls"][0]["operations"] = [entry]
    safetensors.torch.save_file(safetensors.torch.load_file(path), path, {"whence": json.dumps(changed)})
    with pytest.raises(whence.WhenceError) as raised:
        value_file.read(path)
    assert raised.value.code == "E0204" and raised.value.remedy


@pytest.mark.parametrize("kind", ["pt", "pt2"])
def test_archives_by_the_command(kind, tmp_path):
    archive, target = archived(tmp_path, kind), tmp_path / "m.values.safetensors"
    numpy.savez(tmp_path / "a.npz", ids=example()[0].numpy())
    result = command.run("record", archive, "--inputs", tmp_path / "a.npz", "--values", target, "--operations")
    values, live = value_file.read(target), whence.record_values(Encoder(), example(), operations=True)
    count = sum(len(each.operations) for each in values.runs[0].calls)
    assert f"28 module calls, {count} operations, " in result.stdout
    by_module = {each.module: each for each in values.runs[0].calls}
    for each in live.runs[0].calls:
        for operator in {"aten::softmax", "aten::tanh"} & {one.operator for one in each.operations}:
            ours, theirs = ([one.results[0] for one in call.operations if one.operator == operator]
                            for call in (by_module[each.module], each))
            for a, b in zip(ours, theirs, strict=True):
                assert a.form == b.form == "sketch"
                torch.testing.assert_close(values.sketch(a).samples, live.sketch(b).samples)


# ---- accuracy -----------------------------------------------------------------------------------------------------


FAULTS = [({"eps": 2e-3}, "aten::add", "spread + self.eps"), ({"power": 2.2}, "aten::pow", "y.pow"),
          ({"gate": 0.4}, "aten::mul", "self.gate"), ({"shift": -0.1}, "aten::add", "self.shift"),
          ({"axis": 1}, "aten::softmax", "torch.softmax")]


@pytest.fixture(scope="module")
def values_of_norms():
    return whence.record_values(Norms(), norms_input(5), operations=True)


@pytest.mark.parametrize("backend", ["native", "native-export", "torch-torchscript"])
@pytest.mark.parametrize(("fault", "operator", "line"), FAULTS, ids=lambda each: str(each))
def test_the_operation_at_fault_is_named(values_of_norms, tmp_path, fault, operator, line, backend):
    """The module has thirteen operations; values of modules do not distinguish them."""
    path = tmp_path / "m.onnx"
    whence.export(Norms(**fault), norms_input(), path, backend)
    first = whence.accuracy(path, values_of_norms, sidecar=tmp_path / "m.whence.json").first
    assert (first.module, first.operation, first.source.split()[0]) == ("second", operator, line_of(line))
    modules = whence.accuracy(path, whence.record_values(Norms(), norms_input(5)), sidecar=tmp_path / "m.whence.json").first
    assert modules.module == "second" and modules.operation == "" and set(first.nodes) < set(modules.nodes)
    assert (first.relative, first.value) == (modules.relative, modules.value)


def test_a_file_without_a_fault_has_none_with_operations(values_of_norms, tmp_path):
    whence.export(Norms(), norms_input(), tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values_of_norms, sidecar=tmp_path / "m.whence.json")
    assert report.first is None and report.clean


def test_without_a_sidecar_operations_are_not_numbered(values_of_norms, tmp_path):
    whence.export(Norms(shift=-0.1), norms_input(), tmp_path / "m.onnx")
    first = whence.accuracy(tmp_path / "m.onnx", values_of_norms).first
    assert first.module == "second" and first.operation == ""


def test_an_operation_that_only_permutes_is_named(values_of_norms, tmp_path):
    """A transposition is replaced by one that keeps the axes; sizes do not show it."""
    whence.export(Norms(), norms_input(), tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    node = next(node for node in model.graph.node if node.name == "/second/Transpose")
    next(each for each in node.attribute if each.name == "perm").ints[:] = [0, 1, 2]
    onnx.save(model, tmp_path / "m.onnx")
    first = whence.accuracy(tmp_path / "m.onnx", values_of_norms, sidecar=tmp_path / "m.whence.json").first
    assert (first.module, first.operation, first.nodes) == ("second", "aten::transpose", (node.name,))


class Convolves(nn.Module):
    """A functional convolution between other operations."""

    def __init__(self, gain=1.0, last=1.0):
        super().__init__()
        torch.manual_seed(2)
        self.kernel, self.last = nn.Parameter(gain * torch.randn(3, 3, 3)), last

    def forward(self, x):
        y = torch.tanh(x) + 1
        return torch.sigmoid(self.last * nn.functional.conv1d(y, self.kernel))


@pytest.mark.parametrize("backend", ["native", "native-export"])
@pytest.mark.parametrize(("fault", "operators"), [({"gain": 1.5}, {"aten::_convolution", "aten::conv1d"}),
                                                  ({"last": 1.5}, {"aten::mul"})], ids=["convolution", "product"])
def test_a_convolution_has_another_name_in_a_trace(tmp_path, fault, operators, backend):
    x = (torch.randn(2, 3, 9),)
    whence.export(Convolves(**fault), x, tmp_path / "m.onnx", backend)
    values = whence.record_values(Convolves(), x, operations=True)
    assert "aten::conv1d" in {each.operator for each in values.runs[0].calls[0].operations}
    assert whence.accuracy(tmp_path / "m.onnx", values, sidecar=tmp_path / "m.whence.json").first.operation in operators


def test_the_operation_is_named_in_a_float16_file(values_of_norms, tmp_path):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    whence.export(Norms(gate=-0.5), norms_input(), tmp_path / "m.onnx")
    half = tmp_path / "half.onnx"
    onnx.save(convert_float_to_float16(onnx.load(tmp_path / "m.onnx"), keep_io_types=True), half)
    whence.annotate(half, source=tmp_path / "m.onnx")
    first = whence.accuracy(half, values_of_norms, sidecar=tmp_path / "m.whence.json").first
    assert (first.operation, first.source.split()[0]) == ("aten::mul", line_of("self.gate"))
