"""Operations of products, convolutions and attention against PyTorch's own counter, on files whose sizes come through
shape computations: by whence, both exporters of PyTorch, and ONNX Runtime's optimiser; at the traced sizes and at others."""

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
import kept
from models import zoo
from views.page_data import Page

pytestmark = pytest.mark.filterwarnings("ignore")
PRODUCTS = {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "Attention", "FusedMatMul", "FusedGemm", "FusedConv"}
RECURRENT = {"LSTM", "GRU", "RNN"}


def counted_by_torch(model, inputs: dict) -> int:
    """Attention as its two products: of the CPU's own kernel PyTorch counts nothing."""
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        model(**inputs)
    return counter.get_total_flops()


def counted(path: Path, tmp_path: Path, inputs: dict, kinds=PRODUCTS) -> int | None:
    """The operations of the nodes of these kinds with the sizes of the inputs; None where one of them is unknown."""
    file = onnx.load(path, load_external_data=False)
    sizes = {dim.dim_param: size for each in file.graph.input if each.name in inputs
             for dim, size in zip(each.type.tensor_type.shape.dim, inputs[each.name].shape, strict=True) if dim.dim_param}
    page = tmp_path / "report.html"
    page.unlink(missing_ok=True)
    command.run("report", path, "-o", page, *[word for name, size in sizes.items() for word in ("--size", f"{name}={size}")])
    operations = Page(page).node_column("operations")
    found = [operations[node.name] for node in file.graph.node if node.op_type in kinds]
    assert found, "no node of these kinds"
    return None if None in found else sum(found)


def by_whence(name: str, path: Path):
    command.run("export", zoo.trace(name), "-o", path, "--inputs", zoo.inputs_file(name), "--annotate",
                *zoo.MODELS[name].dynamic_options())


def by_torchscript(name: str, path: Path):
    entry = zoo.MODELS[name]
    inputs = entry.inputs(entry.first)
    torch.onnx.export(entry.model(), (), str(path), kwargs=inputs, dynamo=False, input_names=list(inputs),
                      dynamic_axes=entry.dynamic)


def by_dynamo(name: str, path: Path):
    entry = zoo.MODELS[name]
    inputs = entry.inputs(entry.second)
    shapes = {given: dict.fromkeys(entry.dynamic.get(given, {}), torch.export.Dim.DYNAMIC) for given in inputs}
    torch.onnx.export(entry.model(), (), str(path), kwargs=inputs, dynamo=True, external_data=False, verbose=False,
                      dynamic_shapes=shapes)


def by_runtime(name: str, path: Path):
    """What ONNX Runtime fuses has operators of its own."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath, options.log_severity_level = str(path), 4
    onnxruntime.InferenceSession(foreign("dynamo", name), options)


ROUTES = {"whence": by_whence, "torchscript": by_torchscript, "dynamo": by_dynamo, "runtime": by_runtime}
CASES = [*[(name, "whence") for name in zoo.MODELS],
         *[(name, "torchscript") for name in ("distilbert", "vit", "mobilenet_v2", "unet", "lstm_tagger")],
         *[(name, "dynamo") for name in ("bert_tiny", "gpt2", "lstm_tagger")],
         *[(name, "runtime") for name in ("bert_tiny", "gpt2")]]


@functools.cache
def foreign(route: str, name: str) -> Path:
    folder = kept.folder("operation_counts", Path(__file__), *zoo.SOURCES)
    return kept.made(folder / f"{name}-{route}.onnx", functools.partial(ROUTES[route], name))


@pytest.mark.parametrize("name, route", CASES)
def test_products_are_as_many_as_pytorch_counts(name, route, tmp_path):
    if route == "whence":
        by_whence(name, tmp_path / "model.onnx")
    path = tmp_path / "model.onnx" if route == "whence" else foreign(route, name)
    entry = zoo.MODELS[name]
    for sizes in entry.first, entry.second:
        inputs = entry.inputs(sizes)
        assert counted(path, tmp_path, inputs) == counted_by_torch(entry.model(), inputs), sizes


class Cells(torch.nn.Module):
    """A recurrent layer as PyTorch counts it: a cell for each step."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind, self.cell = kind, getattr(torch.nn, f"{kind}Cell")(5, 7)

    def forward(self, x):
        state = None
        for step in x:
            state = self.cell(step, state)


