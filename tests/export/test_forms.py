"""Model forms missing from the zoo: returned inputs, state, cells in loops, fused kernels, Python numbers."""

from typing import Dict, List

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import command
from constraints import constraints_of
from results import assert_same_results


def export(module, tmp_path, *options, inputs=None):
    """Saves a scripted module, or a trace on `inputs`, and exports it; returns (ONNX file, standard error)."""
    archive, path = tmp_path / "m.pt", tmp_path / "m.onnx"
    if not isinstance(module, torch.jit.ScriptModule):
        module = torch.jit.trace(module, inputs, check_trace=False)
    module.save(str(archive))
    result = command.run("export", archive, "-o", path, "--annotate", *options)
    onnx.checker.check_model(str(path), full_check=True)
    return path, result.stderr


def run(path, *inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {value.name: tensor.numpy()
                              for value, tensor in zip(session.get_inputs(), inputs, strict=True)})


def assert_same(path, module, *inputs):
    with torch.no_grad():
        expected = module(*inputs)
    assert_same_results(run(path, *inputs), expected if isinstance(expected, tuple) else (expected,), (1e-5, 1e-6))


class ReturnsInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x, y):
        return x, y * 2, self.scale


def test_inputs_and_parameters_may_be_returned_unchanged(tmp_path):
    inputs = (torch.rand(2), torch.rand(2))
    path, _ = export(ReturnsInputs(), tmp_path, inputs=inputs)
    assert_same(path, ReturnsInputs(), *inputs)
    report = command.run_json("validate", path)
    assert report["clean"]
    identity = next(node.name for node in onnx.load(path).graph.node if node.op_type == "Identity")
    explained = command.run_json("explain", path, identity)
    assert (explained["module"], explained["confidence"]) == ("", "ancestor")


class CallCounter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.seen += 1
        return x * self.seen


def test_writes_to_buffers_are_reported(tmp_path):
    x = torch.rand(3)
    path, stderr = export(CallCounter(), tmp_path, inputs=(x,))
    assert "E0308" in stderr and "'seen'" in stderr and "test_forms.py" in stderr
    stored = torch.jit.load(str(tmp_path / "m.pt")).seen  # tracing also ran the model
    for _ in range(2):  # each run starts from the stored value
        np.testing.assert_allclose(run(path, x)[0], (x * (stored + 1)).numpy())


class WritesToInput(nn.Module):
    def forward(self, x, y):
        x.mul_(2)
        x[0] = 1
        return x + y


SPECS = ("--input", "x=float32[3]", "--input", "y=float32[3]")


@pytest.mark.parametrize("kind", ["trace", "script", "exported", "decomposed"])
def test_writes_to_inputs_are_reported(tmp_path, kind):
    x, y = torch.rand(3), torch.rand(3)
    if kind in ("trace", "script"):
        model = torch.jit.script(WritesToInput()) if kind == "script" else WritesToInput()
        path, stderr = export(model, tmp_path, *SPECS, inputs=(x, y))
    else:
        program = torch.export.export(WritesToInput(), (x, y))
        torch.export.save(program if kind == "exported" else program.run_decompositions(), tmp_path / "m.pt2")
        path = tmp_path / "m.onnx"
        stderr = command.run("export", tmp_path / "m.pt2", "-o", path).stderr
    assert stderr.count("E0308") == 1 and "its input 'x'" in stderr and "'y'" not in stderr
    other = torch.rand(3)
    expected = WritesToInput()(other.clone(), y)
    np.testing.assert_allclose(run(path, other, y)[0], expected.numpy())


class SetsAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.zeros(3)

    def forward(self, x):
        self.last = x + 1
        return self.last * 2


def test_assignments_to_attributes_are_reported(tmp_path):
    path, stderr = export(torch.jit.script(SetsAttribute()), tmp_path, "--input", "x=float32[3]")
    assert "E0308" in stderr and "'last'" in stderr
    assert_same(path, SetsAttribute(), torch.rand(3))


