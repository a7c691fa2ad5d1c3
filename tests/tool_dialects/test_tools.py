"""`whence select --format` in the tools that read it, each in an environment of its own (tools/setup/tool_environments.sh).

A program is handed to the tool's Python; it prints what the tool made of the text.
"""

import json
import subprocess

import pytest

import command
import whence
from functions import graphs
from functions.graphs import node
from functions.test_dialects import in_module, with_body

pytestmark = pytest.mark.matrix


def in_tool(tool: str, program: str, *arguments) -> object:
    """What `program` prints as JSON on its last line, in the environment of the tool."""
    python = command.ROOT / "build" / "tools" / tool / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment of {tool}: tools/setup/tool_environments.sh makes it")
    done = subprocess.run([python, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def path(tmp_path):
    """Two layers, each a Gemm with a bias; the last makes the model's output."""
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

# The products whose weights are quantised, by the number of their weight's place in the model: 0, 1, 2.
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


@pytest.mark.parametrize("modules, left", [(["enc.0"], [0]), (["enc"], [0, 1]), (["dec"], [2])])
def test_nncf_leaves_out_the_modules(path, modules, left):
    names = ["/enc.0/Gemm", "/enc.0/Gemm_1", "/dec/Gemm"]
    chosen = whence.select(path, modules, ops=["Gemm"], format="nncf")
    assert in_tool("nncf", NNCF_ONNX, path, chosen.text) == [name for i, name in enumerate(names) if i not in left]
    chosen = whence.select(path, modules, ops=["Gemm"], format="nncf-openvino")
    assert in_tool("nncf", NNCF_OPENVINO, path, chosen.text) == [i not in left for i in range(3)]


def test_a_plain_list_of_names_is_quantised_by_nncf_on_openvino(path):
    """The reason why there are two formats: NNCF takes the names, and quantises the product."""
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


def test_graphsurgeon_finds_the_nodes_in_bodies_too(path, tmp_path):
    text = whence.select(path, ["enc.0"], format="graphsurgeon").text
    assert in_tool("graphsurgeon", GRAPHSURGEON, path, text) == [["/enc.0/Gemm", "Gemm"], ["/enc.0/Relu", "Relu"]]
    file = with_body(tmp_path)
    found = in_tool("graphsurgeon", GRAPHSURGEON, file, whence.select(file, ops=["Relu"], format="graphsurgeon").text)
    assert sorted(found) == [["/if/Relu", "Relu"], ["/if/Relu_1", "Relu"]]


# The package wants a GPU build, so its one function is taken out of its source.
MODELOPT = """
import ast, importlib.metadata, json, re, sys, types
source = next(file for file in importlib.metadata.files("nvidia-modelopt") if str(file) == "modelopt/onnx/quantization/graph_utils.py")
tree = ast.parse(source.locate().read_text())
name = "expand_node_names_from_patterns"
function = next(each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name)
for argument in function.args.args:
    argument.annotation = None
space = {"re": re}
exec(compile(ast.Module([function], []), "graph_utils.py", "exec"), space)
names = json.loads(sys.argv[1])
graph = types.SimpleNamespace(nodes=[types.SimpleNamespace(name=each) for each in names])
print(json.dumps(space[name](graph, json.loads(sys.argv[2])["nodes_to_exclude"])))
"""


def test_modelopts_function_finds_the_nodes_alone(path):
    names = ["/enc.0/Gemm", "/enc.0/Relu", "/enc.0/Gemm_1", "/dec/Gemm", "/enc_0/Gemm"]
    text = whence.select(path, ["enc.0"], ops=["Gemm"], format="modelopt").text
    assert in_tool("modelopt", MODELOPT, json.dumps(names), text) == ["/enc.0/Gemm"]
