"""NumPy arrays as tensors; American spelling of names with British aliases; no warnings from other libraries."""

import inspect
import re
import warnings
from dataclasses import dataclass

import numpy
import pytest
import torch
import whence

BACKENDS = ["native", "native-export", "torch-dynamo", "torch-torchscript"]


@dataclass
class State:
    h: object


class Net(torch.nn.Module):
    """x: float32[n, 4]; more: a dict of a list; state: State -> float32[n, 3]"""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x, more=None, state=None):
        x = self.layer(x) * 2
        x = x if more is None else x + more["a"][0]
        return x if state is None else x * state.h


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


def arrays():
    random = numpy.random.default_rng(0)
    return (random.standard_normal((2, 4)).astype("float32")[::-1], {"a": [read_only(random.standard_normal((2, 3)).astype("float32"))]},
            State(numpy.full(3, 3, numpy.float32)))


def as_tensors(x, more, state):
    return torch.tensor(x.copy()), {"a": [torch.tensor(more["a"][0].copy())]}, State(torch.tensor(state.h))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_are_exported_like_tensors(backend, net, tmp_path):
    inputs = arrays()
    program = whence.export(net, inputs, tmp_path / "m.onnx", backend, verify=True)
    assert program.verification.ok and len(program.model_proto.graph.input) == 3
    expected = net(*as_tensors(*inputs)).detach()
    for result in (program(*inputs)[0], program(*as_tensors(*inputs))[0]):
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    assert whence.verify(program, net, inputs).ok and program.verify(args=inputs).ok
    assert isinstance(inputs[0], numpy.ndarray) and isinstance(inputs[1]["a"][0], numpy.ndarray)  # not converted


def test_single_array_by_position_and_by_name(net):
    x = arrays()[0]
    program = whence.export(net, x, dynamic_axes={"x": {0: "n"}})
    expected = net(torch.tensor(x.copy())).detach()
    for kwargs in ({"args": x}, {"kwargs": {"x": x}}, {"args": x.astype(">f4")}):
        assert whence.verify(program, net, **kwargs).ok
        output = program.model_proto.graph.output[0].name
        torch.testing.assert_close(program.compute_values([output], **kwargs)[0], expected, rtol=1e-4, atol=1e-5)
    assert program(numpy.repeat(x, 3, 0))[0].shape == (6, 3)
    assert whence.unconvertible_ops(net, x) == []


def test_arrays_in_recorded_runs(net):
    x = arrays()[0]
    values = whence.record_values(net, x, more=[x, (x,)])
    [*_, last] = values.runs[2].calls
    torch.testing.assert_close(values.whole(last.results[0]), net(torch.tensor(x.copy())).detach())


def test_arrays_for_an_exported_program(net):
    x = arrays()[0]
    exported = torch.export.export(net, (torch.tensor(x.copy()),))
    program = whence.export(exported)
    torch.testing.assert_close(program(x)[0], net(torch.tensor(x.copy())).detach(), rtol=1e-4, atol=1e-5)
    assert whence.verify(program, exported, (x,)).ok and len(whence.record_values(exported, (x,)).runs) == 1


def test_weights_from_arrays(net):
    x = torch.tensor(arrays()[0].copy())
    program = whence.export(net, (x,), optimize=False)
    program.apply_weights({"layer.bias": numpy.full(3, 7, numpy.float32)})
    with torch.no_grad():
        net.layer.bias.fill_(7)
    torch.testing.assert_close(program(x)[0], net(x).detach(), rtol=1e-4, atol=1e-5)


def test_array_without_a_tensor_dtype_is_refused(net):
    for array in (numpy.array([object()]), numpy.array(["text"]), numpy.zeros(2, numpy.longdouble)):
        with pytest.raises(whence.WhenceError, match="'more_a_0' is a numpy array") as raised:
            whence.export(net, (torch.zeros(2, 4), {"a": [array]}, State(1.0)))
        assert raised.value.code == "E0104" and raised.value.remedy


def test_later_changes_to_an_array_do_not_affect_the_program(net):
    x = numpy.ones((2, 4), numpy.float32)
    program = whence.export(net, (x,))
    x[:] = 5
    assert program.verify().ok and torch.equal(torch.ones(2, 4), torch.from_numpy(program._source.args[0]))


# ---- spelling

BRITISH = re.compile(r"(optim|quant|normal|real|initial|serial|synchron)is(e|ed|er|ing|ation)\b|colour|behaviour|favour")


def test_public_names_have_american_spelling():
    functions = {name: getattr(whence, name) for name in whence.__all__ if inspect.isfunction(getattr(whence, name))}
    names = {f"{name}({parameter})" for name, function in functions.items()
             for parameter in inspect.signature(function).parameters}
    assert "accuracy(optimized)" in names and "sensitivity(quantize)" in names and len(names) > 100
    assert BRITISH.search("optimised") and not [name for name in sorted(names) if BRITISH.search(name)]


def test_british_spelling_is_an_alias(net, tmp_path):
    x = torch.randn(2, 4)
    program, values = whence.export(net, (x,), tmp_path / "m.onnx"), whence.record_values(net, (x,))
    unoptimized, *optimized = (whence.accuracy(program, values, **options).settings
                         for options in ({}, {"optimized": True}, {"optimised": True}))
    assert optimized[0] == optimized[1] != unoptimized
    report = whence.sensitivity(program, [(x,)], quantise="float16", time=False)
    assert report.quantizer == report.quantiser == "float16"
    with pytest.raises(whence.WhenceError, match="same option") as raised:
        whence.accuracy(program, values, optimized=True, optimised=True)
    assert raised.value.code == "E0101"


# ---- warnings

class Warns(Net):
    def forward(self, x):
        warnings.warn("old", FutureWarning, stacklevel=2)       # attributed to PyTorch's code
        warnings.warn("of the model itself", UserWarning, stacklevel=1)
        return super().forward(x)


def use_every_function(model, x, folder, backend):
    program = whence.export(model, (x,), folder / "m.onnx", backend, verify=True)
    values = whence.record_values(model, (x,))
    whence.accuracy(program, values)
    whence.sensitivity(program, [(x,)], time=False)
    program(x), program.call_reference(x), program.verify(), whence.verify(program, model, (x,))
    whence.unconvertible_ops(model, (x,))
    whence.validate(program, values=values)


@pytest.mark.parametrize("backend", BACKENDS)
def test_warnings_of_other_libraries_are_hidden(backend, tmp_path):
    """Uses an LSTM, about which torch.export and PyTorch's older exporter warn."""
    model = torch.nn.LSTM(4, 5, batch_first=True).eval()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use_every_function(model, torch.randn(3, 7, 4), tmp_path, backend)
    assert not [(warning.category.__name__, str(warning.message)) for warning in caught
                if warning.category is not whence.WhenceWarning]


def test_warnings_of_the_model_are_shown(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whence.export(Warns().eval(), torch.randn(2, 4), tmp_path / "m.onnx")
    assert {str(warning.message) for warning in caught} == {"of the model itself"}


def test_callers_filters_are_restored(net):
    before = list(warnings.filters)
    whence.export(net, torch.randn(2, 4))
    assert warnings.filters == before