@pytest.mark.parametrize("kind", sorted(RECURRENT))
def test_products_of_recurrent_layers(kind, tmp_path):
    model = getattr(torch.nn, kind)(5, 7).eval()
    whence.export(model, (torch.randn(4, 2, 5),), tmp_path / "model.onnx", dynamic_shapes={"input": {0: "time", 1: "batch"}})
    for sizes in (4, 2), (9, 3):
        x = torch.randn(*sizes, 5)
        assert counted(tmp_path / "model.onnx", tmp_path, {"input": x}, RECURRENT) == counted_by_torch(Cells(kind), {"x": x})


class Einsums(torch.nn.Module):
    def forward(self, x, y):
        scores = torch.einsum("bqhd,bkhd->bhqk", x, y)
        summed = torch.einsum("bqhd,bkd->bqh", x, y.sum(2))  # k of one operand alone
        return torch.einsum("bhqk,bkhd->bqhd", scores, y), summed, torch.einsum("bhqk,bhqk->bh", scores, scores)


class Attention(torch.nn.Module):
    def forward(self, x, y):
        x, y = x.transpose(1, 2), y.transpose(1, 2)
        return F.scaled_dot_product_attention(x, y, y), F.scaled_dot_product_attention(x, y, y[..., :3])


@pytest.mark.parametrize("model, kind, opset", [(Einsums(), "Einsum", 20), (Attention(), "Attention", 23)])
def test_einsum_and_attention(model, kind, opset, tmp_path):
    given = {"x": torch.randn(2, 5, 3, 4), "y": torch.randn(2, 6, 3, 4)}
    whence.export(model, (), tmp_path / "model.onnx", kwargs=given, opset_version=opset, operators="fused" if opset > 22 else None,
                  dynamic_shapes={"x": {0: "b", 1: "q"}, "y": {0: "b", 1: "k"}})
    assert sum(node.op_type == kind for node in onnx.load(tmp_path / "model.onnx").graph.node) > 1
    for b, q, k in (2, 5, 6), (3, 9, 2):
        inputs = {"x": torch.randn(b, q, 3, 4), "y": torch.randn(b, k, 3, 4)}
        assert counted(tmp_path / "model.onnx", tmp_path, inputs) == counted_by_torch(model, inputs), (b, q, k)


