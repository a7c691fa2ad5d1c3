"""Differences that do not begin where they are seen: amplified, rounded over a boundary, coarse, or of another value. The
same files with a fault at the same place name it."""

import numpy
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import whence
from whence.numerics import node_pieces


class Steps(nn.Module):
    """A function between two layers, whose results have ``features`` features."""

    def __init__(self, function, features=16):
        super().__init__()
        torch.manual_seed(5)
        self.before, self.norm, self.after = nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(features, 16)
        self.function = function

    def forward(self, x):
        return torch.tanh(self.after(self.function(self.norm(self.before(x)))))


FUNCTIONS = {
    "log_softmax": lambda x: torch.log_softmax(x * 60, -1),
    "remainder": lambda x: torch.remainder(x * 2, 0.7),
    "floor": lambda x: torch.floor(x * 5),
    "argsort": lambda x: torch.argsort(x, -1).float(),
    "compare": lambda x: torch.where(x > x.roll(1, 1), x, -3.0),
    "product": lambda x: x * torch.prod(x, 1, keepdim=True),
}


def recorded(folder, model, x, exported="m.onnx"):
    """Exports with PyTorch and records. Returns the path of the exported file."""
    torch.onnx.export(model.eval(), (x,), folder / exported, dynamo=False, opset_version=18)
    with whence.record(folder / "m.whence.json"):
        torch.jit.trace(model, (x,), check_trace=False)
    whence.record_values(model, (x,), folder / "m.values.safetensors", operations=True)
    return folder / exported


def report_of(folder, path):
    whence.annotate(path, folder / "m.whence.json", output=folder / "annotated.onnx", overwrite=True)
    return whence.accuracy(folder / "annotated.onnx", folder / "m.values.safetensors", sidecar=folder / "m.whence.json")


def in_float16(path):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(path), keep_io_types=True), path)
    return path


def quantised(path, runs, dynamic):
    from onnxruntime.quantization import CalibrationDataReader, quantize_dynamic, quantize_static

    class Reader(CalibrationDataReader):
        left = iter(runs)

        def get_next(self):
            return next(self.left, None)

    target = path.with_name("quantised.onnx")
    quantize_dynamic(path, target) if dynamic else quantize_static(path, target, Reader())
    return target


def changed(path, change):
    model = onnx.load(path)
    change(model)
    onnx.save(model, path)
    return path


def scaled(initializer, factor):
    array = numpy_helper.to_array(initializer)
    initializer.CopyFrom(numpy_helper.from_array((array * factor).astype(array.dtype), initializer.name))


def output_error(path, model, x):
    session = onnxruntime.InferenceSession(path)
    found, = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    expected = model(x).detach()
    return float(torch.linalg.vector_norm(torch.from_numpy(found) - expected) / torch.linalg.vector_norm(expected))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_float16_file_whose_results_jump_is_right(tmp_path, name):
    torch.manual_seed(3)
    x = torch.randn(4, 12, 16)
    assert report_of(tmp_path, in_float16(recorded(tmp_path, Steps(FUNCTIONS[name]), x))).first is None


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dynamic", [True, False])
def test_a_quantised_file_whose_results_jump_is_right(tmp_path, name, dynamic):
    torch.manual_seed(4)
    x = torch.randn(3, 10, 16)
    path = recorded(tmp_path, Steps(FUNCTIONS[name]), x)
    input_name = onnx.load(path).graph.input[0].name
    runs = [{input_name: each.numpy()} for each in (x, torch.randn(3, 10, 16))]  # x, too: products have outliers
    assert report_of(tmp_path, quantised(path, runs, dynamic)).first is None


@pytest.mark.parametrize("name, wrong", [("remainder", lambda x: torch.remainder(x * 2, 0.5)), ("floor", lambda x: torch.floor(x * 3)),
                                         ("argsort", lambda x: torch.argsort(x, -1, descending=True).float())])
