"""``whence annotate`` on untrained models, whose biases are zeros and whose layers are copies. Exporters store equal
tensors once, under the name of one of their owners. The expected modules come from the metadata of PyTorch's exporters
and from the structure of each model."""

import ast
import copy
import json

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file
from torch import nn

import command
from accuracy import rename
from match.test_calls import keys

SURE = ("exact", "matched", "inferred")


class Biases(nn.Module):
    """Linear layers with distinct weights and equal biases."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(8, 8) for _ in range(3))
        for layer in (self.a, self.b, self.c):
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        return self.c(self.b(self.a(x).relu()).relu())


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x):
        return self.norm(self.linear(x).tanh())


class Copies(nn.Module):
    """Layers with equal parameters, as in torch.nn.TransformerEncoder."""

    def __init__(self):
        super().__init__()
        layer = Layer()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)


@pytest.fixture(scope="module", params=[Biases, Copies])
def model(request) -> nn.Module:
    torch.manual_seed(0)
    return request.param().eval()


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    """The files of both exporters, a recording and a checkpoint."""
    folder = tmp_path_factory.mktemp("equal")
    x = torch.randn(2, 3, 8)
    torch.jit.trace(model, x).save(folder / "model.pt")
    torch.save((x,), folder / "inputs.pt")
    command.run("record", folder / "model.pt", "-o", folder / "model.json", "--inputs", folder / "inputs.pt")
    torch.save(model.state_dict(), folder / "model.bin")
    torch.onnx.export(model, (x,), folder / "torchscript.onnx", dynamo=False, opset_version=17, verbose=False)
    torch.onnx.export(model, (x,), dynamo=True, opset_version=18, verbose=False).save(folder / "dynamo.onnx")
    return folder


def exporter_module(node: onnx.NodeProto) -> str | None:
    """Returns the module that the exporter stated in the node's metadata or name."""
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            return ast.literal_eval(entry.value)[-2]
    if not node.name.startswith("/"):
        return None
    return ".".join(node.name.split("/")[1:-1])


def module_rows(before, after) -> list[tuple]:
    """Returns (operator, truth, module, confidence) of the nodes whose module the exporter stated."""
    rows = []
    for old, new in zip(onnx.load(before).graph.node, onnx.load(after).graph.node, strict=True):
        truth = exporter_module(old)
        if truth is None or old.op_type == "Constant":
            continue
        metadata = keys(new)
        module = metadata.get("module") if "modules" not in metadata else json.loads(metadata["modules"])
        rows.append((old.op_type, truth, module, metadata["confidence"]))
    return rows


def wrong_rows(rows) -> list[tuple]:
    def contains(module, truth) -> bool:
        return module == "" or truth == module or truth.startswith(f"{module}.")

    return [row for row in rows if row[3] in SURE and row[2] != row[1]
            or row[3] == "ancestor" and not contains(row[2], row[1])]


REFERENCES = {"sidecar": ("--sidecar", "model.json"), "weights": ("--weights", "model.bin"), "names only": ()}


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("reference", REFERENCES)
def test_shared_tensors_do_not_cause_wrong_modules(folder, exporter, reference, tmp_path):
    options = [folder / argument if "." in argument else argument for argument in REFERENCES[reference]]
    command.run("annotate", folder / f"{exporter}.onnx", "-o", tmp_path / "out.onnx", *options)
    rows = module_rows(folder / f"{exporter}.onnx", tmp_path / "out.onnx")
    assert rows and not wrong_rows(rows)
    sure = [row for row in rows if row[3] in SURE]
    assert len(sure) >= (1 if reference == "sidecar" else 0.5) * len(rows), rows


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("model", [Biases], indirect=True)
def test_an_equal_bias_has_the_module_of_its_product(model, folder, exporter, tmp_path):
    file = onnx.load(folder / f"{exporter}.onnx")
    rename.rename_everything(file)
    onnx.save(file, tmp_path / "renamed.onnx")
    for source in (tmp_path / "renamed.onnx", folder / f"{exporter}.onnx"):
        command.run("annotate", source, "-o", tmp_path / "out.onnx", "--weights", folder / "model.bin")
        annotated = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type in ("Add", "Gemm")]
        assert [(metadata["module"], metadata["confidence"]) for metadata in annotated] == [(name, "matched") for name in "abc"]


