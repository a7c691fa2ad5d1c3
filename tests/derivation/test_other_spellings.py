"""Operations that exporters and tools write in other ways than whence: repeated heads, deviations, bounds in float16, places."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
import whence
from onnx import helper, numpy_helper
from torch import nn

import small_models as models
from test_attest import attest, unaccounted

EXPORTERS = ("dynamo", "torchscript")


class RootNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class GroupedQueries(nn.Module):
    """An attention of four heads that share two heads of keys and values; each query and key has a norm."""

    def __init__(self):
        super().__init__()
        self.queries, self.keys, self.values = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8)
        self.query_norm, self.key_norm = RootNorm(4), RootNorm(4)

    def forward(self, x):
        queries, keys, values = (layer(x).view(2, 5, -1, 4) for layer in (self.queries, self.keys, self.values))
        queries, keys = self.query_norm(queries).transpose(1, 2), self.key_norm(keys).transpose(1, 2)
        keys, values = keys.repeat_interleave(2, 1), values.transpose(1, 2).repeat_interleave(2, 1)
        return (queries @ keys.transpose(-1, -2) * 0.5).softmax(-1) @ values


class Shares(nn.Module):
    """Divides by sums that are cut off near zero, at numbers that float16 cannot hold, and finds the largest element."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 6)

    def forward(self, x):
        projected = self.project(x)
        size = projected.abs().sum(-1, keepdim=True).clamp(min=1e-6)
        return projected.argmax(-1), projected / size, nn.functional.normalize(projected, dim=-1)


class Deviation(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 6)

    def forward(self, x):
        return self.project(x).std(-1)


