"""Names from PyTorch's older exporter, without a sidecar. If a name fits several modules, the weights decide, or annotate
states the module around them."""

import onnx
import pytest
import torch
from onnxruntime.quantization import quantize_dynamic
from torch import nn

import command
from match.test_calls import keys


def linears(count: int) -> nn.ModuleList:
    return nn.ModuleList([nn.Linear(4, 4) for _ in range(count)])


class NestedLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList([nn.ModuleDict({"layer": linears(2)}) for _ in range(2)])

    def forward(self, x):
        for entry in self.layer:
            for layer in entry["layer"]:
                x = torch.relu(layer(x))
        return x


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def transform(self, x):
        return torch.tanh(self.linear(x))


class MethodCaller(nn.Module):
    def __init__(self):
        super().__init__()
        self.holder, self.linear = Holder(), nn.Linear(4, 4)

    def forward(self, x):
        return self.holder.transform(self.linear(x))


class BankReader(nn.Module):
    def forward(self, x, bank):
        return torch.tanh(bank[0](x))


class BankOwner(nn.Module):
    def __init__(self):
        super().__init__()
        self.bank, self.reader = linears(1), BankReader()

    def forward(self, x):
        return self.reader(x, self.bank)


class OddKeys(nn.Module):
    def __init__(self):
        super().__init__()
        self.entries = nn.ModuleDict({"x/y": nn.Linear(4, 4), "lin": nn.Linear(4, 4), "lin_1": nn.Linear(4, 4)})

    def forward(self, x):
        return self.entries["lin_1"](torch.relu(self.entries["lin"](self.entries["x/y"](x))))


class ChildWeightReader(nn.Module):
    """Multiplies by a weight of its child."""

    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList([Holder(), Holder()])

    def forward(self, x):
        x = self.layer[0].transform(x)
        return x @ self.layer[1].linear.weight + self.layer[1].linear(x)


def annotate_by_names(model: nn.Module, folder) -> tuple[list, set]:
    """Returns (metadata, module of the weight) of each Gemm, and all module paths."""
    torch.onnx.export(model.eval(), (torch.randn(2, 4),), folder / "model.onnx", dynamo=False, verbose=False)
    command.run("annotate", folder / "model.onnx", "-o", folder / "annotated.onnx")
    nodes = onnx.load(folder / "annotated.onnx").graph.node
    readers = [(keys(node), node.input[1].rpartition(".")[0]) for node in nodes if node.op_type == "Gemm"]
    assert readers
    return readers, {path for path, _ in model.named_modules()}


@pytest.mark.parametrize("model", [MethodCaller, BankOwner, OddKeys])
def test_a_weight_decides_between_modules_with_one_name(model, tmp_path):
    readers, paths = annotate_by_names(model(), tmp_path)
    for metadata, module in readers:
        assert module in paths
        assert (metadata["module"], metadata["confidence"]) == (module, "inferred")


def test_an_ambiguous_name_identifies_the_module_around_both(tmp_path):
    """`/layer.0/Gemm` comes from layer.0.layer.0, but layer.0 itself may read its child's weights."""
    readers, _ = annotate_by_names(NestedLayers(), tmp_path)
    results = [(metadata["module"], metadata["confidence"]) for metadata, _ in readers]
    assert results == [("layer.0", "ancestor"), ("layer.0.layer.1", "inferred"),
                    ("layer.1.layer.0", "inferred"), ("layer.1", "ancestor")]


def test_a_node_that_reads_a_childs_weight_does_not_belong_to_the_child(tmp_path):
    annotate_by_names(ChildWeightReader(), tmp_path)
    for node in onnx.load(tmp_path / "annotated.onnx").graph.node:
        if node.op_type == "MatMul":
            assert keys(node).get("module", "") in ("", "layer")


def test_nodes_between_two_calls_do_not_belong_to_the_module(tmp_path):
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin, self.act = nn.Linear(4, 4), nn.Tanh()

        def forward(self, x):
            for _ in range(3):
                x = self.act(self.lin(x))
            return x

    torch.onnx.export(Loop().eval(), (torch.randn(2, 4),), tmp_path / "named.onnx", dynamo=False, verbose=False)
    model = onnx.load(tmp_path / "named.onnx")
    for i, node in enumerate(model.graph.node):  # only parameters keep their names
        node.name = f"n{i}"
        for j, value in enumerate(node.input):
            node.input[j] = value.replace("/", "v")
        for j, value in enumerate(node.output):
            node.output[j] = value.replace("/", "v")
        del node.metadata_props[:]
    onnx.save(model, tmp_path / "model.onnx")
    command.run("annotate", tmp_path / "model.onnx", "-o", tmp_path / "annotated.onnx")
    nodes = [(node.op_type, keys(node)) for node in onnx.load(tmp_path / "annotated.onnx").graph.node]
    assert [metadata["module"] for op, metadata in nodes if op == "Gemm"] == ["lin"] * 3
    activations = [metadata for op, metadata in nodes if op == "Tanh"]
    assert len(activations) == 3 and all(metadata.get("module", "") == "" for metadata in activations)