class StepsUntil(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = kind(4, 4)

    def forward(self, x):
        steps = 0
        hidden = torch.zeros_like(x)
        while bool(hidden.sum() < 1.0) and steps < 7:
            hidden = self.cell(x, hidden)
            steps += 1
        return hidden


class StepsUntilLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 4)

    def forward(self, x):
        steps = 0
        hidden, state = torch.zeros_like(x), torch.zeros_like(x)
        while bool(hidden.sum() < 1.0) and steps < 7:
            hidden, state = self.cell(x, (hidden, state))
            steps += 1
        return hidden


@pytest.mark.parametrize("make", [lambda: StepsUntil(nn.GRUCell), lambda: StepsUntil(nn.RNNCell), StepsUntilLstm],
                         ids=["gru", "rnn", "lstm"])
def test_cells_in_a_loop_of_data_dependent_length_equal_pytorch(make, tmp_path):
    torch.manual_seed(0)
    model = make()
    path, _ = export(torch.jit.script(model), tmp_path, "--input", "x=float32[2,4]")
    for _ in range(4):
        assert_same(path, model, torch.randn(2, 4) * 3)


class SelfAttention(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.attention, self.weights = nn.MultiheadAttention(16, 2, batch_first=True), weights

    def forward(self, x, padding):
        result, weights = self.attention(x, x, x, key_padding_mask=padding, need_weights=self.weights)
        return (result, weights) if self.weights else result


@pytest.mark.parametrize("weights", [False, True])
def test_the_fused_kernel_of_multihead_attention_equals_pytorch(weights, tmp_path):
    torch.manual_seed(0)
    model = SelfAttention(weights).eval()
    inputs = (torch.randn(2, 5, 16), torch.arange(5).expand(2, 5) > torch.tensor([[3], [4]]))
    with torch.no_grad():
        path, _ = export(model, tmp_path, inputs=inputs)
        assert "_native_multi_head_attention" in str(torch.jit.load(str(tmp_path / "m.pt")).inlined_graph)
    assert_same(path, model, *inputs)


def modules_of(path):
    """Collects the modules of all nodes except constants and rearrangements, which differ between equal functions."""
    return {entry.value for node in onnx.load(path).graph.node for entry in node.metadata_props
            if entry.key == "pkg.whence.module" and node.op_type not in {"Constant", "Reshape", "Transpose"}}


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_fused_kernel_of_encoder_layers_equals_pytorch(norm_first, activation, tmp_path):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, activation=activation, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        path, _ = export(model, tmp_path, "--dynamic", "src:0=batch,1=time", inputs=(x,))
        assert "_transformer_encoder_layer_fwd" in str(torch.jit.load(str(tmp_path / "m.pt")).inlined_graph)
    assert_same(path, model, x)
    assert_same(path, model, torch.randn(3, 7, 16))
    # A trace without the fused kernel has the same modules.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        (tmp_path / "slow").mkdir()
        slow, _ = export(model, tmp_path / "slow", inputs=(x,))
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert modules_of(path) == modules_of(slow)


class Scaled(nn.Module):
    def forward(self, x, factor: float):
        return x * factor


def test_python_numbers_become_constants_with_a_warning(tmp_path):
    path, stderr = export(torch.jit.script(Scaled()), tmp_path, "--input", "x=float32[3]",
                          "--input", "factor=float64[]<1")
    assert "input 'factor'" in stderr
    assert [value.name for value in onnx.load(path).graph.input] == ["x"]


class SkipConnection(nn.Module):
    """The skip connection of a U-Net: padding restores the elements that pooling dropped."""

    def forward(self, x):
        half = nn.functional.max_pool1d(x, 2)
        upsampled = nn.functional.interpolate(half, scale_factor=2.0)
        missing = x.size(2) - upsampled.size(2)
        return torch.cat([x, nn.functional.pad(upsampled, [missing // 2, missing - missing // 2])], 1)


class MeanOfWindows(nn.Module):
    def forward(self, x):
        windows = nn.functional.max_pool1d(x, 64, ceil_mode=True)
        return windows.sum(-1) / windows.size(2)


class MeanOfTheFirst(nn.Module):
    def forward(self, x):
        first = x[:, :, :5]
        return first.sum(2) / first.size(2)


class PadsToWindows(nn.Module):
    def forward(self, x):
        missing = (4 - x.size(2) % 4) % 4
        padded = nn.functional.pad(x, (0, missing))
        return padded.reshape(padded.size(0), 3, -1, 4).softmax(3).flatten(2)[:, :, : x.size(2)]


@pytest.mark.parametrize("model", [SkipConnection, MeanOfWindows, MeanOfTheFirst, PadsToWindows])
def test_coincidentally_equal_sizes_stay_separate(model, tmp_path):
    path, _ = export(model(), tmp_path, "--dynamic", "x:0=batch,2=time", inputs=(torch.rand(2, 3, 8),))
    for time in (3, 7, 8, 13, 16, 200):
        assert_same(path, torch.jit.load(str(tmp_path / "m.pt")), torch.rand(1, 3, time))


@pytest.mark.parametrize("make, shape", [
    (lambda: nn.Conv1d(4, 4, 3), (2, 4, 9)), (lambda: nn.ConvTranspose2d(2, 3, 2), (1, 2, 5, 5)),
    (lambda: nn.MaxPool2d(2), (1, 2, 4, 4)), (lambda: nn.GroupNorm(2, 4), (2, 4, 5)), (nn.Mish, (2, 3)),
], ids=["conv", "conv_transpose", "max_pool", "group_norm", "mish"])
@pytest.mark.parametrize("opset", [14, 18, 22])
def test_dtypes_that_need_a_later_opset_are_cast(make, shape, opset, tmp_path):
    """export() runs onnx's full checker; most operators accept bfloat16 from opset 22 only."""
    model = make().to(torch.bfloat16)
    path, _ = export(model, tmp_path, "--opset", opset, inputs=(torch.rand(shape, dtype=torch.bfloat16),))
    assert onnx.load(path).graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16


class OneCount(nn.Module):
    def forward(self, x, counts):
        return torch.repeat_interleave(x, counts, 1)


def test_one_repeat_count_on_a_dynamic_axis_of_counts(tmp_path):
    x, counts = torch.rand(2, 3), torch.tensor([2])
    torch.save((x, counts), tmp_path / "inputs.pt")
    path, _ = export(OneCount(), tmp_path, "--inputs", tmp_path / "inputs.pt", "--dynamic", "x:1=w", "--dynamic",
                     "counts:0=r", inputs=(x, counts))
    for inputs in ((x, counts), (torch.rand(2, 5), torch.tensor([4]))):
        assert_same(path, OneCount(), *inputs)


class RaisesFirst(nn.Module):
    """One branch raises; the other is a nested condition that returns pairs."""

    def forward(self, x) -> tuple[torch.Tensor, torch.Tensor]:
        if float(x.sum()) < 0:
            raise ValueError("negative")
        elif float(x.sum()) < 1:
            pair = x + 1, x * 2
        else:
            pair = x - 1, x * 3
        return pair


class RaisesLast(nn.Module):
    def forward(self, x) -> torch.Tensor:
        if float(x.sum()) >= 0:
            return x.exp()
        else:
            raise ValueError("negative")


@pytest.mark.parametrize("model", [RaisesFirst, RaisesLast])
def test_only_the_branch_that_does_not_raise_is_exported(model, tmp_path):
    module = torch.jit.script(model())
    path, _ = export(module, tmp_path, "--input", "x=float32[3]>=0<1")
    for x in (torch.full((3,), 0.1), torch.ones(3)):
        assert_same(path, module, x)
    stderr = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "not.onnx", "--input", "x=float32[3]>=-2<-1",
                       code=4).stderr
    assert "E03" in stderr and "the program raises" in stderr and not (tmp_path / "not.onnx").exists()


class DeletesElements(nn.Module):
    def forward(self, x) -> list[torch.Tensor]:
        rows, named = [x + 1, x + 2, x + 3], {"a": x, "b": x * 2}
        del rows[1]
        del rows[-1]
        del named["a"]
        return rows + list(named.values())


def test_deleted_list_and_dict_elements(tmp_path):
    module, x = torch.jit.script(DeletesElements()), torch.rand(3)
    path, _ = export(module, tmp_path, "--input", "x=float32[3]")
    assert len(run(path, x)) == 2
    assert_same_results(run(path, x), module(x))


class PopsItem(nn.Module):
    def forward(self, x) -> torch.Tensor:
        named = {"a": x, "b": x * 2}
        named.popitem()
        return x * len(named)


def test_an_unsupported_dict_method_is_refused(tmp_path):
    torch.jit.script(PopsItem()).save(str(tmp_path / "m.pt"))
    stderr = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", "x=float32[3]",
                         code=4).stderr
    assert "E03" in stderr and "popitem" in stderr


class Squeezes(nn.Module):
    def forward(self, x):
        return x.squeeze(0)


class SqueezesInside(nn.Module):
    def forward(self, x):
        return x.squeeze(0) * 2


class SizeFromData(nn.Module):
    def forward(self, n):
        return torch.ones(n[0], 4).squeeze(0)


class SqueezesAndFlattens(nn.Module):
    def forward(self, x):
        return (x * 2).squeeze().reshape(-1)  # reads the squeezed tensor, so its rank must be fixed


def test_squeeze_of_a_dynamic_axis_is_reported(tmp_path):
    x = torch.rand(2, 3)
    path, stderr = export(SqueezesInside(), tmp_path, "--input", "x=float32[2,3]", "--dynamic", "x:0=n", inputs=(x,))
    assert "warning" in stderr and "E0304" in stderr and "axis 0" in stderr and "n != 1" in stderr
    assert constraints_of(path) == ["n != 1"]
    assert_same(path, SqueezesInside(), torch.rand(4, 3))
    x = torch.rand(2, 1)
    path, stderr = export(SqueezesAndFlattens(), tmp_path, "--input", "x=float32[2,1]", "--dynamic", "x:0=n",
                          inputs=(x,))
    assert constraints_of(path) == ["n != 1"]
    for size in (0, 1, 4):
        assert_same(path, SqueezesAndFlattens(), torch.rand(size, 1))
    x = torch.rand(2, 3)
    path, stderr = export(Squeezes(), tmp_path, "--input", "x=float32[2,3]", "--dynamic", "x:0=n", inputs=(x,))
    assert "E0304" not in stderr and "rank of the result" in stderr and "that of the example" in stderr
    for size in (1, 4):  # the rank of a result may depend on the size
        assert_same(path, Squeezes(), torch.rand(size, 3))
    path, stderr = export(Squeezes(), tmp_path, "--input", "x=float32[2,3]", "--dynamic", "x:1=n", inputs=(x,))
    assert "squeeze" not in stderr and constraints_of(path) == []


def test_squeeze_of_a_data_dependent_size_equals_pytorch(tmp_path):
    n = torch.tensor([1])
    torch.save((n,), tmp_path / "inputs.pt")
    path, _ = export(SizeFromData(), tmp_path, "--inputs", tmp_path / "inputs.pt", inputs=(n,))
    for size in (1, 3):
        assert_same(path, SizeFromData(), torch.tensor([size]))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_dynamic_batch_with_a_fixed_initial_state_is_refused(kind, tmp_path):
    x, h = torch.rand(5, 3, 4), torch.rand(1, 3, 6)
    inputs = (x, (h, h)) if kind is nn.LSTM else (x, h)
    torch.jit.trace(kind(4, 6), inputs).save(str(tmp_path / "m.pt"))
    torch.save(inputs, tmp_path / "inputs.pt")
    stderr = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                       "--dynamic", "input:1=n", code=4).stderr
    assert "E0304" in stderr and "initial state" in stderr


class FormatsText(nn.Module):
    def forward(self, x, y):
        print(f"x is {x} of {x.size(0)}")
        return x.data + y


def test_formatted_text_and_tensor_data_are_accepted(tmp_path):
    inputs = (torch.rand(3), torch.rand(3))
    path, _ = export(torch.jit.script(FormatsText()), tmp_path, "--input", "x=float32[3]", "--input", "y=float32[3]",
                     "--dynamic", "x:0=n", "--dynamic", "y:0=n")
    assert_same(path, FormatsText(), *inputs)


class ChecksSize(nn.Module):
    def forward(self, x):
        if x.size(-1) != 4:
            raise RuntimeError("want 4, have {}".format(x.size(-1)))
        return x * 2


def test_the_text_of_an_exception_contains_values(tmp_path):
    torch.jit.script(ChecksSize()).save(str(tmp_path / "m.pt"))
    stderr = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", "x=float32[2,5]",
                       code=4).stderr
    assert "want 4, have 5" in stderr


class DefaultArguments(nn.Module):
    def forward(self, x, scale: torch.Tensor = torch.tensor([2.0, 3.0]), shift: float = 1.0):
        return x * scale + shift


def test_a_default_argument_is_a_constant_of_the_file(tmp_path):
    path, _ = export(torch.jit.script(DefaultArguments()), tmp_path, "--input", "x=float32[3,2]", "--dynamic", "x:0=n")
    assert [value.name for value in onnx.load(path).graph.input] == ["x"]
    assert_same(path, DefaultArguments(), torch.rand(5, 2))


class ScalesBySize(nn.Module):
    def forward(self, x):
        return x * x.numel()


def test_an_example_may_be_empty_along_a_dynamic_axis(tmp_path):
    path, _ = export(ScalesBySize(), tmp_path, "--input", "x=float32[0,3]", "--dynamic", "x:0=n",
                     inputs=(torch.rand(0, 3),))
    for size in 0, 4:
        assert_same(path, ScalesBySize(), torch.rand(size, 3))


class IndexFromData(nn.Module):
    def forward(self, x, y, at):
        values = [x, y, x + y]
        values[int(at)] = values[int(at) - 1] * 2
        return values[0], values[1], values[2], values[int(at)]


def test_a_list_is_read_and_changed_at_an_index_from_data(tmp_path):
    x, y = torch.rand(2), torch.rand(2)
    torch.save((x, y, torch.tensor(1)), tmp_path / "inputs.pt")
    path, _ = export(torch.jit.script(IndexFromData()), tmp_path, "--inputs", tmp_path / "inputs.pt")
    for at in 0, 1, 2, -1:
        assert_same(path, IndexFromData(), x, y, torch.tensor(at))


class PadsByList(nn.Module):
    def forward(self, x, pad: List[int]):
        return nn.functional.pad(x, pad)


def test_a_list_of_numbers_may_be_passed_as_tensors(tmp_path):
    x = torch.rand(2, 3)
    torch.save((x, [torch.tensor(1), torch.tensor(2)]), tmp_path / "inputs.pt")
    path, _ = export(torch.jit.script(PadsByList()), tmp_path, "--inputs", tmp_path / "inputs.pt")
    np.testing.assert_array_equal(run(path, x)[0], nn.functional.pad(x, (1, 2)).numpy())


class KeyedByNumber(torch.nn.Module):
    """Returns x + 2 for the table {2: x}; torch.jit.save keeps the keys."""

    def forward(self, table: Dict[int, torch.Tensor]) -> torch.Tensor:
        return table[2] + 2


class KeyedByTensor(torch.nn.Module):
    def forward(self, table: Dict[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        total = torch.zeros(3)
        for key in table.keys():
            total = total + table[key]
        return total


def test_a_dict_argument_may_have_numbers_but_not_tensors_as_keys(tmp_path):
    torch.jit.script(KeyedByNumber()).save(str(tmp_path / "m.pt"))
    torch.save({2: torch.arange(3.0)}, tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    (value,) = session.get_inputs()
    np.testing.assert_allclose(session.run(None, {value.name: np.arange(3, dtype=np.float32)})[0], [2, 3, 4])

    torch.jit.script(KeyedByTensor()).save(str(tmp_path / "t.pt"))
    torch.save({torch.tensor(1.0): torch.arange(3.0)}, tmp_path / "inputs.pt")
    result = command.run("export", tmp_path / "t.pt", "-o", tmp_path / "t.onnx",
                         "--inputs", tmp_path / "inputs.pt", code=4)
    assert result.stderr.startswith("E0303") and not (tmp_path / "t.onnx").exists()


class ParallelTasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        one, two = torch.jit.fork(self.layer, x), torch.jit.fork(self.layer, x * 2)
        return torch.jit.wait(one) + torch.jit.wait(two)


def test_forked_tasks_are_computed_at_their_wait(tmp_path):
    model = ParallelTasks()
    path, _ = export(torch.jit.script(model), tmp_path, "--input", "x=float32[2,3]", "--dynamic", "x:0=n")
    assert_same(path, model, torch.rand(5, 3))
    modules = {entry.value for node in onnx.load(path).graph.node for entry in node.metadata_props
               if entry.key == "pkg.whence.module"}
    assert "layer" in modules
