"""whence.accuracy in cases that are easily misjudged: axes of equal size, unused results, indices, random numbers,
differences that later steps remove, several runs."""

import numpy
import onnx
import pytest
import torch
from onnx import helper
from torch import nn

import whence


def record(model, *args):
    torch.manual_seed(1)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return whence.record_values(model.eval(), args)


def export(model, path, *args):
    whence.export(model, args, path)
    return onnx.load(path)


class TransposedLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(16, 16)

    def forward(self, x):
        return self.line(x).transpose(1, 2)


class TransposedModel(nn.Module):
    """Its input is [2, 16, 16], so sizes cannot tell the axes apart."""

    def __init__(self):
        super().__init__()
        self.turning, self.head = TransposedLinear(), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.turning(x))


def test_a_missing_transpose_is_a_difference(tmp_path):
    model, x = TransposedModel(), torch.randn(2, 16, 16)
    values = record(model, x)
    file = export(model, tmp_path / "m.onnx", x)
    next(node for node in file.graph.node if node.op_type == "Transpose").attribute[0].ints[:] = [0, 1, 2]
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert report.first.module == "turning" and report.of("head").status == "differs", str(report)


def test_permuting_axes_and_back_is_not_a_difference(tmp_path):
    """The file contains the result in the other axis order only; its consumer transposes it."""
    model, x = TransposedModel(), torch.randn(2, 16, 16)
    values = record(model, x)
    file = export(model, tmp_path / "m.onnx", x)
    node = next(node for node in file.graph.node if node.op_type == "Transpose")
    node.attribute[0].ints[:] = [0, 1, 2]
    name = node.output[0]
    node.output[0] = "turned"
    at = list(file.graph.node).index(node)
    back = helper.make_node("Transpose", ["turned"], [name], "back", perm=[0, 2, 1])
    back.metadata_props.extend(next(node for node in file.graph.node if "head" in node.name).metadata_props)
    file.graph.node.insert(at + 1, back)
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert report.first is None and report.of("turning").layout == "axes 0 2 1", str(report)


def test_an_additional_transpose_of_an_output_is_a_difference(tmp_path):
    model, x = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 5, 3, padding=1)), torch.randn(1, 3, 12, 12)
    values = record(model, x)
    file = export(model, tmp_path / "m.onnx", x)
    output = file.graph.output[0].name
    last = next(node for node in file.graph.node if output in node.output)
    last.output[0] = "straight"
    transpose = helper.make_node("Transpose", ["straight"], [output], "transpose", perm=[0, 1, 3, 2])
    transpose.metadata_props.extend(last.metadata_props)
    file.graph.node.append(transpose)
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values, max_error=["1e-6"])
    assert report.first.module == "2" and [finding["module"] for finding in report.findings] == ["2", ""]