def test_from_assigns_no_wrong_module_to_a_renamed_file(folder, tmp_path):
    command.run("annotate", folder / "dynamo.onnx", "-o", tmp_path / "annotated.onnx", "--sidecar", folder / "model.json")
    file = onnx.load(folder / "dynamo.onnx")
    for node in file.graph.node:
        del node.metadata_props[:]
    rename.rename_everything(file)
    onnx.save(file, tmp_path / "renamed.onnx")
    command.run("annotate", tmp_path / "renamed.onnx", "-o", tmp_path / "out.onnx", "--from", tmp_path / "annotated.onnx")
    rows = module_rows(folder / "dynamo.onnx", tmp_path / "out.onnx")
    assert rows and not wrong_rows(rows)


def test_equal_tensors_with_different_names_are_distinct(tmp_path):
    """The exporter's optimiser, which merges equal tensors, is off."""
    torch.manual_seed(0)
    model = Biases().eval()
    torch.save(model.state_dict(), tmp_path / "model.bin")
    torch.onnx.export(model, (torch.randn(2, 3, 8),), dynamo=True, optimize=False, opset_version=18,
                      verbose=False).save(tmp_path / "plain.onnx")
    names = {tensor.name for tensor in onnx.load(tmp_path / "plain.onnx").graph.initializer}
    assert {"a.bias", "b.bias", "c.bias"} <= names
    command.run("annotate", tmp_path / "plain.onnx", "-o", tmp_path / "out.onnx", "--weights", tmp_path / "model.bin")
    rows = module_rows(tmp_path / "plain.onnx", tmp_path / "out.onnx")
    assert [row[1:] for row in rows if row[0] == "Add"] == [(name, name, "matched") for name in "abc"]


# ---- common content: zeros, sizes, indices ----------------------------------------------------------------------------

def save(path, nodes, inputs, tensors):
    graph = helper.make_graph(nodes, "graph", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def words(before, after) -> dict:
    """Returns (module, confidence) by the node's name before annotating."""
    pairs = zip(onnx.load(before).graph.node, onnx.load(after).graph.node, strict=True)
    return {old.name: (keys(new)["module"], keys(new)["confidence"]) for old, new in pairs}


class ZeroBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 4), nn.Linear(4, 2)
        nn.init.zeros_(self.second.bias)
        self.second.register_buffer("index", torch.zeros(1, 2, dtype=torch.long))


def test_sizes_and_indices_are_not_parameters(tmp_path):
    torch.manual_seed(0)
    model = ZeroBias()
    torch.save(model.state_dict(), tmp_path / "model.bin")
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    save(tmp_path / "file.onnx",
         [helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["cut"], name="cut"),
          helper.make_node("MatMul", ["cut", "v1"], ["p"], name="first"), helper.make_node("Add", ["p", "v2"], ["q"], name="bias"),
          helper.make_node("MatMul", ["q", "v3"], ["r"], name="second"), helper.make_node("Add", ["r", "v4"], ["s"], name="zeros"),
          helper.make_node("Mul", ["i", "column"], ["j"], name="counts"), helper.make_node("Cast", ["j"], ["k"], name="cast", to=1),
          helper.make_node("Add", ["s", "k"], ["y"], name="sum")],
         [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8]),
          helper.make_tensor_value_info("i", TensorProto.INT64, [2, 1])],
         # `starts` has the bytes of the buffer; `column` begins with the bytes of the zero bias.
         {"starts": np.array([0, 0]), "ends": np.array([2, 9999]), "axes": np.array([0, 1]),
          "column": np.array([[0], [1]]), "v1": weights["first.weight"].T.copy(), "v2": weights["first.bias"],
          "v3": weights["second.weight"].T.copy(), "v4": weights["second.bias"]})
    command.run("annotate", tmp_path / "file.onnx", "-o", tmp_path / "out.onnx", "--weights", tmp_path / "model.bin")
    modules = words(tmp_path / "file.onnx", tmp_path / "out.onnx")
    assert {name: modules[name] for name in ("first", "bias", "second", "zeros")} == {
        "first": ("first", "matched"), "bias": ("first", "matched"), "second": ("second", "matched"),
        "zeros": ("second", "matched")}
    assert {modules[name] for name in ("cut", "counts", "cast", "sum")} == {("", "ancestor")}


