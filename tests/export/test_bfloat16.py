"""bfloat16 models run in ONNX Runtime on the CPU, which has bfloat16 kernels for few operators."""

import os
import re
import warnings

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import torch
import whence
from torch import nn

import command
from function_module import FunctionModule

os.environ.setdefault("WHENCE", str(command.BINARY))

# Operators that run in bfloat16 without casts, each as a model with one node: inputs, expression.
ONE_NODE_MODELS = {
    "CastLike": ("bfloat16[2] x, bfloat16[1] y", "CastLike(x, y)"),
    "Cast": ("bfloat16[2] x", "Cast <to: int = 1> (x)"),
    "Concat": ("bfloat16[2] x, bfloat16[2] y", "Concat <axis: int = 0> (x, y)"),
    "Flatten": ("bfloat16[2,2] x", "Flatten(x)"),
    "Gather": ("bfloat16[2] x, int64[1] i", "Gather(x, i)"),
    "GatherElements": ("bfloat16[2] x, int64[1] i", "GatherElements(x, i)"),
    "GatherND": ("bfloat16[2] x, int64[1,1] i", "GatherND(x, i)"),
    "Identity": ("bfloat16[2] x", "Identity(x)"),
    "LayerNormalization": ("bfloat16[2] x, bfloat16[2] y", "LayerNormalization(x, y)"),
    "Reshape": ("bfloat16[2] x, int64[2] i", "Reshape(x, i)"),
    "ScatterElements": ("bfloat16[2] x, int64[1] i, bfloat16[1] y", "ScatterElements(x, i, y)"),
    "ScatterND": ("bfloat16[2] x, int64[1,1] i, bfloat16[1] y", "ScatterND(x, i, y)"),
    "Shape": ("bfloat16[2] x", "Shape(x)"),
    "Slice": ("bfloat16[2] x, int64[1] i, int64[1] j", "Slice(x, i, j)"),
    "Split": ("bfloat16[2] x, int64[1] i", "Split(x, i)"),
    "Squeeze": ("bfloat16[1,2] x", "Squeeze(x)"),
    "Transpose": ("bfloat16[1,2] x", "Transpose(x)"),
    "Unsqueeze": ("bfloat16[2] x, int64[1] i", "Unsqueeze(x, i)"),
}


class Block(nn.Module):
    """x: bfloat16[n, t, 8] -> float32[n, t, 8] and bfloat16[n, 3]"""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 64), nn.Linear(64, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        x = x + self.down(torch.nn.functional.gelu(self.up(x)))
        slopes = torch.arange(1, 4, dtype=x.dtype) * torch.full((1, 3), 0.5, dtype=x.dtype)
        return x.float(), slopes + x.mean((1, 2))[:, None]


def run(path, x):
    """Runs the file with casts from and to float32 around it, because numpy has no bfloat16."""
    model = onnx.load(path)
    cast = onnx.helper.make_node("Cast", ["x_float32"], [model.graph.input[0].name], to=onnx.TensorProto.BFLOAT16)
    shape = [dim.dim_param or dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    model.graph.node.insert(0, cast)
    del model.graph.input[0]
    model.graph.input.append(onnx.helper.make_tensor_value_info("x_float32", onnx.TensorProto.FLOAT, shape))
    output = model.graph.output.pop()
    model.graph.node.append(onnx.helper.make_node("Cast", [output.name], ["wide"], to=onnx.TensorProto.FLOAT))
    model.graph.output.append(onnx.helper.make_tensor_value_info("wide", onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x_float32": x.float().numpy()})


@pytest.fixture(scope="module")
def block():
    torch.manual_seed(0)
    return Block().eval().bfloat16()


@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_a_model_runs_on_the_cpu_with_a_warning(block, backend, tmp_path):
    x = torch.randn(2, 5, 8).bfloat16()
    with pytest.warns(whence.WhenceWarning, match="of bfloat16 computes? in float32 between casts.*keep_bfloat16=True"):
        whence.export(block, x, tmp_path / "m.onnx", backend, dynamic_shapes=({0: "n", 1: "t"},))
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    other = torch.randn(3, 7, 8).bfloat16()
    with torch.no_grad():
        results = block(other)
    for actual, expected in zip(run(tmp_path / "m.onnx", other), results, strict=True):
        np.testing.assert_allclose(actual, expected.float(), rtol=0.02, atol=0.03)  # 8 bits of precision
    model = onnx.load(tmp_path / "m.onnx")
    weights = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert weights["up.bias"] == weights["down.bias"] == onnx.TensorProto.BFLOAT16
    coverage = command.run_json("validate", tmp_path / "m.onnx")["coverage"]
    assert coverage["exact"] + coverage["ancestor"] == len(model.graph.node)
    assert coverage["ancestor"] < 6  # a cast for two modules belongs to their parent


def test_results_are_rounded_where_pytorch_rounds_them(tmp_path):
    """256 + 1 is 256 in bfloat16, but 257 if the next operator reads the float32 value."""
    class Sum(nn.Module):
        def forward(self, x):
            return ((x + 1) - 256).float()

    with pytest.warns(whence.WhenceWarning, match="2 operators of bfloat16"):
        program = whence.export(Sum(), torch.ones(2).bfloat16(), tmp_path / "m.onnx")
    assert [node.op_type for node in program.model_proto.graph.node].count("Add") == 1
    model = program.model_proto
    wide = onnx.helper.make_tensor_value_info("wide", onnx.TensorProto.FLOAT, [2])
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["wide"], ["x"], to=onnx.TensorProto.BFLOAT16))
    del model.graph.input[:]
    model.graph.input.append(wide)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"wide": np.array([256, 300], np.float32)})[0].tolist() == [0, 44]