def shape_model(path: Path, nodes: list, **constants) -> Path:
    """x float32[n, 6] -> `nodes`, that end in a product of "z" [?, 4] with w [4, 5]."""
    nodes = [*nodes, helper.make_node("MatMul", ["z", "w"], ["y"])]
    for number, node in enumerate(nodes):
        node.name = f"{node.op_type}{number}"
    held = {"w": np.zeros((4, 5), np.float32), **{name: np.asarray(value) for name, value in constants.items()}}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [onnx.numpy_helper.from_array(value, name) for name, value in held.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def made(op_type: str, *inputs: str, gives: str, **attributes):
    return helper.make_node(op_type, list(inputs), gives.split(), **attributes)


N = [made("Shape", "x", gives="s"), made("Gather", "s", "zero", gives="n"), made("Gather", "s", "last", gives="six")]
ZERO = {"zero": np.int64(0), "last": np.int64(-1), "one": np.int64(1), "two": np.int64(2), "ax": [0], "four": [4],
        "three": np.int64(3), "six_ones": np.ones((4, 1), np.float32), "open": [-1], "half": np.float32(0.5)}
# By the rows of z for n rows of x: how exporters compute sizes.
FORMS = {
    "Mul, Div, Concat, Reshape": (lambda n: n * 6 // 4, [
        *N, made("Mul", "n", "six", gives="a"), made("Div", "a", "two", gives="b"), made("Div", "b", "two", gives="c"),
        made("Unsqueeze", "c", "ax", gives="d"), made("Concat", "d", "four", gives="e", axis=0), made("Reshape", "x", "e", gives="z")]),
    "Size, Mod, Cast, Floor": (lambda n: n * 6 // 4, [
        made("Size", "x", gives="a"), made("Cast", "a", gives="b", to=1), made("Mul", "b", "half", gives="c"), made("Mul", "c", "half", gives="d"),
        made("Floor", "d", gives="e"), made("Cast", "e", gives="f", to=7), made("Unsqueeze", "f", "ax", gives="g"),
        made("Concat", "g", "four", gives="h", axis=0), made("Reshape", "x", "h", gives="z")]),
    "ConstantOfShape": (lambda n: n, [
        *N, made("Unsqueeze", "n", "ax", gives="a"), made("Concat", "a", "four", gives="b", axis=0), made("ConstantOfShape", "b", gives="z")]),
    "Range, Expand": (lambda n: n + 2, [
        *N, made("Add", "n", "two", gives="a"), made("Range", "zero", "a", "one", gives="b"), made("Cast", "b", gives="c", to=1),
        made("Shape", "c", gives="d"), made("Concat", "four", "d", gives="e", axis=0), made("Expand", "six_ones", "e", gives="f"),
        made("Transpose", "f", gives="z", perm=[1, 0])]),
    "Slice, Where, Equal": (lambda n: n - 1, [
        *N, made("Equal", "n", "three", gives="p"), made("Where", "p", "one", "two", gives="q"), made("Sub", "n", "one", gives="a"),
        made("Unsqueeze", "a", "ax", gives="b"), made("Slice", "x", "ax", "b", "ax", gives="c"), made("Slice", "c", "ax", "four", "one1", gives="z")]),
    "Split, Squeeze": (lambda n: n, [
        made("Shape", "x", gives="s"), made("Split", "s", gives="a b", axis=0, num_outputs=2), made("Squeeze", "a", "ax", gives="c"),
        made("Unsqueeze", "c", "ax", gives="d"), made("Concat", "d", "four", gives="e", axis=0), made("ConstantOfShape", "e", gives="z")]),
}


@pytest.mark.parametrize("form", FORMS)
def test_sizes_that_nodes_compute(form, tmp_path):
    rows, nodes = FORMS[form]
    path = shape_model(tmp_path / "m.onnx", nodes, **ZERO, one1=[1])
    session = onnxruntime.InferenceSession(path)
    for n in 4, 6, 10:
        x = np.zeros((n, 6), np.float32)
        assert session.run(None, {"x": x})[0].shape == (rows(n), 5)
        assert counted(path, tmp_path, {"x": x}, {"MatMul"}) == 2 * rows(n) * 4 * 5, n


def test_sizes_that_data_decide_stay_unknown(tmp_path):
    """Numbers of x are read as a size: what is behind has none, and the product before has one."""
    nodes = [made("ReduceMax", "x", gives="a", keepdims=0), made("Cast", "a", gives="b", to=TensorProto.INT64),
             made("Unsqueeze", "b", "ax", gives="c"), made("Concat", "c", "four", gives="d", axis=0), made("ConstantOfShape", "d", gives="z")]
    path = shape_model(tmp_path / "m.onnx", nodes, ax=[0], four=[4])
    assert counted(path, tmp_path, {"x": np.zeros((3, 6))}, {"MatMul"}) is None


def test_what_follows_from_the_inputs_is_right_where_the_file_states_another_size(tmp_path):
    """As files do whose exporter traced an example of another size."""
    path = shape_model(tmp_path / "m.onnx", [made("Relu", "x", gives="r"), made("Slice", "r", "ax", "four", "one", gives="z")],
                       ax=[0], four=[4], one=[1])
    file = onnx.load(path)
    file.graph.value_info.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 4]))
    onnx.save(file, path)
    assert counted(path, tmp_path, {"x": np.zeros((9, 6))}, {"MatMul"}) == 2 * 9 * 4 * 5
