"""Nested arguments with both native backends: inputs, names and results equal those of PyTorch's exporters."""

import collections
from dataclasses import dataclass, field

import onnx
import pytest
import torch
import torch.onnx.testing
import whence

pytestmark = pytest.mark.usefixtures("quiet")

NATIVE = ["native", "native-export"]


@dataclass
class Box:
    value: torch.Tensor
    by: int = 2
    more: list = field(default_factory=list)


Pair = collections.namedtuple("Pair", "left right")


class Takes(torch.nn.Module):
    """Uses every argument, so that any mix-up changes the result."""

    def forward(self, x, pair, table, n=3, word="double", nothing=None, *, flag=True, options=None, box=None,
                named=None):
        y = x + 2 * pair[0] + 3 * pair[1][0] + 5 * table["Key one"] + n
        if nothing is not None:
            y = y + nothing
        y = y * 2 if word == "double" else y
        y = -y if flag else y
        if options is not None:
            y = y + 7 * options["z"][1]
        if box is not None:
            y = y * box.by + box.value + (box.more[0] if box.more else 0)
        if named is not None:
            y = y + 11 * named.left - named.right
        return {"out": y, "rest": [y + 1, None, (y * 2,)]}


def tensors(count):
    torch.manual_seed(0)
    return list(torch.randn(count, 2, 3))


