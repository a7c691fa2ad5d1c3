"""Compares the operation counts of matrix products, convolutions and attention with PyTorch's counter, at the traced
sizes and at others. The files come from whence, both PyTorch exporters and ONNX Runtime's optimiser."""

import functools
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
import whence
from onnx import TensorProto, helper
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import command
import file_cache
from models import zoo
from views.page_data import Page

pytestmark = pytest.mark.filterwarnings("ignore")
PRODUCTS = {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "Attention", "FusedMatMul", "FusedGemm", "FusedConv"}
RECURRENT = {"LSTM", "GRU", "RNN"}


def counted_by_torch(model, inputs: dict) -> int:
    """Counts attention as its two matrix products, because PyTorch does not count its CPU kernel."""
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        model(**inputs)
    return counter.get_total_flops()


def counted(path: Path, tmp_path: Path, inputs: dict, op_types=PRODUCTS) -> int | None:
    """Returns the number of operations in nodes of these types at the inputs' sizes, or None if a count is unknown."""
    file = onnx.load(path, load_external_data=False)
    sizes = {dim.dim_param: size for each in file.graph.input if each.name in inputs
             for dim, size in zip(each.type.tensor_type.shape.dim, inputs[each.name].shape, strict=True) if dim.dim_param}
    page = tmp_path / "report.html"
    page.unlink(missing_ok=True)
    command.run("report", path, "-o", page, *[word for name, size in sizes.items() for word in ("--size", f"{name}={size}")])
    operations = Page(page).node_column("operations")
    found = [operations[node.name] for node in file.graph.node if node.op_type in op_types]
    assert found, "no node of these types"
    return None if None in found else sum(found)


def export_by_whence(name: str, path: Path):
    command.run("export", zoo.trace(name), "-o", path, "--inputs", zoo.inputs_file(name), "--annotate",
                *zoo.MODELS[name].dynamic_options())


def export_by_torchscript(name: str, path: Path):
    entry = zoo.MODELS[name]
    inputs = entry.inputs(entry.first)
    torch.onnx.export(entry.model(), (), str(path), kwargs=inputs, dynamo=False, input_names=list(inputs),
                      dynamic_axes=entry.dynamic)


def export_by_dynamo(name: str, path: Path):
    entry = zoo.MODELS[name]
    inputs = entry.inputs(entry.second)
    shapes = {each: dict.fromkeys(entry.dynamic.get(each, {}), torch.export.Dim.DYNAMIC) for each in inputs}
    torch.onnx.export(entry.model(), (), str(path), kwargs=inputs, dynamo=True, external_data=False, verbose=False,
                      dynamic_shapes=shapes)


def optimise_by_onnxruntime(name: str, path: Path):
    """Writes a file with ONNX Runtime's operators for fused nodes."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath, options.log_severity_level = str(path), 4
    onnxruntime.InferenceSession(cached_file("dynamo", name), options)


ROUTES = {"whence": export_by_whence, "torchscript": export_by_torchscript, "dynamo": export_by_dynamo,
          "runtime": optimise_by_onnxruntime}
CASES = [*[(name, "whence") for name in zoo.MODELS],
         *[(name, "torchscript") for name in ("distilbert", "vit", "mobilenet_v2", "unet", "lstm_tagger")],
         *[(name, "dynamo") for name in ("bert_tiny", "gpt2", "lstm_tagger")],
         *[(name, "runtime") for name in ("bert_tiny", "gpt2")]]


@functools.cache
def cached_file(route: str, name: str) -> Path:
    folder = file_cache.folder("operation_counts", Path(__file__), *zoo.SOURCES)
    return file_cache.cached(folder / f"{name}-{route}.onnx", functools.partial(ROUTES[route], name))


@pytest.mark.parametrize("name, route", CASES)
def test_counts_equal_pytorchs_counts(name, route, tmp_path):
    if route == "whence":
        export_by_whence(name, tmp_path / "model.onnx")
    path = tmp_path / "model.onnx" if route == "whence" else cached_file(route, name)
    entry = zoo.MODELS[name]
    for sizes in entry.first, entry.second:
        inputs = entry.inputs(sizes)
        assert counted(path, tmp_path, inputs) == counted_by_torch(entry.model(), inputs), sizes


class Cells(torch.nn.Module):
    """A recurrent layer in the form that PyTorch counts: one cell for each step."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind, self.cell = kind, getattr(torch.nn, f"{kind}Cell")(5, 7)

    def forward(self, x):
        state = None
        for step in x:
            state = self.cell(step, state)


