"""Tests `whence select --format` in the tools that read its output. Each tool has its own environment
(tools/setup/tool_environments.sh).

Each test runs a program in the tool's Python, which prints how the tool interpreted the text.
"""

import json
import os
import subprocess
import sys

import onnx
import pytest
import torch
from onnx import TensorProto

import command
import whence
from functions import graphs
from functions.graphs import node
from functions.test_dialects import PAIR_INPUTS, Pair, in_module, quantised_modules, with_body

pytestmark = pytest.mark.matrix


def in_tool(tool: str, program: str, *arguments, in_project: bool = False) -> object:
    """Runs `program` in the tool's environment, or with `in_project` in the project's environment with the tool's
    packages. Returns the JSON in the last line that it prints."""
    folder = command.ROOT / "build" / "tools" / tool
    python = folder / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment of {tool}: tools/setup/tool_environments.sh makes it")
    packages = os.pathsep.join(map(str, folder.glob("lib/python*/site-packages")))
    done = subprocess.run([sys.executable if in_project else python, "-c", program, *map(str, arguments)], text=True,
                          capture_output=True, check=False, env={**os.environ, **({"PYTHONPATH": packages} if in_project else {})})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def path(tmp_path):
    """Three Gemms with biases; the last one computes the model's output."""
    file = tmp_path / "model.onnx"
    graphs.model([in_module(node("Gemm", ["x", "w", "v"], ["a"]), "/enc.0/Gemm", "enc.0"),
                  in_module(node("Relu", ["a"], ["b"]), "/enc.0/Relu", "enc.0"),
                  in_module(node("Gemm", ["b", "ww", "v"], ["c"]), "/enc.0/Gemm_1", "enc.1"),
                  in_module(node("Gemm", ["c", "www", "v"], ["y"]), "/dec/Gemm", "dec")],
                 [graphs.weight(name, 8, 8) for name in ("w", "ww", "www")] + [graphs.weight("v", 8)], {"x": [1, 8]}, ["y"], file)
    return file


NNCF_ONNX = """
import json, sys, nncf, numpy, onnx
data = nncf.Dataset([{"x": numpy.ones((1, 8), "float32")}])
scope = nncf.IgnoredScope(**json.loads(sys.argv[2]))
made = nncf.quantize(onnx.load(sys.argv[1]), data, ignored_scope=scope)
dequantized = {name for each in made.graph.node if each.op_type == "DequantizeLinear" for name in each.output}
print()
print(json.dumps([each.name for each in made.graph.node if each.op_type == "Gemm" and each.input[1] in dequantized]))
"""

# Prints whether the weight of each product is quantised, in the order of the model.
NNCF_OPENVINO = """
import json, sys, nncf, numpy, openvino
data = nncf.Dataset([numpy.ones((1, 8), "float32")])
scope = nncf.IgnoredScope(**json.loads(sys.argv[2]))
made = nncf.quantize(openvino.convert_model(sys.argv[1]), data, ignored_scope=scope)
def source(value):
    return value.get_source_output().get_node()
quantised = []
for each in (each for each in made.get_ordered_ops() if each.get_type_name() == "MatMul"):
    kinds, todo = set(), [source(each.input(1))]
    while todo:
        at = todo.pop()
        kinds.add(at.get_type_name())
        todo += [source(value) for value in at.inputs()]
    quantised.append(bool(kinds & {"FakeQuantize", "Multiply", "Convert"}))
print()
print(json.dumps(quantised))
"""


@pytest.mark.parametrize("modules, remaining", [(["enc.0"], [0]), (["enc"], [0, 1]), (["dec"], [2])])
def test_nncf_skips_the_modules(path, modules, remaining):
    names = ["/enc.0/Gemm", "/enc.0/Gemm_1", "/dec/Gemm"]
    chosen = whence.select(path, modules, ops=["Gemm"], format="nncf")
    assert in_tool("nncf", NNCF_ONNX, path, chosen.text) == [name for i, name in enumerate(names) if i not in remaining]
    chosen = whence.select(path, modules, ops=["Gemm"], format="nncf-openvino")
    assert in_tool("nncf", NNCF_OPENVINO, path, chosen.text) == [i not in remaining for i in range(3)]


def test_nncf_on_openvino_needs_more_than_a_list_of_names(path):
    """This is why there are two formats: NNCF accepts the names but still quantises the product."""
    text = whence.select(path, ["enc.0"], ops=["Gemm"], format="nncf").text
    assert in_tool("nncf", NNCF_OPENVINO, path, text) == [True, True, True]


