"""``whence.accuracy`` on files in which a tool merged operations of several modules into one node: the merged operation is
named if the result is wrong, and nothing is reported if it is right."""

import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import command
import whence


class Edges(nn.Module):
    """x [batch, 3, 8, 8]: reflects the border, then convolves and normalises."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.border, self.mix, self.norm = nn.ReflectionPad2d(1), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.norm.running_mean.uniform_(-1, 1)
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.mix(self.border(x)))))


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.up, self.act, self.down, self.norm = nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.LayerNorm(16)
        for parameter in self.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)

    def forward(self, x):
        return self.norm(x + self.down(self.act(self.up(x))))


def recorded(folder, model, example):
    """Exports and records the model. Returns the path of the file."""
    whence.export(model.eval(), (example,), folder / "m.onnx")
    whence.record_values(model, (example,), folder / "m.values.safetensors", operations=True)
    return folder / "m.onnx"


def report_on(folder, path):
    return whence.accuracy(path, folder / "m.values.safetensors", sidecar=folder / "m.whence.json")


def carried(folder, model):
    """Saves the changed model and annotates it by the sidecar alone."""
    for node in model.graph.node:
        del node.metadata_props[:]
    onnx.save(model, folder / "changed.onnx")
    command.run("annotate", folder / "changed.onnx", "--sidecar", folder / "m.whence.json", "-o", folder / "annotated.onnx")
    return report_on(folder, folder / "annotated.onnx")


@pytest.fixture
def edges(tmp_path):
    return onnx.load(recorded(tmp_path, Edges(), torch.randn(2, 3, 8, 8)))


def conv_after(graph, name):
    return next(node for node in graph.node if node.op_type == "Conv" and node.input[0] == name)


def test_a_pad_that_a_tool_merged_wrongly_is_named(edges, tmp_path):
    """Like onnxslim 0.1.30, which merges a Pad into a Conv whatever its mode."""
    pad = next(node for node in edges.graph.node if node.op_type == "Pad")
    conv = conv_after(edges.graph, pad.output[0])
    conv.input[0] = pad.input[0]
    next(each for each in conv.attribute if each.name == "pads").ints[:] = [1, 1, 1, 1]
    edges.graph.node.remove(pad)
    report = carried(tmp_path, edges)
    assert report.first.module == "border" and report.first.operation.startswith(("aten::pad", "aten::reflection_pad2d"))
    assert {"border", "mix"} <= set(report.first.suspects)


def test_wrong_weights_of_a_convolution_with_a_folded_norm_are_the_convolutions(edges, tmp_path):
    conv = next(node for node in edges.graph.node if node.op_type == "Conv")
    bias = next(each for each in edges.graph.initializer if each.name == conv.input[2])
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + 1, bias.name))
    onnx.save(edges, tmp_path / "changed.onnx")
    report = report_on(tmp_path, tmp_path / "changed.onnx")
    assert report.first.module in ("mix", "norm") and {"mix", "norm"} >= set(report.first.suspects)


@pytest.mark.parametrize("fault", [None, "up"])
def test_a_product_whose_bias_a_later_node_adds_is_no_difference(tmp_path, fault):
    """ONNX Runtime's fusions put the bias of a product into BiasGelu and SkipLayerNormalization."""
    from onnxruntime.transformers import optimizer

    path = recorded(tmp_path, Feed(), torch.randn(2, 5, 16))
    fused = optimizer.optimize_model(str(path), model_type="bert", num_heads=2, hidden_size=16, opt_level=0).model
    assert {"BiasGelu", "SkipLayerNormalization"} <= {node.op_type for node in fused.graph.node}
    if fault:
        weight = next(each for each in fused.graph.initializer
                      if list(each.dims) == [16, 32])
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * 1.5, weight.name))
    report = carried(tmp_path, fused)
    assert (report.first and report.first.module) == fault


class Offset(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.linspace(1, 3, 4).reshape(4, 1, 1))

    def forward(self, x):
        return x + self.value