@pytest.mark.parametrize("option", ["--sidecar", "--from"])
def test_dequantised_rows_of_an_embedding_belong_to_it(option, tmp_path):
    model = nn.Sequential(nn.Embedding(50, 16), nn.Tanh(), nn.Linear(16, 8)).eval()
    ids = torch.randint(0, 50, (2, 5))
    torch.jit.trace(model, (ids,)).save(tmp_path / "model.pt")
    torch.onnx.export(model, (ids,), tmp_path / "model.onnx", dynamo=False, verbose=False)
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    command.run("annotate", tmp_path / "model.onnx", "-o", tmp_path / "before.onnx", "--sidecar", tmp_path / "model.json")
    quantize_dynamic(tmp_path / "before.onnx", tmp_path / "int8.onnx")
    reference = tmp_path / ("before.onnx" if option == "--from" else "model.json")
    command.run("annotate", tmp_path / "int8.onnx", "-o", tmp_path / "after.onnx", option, reference)
    rows = [keys(node) for node in onnx.load(tmp_path / "after.onnx").graph.node if node.op_type == "DequantizeLinear"]
    assert [(metadata["module"], metadata["confidence"]) for metadata in rows] == [("0", "matched")]


@pytest.mark.parametrize("convolution", [nn.Conv2d, nn.ConvTranspose2d])
def test_a_convolution_with_a_possible_norm_has_an_ancestor(convolution, tmp_path):
    block = nn.Sequential(convolution(3, 4, 2), nn.BatchNorm2d(4))
    block[1].running_mean.uniform_(0.5, 1)
    model = nn.ModuleDict({"block": block})
    model.forward = lambda x: model["block"](x).tanh()
    torch.onnx.export(model.eval(), (torch.randn(1, 3, 6, 6),), tmp_path / "model.onnx", dynamo=True, external_data=False,
                      verbose=False)
    file = onnx.load(tmp_path / "model.onnx")
    assert not [node for node in file.graph.node if node.op_type == "BatchNormalization"]
    for node in file.graph.node:
        del node.metadata_props[:]
    onnx.save(file, tmp_path / "plain.onnx")
    command.run("annotate", tmp_path / "plain.onnx", "-o", tmp_path / "annotated.onnx")
    convolutions = [keys(node) for node in onnx.load(tmp_path / "annotated.onnx").graph.node if "Conv" in node.op_type]
    assert [(metadata["module"], metadata["confidence"]) for metadata in convolutions] == [("block", "ancestor")]


class Bottleneck(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.norm = nn.Conv2d(6, 4, 1, bias=False), nn.BatchNorm2d(4)
        self.fc1, self.fc2 = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)  # squeeze and excitation: biases, no norms

    def forward(self, x):
        x = torch.relu(self.norm(self.down(x)))
        return x * torch.sigmoid(self.fc2(torch.relu(self.fc1(x.mean((2, 3), keepdim=True)))))


def test_metadata_and_weights_agree_on_a_convolution(tmp_path):
    """PyTorch puts the metadata of a folded norm on its convolution, so the module of that convolution is uncertain."""
    model = nn.Sequential(nn.Conv2d(3, 6, 3), Bottleneck(), nn.ConvTranspose2d(4, 3, 2)).eval()
    model[1].norm.running_var.uniform_(0.5, 2)
    torch.onnx.export(model, (torch.randn(1, 3, 9, 9),), tmp_path / "plain.onnx", dynamo=True, external_data=False,
                      verbose=False)
    command.run("annotate", tmp_path / "plain.onnx", "-o", tmp_path / "out.onnx")
    convolutions = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type.startswith("Conv")]
    assert [(metadata["module"], metadata["confidence"]) for metadata in convolutions] == [
        ("0", "inferred"), ("1", "ancestor"), ("1.fc1", "inferred"), ("1.fc2", "inferred"), ("2", "inferred")]


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.Conv2d(6, 4, 1)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))))


