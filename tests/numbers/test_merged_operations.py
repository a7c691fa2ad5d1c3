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