class Offsets(nn.Module):
    """Adds an offset to the head's result."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.head, self.offset, self.out = nn.Conv2d(3, 4, 3), Offset(), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.offset(self.head(x))))


def fold_offset(model, factor=1.0):
    """Adds the offset to the convolution's bias, as OnnxSlim does; the node keeps the head's metadata."""
    graph = model.graph
    add = next(node for node in graph.node if node.op_type == "Add")
    conv = next(node for node in graph.node if node.output[0] in add.input)
    bias = next(each for each in graph.initializer if each.name == conv.input[2])
    offset = next(each for each in graph.initializer if each.name in add.input)
    total = numpy_helper.to_array(bias) + factor * numpy_helper.to_array(offset).reshape(-1)
    bias.CopyFrom(numpy_helper.from_array(total.astype("float32"), bias.name))
    conv.output[0] = add.output[0]
    graph.node.remove(add)
    return model


def test_a_value_that_equals_the_result_of_the_merged_module_belongs_to_it(tmp_path):
    path = recorded(tmp_path, Offsets(), torch.randn(2, 3, 8, 8))
    onnx.save(fold_offset(onnx.load(path)), path)
    report = whence.accuracy(path, tmp_path / "m.values.safetensors", sidecar=tmp_path / "m.whence.json", max_error=["1e-3"])
    assert report.clean and report.verdict == "no module differs", report
    assert report.of("offset").relative < 1e-6 and report.of("head").status == "not observable"
    assert any("but equals the result of offset" in note for note in report.notes)


def test_a_module_merged_with_a_wrong_offset_differs(tmp_path):
    path = recorded(tmp_path, Offsets(), torch.randn(2, 3, 8, 8))
    onnx.save(fold_offset(onnx.load(path), factor=2.0), path)
    report = report_on(tmp_path, path)
    assert report.first is not None and {report.first.module, *report.first.suspects} & {"offset", "head"}, report


def test_a_bundle_has_the_node_before_an_operation_that_a_tool_removed(tmp_path):
    """Without the offset, the Tanh computes another result than PyTorch's, but is right; the convolution lacks the offset."""
    path = recorded(tmp_path, Offsets(), torch.randn(2, 3, 8, 8))
    onnx.save(fold_offset(onnx.load(path), factor=0.0), path)
    report = whence.accuracy(path, tmp_path / "m.values.safetensors", sidecar=tmp_path / "m.whence.json",
                             repro=tmp_path / "bundle")
    assert report.first.module == "offset" and report.first.operation == "aten::add", report
    assert [node.op_type for node in onnx.load(tmp_path / "bundle" / "piece.onnx").graph.node] == ["Conv", "Tanh"]


class Grouped(nn.Module):
    """Adds an axis by adding zeros."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.embed, self.place, self.mix, self.head = nn.Linear(6, 8), Offset(), nn.Linear(8, 8), nn.Linear(8, 3)
        self.place.value = nn.Parameter(torch.zeros(1, 1, 1))

    def forward(self, x):
        return self.head(torch.tanh(self.mix(self.place(torch.tanh(self.embed(x))))))


def test_wrong_sizes_begin_at_the_first_value_that_has_them(tmp_path):
    """Like onnxscript 0.5.0, which removes the addition of any zeros."""
    path = recorded(tmp_path, Grouped(), torch.randn(5, 6))
    model = onnx.load(path)
    add = next(node for node in model.graph.node if node.op_type == "Add" and "place.value" in node.input)
    for node in model.graph.node:
        node.input[:] = [add.input[0] if name == add.output[0] else name for name in node.input]
    model.graph.node.remove(add)
    del model.graph.value_info[:]
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    report = carried(tmp_path, model)
    assert report.first.module == "place" and report.first.form == "its sizes are [5, 8] instead of [1, 5, 8]", report
    assert report.of("mix").status == report.of("head").status == "differs" and report.of("embed").status == "equal"
