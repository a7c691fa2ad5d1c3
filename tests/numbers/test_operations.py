"""Recorded operations: comparison of their results with PyTorch, and their use in whence.accuracy."""

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
from numbers_models import Encoder, save_archive, example
from test_recording import Loops
from whence.values import value_file


class Norm(nn.Module):
    """Executes several operations, one of them in place, besides calling a child module."""

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
    """Its axes have equal sizes, so sizes do not reveal their order."""

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
    """Returns the line of Norm.forward that contains the text, as file:line."""
    lines, first = inspect.getsourcelines(Norm.forward)
    return f"{__file__.rpartition('/')[2]}:{first + next(at for at, line in enumerate(lines) if text in line)}"


# ---- recording ----------------------------------------------------------------------------------------------------


def expected_operations(norm: Norm, x) -> list:
    """Returns the operator and a copy of the result of each operation of Norm.forward."""
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


def capture_and_record(kind: str, model, capture_inputs, x):
    """Captures the model on `capture_inputs`, then records its values and operations for `x`."""
    if kind == "traced":
        model = torch.jit.trace(model, capture_inputs, check_trace=False)
    elif kind == "scripted":
        model = torch.jit.script(model)
    elif kind == "exported":
        model = torch.export.export(model, capture_inputs)
    return whence.record_values(model, x, full=["**"], operations=True)


@pytest.mark.parametrize("kind", ["live", "traced", "scripted", "exported"])
def test_every_operation_has_pytorchs_result(kind):
    model, x = Norms(), norms_input(7)
    values = capture_and_record(kind, model, norms_input(), x)
    call = next(call for call in values.runs[0].calls if call.module == "second")
    with torch.no_grad():
        expected = expected_operations(model.second, model.first(*x))
    assert [operation.operator for operation in call.operations] == [operator for operator, _ in expected]
    for operation, (operator, tensor) in zip(call.operations, expected, strict=True):
        assert len(operation.results) == 1
        torch.testing.assert_close(values.whole(operation.results[0]), tensor, msg=operator)
    inner = next(call for call in values.runs[0].calls if call.module == "second.inner")
    assert [operation.operator for operation in inner.operations] == ["aten::linear"]
    assert inner.operations[0].results == inner.results  # one tensor, stored under one key


@pytest.mark.parametrize("kind", ["live", "traced", "exported"])
def test_recording_operations_does_not_change_the_calls(kind):
    model = {"live": lambda: Encoder(), "traced": lambda: torch.jit.trace(Encoder(), example(), check_trace=False),
             "exported": lambda: torch.export.export(Encoder(), example())}[kind]()
    without_operations = whence.record_values(model, example(), full=["**"])
    with_operations = whence.record_values(model, example(), full=["**"], operations=True)
    assert len(without_operations.runs[0].calls) == len(with_operations.runs[0].calls) == 28
    for before, after in zip(without_operations.runs[0].calls, with_operations.runs[0].calls, strict=True):
        assert before.operations is None and after.operations is not None
        assert (before.module, before.call, before.type, before.parent) == (after.module, after.call, after.type, after.parent)
        for a, b in zip((*before.given, *before.results), (*after.given, *after.results), strict=True):
            assert torch.equal(without_operations.whole(a), with_operations.whole(b))


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
    results = {operation.operator: values.whole(operation.results[0])
               for operation in values.runs[0].calls[-1].operations}
    assert torch.equal(results["aten::mul"], torch.full((2, 3), 2.0))
    assert torch.equal(results["aten::view"], torch.tensor([2.0, 7, 2, 2, 7, 2]))
    assert torch.equal(results["aten::add"], Views()(x))


def test_a_script_has_operations_for_each_loop_iteration():
    torch.manual_seed(3)
    model, x = Loops().eval(), torch.ones(2, 3)

    def rows(values):
        return [(call.module, call.call, [(step.operator, values.whole(step.results[0])) for step in call.operations])
                for call in values.runs[0].calls if call.module]

    live, scripted = (rows(whence.record_values(module, (x,), operations=True))
                      for module in (model, torch.jit.script(model)))
    assert [row[:2] for row in scripted] == [row[:2] for row in live]
    for (path, _, expected), (_, _, actual) in zip(live, scripted, strict=True):
        assert [operator for operator, _ in actual] == [operator for operator, _ in expected], path
        assert all(torch.equal(a, b) for (_, a), (_, b) in zip(actual, expected, strict=True))


