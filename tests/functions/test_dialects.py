"""`whence select --format`: each format is read like its tool does. Names that the tool would misread are refused."""

import json
import re

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static

import command
import whence
from functions import graphs
from functions.graphs import node

FORMATS = ["names", "modules", "ort-quant", "olive", "trt-precisions", "trt-devices", "polygraphy", "nncf",
           "nncf-openvino", "modelopt", "graphsurgeon"]


def in_module(proto: onnx.NodeProto, name: str, module: str) -> onnx.NodeProto:
    proto.name = name
    proto.metadata_props.add(key="pkg.whence.module", value=module)
    proto.metadata_props.add(key="pkg.whence.confidence", value="exact")
    return proto


@pytest.fixture
def path(tmp_path):
    """Saves a model with names that contain pattern characters, and a name that is a prefix of another."""
    file = tmp_path / "model.onnx"
    graphs.model([in_module(node("MatMul", ["x", "w"], ["a"]), "/enc/[0]/MatMul", "enc.0"),
                  in_module(node("MatMul", ["a", "w"], ["b"]), "/enc/1/MatMul", "enc.1"),
                  in_module(node("MatMul", ["b", "w"], ["y"]), "/enc/1/MatMul_1", "enc.2")],
                 [graphs.weight("w", 4, 4)], {"x": [1, 4]}, ["y"], file)
    return file


def with_body(tmp_path, then_name="/if/Relu"):
    """Saves a model with an If whose branches have nodes in the module `gate`."""
    branches = {f"{which}_branch": helper.make_graph(
        [in_module(helper.make_node("Relu", ["x"], [f"{which}_out"]), name, "gate")], which, [],
        [helper.make_tensor_value_info(f"{which}_out", TensorProto.FLOAT, [1, 4])])
        for which, name in (("then", then_name), ("else", "/if/Relu_1"))}
    nodes = [in_module(helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0), "/max", "gate"),
             in_module(helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL), "/cast", "gate"),
             in_module(helper.make_node("If", ["c"], ["y"], **branches), "/if", "gate")]
    file = tmp_path / "body.onnx"
    graphs.model(nodes, [], {"x": [1, 4]}, ["y"], file)
    return file


def selection(path, format, *options):
    return command.run("select", path, "--format", format, *options).stdout


def trtexec_pairs(argument: str) -> dict[str, str]:
    """Parses like trtexec's sampleOptions.cpp: splits at commas, then at the last colon, and drops quotes."""
    return dict(part.replace("'", "").rsplit(":", 1) for part in argument.split("=", 1)[1].split(","))


def test_every_format_is_tested_and_documented():
    formats = command.run("select", "--help").stdout.split("formats:")[1].split("arguments:")[0]
    listed = re.findall(r"^  ([\w-]+)  ", formats, re.MULTILINE)
    page = (command.ROOT / "docs" / "dialects.md").read_text()
    assert sorted(listed) == sorted(FORMATS)
    assert not [format for format in FORMATS if f"| `{format}` |" not in page]


def test_dynamic_quantisation_excludes_the_selected_nodes(path, tmp_path):
    keywords = json.loads(selection(path, "ort-quant", "--modules", "enc.1"))
    quantize_dynamic(path, tmp_path / "q.onnx", **keywords)
    kinds = [node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node if "MatMul" in node.op_type]
    assert kinds.count("MatMul") == 1 and kinds.count("MatMulInteger") == 2


class Block(torch.nn.Module):
    """Has every kind of layer that ONNX Runtime quantises."""

    def __init__(self):
        super().__init__()
        self.conv, self.up = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.rows, self.bare = torch.nn.Linear(64, 8), torch.nn.Linear(8, 8, bias=False)
        self.wide, self.table = torch.nn.Linear(8, 16), torch.nn.Embedding(32, 16)
        self.lstm = torch.nn.LSTM(16, 16, batch_first=True)

    def forward(self, x, ids):
        y = self.bare(self.rows(self.up(self.conv(x)).mean(1).flatten(1)).relu())
        z = self.lstm(self.wide(y.unsqueeze(1).expand(-1, 5, -1)) + self.table(ids))[0]
        return torch.softmax(z @ z.transpose(1, 2), -1) @ z


