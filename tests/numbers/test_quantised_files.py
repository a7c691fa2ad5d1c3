"""whence.accuracy on QDQ files, in which ONNX Runtime's quantiser merges activations into QuantizeLinear and adds
nodes, and on differences that do not last. Each report's rows must agree with its first line."""

import json
import math
import subprocess
import sys

import jsonschema
import numpy
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from torch import nn

import command
import whence
from numbers_models import results_of_hooks


SCHEMA = jsonschema.Draft202012Validator(json.loads((command.ROOT / "schema" / "accuracy.schema.json").read_text()))


class NormWithActivation(nn.BatchNorm2d):
    """Contains its activation and returns the activation's result, as norms in timm do."""

    def __init__(self, channels, act):
        super().__init__(channels)
        self.act = act

    def forward(self, x):
        return self.act(super().forward(x))


class NormWithRelu(nn.BatchNorm2d):
    def forward(self, x):
        return torch.relu(super().forward(x))


class Block(nn.Module):
    """A residual block; the activation after its sum is read by convolutions and by the next sum."""

    def __init__(self, norm):
        super().__init__()
        self.conv1, self.norm1, self.conv2 = nn.Conv2d(6, 6, 3, padding=1, bias=False), norm(), nn.Conv2d(6, 6, 1)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(x + self.conv2(self.norm1(self.conv1(x))))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up, self.act = nn.Conv2d(6, 3, 1), nn.Conv2d(3, 6, 1), nn.ReLU6()

    def forward(self, x):
        return x * torch.sigmoid(self.up(self.act(self.down(x.mean((2, 3), keepdim=True)))))


def network(*blocks):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
                          *(make() for make in blocks), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.3, 0.6)
            module.bias.data.normal_(0, 0.2)
    return model.eval()


NETWORKS = {
    "norms with activations": lambda: network(lambda: Block(lambda: NormWithActivation(6, nn.ReLU())),
                                              lambda: Block(lambda: NormWithRelu(6))),
    "clips": lambda: network(lambda: Block(lambda: NormWithActivation(6, nn.ReLU6())), Gate),
    "activation modules": lambda: network(lambda: Block(lambda: nn.Sequential(nn.BatchNorm2d(6), nn.ReLU())), Gate),
}
IMAGES = [torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]


class Images(CalibrationDataReader):
    def __init__(self, name):
        self.images = iter([{name: image.numpy()} for image in IMAGES])

    def get_next(self):
        return next(self.images, None)


def quantise(source, target, **options):
    name = onnx.load(source).graph.input[0].name
    whence.carry(source, lambda before, after: quantize_static(before, after, Images(name), **(
        {"weight_type": QuantType.QInt8, "per_channel": True} | options)), target)


def assert_consistent(report) -> None:
    """Asserts that the rows agree with the first line."""
    differing = [row for row in report.modules if row.status == "differs"]
    marked = [line for line in str(report).splitlines() if line.endswith("differs, first")]
    if report.first is None:
        assert not differing and not marked, str(report)
    else:
        assert report.first_row in differing and len(marked) == 1, str(report)
        assert report.first_row.name.rpartition(".")[2] in marked[0]