class SharedCast(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = FunctionModule(lambda x: x + 1), FunctionModule(lambda x: x - 1)

    def forward(self, x):
        return self.a(x), self.b(x)


def test_a_cast_read_by_two_modules_belongs_to_their_ancestor(tmp_path):
    with pytest.warns(whence.WhenceWarning, match="operators of bfloat16"):
        program = whence.export(SharedCast().eval(), torch.ones(2).bfloat16(), tmp_path / "m.onnx")
    (cast,) = [node for node in program.model_proto.graph.node if node.op_type == "Cast" and node.input[0] == "x"]
    keys = {entry.key: entry.value for entry in cast.metadata_props}
    assert keys["pkg.whence.module"] == "" and keys["pkg.whence.confidence"] == "ancestor"


def test_keep_bfloat16_adds_no_casts(block, tmp_path):
    x = torch.randn(2, 5, 8).bfloat16()
    with warnings.catch_warnings():
        warnings.simplefilter("error", whence.WhenceWarning)
        graph = whence.export(block, x, tmp_path / "m.onnx", keep_bfloat16=True).model_proto.graph
    assert sum(node.op_type == "Cast" for node in graph.node) <= 1
    with pytest.raises(Exception, match="Could not find an implementation"):
        onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])


def test_branches_and_loops_in_bfloat16(tmp_path):
    scripted = torch.jit.script(Steps().eval())
    scripted.save(str(tmp_path / "m.pt"))
    torch.save((torch.randn(3, 4),), tmp_path / "x.pt")
    result = command.run("export", tmp_path / "m.pt", "--inputs", tmp_path / "x.pt", "--dynamic", "x:0=n",
                         "-o", tmp_path / "m.onnx")
    assert "--keep-bfloat16" in str(result)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for x in (torch.randn(5, 4), -torch.rand(2, 4)):
        np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], scripted(x), rtol=0.02, atol=0.02)


class Steps(nn.Module):
    def forward(self, x):
        h = x.to(torch.bfloat16)
        total = h[0] * 0
        for i in range(h.shape[0]):
            if bool(h[i].sum() > 0):
                total = total + h[i] * 2
            else:
                total = total - h[i]
        return total.float()


@pytest.mark.parametrize("opset", [13, 16, 18, 20, 21, 23])
def test_listed_operators_run_in_bfloat16(opset):
    header = (command.ROOT / "annotator" / "exporter" / "bfloat16.h").read_text()
    listed = re.findall('"([A-Za-z]+)"', header.split("runs_in_bfloat16")[1].split("};")[0])
    assert sorted(listed) == listed and set(listed) == set(ONE_NODE_MODELS)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for name in listed:
        if name == "CastLike" and opset < 15 or name == "LayerNormalization" and opset < 17:
            continue
        inputs, computed = ONE_NODE_MODELS[name]
        element = {"Cast": "float", "Shape": "int64"}.get(name, "bfloat16")
        model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> '
                                        f"g ({inputs}) => ({element}[] z) {{ z = {computed} }}")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