class Branch(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))


def test_operations_in_a_branch_of_an_exported_program():
    program = torch.export.export(Branch(), (torch.ones(3),))
    for x, operator, expected in [(torch.ones(3), "aten::sin", torch.ones(3).sin()), (-torch.ones(3), "aten::cos",
                                                                                       (-torch.ones(3)).cos())]:
        values = whence.record_values(program, (x,), operations=True)
        by_operator = {operation.operator: operation for call in values.runs[0].calls for operation in call.operations}
        assert torch.equal(values.whole(by_operator[operator].results[0]), expected)
        assert len(by_operator.keys() & {"aten::sin", "aten::cos"}) == 1


def test_a_recorded_model_can_still_be_trained():
    model = Encoder()
    whence.record_values(model, example(), operations=True)
    model(*example())[0].sum().backward()
    assert model.head.weight.grad is not None


# ---- the file -----------------------------------------------------------------------------------------------------


def metadata_of(path) -> dict:
    with safetensors.safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["whence"])


def test_calls_in_the_file_contain_operations(tmp_path):
    """A reader without support for operations finds the same calls with all their tensors."""
    without_operations, with_operations = tmp_path / "without.safetensors", tmp_path / "with.safetensors"
    whence.record_values(Encoder(), example(), without_operations)
    recorded = whence.record_values(Encoder(), example(), with_operations, operations=True)
    before, after = metadata_of(without_operations), metadata_of(with_operations)
    assert before["version"] == after["version"] == 1
    tensors = safetensors.torch.load_file(with_operations)
    for old, new in zip(before["runs"][0]["calls"], after["runs"][0]["calls"], strict=True):
        assert "operations" not in old and new.keys() - old.keys() == {"operations"}
        for a, b in zip(old["given"] + old["results"], new["given"] + new["results"], strict=True):
            assert {**a, "key": ""} == {**b, "key": ""}
            assert {b["key"], f"{b['key']}:samples"} & tensors.keys()
        for operation in new["operations"]:
            assert operation["operator"].startswith("aten::") and operation["results"]
    stored = value_file.read(with_operations)
    assert stored.runs == recorded.runs
    operation = stored.runs[0].calls[-1].operations[-1]
    assert operation.operator == "aten::argmax" and torch.equal(stored.whole(operation.results[0]), Encoder()(*example())[1])


def test_large_results_are_sketches_unless_recorded_in_full():
    values = whence.record_values(Encoder(), example(), full=["layers.1.attention"], operations=True)
    forms = {call.module: {operation.results[0].form for operation in call.operations
                           if operation.results[0].count > 2048} for call in values.runs[0].calls}
    assert forms["layers.1.attention"] == forms["layers.1.attention.query"] == {"whole"}
    assert forms["layers.0.attention"] == {"sketch"}


@pytest.mark.parametrize("entry", [{"operator": "aten::add"}, {"results": []}, 3, {"operator": "a", "results": [{"key": 1}]}])
def test_damaged_operations_are_refused(tmp_path, entry):
    path = tmp_path / "m.safetensors"
    whence.record_values(Encoder(), example(), path, operations=True)
    changed = metadata_of(path)
    changed["runs"][0]["calls"][0]["operations"] = [entry]
    safetensors.torch.save_file(safetensors.torch.load_file(path), path, {"whence": json.dumps(changed)})
    with pytest.raises(whence.WhenceError) as raised:
        value_file.read(path)
    assert raised.value.code == "E0204" and raised.value.remedy


@pytest.mark.parametrize("kind", ["pt", "pt2"])
def test_the_command_records_operations_of_archives(kind, tmp_path):
    archive, target = save_archive(tmp_path, kind), tmp_path / "m.values.safetensors"
    numpy.savez(tmp_path / "a.npz", ids=example()[0].numpy())
    result = command.run("record", archive, "--inputs", tmp_path / "a.npz", "--values", target, "--operations")
    values, live = value_file.read(target), whence.record_values(Encoder(), example(), operations=True)
    count = sum(len(call.operations) for call in values.runs[0].calls)
    assert f"28 module calls, {count} operations, " in result.stdout
    by_module = {call.module: call for call in values.runs[0].calls}
    for live_call in live.runs[0].calls:
        for operator in {"aten::softmax", "aten::tanh"} & {operation.operator for operation in live_call.operations}:
            actual, expected = ([operation.results[0] for operation in call.operations if operation.operator == operator]
                                for call in (by_module[live_call.module], live_call))
            for a, b in zip(actual, expected, strict=True):
                assert a.form == b.form == "sketch"
                torch.testing.assert_close(values.sketch(a).samples, live.sketch(b).samples)