@pytest.mark.parametrize("kind", sorted(RECURRENT))
def test_recurrent_layers_are_counted(kind, tmp_path):
    model = getattr(torch.nn, kind)(5, 7).eval()
    whence.export(model, (torch.randn(4, 2, 5),), tmp_path / "model.onnx", dynamic_shapes={"input": {0: "time", 1: "batch"}})
    for sizes in (4, 2), (9, 3):
        x = torch.randn(*sizes, 5)
        assert counted(tmp_path / "model.onnx", tmp_path, {"input": x}, RECURRENT) == counted_by_torch(Cells(kind), {"x": x})


class Einsums(torch.nn.Module):
    def forward(self, x, y):
        scores = torch.einsum("bqhd,bkhd->bhqk", x, y)
        summed = torch.einsum("bqhd,bkd->bqh", x, y.sum(2))  # only one operand has k
        return torch.einsum("bhqk,bkhd->bqhd", scores, y), summed, torch.einsum("bhqk,bhqk->bh", scores, scores)


class Attention(torch.nn.Module):
    def forward(self, x, y):
        x, y = x.transpose(1, 2), y.transpose(1, 2)
        return F.scaled_dot_product_attention(x, y, y), F.scaled_dot_product_attention(x, y, y[..., :3])


@pytest.mark.parametrize("model, kind, opset", [(Einsums(), "Einsum", 20), (Attention(), "Attention", 23)])
def test_einsum_and_attention_are_counted(model, kind, opset, tmp_path):
    sample = {"x": torch.randn(2, 5, 3, 4), "y": torch.randn(2, 6, 3, 4)}
    whence.export(model, (), tmp_path / "model.onnx", kwargs=sample, opset_version=opset, operators="fused" if opset > 22 else None,
                  dynamic_shapes={"x": {0: "b", 1: "q"}, "y": {0: "b", 1: "k"}})
    assert sum(node.op_type == kind for node in onnx.load(tmp_path / "model.onnx").graph.node) > 1
    for b, q, k in (2, 5, 6), (3, 9, 2):
        inputs = {"x": torch.randn(b, q, 3, 4), "y": torch.randn(b, k, 3, 4)}
        assert counted(tmp_path / "model.onnx", tmp_path, inputs) == counted_by_torch(model, inputs), (b, q, k)