@pytest.mark.parametrize("options", [{"activation_type": QuantType.QUInt8}, {}, {"quant_format": QuantFormat.QOperator}],
                         ids=["uint8", "int8", "operators"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_a_correct_file_has_no_differences(tmp_path, kind, options):
    model = NETWORKS[kind]()
    whence.export(model, (IMAGES[0],), tmp_path / "m.onnx")
    values = whence.record_values(model, (IMAGES[0],))
    quantise(tmp_path / "m.onnx", tmp_path / "q.onnx", **options)
    for sidecar in (None, tmp_path / "m.whence.json"):
        report = whence.accuracy(tmp_path / "q.onnx", values, sidecar=sidecar)
        assert report.first is None and report.beginnings == () and "no module differs" in str(report), str(report)
        assert {row.status for row in report.modules} <= {"equal", "not observable"}


def scale_initializer(path, name, factor):
    model = onnx.load(path)
    tensor = next(each for each in model.graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array((numpy_helper.to_array(tensor) * factor).astype(numpy.float32), name))
    onnx.save(model, path)


def test_a_wrong_module_between_quantised_operators_is_named(tmp_path):
    """No value between the QLinearConvs is a floating-point number. The bundle fails, and not with the right scale."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.Conv2d(6, 6, 3), nn.Conv2d(6, 6, 1), nn.Conv2d(6, 4, 1)).eval()
    whence.export(model, (IMAGES[0],), tmp_path / "m.onnx")
    values = whence.record_values(model, (IMAGES[0],), full=["**"])
    quantise(tmp_path / "m.onnx", tmp_path / "q.onnx", quant_format=QuantFormat.QOperator, per_channel=False)
    nodes = [node for node in onnx.load(tmp_path / "q.onnx").graph.node if node.op_type == "QLinearConv"]
    assert len(nodes) == 4 and not whence.accuracy(tmp_path / "q.onnx", values).beginnings
    scale_initializer(tmp_path / "q.onnx", nodes[1].input[4], 2)
    report = whence.accuracy(tmp_path / "q.onnx", values, sidecar=tmp_path / "m.whence.json", repro=tmp_path / "bundle",
                             all_faults=True)
    assert_consistent(report)
    assert report.first.module == "1" and list(report.first.nodes) == [nodes[1].name], str(report)
    assert [each.module for each in report.faults] == ["1"], str(report)
    ran = [sys.executable, tmp_path / "bundle" / "reproduce.py"]
    assert subprocess.run(ran, capture_output=True, check=False).returncode == 1, report.bundle
    scale_initializer(tmp_path / "bundle" / "piece.onnx", nodes[1].input[4], 0.5)
    assert subprocess.run(ran, capture_output=True, check=False).returncode == 0


def value_of(path, name):
    """Computes a value of the file for the first images in ONNX Runtime."""
    model = onnx.load(path)
    model.graph.output.append(onnx.ValueInfoProto(name=name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run([name], {session.get_inputs()[0].name: IMAGES[0].numpy()})[0])


def test_the_result_of_a_merged_activation_is_read_after_the_clip(tmp_path):
    """Compares with hooks and ONNX Runtime: only the convolution's output contains negative numbers."""
    model = NETWORKS["norms with activations"]()
    whence.export(model, (IMAGES[0],), tmp_path / "m.onnx")
    quantise(tmp_path / "m.onnx", tmp_path / "q.onnx")
    report = whence.accuracy(tmp_path / "q.onnx", whence.record_values(model, (IMAGES[0],)), sidecar=tmp_path / "m.whence.json")
    row, (expected,) = report.of("3.norm1"), results_of_hooks(model, (IMAGES[0],))["3.norm1", 0]
    producer = next(node for node in onnx.load(tmp_path / "q.onnx").graph.node if row.value in node.output)
    assert producer.op_type == "DequantizeLinear" and float(value_of(tmp_path / "q.onnx", row.value).min()) >= 0
    error = (value_of(tmp_path / "q.onnx", row.value) - expected).norm() / expected.norm()
    assert row.relative == pytest.approx(float(error), rel=0.3) and row.relative < 0.05


def test_a_relu_lost_by_a_tool_is_named(tmp_path):
    """With int8 and zero point 0, the clip is not a Relu: negative numbers remain."""
    model = NETWORKS["norms with activations"]()
    whence.export(model, (IMAGES[0],), tmp_path / "m.onnx")
    quantise(tmp_path / "m.onnx", tmp_path / "q.onnx")
    report = whence.accuracy(tmp_path / "q.onnx", whence.record_values(model, (IMAGES[0],)), sidecar=tmp_path / "m.whence.json")
    file = onnx.load(tmp_path / "q.onnx")
    dequantize = next(node for node in file.graph.node if report.of("3.norm1").value in node.output)
    for initializer in file.graph.initializer:
        array = numpy_helper.to_array(initializer)
        if initializer.name == dequantize.input[2]:
            initializer.CopyFrom(numpy_helper.from_array(numpy.full_like(array, 0), initializer.name))
        elif initializer.name == dequantize.input[1]:
            initializer.CopyFrom(numpy_helper.from_array((array * 2).astype(array.dtype), initializer.name))
    onnx.save(file, tmp_path / "lost.onnx")
    for sidecar in (None, tmp_path / "m.whence.json"):
        report = whence.accuracy(tmp_path / "lost.onnx", whence.record_values(model, (IMAGES[0],)), sidecar=sidecar)
        assert report.first is not None and "3.norm1" in report.first.suspects, str(report)
        assert report.of("3.norm1").status == ("differs" if sidecar else "not observable")
        assert_consistent(report)


# ---- differences that do not last ---------------------------------------------------------------------------------


class NormAfterEachLayer(nn.Module):
    """A norm follows each layer and removes the scale of the layer's result."""

    def __init__(self, layer, norm):
        super().__init__()
        self.layers = nn.ModuleList(layer() for _ in range(5))
        self.norms = nn.ModuleList(norm() for _ in range(5))

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = torch.relu(norm(layer(x)))
        return x


def convolution():
    block = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4))
    block[1].bias.data.normal_(0, 0.3)
    return block


NORMALISED = {
    "linear": (lambda: NormAfterEachLayer(lambda: nn.Linear(32, 32, bias=False), lambda: nn.LayerNorm(32, 1e-12)),
               (16, 32), "layers.2"),
    "convolution and its norm in one node": (
        lambda: NormAfterEachLayer(convolution, lambda: nn.InstanceNorm2d(4, 1e-12)), (2, 4, 12, 12), "layers.2.0"),
}