def test_an_initial_state_of_zeros_is_not_a_bias(tmp_path):
    """Before the layer, the file adds zeros with at least as many elements as the layer's zero bias."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    nn.init.zeros_(model[0].bias)
    torch.save(model.state_dict(), tmp_path / "model.bin")
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    save(tmp_path / "file.onnx",
         [helper.make_node("Add", ["x", "state"], ["a"], name="state"), helper.make_node("Add", ["a", "shift"], ["b"], name="shift"),
          helper.make_node("MatMul", ["b", "v1"], ["c"], name="first"), helper.make_node("Relu", ["c"], ["d"], name="relu"),
          helper.make_node("MatMul", ["d", "v2"], ["e"], name="second"), helper.make_node("Add", ["e", "v3"], ["y"], name="bias")],
         [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
         {"state": np.zeros((2, 4), np.float32), "shift": np.zeros(4, np.float32), "v1": weights["0.weight"].T.copy(),
          "v2": weights["1.weight"].T.copy(), "v3": weights["1.bias"]})
    command.run("annotate", tmp_path / "file.onnx", "-o", tmp_path / "out.onnx", "--weights", tmp_path / "model.bin")
    modules = words(tmp_path / "file.onnx", tmp_path / "out.onnx")
    assert modules["state"] == modules["shift"] == ("", "ancestor")
    assert modules["first"] == ("0", "matched") and modules["second"] == ("1", "matched")


# ---- a parameter that a module other than its owner uses -------------------------------------------------------------

class Head(nn.Module):
    """The head and its decoder share a bias, which the checkpoint stores once, as in RoBERTa."""

    def __init__(self):
        super().__init__()
        self.dense, self.decoder, self.bias = nn.Linear(8, 8), nn.Linear(8, 20), nn.Parameter(torch.randn(20))
        self.decoder.bias = self.bias

    def forward(self, x):
        return self.decoder(self.dense(x).tanh())


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(20, 8), Head()
        self.head.decoder.weight = self.table.weight

    def forward(self, ids):
        return self.head(self.table(ids))


def annotated_by_weights(model, x, state, tmp_path, **options):
    torch.onnx.export(model.eval(), (x,), tmp_path / "file.onnx", dynamo=False, opset_version=18, verbose=False, **options)
    file = onnx.load(tmp_path / "file.onnx")
    rename.rename_everything(file)
    onnx.save(file, tmp_path / "file.onnx")
    save_file(state, tmp_path / "model.safetensors")
    command.run("annotate", tmp_path / "file.onnx", "-o", tmp_path / "out.onnx", "--weights", tmp_path / "model.safetensors")
    return [(node.op_type, keys(node).get("modules", keys(node)["module"]), keys(node)["confidence"])
            for node in onnx.load(tmp_path / "out.onnx").graph.node]


def test_a_bias_without_a_weight_may_belong_to_a_child(tmp_path):
    torch.manual_seed(0)
    model = Masked()
    state = {name: value.clone() for name, value in model.state_dict().items() if not name.startswith("head.decoder")}
    rows = annotated_by_weights(model, torch.randint(0, 20, (2, 5)), state, tmp_path)
    assert [row[1:] for row in rows if row[0] == "Add"] == [("head.dense", "matched"), ("head", "ancestor")]


def test_a_gather_from_a_tied_weight_is_not_the_decoder(tmp_path):
    """Exporters name a tied weight after either module. Its module has a bias here, so it is not an Embedding."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((20, 8), np.float32)
    save(tmp_path / "file.onnx",
         [helper.make_node("Gather", ["ids", "head.decoder.weight"], ["a"], name="pick"),
          helper.make_node("MatMul", ["a", "v"], ["b"], name="product"),
          helper.make_node("Add", ["b", "head.decoder.bias"], ["y"], name="bias")],
         [helper.make_tensor_value_info("ids", TensorProto.INT64, [2, 5])],
         {"head.decoder.weight": table, "v": table.T.copy(), "head.decoder.bias": rng.standard_normal(20, np.float32)})
    command.run("annotate", tmp_path / "file.onnx", "-o", tmp_path / "out.onnx")
    nodes = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert nodes[0]["confidence"] not in SURE
    assert (nodes[2]["module"], nodes[2]["confidence"]) == ("head.decoder", "inferred")