def test_a_fault_in_such_a_function_is_named_in_float16(tmp_path, name, wrong):
    torch.manual_seed(3)
    x = torch.randn(4, 12, 16)
    recorded(tmp_path, Steps(FUNCTIONS[name]), x)
    torch.onnx.export(Steps(wrong).eval(), (x,), tmp_path / "wrong.onnx", dynamo=False, opset_version=18)
    report = report_of(tmp_path, in_float16(tmp_path / "wrong.onnx"))
    assert report.first is not None and report.first.module == "", report


def test_exact_numbers_on_a_boundary_are_not_rounded(tmp_path):
    """A tie that goes the other way is a fault, since integers are exact in float32."""
    x = torch.randn(3, 10, 16)
    bounds = torch.arange(-2.0, 3.0)
    model = Steps(lambda h: torch.bucketize(torch.round(h), bounds).float())
    path = recorded(tmp_path, model, x)
    assert report_of(tmp_path, path).first is None
    wrong = Steps(lambda h: torch.bucketize(torch.round(h), bounds, right=True).float())
    torch.onnx.export(wrong.eval(), (x,), tmp_path / "wrong.onnx", dynamo=False, opset_version=18)
    report = report_of(tmp_path, tmp_path / "wrong.onnx")
    assert report.first is not None and report.first.operation in ("aten::bucketize", "aten::to"), report


class Pooled(nn.Module):
    """A pool whose last windows end beyond the padding."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.stem, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.AvgPool2d(5, 4, 2, ceil_mode=True)
        self.mix = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.mix(torch.remainder(self.down(torch.relu(self.stem(x))) * 40, 1.0)))


def dumped(path, run_path, x):
    """Returns the path of all values of ``run_path``, as a runtime dumps them that runs ``path`` differently."""
    model = onnx.load(run_path)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for node in model.graph.node for name in node.output
                              if node.op_type != "Constant" and name not in {each.name for each in model.graph.output})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [each.name for each in session.get_outputs()]
    numpy.savez(path, **dict(zip(names, session.run(names, {session.get_inputs()[0].name: x.numpy()}), strict=True)))
    return path


def test_a_fault_of_another_runtime_begins_although_onnx_runtime_is_right(tmp_path):
    x = torch.randn(2, 3, 12, 12)
    path = recorded(tmp_path, Pooled(), x)

    def report_on(name, change):
        other = tmp_path / f"{name}.onnx"
        onnx.save(onnx.load(path), other)
        values = dumped(tmp_path / f"{name}.npz", changed(other, change), x)
        whence.annotate(path, tmp_path / "m.whence.json", output=tmp_path / "annotated.onnx", overwrite=True)
        return whence.accuracy(tmp_path / "annotated.onnx", tmp_path / "m.values.safetensors", outputs=values,
                               sidecar=tmp_path / "m.whence.json", repro=tmp_path / name)

    def pool_counts_padding(model):
        node = next(each for each in model.graph.node if each.op_type == "AveragePool")
        next(each for each in node.attribute if each.name == "count_include_pad").i = 0

    def stem_is_rounded(model):
        """Adds an error that the remainder amplifies, as another order of additions does."""
        node = next(each for each in model.graph.node if each.op_type == "AveragePool")
        node.input[0], inner = "rounded", node.input[0]
        model.graph.initializer.append(numpy_helper.from_array(numpy.array(1.00002, numpy.float32), "error"))
        model.graph.node.insert(list(model.graph.node).index(node), onnx.helper.make_node("Mul", [inner, "error"], ["rounded"]))

    wrong = report_on("wrong", pool_counts_padding)
    assert wrong.first.module == "down" and wrong.first.operation == "aten::avg_pool2d", wrong
    assert "which did not compute these values" in wrong.bundle and not (tmp_path / "wrong").exists()
    right = report_on("right", stem_is_rounded)
    assert right.first is None and right.of("mix").relative > 1e-4, right


class Sampler(nn.Module):
    """Samples features at positions that a convolution computes; large enough that values are recorded as sketches."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.stem, self.flow, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 2, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x):
        h = torch.tanh(self.stem(x))
        grid = torch.tanh(self.flow(h)).permute(0, 2, 3, 1)
        return self.out(nn.functional.grid_sample(h, grid, mode="nearest", align_corners=False))


