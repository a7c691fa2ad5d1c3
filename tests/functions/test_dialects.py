"""`whence select --format`: the forms of other tools, read as those tools read them, and what they would ignore."""

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


def in_module(made: onnx.NodeProto, name: str, module: str) -> onnx.NodeProto:
    made.name = name
    made.metadata_props.add(key="pkg.whence.module", value=module)
    made.metadata_props.add(key="pkg.whence.confidence", value="exact")
    return made


@pytest.fixture
def path(tmp_path):
    """Names that a pattern would read as its own, and one that begins like another."""
    file = tmp_path / "model.onnx"
    graphs.model([in_module(node("MatMul", ["x", "w"], ["a"]), "/enc/[0]/MatMul", "enc.0"),
                  in_module(node("MatMul", ["a", "w"], ["b"]), "/enc/1/MatMul", "enc.1"),
                  in_module(node("MatMul", ["b", "w"], ["y"]), "/enc/1/MatMul_1", "enc.2")],
                 [graphs.weight("w", 4, 4)], {"x": [1, 4]}, ["y"], file)
    return file


def with_body(tmp_path, then_name="/if/Relu"):
    """An If whose branches have nodes in the module `gate`."""
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


def written(path, format, *options):
    return command.run("select", path, "--format", format, *options).stdout


def trtexec_pairs(argument: str) -> dict[str, str]:
    """As sampleOptions.cpp of trtexec reads it: commas, then the last colon; quotes go, one star is any text."""
    return dict(part.replace("'", "").rsplit(":", 1) for part in argument.split("=", 1)[1].split(","))


def test_every_format_has_a_test_here_and_a_row_in_the_docs():
    listed = re.findall(r"^  ([\w-]+)  ", command.run("select", "--help").stdout.split("formats:")[1].split("arguments:")[0], re.MULTILINE)
    page = (command.ROOT / "docs" / "dialects.md").read_text()
    assert sorted(listed) == sorted(FORMATS)
    assert not [each for each in FORMATS if f"| `{each}` |" not in page]


def test_onnx_runtimes_quantiser_leaves_out_what_is_listed(path, tmp_path):
    keywords = json.loads(written(path, "ort-quant", "--modules", "enc.1"))
    quantize_dynamic(path, tmp_path / "q.onnx", **keywords)
    kinds = [each.op_type for each in onnx.load(tmp_path / "q.onnx").graph.node if "MatMul" in each.op_type]
    assert kinds.count("MatMul") == 1 and kinds.count("MatMulInteger") == 2


class Block(torch.nn.Module):
    """Every kind of layer that ONNX Runtime quantises."""

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
    """A layer on either side of a branch."""

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
    for each in graph.node:
        yield each
        for attribute in each.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def quantised_modules(file) -> list[str]:
    """The first names of the modules whose nodes compute in integers, or read what was quantised, one for each node."""
    nodes = list(all_nodes(onnx.load(file).graph))
    dequantised = {each.output[0] for each in nodes if each.op_type == "DequantizeLinear"}
    integer = re.compile(r"Integer|^QLinear|^QGemm|^DynamicQuantizeLSTM")
    return [each.name.split("/")[1] for each in nodes if each.name.startswith("/") and each.op_type != "QuantizeLinear"
            and (integer.search(each.op_type) or dequantised & set(each.input))]


QUANTISERS = {
    "dynamic": lambda source, target, **options: quantize_dynamic(source, target, **options),
    "QDQ": lambda source, target, **options: quantize_static(source, target, Calibration(), **options),
    "QOperator": lambda source, target, **options: quantize_static(source, target, Calibration(),
                                                                   quant_format=QuantFormat.QOperator, **options)}


@pytest.mark.parametrize("name", QUANTISERS)
def test_onnx_runtimes_quantisers_leave_every_layer_alone(name, tmp_path):
    torch.manual_seed(0)
    whence.export(Pair().eval(), tuple(PAIR_INPUTS.values()), tmp_path / "m.onnx")
    keywords = whence.select(tmp_path / "m.onnx", ["keep"], format="ort-quant").data
    QUANTISERS[name](tmp_path / "m.onnx", tmp_path / "q.onnx", **keywords)
    assert "keep" not in quantised_modules(tmp_path / "q.onnx")
    QUANTISERS[name](tmp_path / "m.onnx", tmp_path / "q.onnx")
    assert quantised_modules(tmp_path / "q.onnx").count("keep") >= 5


def test_onnx_runtimes_quantiser_leaves_a_gemm_in_a_branch_alone(tmp_path):
    scripted = torch.jit.script(Gate().eval())
    whence.export(scripted, (torch.randn(2, 8), torch.tensor(True)), tmp_path / "m.onnx")
    chosen = whence.select(tmp_path / "m.onnx", ["keep"], format="ort-quant")
    quantize_dynamic(tmp_path / "m.onnx", tmp_path / "q.onnx", **chosen.data, extra_options={"EnableSubgraph": True})
    assert quantised_modules(tmp_path / "q.onnx") == ["quant"]


