"""Dynamic axes with different names whose sizes the model requires to be equal: recurrent layers over packed sequences,
as in the tests of torch.onnx. Also sizes specified as expressions of other sizes."""

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import command

STEPS, BATCH, FEATURES, HIDDEN = 11, 7, 5, 3


class Packed(nn.Module):
    """Packs sequences, runs a recurrent layer, and pads the output."""

    def __init__(self, layer, batch_first, state):
        super().__init__()
        self.layer, self.batch_first, self.state = layer, batch_first, state

    def forward(self, input, *rest):
        lengths = rest[-1]
        packed = nn.utils.rnn.pack_padded_sequence(input, lengths, self.batch_first)
        initial = () if not self.state else (tuple(rest[:2]),) if isinstance(self.layer, nn.LSTM) else (rest[0],)
        output, state = self.layer(packed, *initial)
        output, _ = nn.utils.rnn.pad_packed_sequence(output, self.batch_first)
        return (output, *state) if isinstance(state, tuple) else (output, state)


class PackedWithState(Packed):
    def forward(self, input, h, lengths):
        return super().forward(input, h, lengths)


class PackedWithStates(Packed):
    def forward(self, input, h, c, lengths):
        return super().forward(input, h, c, lengths)


class PackedWithoutState(Packed):
    def forward(self, input, lengths):
        return super().forward(input, lengths)


def inputs_for(layer, batch, batch_first, state):
    lengths = torch.randint(1, STEPS + 1, (batch,)).sort(descending=True).values
    lengths[0] = STEPS
    x = torch.randn(batch, STEPS, FEATURES) if batch_first else torch.randn(STEPS, batch, FEATURES)
    for row, length in enumerate(lengths):
        (x[row, length:] if batch_first else x[length:, row]).zero_()
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    states = [torch.randn(count, batch, HIDDEN) for _ in range(2 if isinstance(layer, nn.LSTM) else 1)]
    return [x, *(states if state else []), lengths.to(torch.int32)]


def export_trace(model, inputs, tmp_path, *dynamic):
    archive, inputs_file = tmp_path / "m.pt", tmp_path / "inputs.pt"
    torch.jit.save(torch.jit.trace(model, tuple(inputs), check_trace=False), archive)
    torch.save(tuple(inputs), inputs_file)
    options = [word for axes in dynamic for word in ("--dynamic", axes)]
    return command.run("export", archive, "-o", tmp_path / "m.onnx", "--inputs", inputs_file, *options)


def compare(model, inputs, tmp_path):
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    feed = {value.name: tensor.numpy() for value, tensor in zip(session.get_inputs(), inputs, strict=True)}
    with torch.no_grad():
        results = model(*inputs)
    for actual, expected in zip(session.run(None, feed), results, strict=True):
        torch.testing.assert_close(torch.from_numpy(actual), expected, rtol=1e-4, atol=1e-5)


LAYERS = {"lstm": nn.LSTM, "gru": nn.GRU, "tanh": nn.RNN}


@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.filterwarnings("ignore")
def test_axes_that_packed_sequences_require_to_be_equal_are_tied(kind, bidirectional, batch_first, state, tmp_path):
    layer = LAYERS[kind](FEATURES, HIDDEN, 2, bidirectional=bidirectional, batch_first=batch_first).eval()
    form = PackedWithoutState if not state else PackedWithStates if kind == "lstm" else PackedWithState
    model = form(layer, batch_first, state).eval()
    inputs = inputs_for(layer, BATCH, batch_first, state)
    states = (["h:1=h", "c:1=c"] if kind == "lstm" else ["h:1=h"]) if state else []
    stderr = export_trace(model, inputs, tmp_path, "input:0=first,1=second", "lengths:0=count", *states).stderr
    assert "did not run with different sizes" in stderr and "E0304" in stderr
    compare(model, inputs, tmp_path)
    compare(model, inputs_for(layer, BATCH + 1, batch_first, state), tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_sizes_equal_by_coincidence_stay_separate(tmp_path):
    class Sums(nn.Module):
        def forward(self, x, y):
            return x.sum(1) + y.sum(1)

    x = torch.randn(4, 4)
    export_trace(Sums(), (x, x), tmp_path, "x:0=a,1=b", "y:0=c,1=d")
    dims = [[dim.dim_param for dim in value.type.tensor_type.shape.dim]
            for value in onnx.load(tmp_path / "m.onnx").graph.input]
    assert dims == [["a", "b"], ["a", "d"]]


@pytest.mark.filterwarnings("ignore")
def test_sizes_fixed_by_the_trace_are_refused(tmp_path):
    class ConstantSizes(nn.Module):
        def forward(self, x, y):
            return x.reshape(4, 2) + y

    archive = tmp_path / "m.pt"
    x, y = torch.randn(8), torch.randn(4, 2)
    torch.jit.save(torch.jit.trace(ConstantSizes(), (x, y)), archive)
    command.run("export", archive, "-o", tmp_path / "m.onnx", "--dynamic", "x:0=a", "--dynamic", "y:0=b", code=4)


@pytest.mark.filterwarnings("ignore")
def test_a_size_may_be_an_expression_of_another(tmp_path):
    class Pairs(nn.Module):
        def forward(self, x, y):
            return x + y.reshape(x.shape[0], 2, -1).sum(1)

    export_trace(Pairs(), (torch.randn(3, 2), torch.randn(6, 2)), tmp_path, "x:0=batch", "y:0=2*batch")
    inputs = onnx.load(tmp_path / "m.onnx").graph.input
    assert [value.type.tensor_type.shape.dim[0].dim_param for value in inputs] == ["batch", "2*batch"]
    compare_one(Pairs(), (torch.randn(5, 2), torch.randn(10, 2)), tmp_path)
    archive, inputs_file = tmp_path / "m.pt", tmp_path / "inputs.pt"
    stderr = command.run("export", archive, "-o", tmp_path / "n.onnx", "--inputs", inputs_file,
                         "--dynamic", "x:0=batch", "--dynamic", "y:0=2*batch+1", code=2).stderr
    assert "2*batch+1" in stderr


def compare_one(model, inputs, tmp_path):
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    feed = {value.name: tensor.numpy() for value, tensor in zip(session.get_inputs(), inputs, strict=True)}
    torch.testing.assert_close(torch.from_numpy(session.run(None, feed)[0]), model(*inputs))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["pt", "pt2"])
def test_dynamic_accepts_old_and_new_names_of_inputs(form, tmp_path):
    class Add(nn.Module):
        def forward(self, x, y):
            return x + y

    x = torch.randn(3, 4)
    archive = tmp_path / f"m.{form}"
    if form == "pt":
        torch.jit.save(torch.jit.trace(Add(), (x, x)), archive)
    else:
        b = {0: torch.export.Dim("b")}
        torch.export.save(torch.export.export(Add(), (x, x), dynamic_shapes={"x": b, "y": b}), archive)
    for names in (("left", "right"), ("x", "y"), ("left", "y")):
        options = [word for name in names for word in ("--dynamic", f"{name}:0=batch")]
        command.run("export", archive, "-o", tmp_path / "m.onnx", "--input-names", "left,right", *options)
        inputs = onnx.load(tmp_path / "m.onnx").graph.input
        assert [value.name for value in inputs] == ["left", "right"]
        assert [value.type.tensor_type.shape.dim[0].dim_param for value in inputs] == ["batch", "batch"]
    command.run("export", archive, "-o", tmp_path / "m.onnx", "--input-names", "left,right", "--dynamic",
                "other:0=batch", code=2)