def test_polygraphy_reads_the_precision_of_each_layer(path, tmp_path):
    made = tmp_path / "script.py"
    program = f"""
import json, sys
from polygraphy.tools import main
sys.argv = ["polygraphy", "run", {str(path)!r}, "--trt", "--gen-script", {str(made)!r}, *sys.argv[1:]]
try:
    main()
except SystemExit as status:
    assert not status.code, status
print()
print(json.dumps(open({str(made)!r}).read()))
"""
    text = in_tool("polygraphy", program, *whence.select(path, ["enc"], format="polygraphy", setting="float16").arguments)
    assert "layer_precisions={'/enc.0/Gemm': trt.float16, '/enc.0/Relu': trt.float16, '/enc.0/Gemm_1': trt.float16}" in text
    assert "precision_constraints='obey'" in text


GRAPHSURGEON = """
import json, sys, onnx, onnx_graphsurgeon
graph = onnx_graphsurgeon.import_onnx(onnx.load(sys.argv[1]))
lines = {}
exec(sys.argv[2], lines)
print(json.dumps([[node.name, node.op] for node in lines["selected"](graph)]))
"""


def test_graphsurgeon_finds_nodes_in_subgraphs(path, tmp_path):
    text = whence.select(path, ["enc.0"], format="graphsurgeon").text
    assert in_tool("graphsurgeon", GRAPHSURGEON, path, text) == [["/enc.0/Gemm", "Gemm"], ["/enc.0/Relu", "Relu"]]
    file = with_body(tmp_path)
    found = in_tool("graphsurgeon", GRAPHSURGEON, file, whence.select(file, ops=["Relu"], format="graphsurgeon").text)
    assert sorted(found) == [["/if/Relu", "Relu"], ["/if/Relu_1", "Relu"]]


@pytest.fixture
def pair(tmp_path):
    """Two blocks with layers of every kind; the block `keep` must not be quantised."""
    whence.export(Pair().eval(), tuple(PAIR_INPUTS.values()), tmp_path / "pair.onnx")
    return tmp_path / "pair.onnx"


OLIVE = """
import json, sys
from olive.hardware import AcceleratorSpec, Device
from olive.model import ONNXModelHandler
from olive.passes.olive_pass import create_pass_from_dict
from olive.passes.onnx.quantization import OnnxDynamicQuantization
settings = {**json.loads(sys.argv[3]), "quant_preprocess": False}
made = create_pass_from_dict(OnnxDynamicQuantization, settings, disable_search=True,
                             accelerator_spec=AcceleratorSpec(Device.CPU, "CPUExecutionProvider"))
print(json.dumps(made.run(ONNXModelHandler(sys.argv[1]), sys.argv[2]).model_path))
"""


def test_olive_skips_every_layer_of_the_module(pair, tmp_path):
    text = whence.select(pair, ["keep"], format="olive").text
    kept = quantised_modules(in_tool("olive", OLIVE, pair, tmp_path / "kept.onnx", text, in_project=True))
    assert "keep" not in kept and kept.count("quant") >= 5
    assert "keep" in quantised_modules(in_tool("olive", OLIVE, pair, tmp_path / "all.onnx", "{}", in_project=True))


MODELOPT = """
import json, sys, numpy, onnx
from modelopt.onnx.quantization import quantize
shapes = {each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in onnx.load(sys.argv[1]).graph.input}
data = {name: numpy.zeros(shape, "int64" if name == "ids" else "float32") for name, shape in shapes.items()}
quantize(sys.argv[1], quantize_mode="int8", calibration_data=data, calibration_eps=["cpu"], output_path=sys.argv[2],
         log_level="ERROR", **json.loads(sys.argv[3]))
print()
print("null")
"""


def test_modelopt_skips_every_layer_of_the_module(pair, tmp_path):
    text = whence.select(pair, ["keep"], format="modelopt").text
    in_tool("modelopt", MODELOPT, pair, tmp_path / "kept.onnx", text, in_project=True)
    kept = quantised_modules(tmp_path / "kept.onnx")
    assert "keep" not in kept and "quant" in kept
    in_tool("modelopt", MODELOPT, pair, tmp_path / "all.onnx", "{}", in_project=True)
    assert "keep" in quantised_modules(tmp_path / "all.onnx")