INPUTS = {GroupedQueries: (2, 5, 16), Shares: (4, 8), Deviation: (4, 8)}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns a function that makes the checkpoint, the recording and the file of an exporter."""
    made = {}

    def make(kind, exporter):
        if (kind, exporter) not in made:
            folder = tmp_path_factory.mktemp(f"{kind.__name__}_{exporter}")
            torch.manual_seed(3)
            model, x = kind().eval(), torch.randn(INPUTS[kind])
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(0.2 * torch.randn_like(parameter))
            files = SimpleNamespace(weights=models.save_weights(model, folder / "model.safetensors"), x=x,
                                    sidecar=folder / "model.whence.json", path=folder / "model.onnx")
            with whence.record(files.sidecar):
                torch.onnx.export(model, (x,), files.path, dynamo=exporter == "dynamo", input_names=["x"])
            onnx.save(onnx.load(files.path), files.path)  # without a file for data, so that tools can write elsewhere
            made[kind, exporter] = files
        return made[kind, exporter]

    return make


def nodes_of(model, op_type):
    return [node for node in model.graph.node if node.op_type == op_type]


def maker_of(model, value):
    return next(node for node in model.graph.node if value in node.output)


def set_numbers(model, name, numbers):
    """Puts numbers into an initializer or a node Constant, for all its readers."""
    for tensor in model.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(numbers), name))
            return
    maker_of(model, name).attribute[0].t.CopyFrom(numpy_helper.from_array(np.asarray(numbers)))


def findings(model, files, tmp_path):
    onnx.save(model, tmp_path / "changed.onnx")
    statement = attest(tmp_path / "changed.onnx", files, code=1)
    return unaccounted(statement), statement["predicate"]


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", INPUTS)
def test_the_exported_file_is_accounted_for(exported, kind, exporter):
    files = exported(kind, exporter)
    assert unaccounted(attest(files.path, files)) == ([], [])


@pytest.mark.parametrize("tool", ["onnxslim", "ort_basic", "float16", "static"])
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", INPUTS)
def test_files_of_tools_are_accounted_for(exported, tmp_path, kind, exporter, tool):
    files = exported(kind, exporter)
    models.TOOLS[tool](files.path, tmp_path / "tool.onnx", [{"x": files.x.numpy()}])
    assert unaccounted(attest(tmp_path / "tool.onnx", files)) == ([], [])


# ---- changed files

@pytest.mark.parametrize("exporter", EXPORTERS)
def test_heads_repeated_in_another_order_are_found(exported, tmp_path, exporter):
    files = exported(GroupedQueries, exporter)
    model = onnx.load(files.path)
    repeating = nodes_of(model, "Expand" if exporter == "dynamo" else "Tile")
    for node in repeating:
        set_numbers(model, maker_of(model, node.input[0]).input[1], [1])
        set_numbers(model, node.input[1], [1, 2, 1, 1, 1])
    [_, nodes], _ = findings(model, files, tmp_path)
    assert set(nodes) == {node.name for node in repeating} and len(nodes) == 2


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_keys_in_the_place_of_values_are_found(exported, tmp_path, exporter):
    files = exported(GroupedQueries, exporter)
    model = onnx.load(files.path)
    keys, values = nodes_of(model, "Expand" if exporter == "dynamo" else "Tile")
    keys.input[0], values.input[0] = values.input[0], keys.input[0]
    [_, nodes], _ = findings(model, files, tmp_path)
    assert nodes


@pytest.mark.parametrize(("op_type", "number"), [("Mul", 5.0), ("Div", 6.0)])
def test_another_correction_of_a_deviation_is_found(exported, tmp_path, op_type, number):
    files = exported(Deviation, "dynamo")
    model = onnx.load(files.path)
    node = nodes_of(model, op_type)[-1]
    set_numbers(model, node.input[1], np.float32(number))
    (tensors, nodes), _ = findings(model, files, tmp_path)
    assert tensors == [node.input[1]] or nodes == [node.name]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_another_bound_in_float16_is_found(exported, tmp_path, exporter):
    files = exported(Shares, exporter)
    models.TOOLS["float16"](files.path, tmp_path / "half.onnx", [{"x": files.x.numpy()}])
    model = onnx.load(tmp_path / "half.onnx")
    clip = nodes_of(model, "Clip")[0]
    set_numbers(model, clip.input[1], np.float16(3e-6))
    (tensors, nodes), predicate = findings(model, files, tmp_path)
    assert tensors == [clip.input[1]] or nodes == [clip.name]
    rows = predicate["tensors"] + predicate["nodes"]
    assert all(row.get("remark") for row in rows if row["verdict"] == "unaccounted")


def test_the_smallest_element_in_the_place_of_the_largest_is_found(exported, tmp_path):
    files = exported(Shares, "dynamo")
    model = onnx.load(files.path)
    [node] = nodes_of(model, "ArgMax")
    node.op_type = "ArgMin"
    [_, nodes], _ = findings(model, files, tmp_path)
    assert nodes == [node.name]


def test_a_call_of_a_local_function_and_a_condition_say_why_they_are_unaccounted(exported, tmp_path):
    files = exported(Shares, "dynamo")
    model = onnx.load(files.path)
    last = model.graph.output[0].name
    maker_of(model, last).output[0] = "found"
    same = helper.make_node("Identity", ["found"], ["branch"])
    body = helper.make_graph([same], "body", [], [helper.make_tensor_value_info("branch", onnx.TensorProto.INT64, None)])
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "always"))
    model.graph.node.extend([
        helper.make_node("If", ["always"], ["chosen"], "condition", then_branch=body, else_branch=body),
        helper.make_node("same", ["chosen"], [last], "call", domain="local")])
    opset = helper.make_opsetid("", 18)
    model.functions.append(helper.make_function("local", "same", ["a"], ["b"], [helper.make_node("Identity", ["a"], ["b"])],
                                                [opset]))
    model.opset_import.append(helper.make_opsetid("local", 1))
    _, predicate = findings(model, files, tmp_path)
    remarks = {row["name"]: row.get("remark") for row in predicate["nodes"] if row["verdict"] == "unaccounted"}
    assert remarks["condition"] and remarks["call"]