class Gate(torch.nn.Module):
    """Calls a different layer in each branch."""

    def __init__(self):
        super().__init__()
        self.keep, self.quant = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x, flag: torch.Tensor):
        if bool(flag):
            y = self.keep(x)
        else:
            y = self.quant(x)
        return y


class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.keep, self.quant = Block(), Block()

    def forward(self, x, y, ids):
        return self.keep(x, ids) + self.quant(y, ids)


PAIR_INPUTS = {"x": torch.randn(2, 3, 4, 4), "y": torch.randn(2, 3, 4, 4), "ids": torch.randint(0, 32, (2, 5))}


class Calibration(CalibrationDataReader):
    def __init__(self):
        self.rows = iter([{name: value.numpy() for name, value in PAIR_INPUTS.items()}])

    def get_next(self):
        return next(self.rows, None)


def all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def quantised_modules(file) -> list[str]:
    """Returns the top-level module of each node that computes in integers or reads a dequantised value."""
    nodes = list(all_nodes(onnx.load(file).graph))
    dequantised = {node.output[0] for node in nodes if node.op_type == "DequantizeLinear"}
    integer = re.compile(r"Integer|^QLinear|^QGemm|^DynamicQuantizeLSTM")
    return [node.name.split("/")[1] for node in nodes if node.name.startswith("/") and node.op_type != "QuantizeLinear"
            and (integer.search(node.op_type) or dequantised & set(node.input))]


QUANTISERS = {
    "dynamic": lambda source, target, **options: quantize_dynamic(source, target, **options),
    "QDQ": lambda source, target, **options: quantize_static(source, target, Calibration(), **options),
    "QOperator": lambda source, target, **options: quantize_static(source, target, Calibration(),
                                                                   quant_format=QuantFormat.QOperator, **options)}


@pytest.mark.parametrize("name", QUANTISERS)
def test_quantisers_exclude_every_kind_of_layer(name, tmp_path):
    torch.manual_seed(0)
    whence.export(Pair().eval(), tuple(PAIR_INPUTS.values()), tmp_path / "m.onnx")
    keywords = whence.select(tmp_path / "m.onnx", ["keep"], format="ort-quant").data
    QUANTISERS[name](tmp_path / "m.onnx", tmp_path / "q.onnx", **keywords)
    assert "keep" not in quantised_modules(tmp_path / "q.onnx")
    QUANTISERS[name](tmp_path / "m.onnx", tmp_path / "q.onnx")
    assert quantised_modules(tmp_path / "q.onnx").count("keep") >= 5


def test_dynamic_quantisation_excludes_a_gemm_in_a_branch(tmp_path):
    scripted = torch.jit.script(Gate().eval())
    whence.export(scripted, (torch.randn(2, 8), torch.tensor(True)), tmp_path / "m.onnx")
    excluded = whence.select(tmp_path / "m.onnx", ["keep"], format="ort-quant")
    quantize_dynamic(tmp_path / "m.onnx", tmp_path / "q.onnx", **excluded.data, extra_options={"EnableSubgraph": True})
    assert quantised_modules(tmp_path / "q.onnx") == ["quant"]


def test_a_gemm_is_also_listed_under_the_name_of_its_matmul(tmp_path):
    nodes = [in_module(node("Gemm", ["x", "w"], ["a"]), "g", "m"),
             in_module(node("Relu", ["a"], ["y"]), "g_MatMul", "n")]
    graphs.model(nodes, [graphs.weight("w", 4, 4)], {"x": [1, 4]}, ["y"], tmp_path / "m.onnx")
    stderr = command.run("select", tmp_path / "m.onnx", "--modules", "m", "--format", "ort-quant", code=2).stderr
    assert stderr.startswith("E0101") and "'g_MatMul' is also the name of a node that is not selected" in stderr
    assert json.loads(selection(tmp_path / "m.onnx", "olive")) == {"nodes_to_exclude": ["g", "g_MatMul"]}
    assert selection(tmp_path / "m.onnx", "names", "--modules", "m") == "g\n"


