"""whence.accuracy in cases that are easily misjudged: axes of equal size, unused results, indices, random numbers,
differences that later steps remove, several runs."""

import numpy
import onnx
import pytest
import torch
from onnx import helper
from torch import nn

import whence


def recorded(model, *args):
    torch.manual_seed(1)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return whence.record_values(model.eval(), args)


def exported(model, path, *args):
    whence.export(model, args, path)
    return onnx.load(path)


class Turning(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(16, 16)

    def forward(self, x):
        return self.line(x).transpose(1, 2)


class Turned(nn.Module):
    """[2, 16, 16]: sizes do not distinguish the axes."""

    def __init__(self):
        super().__init__()
        self.turning, self.head = Turning(), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.turning(x))


def test_axes_in_a_wrong_order_are_a_difference(tmp_path):
    model, x = Turned(), torch.randn(2, 16, 16)
    values = recorded(model, x)
    file = exported(model, tmp_path / "m.onnx", x)
    next(node for node in file.graph.node if node.op_type == "Transpose").attribute[0].ints[:] = [0, 1, 2]
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert report.first.module == "turning" and report.of("head").status == "differs", str(report)


def test_axes_permuted_and_restored_are_no_difference(tmp_path):
    """The file has only the transposed result, and its consumer transposes it back."""
    model, x = Turned(), torch.randn(2, 16, 16)
    values = recorded(model, x)
    file = exported(model, tmp_path / "m.onnx", x)
    node = next(node for node in file.graph.node if node.op_type == "Transpose")
    node.attribute[0].ints[:] = [0, 1, 2]
    name = node.output[0]
    node.output[0] = "turned"
    at = list(file.graph.node).index(node)
    back = helper.make_node("Transpose", ["turned"], [name], "back", perm=[0, 2, 1])
    back.metadata_props.extend(next(each for each in file.graph.node if "head" in each.name).metadata_props)
    file.graph.node.insert(at + 1, back)
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert report.first is None and report.of("turning").layout == "axes 0 2 1", str(report)


def test_an_output_with_axes_in_a_wrong_order_is_a_difference(tmp_path):
    model, x = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 5, 3, padding=1)), torch.randn(1, 3, 12, 12)
    values = recorded(model, x)
    file = exported(model, tmp_path / "m.onnx", x)
    output = file.graph.output[0].name
    last = next(node for node in file.graph.node if output in node.output)
    last.output[0] = "straight"
    turn = helper.make_node("Transpose", ["straight"], [output], "turn", perm=[0, 1, 3, 2])
    turn.metadata_props.extend(last.metadata_props)
    file.graph.node.append(turn)
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values, max_error=["1e-6"])
    assert report.first.module == "2" and [each["module"] for each in report.findings] == ["2", ""]


class Patches(nn.Module):
    """[1, channels, 8, 8] to [1, 8, 8, channels], normalised over channels, whatever the order of height and width."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1))


class Picture(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.conv = Patches(), nn.Conv2d(8, 4, 3)

    def forward(self, x):
        return self.conv(self.patches(x))


def test_height_and_width_exchanged_are_a_difference(tmp_path):
    """The node that produces the result is a computation, and every later result differs."""
    model, x = Picture(), torch.randn(1, 6, 8, 8)
    values = recorded(model, x)
    file = exported(model, tmp_path / "m.onnx", x)
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


class One(nn.Module):
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
def test_a_result_that_nothing_uses_is_no_difference(tmp_path, make, which, with_sidecar):
    model, x = One(make(), which), torch.randn(1, 5, 8)
    values = recorded(model, x)
    exported(model, tmp_path / "m.onnx", x)
    report = whence.accuracy(tmp_path / "m.onnx", values,
                             sidecar=tmp_path / "m.whence.json" if with_sidecar else None)
    assert report.first is None and not [each.name for each in report.modules if each.status == "differs"], str(report)


class Best(nn.Module):
    def forward(self, x):
        return x.argmax(-1)


class Looking(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores, self.best, self.table = nn.Linear(8, 64), Best(), nn.Embedding(64, 8)

    def forward(self, x):
        return self.table(self.best(self.scores(x)))


def test_one_wrong_index_is_a_difference(tmp_path):
    """One of 40 indices: a tolerance of 8 % or even 2 % would accept it."""
    model, x = Looking(), torch.randn(40, 8)
    values = recorded(model, x)
    file = exported(model, tmp_path / "m.onnx", x)
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
        self.line, self.noise, self.behind, self.side = nn.Linear(8, 8), Noise(), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.behind(self.noise(self.line(x))), self.side(x)


@pytest.mark.parametrize("faulty", [True, False])
def test_random_numbers_are_ignored_and_hide_no_fault(tmp_path, faulty):
    model, x = Noisy(), torch.randn(4, 8)
    values = recorded(model, x)
    if faulty:
        model.side.bias.data += 1
    exported(model, tmp_path / "m.onnx", x)
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert (report.first and report.first.module) == ("side" if faulty else None), str(report)
    assert "random numbers" in report.of("noise").note and report.of("behind").status == "not observable"
    assert any("RandomUniformLike" in note for note in report.notes)


def test_a_dropout_that_trains_is_random(tmp_path):
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 8)), torch.randn(4, 8)
    values = recorded(model, x)
    file = exported(model, tmp_path / "m.onnx", x)
    file.graph.initializer.extend([helper.make_tensor("ratio", onnx.TensorProto.FLOAT, [], [0.5]),
                                   helper.make_tensor("training", onnx.TensorProto.BOOL, [], [True])])
    first, second = (node for node in file.graph.node if node.op_type == "Gemm")
    drop = helper.make_node("Dropout", [first.output[0], "ratio", "training"], ["dropped"], "drop")
    second.input[0] = "dropped"
    file.graph.node.insert(1, drop)
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert report.first is None and any("Dropout" in note for note in report.notes), str(report)


class Attending(nn.Module):
    """All values are equal, so their weights do not matter."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        weights = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2), -1)
        return self.head(weights @ torch.ones_like(x))