def test_an_integer_convolution_with_a_folded_norm_has_an_ancestor(tmp_path):
    """Its weight has lost the parameter's name. The scales of its operands and result belong to both modules."""
    model = nn.Sequential(Stem()).eval()
    model[0].norm.running_mean.normal_()
    torch.onnx.export(model, (torch.randn(1, 3, 9, 9),), tmp_path / "plain.onnx", dynamo=False, opset_version=17)
    quantize_dynamic(tmp_path / "plain.onnx", tmp_path / "int8.onnx")
    command.run("annotate", tmp_path / "int8.onnx", "-o", tmp_path / "out.onnx")
    by_operator = {}
    for node in onnx.load(tmp_path / "out.onnx").graph.node:
        by_operator.setdefault(node.op_type, []).append((keys(node).get("module"), keys(node)["confidence"]))
    assert by_operator["ConvInteger"] == [("0", "ancestor"), ("0.head", "inferred")]
    for operator in ("Cast", "Mul", "Add"):
        assert {module for module, confidence in by_operator[operator] if confidence == "inferred"} <= {"0.head", "0", None}
        assert "0.conv" not in [module for module, _ in by_operator[operator]]


def test_scopes_that_are_not_modules_are_ignored(tmp_path):
    """PyTorch writes a root scope around captured graphs, and a placeholder for an unknown module."""
    scopes = [["", "_export_root", "_export_root.fc", "linear"], ["", "fc", "relu"],
              ["_empty_nn_module_stack_from_metadata_hook", "sym_size_int"]]
    nodes = [onnx.helper.make_node("Relu", [f"x{number}"], [f"x{number + 1}"], name=f"n{number}") for number in range(3)]
    for node, names in zip(nodes, scopes, strict=True):
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr(names))
    value = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in ("x0", "x3")]
    graph = onnx.helper.make_graph(nodes, "g", value[:1], value[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10),
              tmp_path / "model.onnx")
    shown = command.run_json("show", tmp_path / "model.onnx")
    assert {row["path"] for row in shown["modules"]} == {"", "fc"} and shown["unattributed"] == 1
    command.run("annotate", tmp_path / "model.onnx", "-o", tmp_path / "out.onnx")
    annotated = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node]
    # Graphs are captured for regions that are called more than once: any of the calls may be this one.
    assert [(metadata["module"], metadata["confidence"]) for metadata in annotated[:2]] == [("", "ancestor"), ("fc", "inferred")]
    assert "_" not in annotated[2].get("module", "")


def test_a_node_without_keys_between_nodes_of_one_module_is_inside_it(tmp_path):
    """onnxscript's builder leaves casts that it inserts without keys. A cast between two modules stays open."""
    operators = ["Relu", "Cast", "Neg", "Cast", "Relu"]
    nodes = [onnx.helper.make_node(operator, [f"x{at}"], [f"x{at + 1}"], name=f"n{at}", **({"to": 1} if operator == "Cast" else {}))
             for at, operator in enumerate(operators)]
    for at, scopes in ((0, ["", "mlp"]), (2, ["", "mlp"]), (4, ["", "head"])):
        nodes[at].metadata_props.add(key="pkg.onnxscript.name_scopes", value=repr(scopes))
        nodes[at].metadata_props.add(key="pkg.onnxscript.class_hierarchy", value=repr(["Model", "Linear"]))
    values = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in ("x0", "x5")]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10),
              tmp_path / "model.onnx")
    command.run("annotate", tmp_path / "model.onnx", "-o", tmp_path / "out.onnx")
    annotated = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert [(each.get("module"), each["confidence"]) for each in annotated] == [
        ("mlp", "inferred"), ("mlp", "ancestor"), ("mlp", "inferred"), (None, "unattributed"), ("head", "inferred")]


def test_quantisers_that_nncf_hooks_to_operations_belong_to_their_modules(tmp_path):
    """NNCF 3.4 adds the module's own name, the function and the call with its port to the path of a FakeQuantize."""
    names = {"/x__0.0/FakeQuantize": "", "/stem/stem/conv2d/0__1.0/FakeQuantize": "stem", "//relu/0__0.0/FakeQuantize": "",
             "/layers.0/norm/norm/layer_norm/1__2.0/FakeQuantize": "layers.0.norm", "/layers.0//add/0__0.0/FakeQuantize": "layers.0",
             "/layers.0/norm/LayerNormalization": "layers.0.norm", "/cell__1.0x/Relu": "cell__1.0x"}
    nodes = [onnx.helper.make_node(name.rpartition("/")[2], [f"x{at}"], [f"x{at + 1}"], name=name,
                                   domain="org.openvinotoolkit" if "FakeQuantize" in name else "")
             for at, name in enumerate(names)]
    values = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in ("x0", f"x{len(nodes)}")]
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("org.openvinotoolkit", 1)]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", values[:1], values[1:]), opset_imports=opsets),
              tmp_path / "model.onnx")
    command.run("annotate", tmp_path / "model.onnx", "-o", tmp_path / "out.onnx")
    found = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert [(each.get("module"), each["confidence"]) for each in found] == [(module, "inferred") for module in names.values()]