class NormedTable(nn.Module):
    """Normalises the weight of an Embedding, as DeBERTa does."""

    def __init__(self):
        super().__init__()
        self.table, self.norm, self.out = nn.Embedding(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(x @ self.norm(self.table.weight).T @ self.table.weight)


def test_a_norm_of_an_embedding_weight_has_the_norms_module(tmp_path):
    torch.manual_seed(0)
    model = NormedTable()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    rows = annotated_by_weights(model, torch.randn(2, 8), model.state_dict(), tmp_path, do_constant_folding=False)
    norms = [row[1:] for row in rows if row[0] == "LayerNormalization"]
    assert norms == [("norm", "matched")]


def test_a_parametrized_weight_identifies_its_module(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(4, 6, 3), nn.ReLU(), nn.Conv1d(6, 2, 3))
    torch.nn.utils.parametrizations.weight_norm(model[0])
    rows = annotated_by_weights(model, torch.randn(1, 4, 9), model.state_dict(), tmp_path)
    assert [row[1] for row in rows if row[0] == "Conv" and row[2] != "ancestor"] in (["0", "2"], ["2"])
    assert not [row for row in rows if "parametrizations" in row[1]]


class QueryNorm(nn.Module):
    """Separates the heads, then normalises them, as Qwen3 does."""

    def __init__(self):
        super().__init__()
        self.query, self.norm, self.out = nn.Linear(8, 8), Rms(4), nn.Linear(4, 4)

    def forward(self, x):
        return self.out(self.norm(self.query(x).reshape(2, -1, 2, 4)))


class Rms(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size) + 0.5)

    def forward(self, x):
        x = x.to(torch.float32)
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def test_nodes_before_a_decomposed_norm_do_not_belong_to_it(tmp_path):
    torch.manual_seed(0)
    model = QueryNorm()
    rows = annotated_by_weights(model, torch.randn(2, 3, 8), model.state_dict(), tmp_path)
    by_operator = {row[0]: row[1:] for row in rows}
    assert by_operator["Reshape"] == ("", "ancestor")
    assert {by_operator[operator] for operator in ("Pow", "ReduceMean", "Sqrt")} == {("norm", "inferred")}


# ---- a 16-bit checkpoint and a 32-bit file exported from it -----------------------------------------------------------

@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_bytes_identify_the_parameters_of_a_widened_checkpoint(dtype, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 4, bias=False), nn.LSTM(4, 6)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=1e-3 if parameter.dim() == 1 else 0.5)  # some become subnormal in float16
    model = model.to(dtype)
    torch.save(model.state_dict(), tmp_path / "model.bin")
    torch.onnx.export(model.float(), (torch.randn(2, 3, 8),), tmp_path / "file.onnx", dynamo=False, opset_version=17, verbose=False)
    file = onnx.load(tmp_path / "file.onnx")
    rename.rename_everything(file)
    onnx.save(file, tmp_path / "file.onnx")
    output = command.run("annotate", tmp_path / "file.onnx", "-o", tmp_path / "out.onnx", "--weights", tmp_path / "model.bin").stdout
    count = len(list(model.parameters()))
    assert f"of {count} parameters {count} were found by their bytes" in output


def test_one_of_several_equal_layers_has_no_certain_module(tmp_path):
    """The file contains one layer. Three layers of the model have its weights."""
    torch.manual_seed(0)
    model, x = Copies().eval(), torch.randn(2, 3, 8)
    torch.jit.trace(model, x).save(tmp_path / "model.pt")
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=False, opset_version=17, verbose=False)
    file = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "model.onnx"))
    stored = {node.output[0]: node.input[0] for node in file.graph.node if node.op_type == "Identity"}
    for node in file.graph.node:
        node.input[:] = [stored.get(name, name) for name in node.input]
    layer = [node for node in file.graph.node if node.name.startswith("/layers.1/") and node.op_type != "Identity"]
    weights = {metadata.name for metadata in file.graph.initializer}
    layer_values = {output for node in layer for output in node.output}
    part_inputs = sorted({name for node in layer for name in node.input if name and name not in weights | layer_values})
    part = onnx.utils.Extractor(file).extract_model(part_inputs, list(layer[-1].output))
    new_names = {part.graph.input[0].name: "part_input", part.graph.output[0].name: "part_output"}
    for value in [*part.graph.input, *part.graph.output]:
        value.name = new_names[value.name]
    for node in part.graph.node:
        node.input[:], node.output[:] = ([new_names.get(name, name) for name in names] for names in (node.input, node.output))
    rename.rename_everything(part)
    onnx.save(part, tmp_path / "part.onnx")
    command.run("annotate", tmp_path / "part.onnx", "--sidecar", tmp_path / "model.json", "-o", tmp_path / "out.onnx")
    results = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert len(results) > 3 and not [metadata for metadata in results if metadata["confidence"] in SURE]
    assert {metadata["module"] for metadata in results} <= {"", "layers"}