def scale_weight(path, module, factor):
    """Multiplies the weight of the module's Conv, MatMul or Gemm in the file by `factor`."""
    file = onnx.load(path)
    node = next(node for node in file.graph.node if node.op_type in ("Conv", "MatMul", "Gemm") and any(
        entry.key.startswith("pkg.whence.module") and f'"{module}"' in f'"{entry.value}"' for entry in node.metadata_props))
    weight = next(initializer for initializer in file.graph.initializer if initializer.name == node.input[1])
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * numpy.float32(factor), weight.name))
    onnx.save(file, path)


def int8(source, target):
    quantize_dynamic(str(source), str(target), extra_options={"DefaultTensorType": TensorProto.FLOAT})


def float16(source, target):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


@pytest.mark.parametrize("tool", [None, int8, float16], ids=["float32", "int8", "float16"])
@pytest.mark.parametrize("kind", NORMALISED)
def test_a_wrong_weight_hidden_by_a_norm_is_named(tmp_path, run_main, kind, tool):
    make, sizes, module = NORMALISED[kind]
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(sizes)
    whence.record_values(model, (x,), tmp_path / "v.safetensors")
    for factor in (1.7, 1.0):
        whence.export(model, (x,), tmp_path / "m.onnx")
        scale_weight(tmp_path / "m.onnx", module, factor)
        path = tmp_path / "m.onnx" if tool is None else tmp_path / "t.onnx"
        if tool is not None:
            tool(tmp_path / "m.onnx", path)
            whence.annotate(path, source=tmp_path / "m.onnx")
        for sidecar in (None, tmp_path / "m.whence.json"):
            report = whence.accuracy(path, tmp_path / "v.safetensors", sidecar=sidecar)
            assert_consistent(report)
            if factor == 1.0:
                assert report.first is None and report.beginnings == (), str(report)
                continue
            assert report.first.suspects[0] == module and report.first_row.relative == pytest.approx(0.65, abs=0.1), str(report)
            assert report.of("").status == "equal"
            assert not report.first.lasts or tool is None or report.of("norms.2").relative > report.of("norms.1").relative
        # The exit code is 1 only if a limit is set.
        output = run_main("accuracy", path, "--values", tmp_path / "v.safetensors").out
        assert (module in output.split("module  ")[0]) == (factor != 1.0)
        run_main("accuracy", path, "--values", tmp_path / "v.safetensors", "--max-error", "0.1", code=int(factor != 1.0))


class Masking(nn.Module):
    def forward(self, scores):
        return scores.masked_fill(torch.ones(6, 6).triu(1).bool(), torch.finfo(torch.float32).min)


class Weights(nn.Module):
    def forward(self, scores):
        return torch.softmax(scores, -1)


def test_a_different_mask_value_is_a_passing_difference(tmp_path):
    model = nn.Sequential(nn.Linear(6, 6), Masking(), Weights()).eval()
    x = torch.randn(2, 6, 6)
    values = whence.record_values(model, (x,))
    whence.export(model, (x,), tmp_path / "m.onnx")
    file = onnx.load(tmp_path / "m.onnx")
    lowest = torch.finfo(torch.float32).min
    changed = 0
    for initializer in file.graph.initializer:
        array = numpy_helper.to_array(initializer)
        if array.dtype == numpy.float32 and (array == lowest).any():
            infinite = numpy.where(array == lowest, -numpy.inf, array).astype("f4")
            initializer.CopyFrom(numpy_helper.from_array(infinite, initializer.name))
            changed += 1
    assert changed
    onnx.save(file, tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    assert report.first is None and report.of("1").status == "passing" and report.of("2").status == "equal", str(report)
    assert "no difference lasts" in str(report) and "1 (infinite, in passing)" in str(report)
    assert math.isinf(report.of("1").relative)
    SCHEMA.validate(json.loads(json.dumps(report.to_json())))
    assert_consistent(report)


def test_accumulated_rounding_has_no_first_difference(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(24))).eval()
    with torch.no_grad():
        for layer in model:
            layer.weight.copy_(torch.linalg.qr(layer.weight)[0])
    x = torch.randn(8, 32)
    values = whence.record_values(model, (x,))
    whence.export(model, (x,), tmp_path / "m.onnx")
    float16(tmp_path / "m.onnx", tmp_path / "h.onnx")
    whence.annotate(tmp_path / "h.onnx", source=tmp_path / "m.onnx")
    default_report = whence.accuracy(tmp_path / "h.onnx", values)
    assert default_report.first is None
    report = whence.accuracy(tmp_path / "h.onnx", values, tolerance=0.9 * default_report.of("23").relative)
    assert report.first is None and report.of("23").status == "adds up", str(report)
    assert "differences grow from step to step" in str(report)
    assert_consistent(report)