def flat(value):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def cases():
    a, b, c, d, e, f, g, h = tensors(8)
    base = (a, (b, [c]), {"Key one": d})
    yield "tuples, lists, dicts", base, {}
    yield "numbers, strings, None", (*base, 4, "once", None), {}
    yield "a default tensor argument", (*base, 3, "double", e), {}
    yield "keywords", base, {"flag": False, "options": {"y": e, "z": [f, g]}}
    yield "keywords out of order", base, {"options": {"z": (f, g), "y": 3}, "n": 1}
    yield "a dataclass", base, {"box": Box(e, 3, [f])}
    yield "a named tuple", base, {"named": Pair(e, f)}
    yield "all by keyword", (), {"table": {"Key one": d}, "pair": [b, (c,)], "x": a}
    yield "the dict at the end", (*base, {"flag": False, "options": {"z": [g, h]}}), {}


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("args, kwargs", [pytest.param(*case[1:], id=case[0]) for case in cases()])
def test_results_equal_the_model(backend, args, kwargs):
    model = Takes()
    program = whence.export(model, args, backend=backend, kwargs=kwargs, verify=True)
    assert program.verification.ok and len(program.verification.outputs) == 3
    called = (args[:-1], args[-1]) if args and type(args[-1]) is dict and len(args) > 3 else (args, kwargs)
    got = program(*args, **kwargs)
    torch.testing.assert_close(got, tuple(flat(model(*called[0], **called[1]))), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("args, kwargs", [pytest.param(*case[1:], id=case[0]) for case in cases()
                                          if case[0] not in ("a dataclass",)])
def test_inputs_equal_pytorch(backend, args, kwargs):
    """Names, order and number equal those of torch.onnx.export(dynamo=True), which writes names in lower case. Keywords
    are in the order of forward's signature, not of the call."""
    if args and type(args[-1]) is dict and len(args) == 3:  # PyTorch treats it as keywords
        args, kwargs = args[:2], {"table": args[2], **kwargs}
    reference = torch.onnx.export(Takes(), args, kwargs=dict(kwargs), dynamo=True, verbose=False, optimize=False)
    expected = [value.name for value in reference.model.graph.inputs]
    got = [value.name.lower() for value in whence.export(Takes(), args, backend=backend,
                                                       kwargs=kwargs).model_proto.graph.input]
    out_of_order = not args or "n" in kwargs
    assert sorted(got) == sorted(expected) if out_of_order else got == expected


def test_registered_dataclass_has_the_names_of_torch_export():
    @dataclass
    class Registered:
        value: torch.Tensor
        other: torch.Tensor

    torch.export.register_dataclass(Registered, serialized_type_name="whence_test.Registered")

    class Uses(torch.nn.Module):
        def forward(self, box):
            return box.value - box.other

    a, b = tensors(2)
    reference = torch.onnx.export(Uses(), (Registered(a, b),), dynamo=True, verbose=False)
    for backend in NATIVE:
        program = whence.export(Uses(), (Registered(a, b),), backend=backend)
        assert [value.name for value in program.model_proto.graph.input] == [
            value.name for value in reference.model.graph.inputs] == ["box_value", "box_other"]
        torch.testing.assert_close(program(Registered(a, b))[0], a - b)


@pytest.mark.parametrize("backend", NATIVE)
def test_variadic_arguments(backend):
    class Variadic(torch.nn.Module):
        def forward(self, first, *rest, scale=1.0, **more):
            return first * scale + sum(rest) - more["last"][0]

    a, b, c, d = tensors(4)
    program = whence.export(Variadic(), (a, b, c), backend=backend, kwargs={"scale": 2.0, "last": [d]})
    assert [value.name for value in program.model_proto.graph.input] == ["first", "rest_0", "rest_1", "last_0"]
    torch.testing.assert_close(program(a, b, c, scale=2.0, last=[d])[0], a * 2 + b + c - d)


@pytest.mark.parametrize("backend", NATIVE)
def test_program_rejects_other_values_of_fixed_arguments(backend):
    a, b, c, d = tensors(4)
    base = (a, (b, [c]), {"Key one": d})
    program = whence.export(Takes(), (*base, 4), backend=backend)
    program(*base, 4)
    for wrong, name in ((base, "fixed in the file at 4"), ((*base, 5), "call has 5"), ((*base, 4, "once"), "'word'"),
                        ((a, (b, [c, c]), {"Key one": d}, 4), "pair_1_1"),
                        ((a, (b, [c]), {"Key two": d}, 4), "Key_two|key_two")):
        with pytest.raises(whence.WhenceError, match=name) as raised:
            program(*wrong)
        assert raised.value.code == "E0104" and raised.value.remedy


@pytest.mark.parametrize("backend", NATIVE)
def test_names_are_distinct(backend):
    class Clash(torch.nn.Module):
        def forward(self, x, x_0):
            return x[0] - x_0

    a, b = tensors(2)
    program = whence.export(Clash(), ((a,), b), backend=backend)
    assert len({value.name for value in program.model_proto.graph.input}) == 2
    torch.testing.assert_close(program((a,), b)[0], a - b)


def test_constants_of_a_trace_are_reported_with_line():
    class Uses(torch.nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                x = x * 2
            if x.numel() == 0 or x.shape[0] * 2 == 1:
                x = x - 1
            return x.view(x.shape[0], -1)

    with pytest.warns(whence.WhenceWarning, match="E0309") as caught:
        whence.export(Uses().eval(), torch.ones(2, 3))
    messages = [str(warning.message) for warning in caught if issubclass(warning.category, whence.WhenceWarning)]
    assert len(messages) == 1 and "test_nested.py" in messages[0]  # and none about sizes


@pytest.mark.parametrize("backend", NATIVE)
def test_results_without_tensors(backend):
    class Returns(torch.nn.Module):
        def forward(self, x):
            return x + 1, 5, None, "text"

    (a,) = tensors(1)
    with pytest.warns(whence.WhenceWarning, match="str is left out"):
        program = whence.export(Returns(), (a,), backend=backend)
    got = program(a)
    assert len(got) == 2 and got[1].item() == 5


def test_scripted_modules_take_defaults_and_containers(tmp_path):
    class Scripted(torch.nn.Module):
        def forward(self, x, pair: tuple[torch.Tensor, torch.Tensor], n: int = 3, word: str = "a"):
            y = x + pair[0] * pair[1]
            return y * n if word == "a" else y

    a, b, c = tensors(3)
    model = torch.jit.script(Scripted())
    program = whence.export(model, (a, (b, c)), tmp_path / "m.onnx", verify=True)
    assert program.verification.ok and len(onnx.load(program.path).graph.input) == 3
    torch.testing.assert_close(program(a, (b, c))[0], (a + b * c) * 3)
    with pytest.raises(whence.WhenceError, match="argument: 'pair'") as raised:
        whence.export(model, (a,), tmp_path / "n.onnx")
    assert raised.value.code == "E0104"


class Nested(torch.nn.Module):
    def forward(self, pair, n=2, *, table):
        return pair[0] * n - pair[1], -table["b"]


def test_program_accepts_the_arguments_of_its_exported_program():
    """torch.onnx.testing calls both with exported_program.example_inputs, which are flat tensors."""
    pair, table = (torch.randn(3), torch.randn(3)), {"b": torch.randn(2)}
    program = whence.export(Nested().eval(), (pair,), kwargs={"table": table}, backend="native-export")
    args, kwargs = program.exported_program.example_inputs
    for got in (program(pair, table=table), program(*args, **kwargs), program.call_reference(*args, **kwargs)):
        torch.testing.assert_close(got, Nested()(pair, table=table))
    torch.onnx.testing.assert_onnx_program(program, strategy=None)
    for wrong in (args[:2], (*args, args[0]), ((args[0],), *args[1:]), (*args[:2], 1.0)):
        with pytest.raises(whence.WhenceError) as raised:
            program(*wrong)
        assert raised.value.code == "E0104"


def test_flat_arguments_need_an_exported_program():
    pair = (torch.randn(3), torch.randn(3))
    program = whence.export(Nested().eval(), (pair,), kwargs={"table": {"b": pair[0]}}, backend="native")
    with pytest.raises(whence.WhenceError, match="do not fit forward"):
        program(*pair, pair[0])