class PatchNorm(nn.Module):
    """Moves the channels last and normalises over them; the norm ignores the order of height and width."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1))


class Picture(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.conv = PatchNorm(), nn.Conv2d(8, 4, 3)

    def forward(self, x):
        return self.conv(self.patches(x))


def test_exchanged_height_and_width_are_a_difference(tmp_path):
    """The result comes from a computation, not from a transposition, and every later result differs."""
    model, x = Picture(), torch.randn(1, 6, 8, 8)
    values = record(model, x)
    file = export(model, tmp_path / "m.onnx", x)
    next(node for node in file.graph.node if node.op_type == "Transpose").attribute[0].ints[:] = [0, 3, 2, 1]
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert report.first.module in ("patches", "patches.norm"), str(report)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.a(x) * 2, torch.tanh(self.b(x)) * 3


class FirstOrSecond(nn.Module):
    """Uses one of two results of equal size."""

    def __init__(self, pair, which):
        super().__init__()
        self.pair, self.head, self.which = pair, nn.Linear(8, 3), which

    def forward(self, x):
        result = self.pair(x)[self.which]
        return self.head(result if isinstance(result, torch.Tensor) else result[0])


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("make", [Pair, lambda: nn.LSTM(8, 8, batch_first=True), lambda: nn.GRU(8, 8, batch_first=True)],
                         ids=["pair", "lstm", "gru"])
@pytest.mark.parametrize("with_sidecar", [True, False])
def test_an_unused_result_is_not_a_difference(tmp_path, make, which, with_sidecar):
    model, x = FirstOrSecond(make(), which), torch.randn(1, 5, 8)
    values = record(model, x)
    export(model, tmp_path / "m.onnx", x)
    report = whence.accuracy(tmp_path / "m.onnx", values,
                             sidecar=tmp_path / "m.whence.json" if with_sidecar else None)
    assert report.first is None and not [row.name for row in report.modules if row.status == "differs"], str(report)


class ArgMax(nn.Module):
    def forward(self, x):
        return x.argmax(-1)


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores, self.best, self.table = nn.Linear(8, 64), ArgMax(), nn.Embedding(64, 8)

    def forward(self, x):
        return self.table(self.best(self.scores(x)))


def test_one_wrong_index_is_a_difference(tmp_path):
    """One wrong index of 40 is 2.5 %, which a tolerance for floating-point results would accept."""
    model, x = Lookup(), torch.randn(40, 8)
    values = record(model, x)
    file = export(model, tmp_path / "m.onnx", x)
    node = next(node for node in file.graph.node if node.op_type == "ArgMax")
    name, node.output[0] = node.output[0], "indices"
    at = list(file.graph.node).index(node)
    one = helper.make_tensor("one", onnx.TensorProto.INT64, [40], [1] + 39 * [0])
    file.graph.initializer.append(one)
    add = helper.make_node("Add", ["indices", "one"], [name], "add")
    add.metadata_props.extend(node.metadata_props)
    file.graph.node.insert(at + 1, add)
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    row = report.of("best")
    assert report.first.module == "best" and row.unequal == pytest.approx(1 / 40) and row.status == "differs"


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.line, self.noise, self.after, self.side = nn.Linear(8, 8), Noise(), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.after(self.noise(self.line(x))), self.side(x)


@pytest.mark.parametrize("faulty", [True, False])
def test_random_numbers_are_ignored_and_hide_no_fault(tmp_path, faulty):
    model, x = Noisy(), torch.randn(4, 8)
    values = record(model, x)
    if faulty:
        model.side.bias.data += 1
    export(model, tmp_path / "m.onnx", x)
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert (report.first and report.first.module) == ("side" if faulty else None), str(report)
    assert "random numbers" in report.of("noise").note and report.of("after").status == "not observable"
    assert any("RandomUniformLike" in note for note in report.notes)


def test_a_dropout_in_training_mode_is_random(tmp_path):
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 8)), torch.randn(4, 8)
    values = record(model, x)
    file = export(model, tmp_path / "m.onnx", x)
    file.graph.initializer.extend([helper.make_tensor("ratio", onnx.TensorProto.FLOAT, [], [0.5]),
                                   helper.make_tensor("training", onnx.TensorProto.BOOL, [], [True])])
    first, second = (node for node in file.graph.node if node.op_type == "Gemm")
    drop = helper.make_node("Dropout", [first.output[0], "ratio", "training"], ["dropped"], "drop")
    second.input[0] = "dropped"
    file.graph.node.insert(1, drop)
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert report.first is None and any("Dropout" in note for note in report.notes), str(report)


class EqualValueAttention(nn.Module):
    """Attends to equal values, so the attention weights do not matter."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        weights = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2), -1)
        return self.head(weights @ torch.ones_like(x))


def test_a_fault_without_a_lasting_effect_is_marked(tmp_path):
    model, x = EqualValueAttention(), torch.randn(2, 5, 8)
    values = record(model, x)
    model.query.weight.data = model.query.weight.data.roll(1, 0)
    export(model, tmp_path / "m.onnx", x)
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert report.of("").status == "equal"
    assert report.first.module == "query" and not report.first.lasts, str(report)
    assert "its inputs agree, and later values agree" in str(report)


class Scaling(nn.Module):
    def __init__(self):
        super().__init__()
        self.line, self.scale, self.head = nn.Linear(8, 8), nn.Parameter(torch.rand(8)), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.scale * self.line(x))


