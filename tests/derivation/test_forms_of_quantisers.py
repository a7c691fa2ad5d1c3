"""Forms in which quantisers of NVIDIA, Olive and NNCF store weights, written here in NumPy. The tools themselves are in
vendor_tools.py."""

import json

import ml_dtypes
import numpy as np
import onnx
import onnx_tools
import pytest
import torch
import whence
from onnx import helper, numpy_helper
from torch import nn

import small_models as models
from command import run

OPSET = 21


class Tables(nn.Module):
    """A table with short rows, and a layer of 64 columns."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.table, self.layer = nn.Embedding(50, 32), nn.Linear(32, 64)
        self.eval()

    def forward(self, ids):
        return torch.relu(self.layer(self.table(ids)))


IDS = torch.arange(10).reshape(2, 5)


@pytest.fixture
def tables(tmp_path):
    """Returns a function that exports and records the model after a change of its weights, by a name."""
    def make(name, change=lambda model: None, seed=0):
        model = Tables(seed)
        with torch.no_grad():
            change(model)
        models.save_weights(model, tmp_path / f"{name}.safetensors")
        with whence.record(tmp_path / f"{name}.whence.json"):
            torch.export.export(model, (IDS,))
        torch.onnx.export(model, (IDS,), tmp_path / f"{name}.onnx", dynamo=True, external_data=False, verbose=False,
                          opset_version=OPSET)
        return onnx.load(tmp_path / f"{name}.onnx")
    return make


def attest(path, weights, sidecar, code):
    report = json.loads(run("attest", path, "--weights", weights, "--sidecar", sidecar, "--json", code=code).stdout)
    return {row["name"]: row["verdict"] for row in report["predicate"]["tensors"]}


def initializer(model, name):
    return next(each for each in model.graph.initializer if each.name == name)


def replace(model, name, array):
    initializer(model, name).CopyFrom(numpy_helper.from_array(array, name))


# ---- weights that the file quantises when it runs

def quantise_at_run_time(source, target, is_half, by_channel):
    """Puts QuantizeLinear and DequantizeLinear after each weight of a product."""
    model = onnx.load(source)
    nodes, scales = [], []
    numbers = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in ("Conv", "MatMul", "Gemm") and node.input[1] in numbers:
            name = node.input[1]
            weight = numbers[name]
            turned = any(each.name == "transB" and each.i for each in node.attribute)
            axis = 0 if node.op_type == "Conv" or turned else 1
            others = tuple(each for each in range(weight.ndim) if each != axis)
            scale = (np.abs(weight).max(axis=others) if by_channel else np.abs(weight).max()) / np.float32(127)
            if is_half:
                weight, scale = weight.astype(np.float16), scale.astype(np.float16)
                replace(model, name, weight)
            zeros = np.zeros(scale.shape, np.int8)
            model.graph.initializer.extend([numpy_helper.from_array(scale, f"{name}_scale"),
                                            numpy_helper.from_array(zeros, f"{name}_zero")])
            parts = [f"{name}_scale", f"{name}_zero"]
            nodes += [helper.make_node("QuantizeLinear", [name, *parts], [f"{name}_q"], axis=axis),
                      helper.make_node("DequantizeLinear", [f"{name}_q", *parts], [f"{name}_d"], axis=axis),
                      helper.make_node("Cast", [f"{name}_d"], [f"{name}_f"], to=onnx.TensorProto.FLOAT)]
            node.input[1] = f"{name}_f"
            scales.append(f"{name}_scale")
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    next(each for each in model.opset_import if not each.domain).version = OPSET
    onnx.save(model, target)
    return scales


@pytest.mark.parametrize("by_channel", [True, False])
@pytest.mark.parametrize("name, is_half", [("text", False), ("text", True), ("images", False)])
def test_scales_of_weights_in_floating_point_follow_from_them(files_of, tmp_path, name, is_half, by_channel):
    old, new = files_of(name), files_of(name, 1)
    scales = quantise_at_run_time(old.export("dynamo"), tmp_path / "old.onnx", is_half, by_channel)
    verdicts = attest(tmp_path / "old.onnx", old.weights, old.sidecar, 0)
    # A folded norm is known up to the rounding of single precision.
    assert len(scales) > 1 and {verdicts[each] for each in scales} <= {"exact", "bounded"}
    quantise_at_run_time(new.export("dynamo"), tmp_path / "new.onnx", is_half, by_channel)
    run("refit", tmp_path / "old.onnx", "--base", old.weights, "--weights", new.weights, "--sidecar", old.sidecar, "-o",
        tmp_path / "refitted.onnx")
    found, expected = models.numbers_of(tmp_path / "refitted.onnx"), models.numbers_of(tmp_path / "new.onnx")
    for each in scales:
        np.testing.assert_allclose(found[each], expected[each], rtol=0 if verdicts[each] == "exact" else 1e-3)


@pytest.mark.parametrize("by_channel", [True, False])
@pytest.mark.parametrize("is_half", [False, True])
def test_another_scale_is_no_calibration(files_of, tmp_path, is_half, by_channel):
    files = files_of("text")
    scales = quantise_at_run_time(files.export("dynamo"), tmp_path / "model.onnx", is_half, by_channel)
    model = onnx.load(tmp_path / "model.onnx")
    changed = numpy_helper.to_array(initializer(model, scales[2])).copy()
    changed.flat[0] = np.nextafter(changed.flat[0], changed.dtype.type(9))
    replace(model, scales[2], changed)
    onnx.save(model, tmp_path / "changed.onnx")
    verdicts = attest(tmp_path / "changed.onnx", files.weights, files.sidecar, 1)
    assert [name for name, verdict in verdicts.items() if verdict == "unaccounted"] == [scales[2]]


# ---- blocks that are longer than a row

def with_blocks(model, weight):
    """Reads a table from integers of four bits in blocks of 128 columns: one scale for each row, and no zero points."""
    gather = next(node for node in model.graph.node if node.op_type == "Gather" and node.input[0] == "table.weight")
    scales = weight[np.arange(len(weight)), np.abs(weight).argmax(axis=1)] / np.float32(-8)
    integers = (np.clip(np.rint(weight / scales[:, None]) + 8, 0, 15)).astype(np.uint8)
    model.graph.initializer.remove(initializer(model, "table.weight"))
    model.graph.initializer.extend([numpy_helper.from_array(integers[:, ::2] | integers[:, 1::2] << 4, "table.weight_Q4"),
                                    numpy_helper.from_array(scales[:, None], "table.weight_scales")])
    gather.CopyFrom(helper.make_node("GatherBlockQuantized", ["table.weight_Q4", gather.input[1], "table.weight_scales"],
                                     gather.output, name=gather.name, domain="com.microsoft", gather_axis=0,
                                     quantize_axis=1, block_size=128, bits=4))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def test_a_block_is_longer_than_a_row(tables, tmp_path):
    model = with_blocks(tables("old"), Tables(0).table.weight.detach().numpy())
    onnx.save(model, tmp_path / "blocks.onnx")
    files = tmp_path / "old.safetensors", tmp_path / "old.whence.json"
    assert "unaccounted" not in attest(tmp_path / "blocks.onnx", *files, 0).values()
    packed = numpy_helper.to_array(initializer(model, "table.weight_Q4")).copy()
    packed[7, 3] ^= 1
    replace(model, "table.weight_Q4", packed)
    onnx.save(model, tmp_path / "changed.onnx")
    assert attest(tmp_path / "changed.onnx", *files, 1)["table.weight_Q4"] == "unaccounted"
    new = with_blocks(tables("new", seed=1), Tables(1).table.weight.detach().numpy())
    run("refit", tmp_path / "blocks.onnx", "--base", files[0], "--weights", tmp_path / "new.safetensors", "--sidecar", files[1],
        "-o", tmp_path / "refitted.onnx")
    found = models.numbers_of(tmp_path / "refitted.onnx")
    assert all(np.array_equal(found[each.name], numpy_helper.to_array(each)) for each in new.graph.initializer)


# ---- roundings

def with_int4(model, weight, divisor, offset):
    """Reads the layer's weight [32, 64] from integers of four bits by channel: round(w / s + offset) - offset."""
    name = next(node.input[1] for node in model.graph.node if node.op_type in ("MatMul", "Gemm"))
    largest = weight[np.abs(weight).argmax(axis=0), np.arange(weight.shape[1])]
    scales = (largest if divisor < 0 else np.abs(largest)) / np.float32(divisor)
    integers = np.clip(np.rint(weight / scales + np.float32(offset)) - np.float32(offset), -8, 7)
    stored = numpy_helper.to_array(initializer(model, name))
    turned = stored.shape != weight.shape
    model.graph.initializer.remove(initializer(model, name))
    integers = (integers.T if turned else integers).astype(ml_dtypes.int4)
    model.graph.initializer.extend([numpy_helper.from_array(integers, "layer_Q4"),
                                    numpy_helper.from_array(scales, "layer_scales")])
    model.graph.node.insert(0, helper.make_node("DequantizeLinear", ["layer_Q4", "layer_scales"], [name],
                                                axis=0 if turned else 1))
    return model


