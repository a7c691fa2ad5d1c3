"""An operator without a converter does not affect other operators. If it becomes hundreds of operations, a warning
states the reason and the remedy."""

import collections
import warnings

import onnx
import pytest
import torch
import whence
from whence import WhenceWarning

from command import run_json

x = torch.randn(2, 40, 8)


class Overlaps(torch.nn.Module):
    """A recurrent network, and an operator without a converter whose decomposition has converters."""

    def __init__(self, kind: str):
        super().__init__()
        self.recurrent = getattr(torch.nn, kind)(8, 6, num_layers=2, batch_first=True)

    def forward(self, x):
        y = self.recurrent(x)[0]
        return torch.ops.aten.unfold_backward(y.unfold(1, 8, 4), y.shape, 1, 8, 4)


class Projected(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = torch.nn.LSTM(8, 6, proj_size=4, batch_first=True)

    def forward(self, x):
        return self.recurrent(x)[0]


class Operator(torch.nn.Module):
    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    def forward(self, x):
        return self.operator(x) + 1


def exported(model: torch.nn.Module, path, **options) -> tuple[collections.Counter, list[str]]:
    """Compares the file with PyTorch; returns the operators of the file and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", WhenceWarning)
        program = whence.export(model.eval(), (x,), path, **options)
    for value in x, -x:
        torch.testing.assert_close(program(value)[0], model(value), rtol=1e-4, atol=1e-5)
    return (collections.Counter(node.op_type for node in onnx.load(path).graph.node),
            [str(warning.message) for warning in caught if issubclass(warning.category, WhenceWarning)])


@pytest.mark.parametrize("backend", ["native", "native-export"])
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_recurrent_layers_stay_one_node_each(kind, backend, tmp_path):
    operators, messages = exported(Overlaps(kind), tmp_path / "model.onnx", backend=backend)
    assert operators[kind] == 2 and operators.total() < 40, operators
    assert not messages


@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_unrolled_operator_gives_a_warning(backend, tmp_path):
    operators, messages = exported(Projected(), tmp_path / "model.onnx", backend=backend)
    assert operators.total() > 1000
    assert len(messages) == 1 and messages[0].startswith("E0302") and "aten::lstm.input" in messages[0]
    assert "proj_size" in messages[0] and "linear layer" in messages[0] and "fixed time axis" not in messages[0]
    assert "it is written as its decomposition of" in messages[0]


def test_command_warns(tmp_path):
    torch.jit.trace(Projected().eval(), (x,)).save(tmp_path / "model.pt")
    report = run_json("export", tmp_path / "model.pt", "-o", tmp_path / "model.onnx", "--input", "x=float32[2,40,8]")
    (diagnostic,) = [diagnostic for diagnostic in report["diagnostics"] if diagnostic["code"] == "E0302"]
    assert diagnostic["severity"] == "warning" and diagnostic["where"]["op"] == "aten::lstm.input"


def test_an_unrolled_operator_needs_a_fixed_time_axis(tmp_path):
    torch.jit.trace(Projected().eval(), (x,)).save(tmp_path / "model.pt")
    arguments = ["export", tmp_path / "model.pt", "-o", tmp_path / "model.onnx", "--input", "x=float32[2,40,8]"]
    (diagnostic,) = run_json(*arguments, "--dynamic", "x:1=t", code=4)["diagnostics"]
    assert diagnostic["code"] == "E0302" and "export with a fixed time axis" in diagnostic["remedy"]


@pytest.mark.parametrize("rounds", [4, 60])
def test_large_decomposition_by_torch_export_gives_a_warning(rounds, tmp_path):
    def steps(x):
        for number in range(rounds):
            x = torch.tanh(x * number) + x
        return x

    with torch.library._scoped_library("whence_costly", "FRAGMENT") as library:
        library.define(f"steps{rounds}(Tensor x) -> Tensor")
        library.impl(f"steps{rounds}", steps, "CompositeImplicitAutograd")
        model = Operator(getattr(torch.ops.whence_costly, f"steps{rounds}"))
        operators, messages = exported(model, tmp_path / "model.onnx", backend="native-export")
    assert operators["Tanh"] == rounds
    assert [message[:5] for message in messages] == (["E0301"] if rounds == 60 else [])
    assert all(f"whence_costly::steps{rounds}" in message and "custom_translation_table" in message
               and "so torch.export decomposes the model into" in message for message in messages)