def test_a_node_without_a_name_in_openvino_is_selected_by_type(tmp_path):
    nodes = [in_module(node("LayerNormalization", ["x", "v"], ["a"]), "a", "one"),
             in_module(node("LayerNormalization", ["a", "v"], ["b"]), "b", "two"),
             in_module(node("Relu", ["b"], ["y"]), "c", "one")]
    graphs.model(nodes, [graphs.weight("v", 4)], {"x": [1, 4]}, ["y"], tmp_path / "m.onnx")
    complete = json.loads(selection(tmp_path / "m.onnx", "nncf-openvino", "--ops", "LayerNormalization"))
    assert complete["types"] == ["MVN"] and len(complete["patterns"]) == 2
    stderr = command.run("select", tmp_path / "m.onnx", "--modules", "one", "--format", "nncf-openvino", code=2).stderr
    assert stderr.startswith("E0101") and "MVN" in stderr
    partial = json.loads(selection(tmp_path / "m.onnx", "nncf-openvino", "--modules", "one", "--partial"))
    assert partial["patterns"] == ["(y|c/WithoutBiases)\\Z"] and "types" not in partial


def test_trtexec_arguments_contain_the_names(path):
    constraints, argument = selection(path, "trt-precisions", "--modules", "enc.[1-2]", "--as", "fp16").splitlines()
    assert constraints == "--precisionConstraints=obey" and argument.startswith("--layerPrecisions=")
    assert trtexec_pairs(argument) == {"/enc/1/MatMul": "fp16", "/enc/1/MatMul_1": "fp16"}
    assert trtexec_pairs(selection(path, "trt-devices", "--modules", "enc.1").strip()) == {"/enc/1/MatMul": "DLA"}


def test_polygraphy_gets_one_argument_per_node(path):
    lines = whence.select(path, ["enc.1"], format="polygraphy").arguments
    assert lines == ["--precision-constraints", "obey", "--layer-precisions", "/enc/1/MatMul:float32"]


@pytest.mark.parametrize("module, name", [("enc.0", "/enc/[0]/MatMul"), ("enc.1", "/enc/1/MatMul")])
def test_a_pattern_matches_only_one_node(path, module, name):
    """Uses re.match, like modelopt's expand_node_names_from_patterns() and NNCF."""
    names = [node.name for node in onnx.load(path).graph.node]
    for format, key in [("modelopt", "nodes_to_exclude"), ("nncf-openvino", "patterns")]:
        patterns = whence.select(path, [module], format=format).data[key]
        assert [name for name in names if any(re.match(pattern, name) for pattern in patterns)] == [name]


def test_patterns_match_openvinos_names(path):
    product, output = whence.select(path, ["enc.1", "enc.2"], format="nncf-openvino").data["patterns"]
    assert re.match(product, "/enc/1/MatMul/WithoutBiases") and not re.match(product, "/enc/1/MatMul_1")
    assert re.match(output, "y") and re.match(output, "/enc/1/MatMul_1/WithoutBiases")
    assert not re.match(output, "/enc/1/MatMul_1") and not re.match(output, "y2")


def test_graphsurgeon_code_finds_the_nodes_or_fails(path):
    class Node:
        def __init__(self, name):
            self.name = name

    class Graph:
        def __init__(self, names):
            self.nodes = [Node(name) for name in names]

        def subgraphs(self, recursive):
            return []

    namespace = {}
    exec(selection(path, "graphsurgeon", "--modules", "enc.0"), namespace)
    assert [node.name for node in namespace["selected"](Graph(["a", "/enc/[0]/MatMul"]))] == ["/enc/[0]/MatMul"]
    with pytest.raises(KeyError):
        namespace["selected"](Graph(["a"]))


def rename_node(path, index, name):
    proto = onnx.load(path)
    proto.graph.node[index].name = name
    onnx.save(proto, path)


@pytest.mark.parametrize("format, name, fragment", [
    ("trt-precisions", "a,b", "has a ','"), ("trt-devices", "a'b", 'has a \'\'\''),
    ("trt-precisions", "a*", "has a '*'"), ("polygraphy", "-a", "begins with '-'"),
    ("names", "a\nb", "line break"), ("polygraphy", "a\nb", "line break"),
])
def test_a_name_that_the_tool_would_misread_is_refused(path, format, name, fragment):
    rename_node(path, 0, name)
    result = command.run("select", path, "--format", format, code=2)
    assert result.stderr.startswith("E0101") and fragment in result.stderr and "--partial" in result.stderr
    assert result.stdout == ""
    partial = command.run("select", path, "--format", format, "--partial")
    assert "1 of 3 selected nodes" in partial.stderr and "/enc/1/MatMul_1" in partial.stdout
    assert command.run("select", path, "--format", format, "--modules", "enc.0", "--partial", code=2).stdout == ""