# ---- accuracy -----------------------------------------------------------------------------------------------------


FAULTS = [({"eps": 2e-3}, "aten::add", "spread + self.eps"), ({"power": 2.2}, "aten::pow", "y.pow"),
          ({"gate": 0.4}, "aten::mul", "self.gate"), ({"shift": -0.1}, "aten::add", "self.shift"),
          ({"axis": 1}, "aten::softmax", "torch.softmax")]


@pytest.fixture(scope="module")
def norm_values():
    return whence.record_values(Norms(), norms_input(5), operations=True)


@pytest.mark.parametrize("backend", ["native", "native-export", "torch-torchscript"])
@pytest.mark.parametrize(("fault", "operator", "line"), FAULTS, ids=lambda value: str(value))
def test_the_faulty_operation_is_named(norm_values, tmp_path, fault, operator, line, backend):
    """The module has thirteen operations, which values of modules do not distinguish."""
    path = tmp_path / "m.onnx"
    whence.export(Norms(**fault), norms_input(), path, backend)
    first = whence.accuracy(path, norm_values, sidecar=tmp_path / "m.whence.json").first
    assert (first.module, first.operation, first.source.split()[0]) == ("second", operator, line_of(line))
    modules = whence.accuracy(path, whence.record_values(Norms(), norms_input(5)), sidecar=tmp_path / "m.whence.json").first
    assert modules.module == "second" and modules.operation == "" and set(first.nodes) < set(modules.nodes)
    assert (first.relative, first.value) == (modules.relative, modules.value)


def test_a_correct_file_has_no_first_difference(norm_values, tmp_path):
    whence.export(Norms(), norms_input(), tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", norm_values, sidecar=tmp_path / "m.whence.json")
    assert report.first is None and report.clean


def test_operations_are_not_named_without_a_sidecar(norm_values, tmp_path):
    whence.export(Norms(shift=-0.1), norms_input(), tmp_path / "m.onnx")
    first = whence.accuracy(tmp_path / "m.onnx", norm_values).first
    assert first.module == "second" and first.operation == ""


def test_an_operation_that_only_permutes_is_named(norm_values, tmp_path):
    """Replaces a transposition with one that keeps the axes, which sizes do not reveal."""
    whence.export(Norms(), norms_input(), tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    node = next(node for node in model.graph.node if node.name == "/second/Transpose")
    next(attribute for attribute in node.attribute if attribute.name == "perm").ints[:] = [0, 1, 2]
    onnx.save(model, tmp_path / "m.onnx")
    first = whence.accuracy(tmp_path / "m.onnx", norm_values, sidecar=tmp_path / "m.whence.json").first
    assert (first.module, first.operation, first.nodes) == ("second", "aten::transpose", (node.name,))


class FunctionalConvolution(nn.Module):
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
def test_a_faulty_operation_is_named_although_traces_rename_convolutions(tmp_path, fault, operators, backend):
    x = (torch.randn(2, 3, 9),)
    whence.export(FunctionalConvolution(**fault), x, tmp_path / "m.onnx", backend)
    values = whence.record_values(FunctionalConvolution(), x, operations=True)
    assert "aten::conv1d" in {operation.operator for operation in values.runs[0].calls[0].operations}
    assert whence.accuracy(tmp_path / "m.onnx", values, sidecar=tmp_path / "m.whence.json").first.operation in operators


def test_the_operation_is_named_in_a_float16_file(norm_values, tmp_path):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    whence.export(Norms(gate=-0.5), norms_input(), tmp_path / "m.onnx")
    half = tmp_path / "half.onnx"
    onnx.save(convert_float_to_float16(onnx.load(tmp_path / "m.onnx"), keep_io_types=True), half)
    whence.annotate(half, source=tmp_path / "m.onnx")
    first = whence.accuracy(half, norm_values, sidecar=tmp_path / "m.whence.json").first
    assert (first.operation, first.source.split()[0]) == ("aten::mul", line_of("self.gate"))