def shape_model(path: Path, nodes: list, **constants) -> Path:
    """Writes a model with x float32[n, 6], `nodes` that compute z [?, 4], and the matrix product of z and w [4, 5]."""
    nodes = [*nodes, helper.make_node("MatMul", ["z", "w"], ["y"])]
    for number, node in enumerate(nodes):
        node.name = f"{node.op_type}{number}"
    stored = {"w": np.zeros((4, 5), np.float32), **{name: np.asarray(value) for name, value in constants.items()}}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [onnx.numpy_helper.from_array(value, name) for name, value in stored.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def op(op_type: str, *inputs: str, out: str, **attributes):
    return helper.make_node(op_type, list(inputs), out.split(), **attributes)


N = [op("Shape", "x", out="s"), op("Gather", "s", "zero", out="n"), op("Gather", "s", "last", out="six")]
ZERO = {"zero": np.int64(0), "last": np.int64(-1), "one": np.int64(1), "two": np.int64(2), "ax": [0], "four": [4],
        "three": np.int64(3), "six_ones": np.ones((4, 1), np.float32), "open": [-1], "half": np.float32(0.5)}
# Ways in which exporters compute sizes: (rows of z for n rows of x, nodes).
FORMS = {
    "Mul, Div, Concat, Reshape": (lambda n: n * 6 // 4, [
        *N, op("Mul", "n", "six", out="a"), op("Div", "a", "two", out="b"), op("Div", "b", "two", out="c"),
        op("Unsqueeze", "c", "ax", out="d"), op("Concat", "d", "four", out="e", axis=0), op("Reshape", "x", "e", out="z")]),
    "Size, Mod, Cast, Floor": (lambda n: n * 6 // 4, [
        op("Size", "x", out="a"), op("Cast", "a", out="b", to=1), op("Mul", "b", "half", out="c"), op("Mul", "c", "half", out="d"),
        op("Floor", "d", out="e"), op("Cast", "e", out="f", to=7), op("Unsqueeze", "f", "ax", out="g"),
        op("Concat", "g", "four", out="h", axis=0), op("Reshape", "x", "h", out="z")]),
    "ConstantOfShape": (lambda n: n, [
        *N, op("Unsqueeze", "n", "ax", out="a"), op("Concat", "a", "four", out="b", axis=0), op("ConstantOfShape", "b", out="z")]),
    "Range, Expand": (lambda n: n + 2, [
        *N, op("Add", "n", "two", out="a"), op("Range", "zero", "a", "one", out="b"), op("Cast", "b", out="c", to=1),
        op("Shape", "c", out="d"), op("Concat", "four", "d", out="e", axis=0), op("Expand", "six_ones", "e", out="f"),
        op("Transpose", "f", out="z", perm=[1, 0])]),
    "Slice, Where, Equal": (lambda n: n - 1, [
        *N, op("Equal", "n", "three", out="p"), op("Where", "p", "one", "two", out="q"), op("Sub", "n", "one", out="a"),
        op("Unsqueeze", "a", "ax", out="b"), op("Slice", "x", "ax", "b", "ax", out="c"), op("Slice", "c", "ax", "four", "one1", out="z")]),
    "Split, Squeeze": (lambda n: n, [
        op("Shape", "x", out="s"), op("Split", "s", out="a b", axis=0, num_outputs=2), op("Squeeze", "a", "ax", out="c"),
        op("Unsqueeze", "c", "ax", out="d"), op("Concat", "d", "four", out="e", axis=0), op("ConstantOfShape", "e", out="z")]),
}


@pytest.mark.parametrize("form", FORMS)
def test_sizes_computed_by_nodes_are_inferred(form, tmp_path):
    rows, nodes = FORMS[form]
    path = shape_model(tmp_path / "m.onnx", nodes, **ZERO, one1=[1])
    session = onnxruntime.InferenceSession(path)
    for n in 4, 6, 10:
        x = np.zeros((n, 6), np.float32)
        assert session.run(None, {"x": x})[0].shape == (rows(n), 5)
        assert counted(path, tmp_path, {"x": x}, {"MatMul"}) == 2 * rows(n) * 4 * 5, n


def test_data_dependent_sizes_stay_unknown(tmp_path):
    """An element of x becomes a size, so the count of the MatMul after it is unknown."""
    nodes = [op("ReduceMax", "x", out="a", keepdims=0), op("Cast", "a", out="b", to=TensorProto.INT64),
             op("Unsqueeze", "b", "ax", out="c"), op("Concat", "c", "four", out="d", axis=0), op("ConstantOfShape", "d", out="z")]
    path = shape_model(tmp_path / "m.onnx", nodes, ax=[0], four=[4])
    assert counted(path, tmp_path, {"x": np.zeros((3, 6))}, {"MatMul"}) is None


def test_inferred_sizes_override_other_sizes_in_the_file(tmp_path):
    """Exporters write the sizes of the traced example, which may differ."""
    path = shape_model(tmp_path / "m.onnx", [op("Relu", "x", out="r"), op("Slice", "r", "ax", "four", "one", out="z")],
                       ax=[0], four=[4], one=[1])
    file = onnx.load(path)
    file.graph.value_info.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 4]))
    onnx.save(file, path)
    assert counted(path, tmp_path, {"x": np.zeros((9, 6))}, {"MatMul"}) == 2 * 9 * 4 * 5