def layer_of(model):
    return model.layer.weight.detach().numpy().T


def near_halfway(model):
    """Sets an element that one rounding rounds up and another one down: adding 8 loses its last bits."""
    model.layer.weight[0, 0] = 0.8
    scale = np.float32(0.8) / np.float32(-8)
    candidates = np.float32(3.5) * scale
    while np.rint(candidates / scale) == np.rint(candidates / scale + np.float32(8)) - 8:
        candidates = np.nextafter(candidates, np.float32(0))
    model.layer.weight[0, 1] = float(candidates)


def test_unsigned_integers_that_are_stored_as_signed_ones(tables, tmp_path):
    exported = tables("old", near_halfway)
    changed = Tables(0)
    with torch.no_grad():
        near_halfway(changed)
    model = with_int4(exported, layer_of(changed), -8, 8)
    onnx.save(model, tmp_path / "int4.onnx")
    assert attest(tmp_path / "int4.onnx", tmp_path / "old.safetensors", tmp_path / "old.whence.json", 0)["layer_Q4"] == "exact"


def halfway(model):
    model.layer.weight[0, :3] = torch.tensor([7.0, 2.5, -0.5])


def test_a_tie_of_new_weights_is_rounded_as_by_the_tool(tables, tmp_path):
    """All roundings give the integers of the old weights."""
    model = with_int4(tables("old"), layer_of(Tables(0)), 7, 0)
    onnx.save(model, tmp_path / "old_int4.onnx")
    exported = tables("new", halfway, seed=1)
    changed = Tables(1)
    with torch.no_grad():
        halfway(changed)
    new = with_int4(exported, layer_of(changed), 7, 0)
    run("refit", tmp_path / "old_int4.onnx", "--base", tmp_path / "old.safetensors", "--weights", tmp_path / "new.safetensors",
        "--sidecar", tmp_path / "old.whence.json", "-o", tmp_path / "refitted.onnx")
    found = models.numbers_of(tmp_path / "refitted.onnx")["layer_Q4"]
    assert np.array_equal(found, numpy_helper.to_array(initializer(new, "layer_Q4")))