@pytest.mark.parametrize("format", ["trt-precisions", "polygraphy"])
def test_a_name_may_contain_a_colon(path, format):
    rename_node(path, 0, "a:0")
    assert "a:0:" in selection(path, format, "--modules", "enc.0")


@pytest.mark.parametrize("format", FORMATS)
def test_nodes_in_bodies_are_selected_if_the_tool_sees_them(tmp_path, format):
    file = with_body(tmp_path)
    sees_bodies = format in ("names", "modules", "ort-quant", "graphsurgeon")
    result = command.run("select", file, "--format", format, code=0 if sees_bodies else 2)
    assert ("/if/Relu_1" in result.stdout) == sees_bodies
    if not sees_bodies:
        assert "2 of 5 selected nodes" in result.stderr and "body of another node" in result.stderr
        partial = command.run("select", file, "--format", format, "--partial").stdout
        assert "/cast" in partial and "/if/Relu" not in partial


@pytest.mark.parametrize("format", FORMATS)
def test_a_name_shared_with_an_unselected_node_is_refused(path, format):
    rename_node(path, 2, "/enc/1/MatMul")
    result = command.run("select", path, "--format", format, "--modules", "enc.1", code=2)
    assert "not selected" in result.stderr and result.stdout == ""
    assert command.run("select", path, "--format", format, "--modules", "enc.1", "--modules", "enc.2").stdout


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_selection_is_refused(path, format):
    result = command.run("select", path, "--format", format, "--modules", "enc.1", "--not", "enc", code=2)
    assert "no node matches all of" in result.stderr


def test_nodes_that_may_match_are_counted(path):
    proto = onnx.load(path)
    proto.graph.node[2].metadata_props[-2].value = "enc"
    proto.graph.node[2].metadata_props[-1].value = "ancestor"
    onnx.save(proto, path)
    result = command.run("select", path, "--modules", "enc.1")
    assert "1 more node may belong" in result.stderr and result.stdout == "/enc/1/MatMul\n"
    assert not command.run("select", path, "--modules", "enc").stderr


def test_a_name_that_is_not_utf8_is_refused(path):
    path.write_bytes(path.read_bytes().replace(b"/enc/[0]/MatMul", b"/enc/[\xff]/MatMul"))
    assert "not UTF-8" in command.run("select", path, "--format", "nncf", code=2).stderr


@pytest.mark.parametrize("options, fragment", [
    (["--format", "nncf", "--as", "fp32"], "omit --as"),
    (["--format", "trt-precisions", "--as", "float32"], "fp32, fp16"),
])
def test_a_setting_unknown_to_the_format_is_refused(path, options, fragment):
    assert fragment in command.run("select", path, *options, code=2).stderr


def test_an_argument_longer_than_linux_allows_is_refused(tmp_path):
    nodes = [in_module(helper.make_node("Relu", ["x" if i == 0 else f"v{i}"], [f"v{i + 1}"]), f"{i:0200}", "m")
             for i in range(700)]
    graphs.model(nodes, [], {"x": [1]}, ["v700"], tmp_path / "long.onnx")
    result = command.run("select", tmp_path / "long.onnx", "--format", "trt-precisions", code=4)
    assert result.stderr.startswith("E0306") and "--ops" in result.stderr


def test_python_returns_the_selection(path):
    result = whence.select(path, ["enc"], exclude=["enc.2"], ops=["MatMul"], format="ort-quant")
    assert result.names == ["/enc/[0]/MatMul", "/enc/1/MatMul"] == result.data["nodes_to_exclude"]
    assert result.nodes[0] == whence.SelectedNode("/enc/[0]/MatMul", "MatMul", "enc.0", "exact", ("enc.0",), "enc.0")
    assert whence.select(path).text == "" and len(whence.select(path).nodes) == 3
    with pytest.raises(whence.WhenceError, match="no module of the file matches"):
        whence.select(path, ["encoder.x"])