def test_a_fault_without_lasting_effect_is_named_as_such(tmp_path):
    model, x = Attending(), torch.randn(2, 5, 8)
    values = recorded(model, x)
    model.query.weight.data = model.query.weight.data.roll(1, 0)
    exported(model, tmp_path / "m.onnx", x)
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


def test_a_scale_folded_into_weights_is_no_difference(tmp_path):
    """Like onnxslim with ConvNeXt: the scaled value has the name of the module's result."""
    model, x = Scaling(), torch.randn(4, 8)
    values = recorded(model, x)
    file = exported(model, tmp_path / "m.onnx", x)
    gemm = next(node for node in file.graph.node if node.op_type == "Gemm")
    mul = next(node for node in file.graph.node if node.op_type == "Mul")
    line = [entry for entry in gemm.metadata_props]
    for each in file.graph.initializer:
        if each.name in gemm.input:
            weight = onnx.numpy_helper.to_array(each)
            scale = model.scale.detach().numpy()
            transposed = any(entry.name == "transB" and entry.i for entry in gemm.attribute)
            scaled = weight * (scale[:, None] if weight.ndim == 2 and transposed else scale)
            each.CopyFrom(onnx.numpy_helper.from_array(scaled, each.name))
    name, gemm.output[0] = gemm.output[0], "scaled"
    same = helper.make_node("Identity", ["scaled"], [name], "shape")
    same.metadata_props.extend(line)
    del gemm.metadata_props[:]
    gemm.metadata_props.extend(mul.metadata_props)
    for node in file.graph.node:
        for at, each in enumerate(node.input):
            if each == mul.output[0]:
                node.input[at] = name
    at = list(file.graph.node).index(gemm)
    file.graph.node.insert(at + 1, same)
    file.graph.node.remove(mul)
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert report.first is None and report.of("").status == "equal", str(report)


def test_limits_hold_for_every_run(tmp_path):
    """The second run exceeds the limit of one module; the first run differs more, but in another module."""
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x, y):
            return self.a(x), self.b(y)

    torch.manual_seed(0)
    model = Two().eval()
    zero, one = torch.zeros(2, 4), torch.ones(2, 4)
    values = whence.record_values(model, (zero, 100 * one), more=[(one, zero)])
    model.a.weight.data *= 1.01  # no difference if x is 0
    model.b.weight.data *= 1.5
    exported(model, tmp_path / "m.onnx", zero, one)
    report = whence.accuracy(tmp_path / "m.onnx", values, max_error=["1e-3@a"])
    assert report.of("a").relative < 1e-3 and "number 0" in " ".join(report.notes)
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


def test_exchanged_operands_are_no_fault_of_their_producers(tmp_path):
    """The weights are unchanged, so each bias belongs to its own module, and the product of both is at fault."""
    torch.manual_seed(0)
    model, x = Gated().eval(), torch.randn(2, 6, 24)
    with whence.record(tmp_path / "model.whence.json", tmp_path / "v.safetensors"):
        torch.onnx.export(model, (x,), tmp_path / "right.onnx", dynamo=False, opset_version=17)
    model.exchanged = True
    torch.onnx.export(model, (x,), tmp_path / "wrong.onnx", dynamo=False, opset_version=17)
    whence.annotate(tmp_path / "wrong.onnx", tmp_path / "model.whence.json")
    biases = {name: module for node in onnx.load(tmp_path / "wrong.onnx").graph.node if node.op_type == "Add"
              for module in [next(each.value for each in node.metadata_props if each.key == "pkg.whence.module")]
              for name in node.input if name.endswith(".bias")}
    assert biases == {"gate.bias": "gate", "up.bias": "up", "down.bias": "down"}
    report = whence.accuracy(tmp_path / "wrong.onnx", tmp_path / "v.safetensors", sidecar=tmp_path / "model.whence.json")
    assert report.first.module == "" and {each.module for each in report.beginnings} == {""}


def test_indices_of_imprecise_scores_are_no_fault(tmp_path):
    """If scores are off by a few per cent, as in a 4-bit file, a larger share of the indices changes."""
    model, x = Looking(), torch.randn(200, 8)
    values = recorded(model, x)
    file = exported(model, tmp_path / "m.onnx", x)
    weight = next(each for each in file.graph.initializer if sorted(each.dims) == [8, 64] and "scores" in each.name)
    array = onnx.numpy_helper.to_array(weight)
    noise = numpy.random.default_rng(0).standard_normal(array.shape)
    weight.CopyFrom(onnx.numpy_helper.from_array((array + 0.1 * array.std() * noise).astype(numpy.float32), weight.name))
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values, tolerance=0.12)
    assert report.of("scores").relative > 0.05 and report.of("best").unequal > 0.12
    assert report.of("best").status == "equal" and "best" not in {each.module for each in report.beginnings}