AUTOCAST = """
import json, sys, onnx
from modelopt.onnx.autocast import convert_to_mixed_precision
onnx.save(convert_to_mixed_precision(sys.argv[1], **json.loads(sys.argv[3])), sys.argv[2])
print()
print("null")
"""


def weight_types(file) -> dict[str, set[int]]:
    """Returns the element types of the weights that each top-level module multiplies by."""
    graph = onnx.load(file).graph
    weights = {each.name: each.data_type for each in graph.initializer}
    found = {}
    for each in graph.node:
        if each.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul") and each.input[1] in weights:
            found.setdefault(each.name.split("/")[1], set()).add(weights[each.input[1]])
    return found


def test_autocast_keeps_every_layer_of_the_module_in_float32(pair, tmp_path):
    text = whence.select(pair, ["keep"], format="modelopt-autocast").text
    in_tool("modelopt", AUTOCAST, pair, tmp_path / "kept.onnx", text, in_project=True)
    assert weight_types(tmp_path / "kept.onnx") == {"keep": {TensorProto.FLOAT}, "quant": {TensorProto.FLOAT16}}


def test_autocast_converts_the_module_despite_its_rules(pair, tmp_path):
    """With data_max 0, AutoCast's rule on values excludes every node."""
    choice = whence.select(pair, ["keep"], format="modelopt-autocast", setting="fp16").data
    in_tool("modelopt", AUTOCAST, pair, tmp_path / "forced.onnx", json.dumps({**choice, "data_max": 0}), in_project=True)
    assert weight_types(tmp_path / "forced.onnx") == {"keep": {TensorProto.FLOAT16}, "quant": {TensorProto.FLOAT}}


# For each file, prints whether NNCF quantises the model, without an ignored scope and with the scope of the file.
NNCF_LAYERS = """
import json, sys, nncf, numpy, onnx, openvino
found = {}
for path, kind, scope in json.loads(sys.argv[1]):
    value = onnx.load(path).graph.input[0]
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    data = nncf.Dataset([{value.name: numpy.random.randn(*shape).astype("float32")}])
    for each in ({}, scope):
        model = onnx.load(path) if kind == "nncf" else openvino.convert_model(path)
        made = nncf.quantize(model, data, ignored_scope=nncf.IgnoredScope(**each))
        types = [op.get_type_name() for op in made.get_ops()] if kind != "nncf" else [op.op_type for op in made.graph.node]
        found.setdefault(path, []).append(bool({"FakeQuantize", "QuantizeLinear"} & set(types)))
print()
print(json.dumps(found))
"""


class First(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


LAYERS = {
    "gemm": (torch.nn.Linear(8, 8), (2, 8)), "matmul": (torch.nn.Linear(8, 8), (2, 5, 8)),
    "conv": (torch.nn.Conv2d(4, 4, 3), (1, 4, 8, 8)), "groups": (torch.nn.Conv2d(4, 4, 3, groups=2), (1, 4, 8, 8)),
    "transposed": (torch.nn.ConvTranspose2d(4, 4, 2), (1, 4, 8, 8)),
    "transposed groups": (torch.nn.ConvTranspose2d(4, 4, 2, groups=2), (1, 4, 8, 8)),
    "transposed without bias": (torch.nn.ConvTranspose2d(4, 4, 2, bias=False), (1, 4, 8, 8)),
    "lstm": (First(torch.nn.LSTM(8, 8, batch_first=True)), (2, 5, 8)),
    "layer norm": (torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)), (2, 5, 8)),
    "group norm": (torch.nn.Sequential(torch.nn.GroupNorm(2, 4), torch.nn.Conv2d(4, 4, 1)), (1, 4, 8, 8))}
# NNCF never quantises an LSTM in an ONNX file.
NEVER_QUANTISED = {("lstm", "nncf")}


@pytest.mark.parametrize("kind", ["nncf", "nncf-openvino"])
def test_nncf_skips_every_kind_of_layer(kind, tmp_path):
    jobs = {}
    for name, (layer, shape) in LAYERS.items():
        file = tmp_path / f"{name}.onnx"
        whence.export(layer.eval(), (torch.randn(*shape),), file)
        jobs[name] = [str(file), kind, whence.select(file, format=kind).data]
    found = in_tool("nncf", NNCF_LAYERS, json.dumps(list(jobs.values())))
    for name, (file, _, _) in jobs.items():
        assert found[file] == [(name, kind) not in NEVER_QUANTISED, False], name