# ---- roundings that the old weights do not distinguish

def test_halves_of_a_new_table_are_rounded_as_by_the_tool_of_its_operator(tables, tmp_path):
    """ONNX Runtime rounds the halves of a table's blocks to even, and those of a product's blocks from zero."""
    def with_halves(model):
        with torch.no_grad():
            model.table.weight[:] = torch.arange(32) % 16
            model.table.weight[:, 2::3] += 0.5
            model.table.weight[:, :2] = torch.tensor([0.0, 15.0])  # so a step is 1, and 0 is zero
            model.table.weight.clamp_(0, 15)

    onnx.save(tables("old"), tmp_path / "exported.onnx")
    onnx.save(tables("new", with_halves), tmp_path / "new_exported.onnx")
    quantise = onnx_tools.blocks(block_size=32, bits=4, is_symmetric=False, op_types_to_quantize=("MatMul", "Gather"))
    quantise(tmp_path / "exported.onnx", tmp_path / "tool.onnx", [])
    quantise(tmp_path / "new_exported.onnx", tmp_path / "expected.onnx", [])
    run("refit", tmp_path / "tool.onnx", "--base", tmp_path / "old.safetensors", "--weights", tmp_path / "new.safetensors",
        "--sidecar", tmp_path / "old.whence.json", "-o", tmp_path / "refitted.onnx")
    found, expected = models.numbers_of(tmp_path / "refitted.onnx"), models.numbers_of(tmp_path / "expected.onnx")
    assert "table.weight_Q4" in found
    assert [name for name in found if found[name].tobytes() != expected[name].tobytes()] == []