def test_a_gemm_has_the_name_of_its_product_beside_its_own(tmp_path):
    nodes = [in_module(node("Gemm", ["x", "w"], ["a"]), "g", "m"), in_module(node("Relu", ["a"], ["y"]), "g_MatMul", "n")]
    graphs.model(nodes, [graphs.weight("w", 4, 4)], {"x": [1, 4]}, ["y"], tmp_path / "m.onnx")
    said = command.run("select", tmp_path / "m.onnx", "--modules", "m", "--format", "ort-quant", code=2).stderr
    assert said.startswith("E0101") and "'g_MatMul' is also the name of a node that is not selected" in said
    assert json.loads(written(tmp_path / "m.onnx", "olive")) == {"nodes_to_exclude": ["g", "g_MatMul"]}
    assert written(tmp_path / "m.onnx", "names", "--modules", "m") == "g\n"


def test_what_openvino_gives_no_name_is_chosen_by_its_type_or_not_at_all(tmp_path):
    nodes = [in_module(node("LayerNormalization", ["x", "v"], ["a"]), "a", "one"),
             in_module(node("LayerNormalization", ["a", "v"], ["b"]), "b", "two"),
             in_module(node("Relu", ["b"], ["y"]), "c", "one")]
    graphs.model(nodes, [graphs.weight("v", 4)], {"x": [1, 4]}, ["y"], tmp_path / "m.onnx")
    whole = json.loads(written(tmp_path / "m.onnx", "nncf-openvino", "--ops", "LayerNormalization"))
    assert whole["types"] == ["MVN"] and len(whole["patterns"]) == 2
    said = command.run("select", tmp_path / "m.onnx", "--modules", "one", "--format", "nncf-openvino", code=2).stderr
    assert said.startswith("E0101") and "MVN" in said
    left = json.loads(written(tmp_path / "m.onnx", "nncf-openvino", "--modules", "one", "--partial"))
    assert left["patterns"] == ["(y|c/WithoutBiases)\\Z"] and "types" not in left


def test_trtexec_reads_back_the_names(path):
    constraints, argument = written(path, "trt-precisions", "--modules", "enc.[1-2]", "--as", "fp16").splitlines()
    assert constraints == "--precisionConstraints=obey" and argument.startswith("--layerPrecisions=")
    assert trtexec_pairs(argument) == {"/enc/1/MatMul": "fp16", "/enc/1/MatMul_1": "fp16"}
    assert trtexec_pairs(written(path, "trt-devices", "--modules", "enc.1").strip()) == {"/enc/1/MatMul": "DLA"}


def test_polygraphy_gets_an_argument_for_each_node(path):
    lines = whence.select(path, ["enc.1"], format="polygraphy").arguments
    assert lines == ["--precision-constraints", "obey", "--layer-precisions", "/enc/1/MatMul:float32"]


@pytest.mark.parametrize("module, name", [("enc.0", "/enc/[0]/MatMul"), ("enc.1", "/enc/1/MatMul")])
def test_a_pattern_means_its_node_alone(path, module, name):
    """modelopt's expand_node_names_from_patterns() and NNCF compare by re.match, from the beginning of a name."""
    names = [each.name for each in onnx.load(path).graph.node]
    for format, key in [("modelopt", "nodes_to_exclude"), ("nncf-openvino", "patterns")]:
        patterns = whence.select(path, [module], format=format).data[key]
        assert [each for each in names if any(re.match(pattern, each) for pattern in patterns)] == [name]


def test_openvinos_names_of_a_product_and_of_an_output_are_held(path):
    product, output = whence.select(path, ["enc.1", "enc.2"], format="nncf-openvino").data["patterns"]
    assert re.match(product, "/enc/1/MatMul/WithoutBiases") and not re.match(product, "/enc/1/MatMul_1")
    assert re.match(output, "y") and re.match(output, "/enc/1/MatMul_1/WithoutBiases")
    assert not re.match(output, "/enc/1/MatMul_1") and not re.match(output, "y2")


def test_graphsurgeons_lines_find_the_nodes_or_fail(path):
    class Node:
        def __init__(self, name):
            self.name = name

    class Graph:
        def __init__(self, names):
            self.nodes = [Node(name) for name in names]

        def subgraphs(self, recursive):
            return []

    lines = {}
    exec(written(path, "graphsurgeon", "--modules", "enc.0"), lines)
    assert [each.name for each in lines["selected"](Graph(["a", "/enc/[0]/MatMul"]))] == ["/enc/[0]/MatMul"]
    with pytest.raises(KeyError):
        lines["selected"](Graph(["a"]))


def renamed(path, index, name):
    made = onnx.load(path)
    made.graph.node[index].name = name
    onnx.save(made, path)