def test_a_scale_folded_into_weights_is_not_a_difference(tmp_path):
    """As onnxslim does with ConvNeXt: the scaled value gets the name of the module's result."""
    model, x = Scaling(), torch.randn(4, 8)
    values = record(model, x)
    file = export(model, tmp_path / "m.onnx", x)
    gemm = next(node for node in file.graph.node if node.op_type == "Gemm")
    mul = next(node for node in file.graph.node if node.op_type == "Mul")
    gemm_metadata = [entry for entry in gemm.metadata_props]
    for initializer in file.graph.initializer:
        if initializer.name in gemm.input:
            weight = onnx.numpy_helper.to_array(initializer)
            scale = model.scale.detach().numpy()
            transposed = any(entry.name == "transB" and entry.i for entry in gemm.attribute)
            scaled = weight * (scale[:, None] if weight.ndim == 2 and transposed else scale)
            initializer.CopyFrom(onnx.numpy_helper.from_array(scaled, initializer.name))
    name, gemm.output[0] = gemm.output[0], "scaled"
    identity = helper.make_node("Identity", ["scaled"], [name], "shape")
    identity.metadata_props.extend(gemm_metadata)
    del gemm.metadata_props[:]
    gemm.metadata_props.extend(mul.metadata_props)
    for node in file.graph.node:
        for at, input_name in enumerate(node.input):
            if input_name == mul.output[0]:
                node.input[at] = name
    at = list(file.graph.node).index(gemm)
    file.graph.node.insert(at + 1, identity)
    file.graph.node.remove(mul)
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert report.first is None and report.of("").status == "equal", str(report)


def test_limits_apply_to_every_run(tmp_path):
    """The second run exceeds the limit of one module; the first run differs more, but in another module."""
    class TwoLinears(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x, y):
            return self.a(x), self.b(y)

    torch.manual_seed(0)
    model = TwoLinears().eval()
    zero, one = torch.zeros(2, 4), torch.ones(2, 4)
    values = whence.record_values(model, (zero, 100 * one), more=[(one, zero)])
    model.a.weight.data *= 1.01  # no difference if x is 0
    model.b.weight.data *= 1.5
    export(model, tmp_path / "m.onnx", zero, one)
    report = whence.accuracy(tmp_path / "m.onnx", values, max_error=["1e-3@a"])
    assert report.of("a").relative < 1e-3 and "run 0 of 2" in " ".join(report.notes)
    (finding,) = report.findings
    assert finding["module"] == "a" and finding["run"] == 1 and "in run 1" in finding["message"]
    assert not report.clean and whence.accuracy(tmp_path / "m.onnx", values, max_error=["9"]).clean


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(24, 32), nn.Linear(24, 32), nn.Linear(32, 24)
        self.exchanged = False

    def forward(self, x):
        first, second = (self.up, self.gate) if self.exchanged else (self.gate, self.up)
        return self.down(torch.nn.functional.silu(first(x)) * second(x))


def test_exchanged_operands_are_not_blamed_on_their_producers(tmp_path):
    """The weights are unchanged, so each bias belongs to its own module, and the product of both is at fault."""
    torch.manual_seed(0)
    model, x = Gated().eval(), torch.randn(2, 6, 24)
    with whence.record(tmp_path / "model.whence.json", tmp_path / "v.safetensors"):
        torch.onnx.export(model, (x,), tmp_path / "right.onnx", dynamo=False, opset_version=17)
    model.exchanged = True
    torch.onnx.export(model, (x,), tmp_path / "wrong.onnx", dynamo=False, opset_version=17)
    whence.annotate(tmp_path / "wrong.onnx", tmp_path / "model.whence.json")
    biases = {name: module for node in onnx.load(tmp_path / "wrong.onnx").graph.node if node.op_type == "Add"
              for module in [next(entry.value for entry in node.metadata_props if entry.key == "pkg.whence.module")]
              for name in node.input if name.endswith(".bias")}
    assert biases == {"gate.bias": "gate", "up.bias": "up", "down.bias": "down"}
    report = whence.accuracy(tmp_path / "wrong.onnx", tmp_path / "v.safetensors", sidecar=tmp_path / "model.whence.json")
    assert report.first.module == "" and {first.module for first in report.beginnings} == {""}


def test_indices_of_imprecise_scores_are_not_a_fault(tmp_path):
    """If scores are off by a few per cent, as in a 4-bit file, a larger share of the indices differs."""
    model, x = Lookup(), torch.randn(200, 8)
    values = record(model, x)
    file = export(model, tmp_path / "m.onnx", x)
    weight = next(initializer for initializer in file.graph.initializer
                  if sorted(initializer.dims) == [8, 64] and "scores" in initializer.name)
    array = onnx.numpy_helper.to_array(weight)
    noise = numpy.random.default_rng(0).standard_normal(array.shape)
    weight.CopyFrom(onnx.numpy_helper.from_array((array + 0.1 * array.std() * noise).astype(numpy.float32), weight.name))
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values, tolerance=0.12)
    assert report.of("scores").relative > 0.05 and report.of("best").unequal > 0.12
    assert report.of("best").status == "equal" and "best" not in {first.module for first in report.beginnings}
