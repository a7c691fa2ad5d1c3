"""Tests that every subcommand keeps weights of few bits unchanged, in the file and as external data: int4 and uint4
with two per byte, int2 and uint2 with four per byte, float8, float4, and the powers of two in float8e8m0."""

import onnx
import onnx.checker
import onnx.helper
import onnx.reference
import pytest
import torch

import command
from results import assert_same_results

BITS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4e2m1": 4, "float8e4m3fn": 8, "float8e4m3fnuz": 8,
        "float8e5m2": 8, "float8e5m2fnuz": 8, "float8e8m0": 8}
ELEMENTS = 35  # only the 8-bit types fill their last byte


def model() -> onnx.ModelProto:
    nodes, weights, outputs = [], [onnx.helper.make_tensor("s", onnx.TensorProto.FLOAT, [], [0.5])], []
    for name, bits in BITS.items():
        kind = getattr(onnx.TensorProto, name.upper())
        data = bytes(range(7, 7 + (ELEMENTS * bits + 7) // 8))
        weights.append(onnx.TensorProto(name=name, data_type=kind, dims=[5, 7], raw_data=data))
        scaled = name != "float8e8m0"  # float8e8m0 is itself a scale
        nodes.append(onnx.helper.make_node(*("DequantizeLinear", [name, "s"]) if scaled else ("Identity", [name]),
                                           outputs=[f"y_{name}"], name=f"/layer/{name}"))
        outputs.append(onnx.helper.make_tensor_value_info(f"y_{name}", onnx.TensorProto.FLOAT if scaled else kind,
                                                          [5, 7]))
    graph = onnx.helper.make_graph(nodes, "g", [], outputs, weights)
    file = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 25)], ir_version=13)
    onnx.checker.check_model(file, full_check=True)
    return file


def contents(path) -> dict:
    return {each.name: (each.data_type, list(each.dims), each.raw_data) for each in onnx.load(path).graph.initializer}


@pytest.mark.parametrize("external", [False, True])
def test_weights_of_few_bits_are_kept(external, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model(), path, save_as_external_data=external, size_threshold=0, location="m.data")
    before, file = contents(path), path.read_bytes()
    assert len(before) == 1 + len(BITS)
    command.run("annotate", path, "-o", tmp_path / "a.onnx")
    assert contents(tmp_path / "a.onnx") == before
    onnx.checker.check_model(tmp_path / "a.onnx", full_check=True)
    command.run("strip", tmp_path / "a.onnx", "-o", tmp_path / "s.onnx")
    assert (tmp_path / "s.onnx").read_bytes() == file
    assert command.run_json("show", tmp_path / "a.onnx")["nodes"] == len(BITS)
    command.run("validate", tmp_path / "a.onnx", "--min-covered", 0)


@pytest.mark.parametrize("name, too_few", [("int4", 17), ("uint2", 8)])
def test_truncated_data_is_a_finding(name, too_few, tmp_path):
    """18 bytes are 35 numbers of 4 bits; 9 bytes are 35 numbers of 2 bits."""
    file = model()
    weight, = (each for each in file.graph.initializer if each.name == name)
    onnx.save(file, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
    command.run("validate", tmp_path / "m.onnx", "--min-covered", 0)
    file = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    weight, = (each for each in file.graph.initializer if each.name == name)
    length, = (entry for entry in weight.external_data if entry.key == "length")
    assert int(length.value) == too_few + 1
    length.value = str(too_few)
    onnx.save(file, tmp_path / "m.onnx")
    assert name in command.run("validate", tmp_path / "m.onnx", "--min-covered", 0, code=1).stdout


class Float8(torch.nn.Module):
    """Stores a weight in 8 bits and multiplies with it in 32 bits."""

    def __init__(self, dtype):
        super().__init__()
        self.register_buffer("weight", torch.randn(4, 6).to(dtype))

    def forward(self, x):
        return x @ self.weight.to(torch.float32).T


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz])
@pytest.mark.parametrize("optimize", [True, False])
def test_an_archive_of_float8_is_exported(dtype, optimize, tmp_path):
    torch.manual_seed(2)
    module, x = Float8(dtype), torch.randn(3, 6)
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "m.pt2")
    refused = command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--opset", 18, code=4)
    assert "float8 from opset 19" in refused.stderr and not (tmp_path / "m.onnx").exists()
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", *([] if optimize else ["--no-optimize"]))
    file = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(file, full_check=True)
    assert [each.data_type for each in file.graph.initializer if each.name == "weight"] == [
        {torch.float8_e4m3fn: 17, torch.float8_e4m3fnuz: 18, torch.float8_e5m2: 19, torch.float8_e5m2fnuz: 20}[dtype]]
    other = torch.randn(5, 6)[:3]
    assert_same_results(onnx.reference.ReferenceEvaluator(file).run(None, {"x": other.numpy()}), [module(other)],
                        (1e-5, 1e-5))
