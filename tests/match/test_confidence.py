"""`whence annotate` never states a higher confidence than its source. Also: the modules of inserted nodes."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic

import command
from models import zoo

NAME = "unet"
WORDS = ["exact", "matched", "inferred", "ancestor", "unattributed"]
CONFIDENCE, MODULE = "pkg.whence.confidence", "pkg.whence.module"


def keys(node: onnx.NodeProto) -> dict:
    return {entry.key.removeprefix("pkg.whence."): entry.value for entry in node.metadata_props}


def words(path) -> list[str]:
    return [keys(node)["confidence"] for node in onnx.load(path).graph.node]


def annotate(path, output, *options, code=0):
    return command.run("annotate", path, "-o", output, *options, code=code)


def does_not_exceed(path, limits: list[str]) -> bool:
    confidences = words(path)
    assert len(confidences) == len(limits)
    return all(WORDS.index(confidence) >= WORDS.index(limit) for confidence, limit in zip(confidences, limits, strict=True))


def remove_metadata(source, target, doc_strings=True, names=True) -> None:
    """Removes metadata like a tool that keeps the order of nodes."""
    model = onnx.load(source)
    for i, node in enumerate(model.graph.node):
        del node.metadata_props[:]
        if not doc_strings:
            node.ClearField("doc_string")
        if not names:
            node.name = f"n{i}"
    onnx.save(model, target)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a folder: model.json; exported.onnx from PyTorch; before.onnx, annotated, in which
    the nodes' confidence cycles through: unchanged, matched, inferred, ancestor."""
    folder = tmp_path_factory.mktemp("confidence")
    command.run("record", zoo.trace(NAME), "-o", folder / "model.json", "--inputs", zoo.inputs_file(NAME))
    entry = zoo.MODELS[NAME]
    inputs = entry.inputs(entry.first)
    torch.onnx.export(entry.model(), tuple(inputs.values()), folder / "exported.onnx", dynamo=False, opset_version=17,
                      input_names=list(inputs), output_names=["out"])
    annotate(folder / "exported.onnx", folder / "annotated.onnx", "--sidecar", folder / "model.json", "--carry")
    model = onnx.load(folder / "annotated.onnx")
    for i, node in enumerate(model.graph.node):
        word = next(entry for entry in node.metadata_props if entry.key == CONFIDENCE)
        word.value = [word.value, "matched", "inferred", "ancestor"][i % 4]
    onnx.save(model, folder / "before.onnx")
    assert len(set(words(folder / "before.onnx"))) >= 3
    return folder


def test_from_does_not_raise_the_confidence(folder, tmp_path):
    for target, options in {"named.onnx": {}, "bare.onnx": {"doc_strings": False, "names": False}}.items():
        remove_metadata(folder / "before.onnx", tmp_path / target, **options)
        annotate(tmp_path / target, tmp_path / "out.onnx", "--from", folder / "before.onnx")
        assert does_not_exceed(tmp_path / "out.onnx", words(folder / "before.onnx")), target


def test_from_does_not_raise_the_coverage_of_an_optimised_file(folder, tmp_path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "after.onnx")
    remove_metadata(folder / "before.onnx", tmp_path / "bare.onnx", doc_strings=False)
    onnxruntime.InferenceSession(tmp_path / "bare.onnx", options, providers=["CPUExecutionProvider"])
    annotate(tmp_path / "after.onnx", tmp_path / "out.onnx", "--from", folder / "before.onnx")
    before = onnx.load(folder / "before.onnx").graph.node
    sure = {keys(node)["module"] for node in before if keys(node)["confidence"] in ("exact", "matched")}
    for node in onnx.load(tmp_path / "out.onnx").graph.node:
        if keys(node)["confidence"] in ("exact", "matched"):
            assert set(json.loads(keys(node).get("modules", "[]"))) | {keys(node)["module"]} & sure
    covered = [sum(word in WORDS[:3] for word in words(path)) / len(words(path))
               for path in (folder / "before.onnx", tmp_path / "out.onnx")]
    assert covered[1] <= covered[0]


def test_a_missing_confidence_is_low(folder, tmp_path):
    model = onnx.load(folder / "annotated.onnx")
    for node in model.graph.node:
        module_entries = [entry for entry in node.metadata_props if entry.key == MODULE]
        del node.metadata_props[:]
        node.metadata_props.extend(module_entries)
    onnx.save(model, tmp_path / "modules.onnx")
    annotate(folder / "exported.onnx", tmp_path / "out.onnx", "--from", tmp_path / "modules.onnx")
    assert set(words(tmp_path / "out.onnx")) <= {"ancestor", "unattributed"}
    # Annotated again, the nodes keep their modules, which do not become exact.
    annotate(tmp_path / "modules.onnx", tmp_path / "again.onnx")
    assert "exact" not in words(tmp_path / "again.onnx")