@pytest.mark.parametrize("format, name, said", [
    ("trt-precisions", "a,b", "has a ','"), ("trt-devices", "a'b", 'has a \'\'\''), ("trt-precisions", "a*", "has a '*'"),
    ("polygraphy", "-a", "begins with '-'"), ("names", "a\nb", "line break"), ("polygraphy", "a\nb", "line break"),
])
def test_a_name_that_the_tool_would_misread_is_refused(path, format, name, said):
    renamed(path, 0, name)
    result = command.run("select", path, "--format", format, code=2)
    assert result.stderr.startswith("E0101") and said in result.stderr and "--partial" in result.stderr
    assert result.stdout == ""
    partial = command.run("select", path, "--format", format, "--partial")
    assert "1 of 3 selected nodes" in partial.stderr and "/enc/1/MatMul_1" in partial.stdout
    assert command.run("select", path, "--format", format, "--modules", "enc.0", "--partial", code=2).stdout == ""


@pytest.mark.parametrize("format", ["trt-precisions", "polygraphy"])
def test_a_colon_in_a_name_is_none_of_theirs(path, format):
    renamed(path, 0, "a:0")
    assert "a:0:" in written(path, format, "--modules", "enc.0")


@pytest.mark.parametrize("format", FORMATS)
def test_nodes_in_bodies_are_written_where_the_tool_sees_them(tmp_path, format):
    file = with_body(tmp_path)
    seen = format in ("names", "modules", "ort-quant", "graphsurgeon")
    result = command.run("select", file, "--format", format, code=0 if seen else 2)
    assert ("/if/Relu_1" in result.stdout) == seen
    if not seen:
        assert "2 of 5 selected nodes" in result.stderr and "body of another node" in result.stderr
        left = command.run("select", file, "--format", format, "--partial").stdout
        assert "/cast" in left and "/if/Relu" not in left


@pytest.mark.parametrize("format", FORMATS)
def test_a_name_of_others_too_is_refused(path, format):
    renamed(path, 2, "/enc/1/MatMul")
    result = command.run("select", path, "--format", format, "--modules", "enc.1", code=2)
    assert "not selected" in result.stderr and result.stdout == ""
    both = command.run("select", path, "--format", format, "--modules", "enc.1", "--modules", "enc.2").stdout
    assert both


@pytest.mark.parametrize("format", FORMATS)
def test_a_choice_of_nothing_is_refused(path, format):
    result = command.run("select", path, "--format", format, "--modules", "enc.1", "--not", "enc", code=2)
    assert "no node matches all of" in result.stderr


def test_nodes_that_may_belong_to_the_choice_are_counted(path):
    made = onnx.load(path)
    made.graph.node[2].metadata_props[-2].value = "enc"
    made.graph.node[2].metadata_props[-1].value = "ancestor"
    onnx.save(made, path)
    said = command.run("select", path, "--modules", "enc.1")
    assert "1 more node may belong" in said.stderr and said.stdout == "/enc/1/MatMul\n"
    assert not command.run("select", path, "--modules", "enc").stderr


def test_a_name_that_is_not_utf8_is_refused(path):
    path.write_bytes(path.read_bytes().replace(b"/enc/[0]/MatMul", b"/enc/[\xff]/MatMul"))
    assert "not UTF-8" in command.run("select", path, "--format", "nncf", code=2).stderr


@pytest.mark.parametrize("options, said", [
    (["--format", "nncf", "--as", "fp32"], "omit --as"),
    (["--format", "trt-precisions", "--as", "float32"], "fp32, fp16"),
])
def test_a_setting_is_one_that_the_format_has(path, options, said):
    assert said in command.run("select", path, *options, code=2).stderr


def test_an_argument_longer_than_linux_takes_is_refused(tmp_path):
    nodes = [in_module(helper.make_node("Relu", ["x" if i == 0 else f"v{i}"], [f"v{i + 1}"]), f"{i:0200}", "m") for i in range(700)]
    graphs.model(nodes, [], {"x": [1]}, ["v700"], tmp_path / "long.onnx")
    result = command.run("select", tmp_path / "long.onnx", "--format", "trt-precisions", code=4)
    assert result.stderr.startswith("E0306") and "--ops" in result.stderr


def test_python_has_the_selection(path):
    chosen = whence.select(path, ["enc"], exclude=["enc.2"], ops=["MatMul"], format="ort-quant")
    assert chosen.names == ["/enc/[0]/MatMul", "/enc/1/MatMul"] == chosen.data["nodes_to_exclude"]
    assert chosen.nodes[0] == whence.SelectedNode("/enc/[0]/MatMul", "MatMul", "enc.0", "exact", ("enc.0",))
    assert whence.select(path).text == "" and len(whence.select(path).nodes) == 3
    with pytest.raises(whence.WhenceError, match="no module of the file matches"):
        whence.select(path, ["encoder.x"])