@pytest.mark.parametrize("size", [9, 24])
def test_nearest_sampling_in_8_bits_is_right(tmp_path, size):
    torch.manual_seed(7)
    path = recorded(tmp_path, Sampler(), torch.randn(2, 3, size, size))
    assert report_of(tmp_path, quantised(path, [], True)).first is None


def test_an_overflow_that_a_tanh_ends_does_not_last(tmp_path):
    x = torch.randn(2, 6, 16)
    path = in_float16(recorded(tmp_path, Steps(lambda h: torch.exp(h.abs() * 12)), x))
    report = report_of(tmp_path, path)
    assert report.first is None, report
    assert any(each.not_finite for each in report.modules if each.module == "after"), report


def test_a_factor_that_a_tool_moved_into_a_mask_is_no_fault(tmp_path):
    """`x * 2`, masked and summed: the file multiplies by 0 and 2 at once, so its product is not PyTorch's."""
    mask = torch.eye(10, 16)
    x = torch.randn(2, 10, 16)
    path = recorded(tmp_path, Steps(lambda h: (h * 2 * mask).sum(1)), x)

    def merge(model):
        first, second = [node for node in model.graph.node if node.op_type == "Mul"][:2]
        model.graph.initializer.append(numpy_helper.from_array((2 * mask).numpy(), "doubled"))
        first.input[1] = "doubled"
        for node in model.graph.node:
            node.input[:] = [first.output[0] if name == second.output[0] else name for name in node.input]
        model.graph.node.remove(second)

    report = report_of(tmp_path, changed(path, merge))
    assert output_error(path, Steps(lambda h: (h * 2 * mask).sum(1)), x) < 1e-5
    assert report.first is None, report


class Masked(nn.Module):
    """Attention with a mask of a large negative number."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(8)
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        bias = torch.where(torch.arange(10) < 7, 0.0, -1e4)
        weights = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2) / 32 + bias, -1)
        return x + self.out(weights @ self.value(x))


@pytest.mark.parametrize("fault", [False, True])
def test_coarse_steps_count_only_if_an_output_shows_them(tmp_path, fault):
    """The mask makes the steps of the scores so coarse that all weights are equal, which the outputs hardly show."""
    torch.manual_seed(9)
    x = torch.randn(2, 10, 32)
    path = recorded(tmp_path, Masked(), x)
    input_name = onnx.load(path).graph.input[0].name
    path = quantised(path, [{input_name: torch.randn(2, 10, 32).numpy()} for _ in range(6)], False)
    assert output_error(path, Masked(), x) < 0.05
    if fault:
        weight = next(node.input[1] for node in onnx.load(path).graph.node if node.op_type == "DequantizeLinear"
                      and "value" in "".join(node.output))
        changed(path, lambda model: scaled(next(each for each in model.graph.initializer if each.name == weight), 6))
    report = report_of(tmp_path, path)
    assert (report.first is not None) == fault, report


def test_pairs_of_quantising_nodes_only_clip():
    model = onnx.parser.parse_model('''<ir_version: 9, opset_import: ["": 18]>
        piece (float[4] x) => (float[4] y) <float step = {0.5}, uint8 zero = {2}>
        { q = QuantizeLinear(x, step, zero)  y = DequantizeLinear(q, step, zero) }''')
    x = numpy.array([-9.0, 0.3, 100.2, 200.0], numpy.float32)

    def run(piece):
        return onnxruntime.InferenceSession(piece.SerializeToString()).run(None, {"x": x})[0].tolist()

    assert run(model) == [-1.0, 0.5, 100.0, 126.5]
    assert run(node_pieces.without_rounding(model)) == pytest.approx([-1.5, 0.3, 100.2, 127.0])  # one step more


def test_a_pair_with_two_steps_stays():
    model = onnx.parser.parse_model('''<ir_version: 9, opset_import: ["": 18]>
        piece (float[2] x) => (float[2] y) <float step = {0.5}, float other = {0.6}, uint8 zero = {2}>
        { q = QuantizeLinear(x, step, zero)  y = DequantizeLinear(q, other, zero) }''')
    assert node_pieces.without_rounding(model) == model