def test_carried_names_state_the_confidence(folder, tmp_path):
    annotate(folder / "exported.onnx", tmp_path / "carried.onnx", "--from", folder / "before.onnx", "--carry")
    confidences = words(tmp_path / "carried.onnx")
    for node, word in zip(onnx.load(tmp_path / "carried.onnx").graph.node, confidences, strict=True):
        assert node.doc_string.endswith(f" ({word})") == (word not in ("exact", "matched"))
    remove_metadata(tmp_path / "carried.onnx", tmp_path / "bare.onnx", names=False)
    annotate(tmp_path / "bare.onnx", tmp_path / "out.onnx")  # from the doc_strings only
    assert does_not_exceed(tmp_path / "out.onnx", confidences)
    command.run("strip", tmp_path / "carried.onnx", "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == (folder / "exported.onnx").read_bytes()


def test_modules_from_names_are_at_most_inferred(folder, tmp_path):
    remove_metadata(folder / "before.onnx", tmp_path / "bare.onnx", doc_strings=False)
    annotate(tmp_path / "bare.onnx", tmp_path / "out.onnx", "--sidecar", folder / "model.json")
    for node in onnx.load(tmp_path / "out.onnx").graph.node:
        if keys(node)["rule"] == "names":
            assert keys(node)["confidence"] not in ("exact", "matched")


@pytest.mark.parametrize("basis, highest", [("inferred", "inferred"), ("enclosing", "ancestor")])
def test_a_low_recorded_confidence_is_not_raised(folder, tmp_path, basis, highest):
    recorded = json.loads((folder / "model.json").read_text())
    recorded[basis] = list(range(len(recorded["operations"]["rows"])))
    (tmp_path / "model.json").write_text(json.dumps(recorded))
    annotate(folder / "exported.onnx", tmp_path / "out.onnx", "--sidecar", tmp_path / "model.json")
    assert min(WORDS.index(word) for word in words(tmp_path / "out.onnx")) == WORDS.index(highest)


# ---- modules of nodes that a tool inserted ---------------------------------------------------------------------------


class Attention(torch.nn.Module):
    """Attention over three projections of one value."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(16, 16) for _ in range(3))
        self.out = torch.nn.Linear(16, 24)

    def forward(self, x):
        scores = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2), -1)
        return self.out(scores @ self.v(x))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.act = torch.nn.Softplus()
        self.head = torch.nn.Linear(24, 5)

    def forward(self, x):
        return self.head(self.act(self.attention(x)))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inserted")
    torch.manual_seed(3)
    model, x = Network().eval(), torch.randn(2, 6, 16)
    torch.jit.trace(model, x).save(str(folder / "model.pt"))
    command.run("record", folder / "model.pt", "-o", folder / "model.json")
    torch.onnx.export(model, (x,), folder / "exported.onnx", dynamo=False, opset_version=17, input_names=["x"])
    return folder


def annotated_nodes(path, *options) -> list[tuple[onnx.NodeProto, dict]]:
    annotate(path, path.with_suffix(".out.onnx"), *options)
    return [(node, keys(node)) for node in onnx.load(path.with_suffix(".out.onnx")).graph.node]


def readers(path, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    return [other for other in onnx.load(path).graph.node if set(other.input) & set(node.output)]


def product_modules(annotated, node, down: bool) -> list[str]:
    """Returns the modules of the integer products connected to a node through Cast and Mul nodes."""
    modules, visited, todo = [], set(), [node]
    while todo:
        current = todo.pop()
        for neighbour, metadata in annotated:
            shared = set(neighbour.input) & set(current.output) if down else set(current.input) & set(neighbour.output)
            if shared and neighbour.output[0] not in visited:
                visited.add(neighbour.output[0])
                if neighbour.op_type == "MatMulInteger":
                    modules.append(metadata["module"])
                elif neighbour.op_type in ("Cast", "Mul"):
                    todo.append(neighbour)
    return sorted(set(modules))


@pytest.mark.parametrize("option", ["--sidecar", "--from"])
def test_quantisers_of_an_input_belong_to_its_readers(network, tmp_path, option):
    annotate(network / "exported.onnx", tmp_path / "before.onnx", "--sidecar", network / "model.json")
    quantize_dynamic(network / "exported.onnx", tmp_path / "int8.onnx")
    reference = network / "model.json" if option == "--sidecar" else tmp_path / "before.onnx"
    annotated = annotated_nodes(tmp_path / "int8.onnx", option, reference)
    quantisers = [(node, metadata) for node, metadata in annotated if node.op_type == "DynamicQuantizeLinear"]
    assert len(quantisers) >= 3
    for node, metadata in quantisers:
        reader_modules = product_modules(annotated, node, down=True)
        if len(reader_modules) > 1:
            assert reader_modules == ["attention.k", "attention.q", "attention.v"]
            assert (metadata["module"], metadata["confidence"], metadata["rule"]) == ("attention", "ancestor", "inserted")
        else:
            assert [metadata["module"]] == reader_modules and metadata["rule"] == "inserted"
    for node, metadata in annotated:  # a Cast after a product belongs to the product
        if node.op_type == "Cast":
            assert [metadata["module"]] == product_modules(annotated, node, down=False)


def test_a_quantiser_pair_belongs_to_its_reader(network, tmp_path):
    model = onnx.load(network / "exported.onnx")
    for node in [node for node in model.graph.node if node.op_type == "Softplus"]:
        value = node.input[0]
        model.graph.initializer.append(numpy_helper.from_array(np.float32(0.1), "scale"))
        model.graph.initializer.append(numpy_helper.from_array(np.uint8(9), "zero"))
        insert_before(model, node, helper.make_node("QuantizeLinear", [value, "scale", "zero"], ["quantised"]),
                   helper.make_node("DequantizeLinear", ["quantised", "scale", "zero"], ["dequantised"]))
        node.input[0] = "dequantised"
    onnx.save(model, tmp_path / "qdq.onnx")
    annotated = annotated_nodes(tmp_path / "qdq.onnx", "--sidecar", network / "model.json")
    assert [metadata["module"] for node, metadata in annotated if "Linear" in node.op_type] == ["act", "act"]


def test_casts_around_an_operator_have_its_module(network, tmp_path):
    model = onnx.load(network / "exported.onnx")
    node = next(node for node in model.graph.node if node.op_type == "Softplus")
    insert_before(model, node, helper.make_node("Cast", [node.input[0]], ["wider"], to=onnx.TensorProto.DOUBLE))
    result, node.input[0] = node.output[0], "wider"
    node.output[0] = "wide_result"
    index = [other.name for other in model.graph.node].index(node.name)
    model.graph.node.insert(index + 1, helper.make_node("Cast", ["wide_result"], [result],
                                                        to=onnx.TensorProto.FLOAT))
    onnx.save(model, tmp_path / "cast.onnx")
    annotated = annotated_nodes(tmp_path / "cast.onnx", "--sidecar", network / "model.json")
    assert [metadata["module"] for node, metadata in annotated if node.op_type == "Cast"] == ["act", "act"]


def insert_before(model: onnx.ModelProto, node: onnx.NodeProto, *nodes: onnx.NodeProto) -> None:
    index = [other.name for other in model.graph.node].index(node.name)
    for number, new in enumerate(nodes):
        new.name = f"inserted_{number}"
        model.graph.node.insert(index + number, new)


class Twins(torch.nn.Module):
    """Two projections with equal sizes, which differ only in the operators after them."""

    def __init__(self):
        super().__init__()
        self.q, self.k = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.head = torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.Linear(5, 3))

    def forward(self, x):
        return self.head(torch.relu(self.q(x) * 2.0) + torch.relu(self.k(x)))


def test_similarity_is_not_enough_for_matched(tmp_path):
    """The file scales both results, and one has a second reader, so either product may be q."""
    model = Twins().eval()
    torch.jit.trace(model, torch.ones(2, 8)).save(str(tmp_path / "model.pt"))
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    unchanged = {"a": model.head[0], "b": model.head[1]}
    weights, nodes = [], []

    def linear(x, name):
        other_weight = np.random.default_rng(0).random((8, 8), np.float32)
        matrix = unchanged[name].weight.detach().numpy() if name in unchanged else other_weight
        weights.append(numpy_helper.from_array(matrix, name))
        weights.append(numpy_helper.from_array(np.ones(len(matrix), np.float32), f"bias_{name}"))
        nodes.append(helper.make_node("Gemm", [x, name, f"bias_{name}"], [f"g_{name}"], transB=1))
        return f"g_{name}"

    for name in ("q", "k"):
        weights.append(numpy_helper.from_array(np.array(3, np.float32), f"scale_{name}"))
        nodes.append(helper.make_node("Mul", [linear("x", name), f"scale_{name}"], [f"m_{name}"]))
        nodes.append(helper.make_node("Relu", [f"m_{name}"], [f"r_{name}"]))
    nodes.append(helper.make_node("ReduceMax", ["g_q"], ["peak"], keepdims=0))
    nodes.append(helper.make_node("Add", ["r_q", "r_k"], ["sum"]))
    nodes.append(helper.make_node("Identity", [linear(linear("sum", "a"), "b")], ["y"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, [2, 8])], [value("y", 1, [2, 3])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), tmp_path / "f.onnx")
    annotated = annotated_nodes(tmp_path / "f.onnx", "--sidecar", tmp_path / "model.json")
    words = {node.input[1]: metadata["confidence"] for node, metadata in annotated if node.op_type == "Gemm"}
    assert words["a"] == words["b"] == "matched" and {words["q"], words["k"]} <= {"inferred", "ancestor"}
