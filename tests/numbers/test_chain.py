"""``whence accuracy --chain``: the first file of a chain of tools that differs."""

import json

import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import quantize_dynamic

import command
import whence


def without_keys(model):
    for node in model.graph.node:
        del node.metadata_props[:]
        node.name = ""
    return model


def negated(model, name):
    weight = next(each for each in model.graph.initializer if name in each.name)
    weight.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(weight), weight.name))
    return model


@pytest.fixture
def chain(encoder, tmp_path):
    """Returns five files: exported, with a wrong convolution, the same without origins, another fault, quantised."""
    paths = [tmp_path / f"{name}.onnx" for name in ("exported", "simplified", "bare", "fused", "int8")]
    model = onnx.load(encoder / "encoder.onnx")
    onnx.save(model, paths[0])
    onnx.save(negated(model, "local.weight"), paths[1])
    onnx.save(without_keys(model), paths[2])
    onnx.save(negated(model, "layers.1.down.bias"), paths[3])
    quantize_dynamic(paths[3], paths[4])
    return paths


def measure(encoder, paths, **options):
    return whence.accuracy_chain(paths, encoder / "encoder.values.safetensors", sidecar=encoder / "encoder.whence.json",
                                 **options)


def test_the_step_that_broke_a_chain_is_named(encoder, chain):
    before = [path.read_bytes() for path in chain]
    report = measure(encoder, chain)
    assert report.broken is report.files[1] and report.broken.first.module == "local" and not report.clean
    assert report.first_change(2) is None and report.first_change(3).module == "layers.1.down"
    lines = str(report).splitlines()
    assert lines[0] == "exported.onnx: no module differs" and "simplified.onnx: first module that differs: local" in lines[1]
    assert lines[2] == "bare.onnx: errors as before" and "layers.1.down" in lines[3]
    assert [path.read_bytes() for path in chain] == before
    assert sorted(path.name for path in chain[0].parent.iterdir()) == sorted(path.name for path in chain)


def test_a_right_chain_has_no_broken_step(encoder, tmp_path):
    first = encoder / "encoder.onnx"
    quantize_dynamic(first, tmp_path / "int8.onnx")
    report = measure(encoder, [first, tmp_path / "int8.onnx"])
    assert report.broken is None and report.clean and report.to_json()["broken"] is None


def test_the_command_reads_a_chain(encoder, chain):
    values = ("--values", encoder / "encoder.values.safetensors", "--sidecar", encoder / "encoder.whence.json")
    result = command.run("accuracy", "--chain", *chain[:2], *values)
    assert "first module that differs: local" in result.stdout
    report = json.loads(command.run("accuracy", "--chain", *chain[:2], *values, "--json").stdout)
    assert report["broken"] == 1 and [each["model"] for each in report["files"]] == ["exported.onnx", "simplified.onnx"]
    command.run("accuracy", *chain[:2], *values, code=2)
    command.run("accuracy", "--chain", *chain[:2], *values, "--html", chain[0].parent / "page.html", code=2)


def test_a_later_file_that_does_not_run_is_stated(encoder, chain):
    model = onnx.load(chain[1])
    next(node for node in model.graph.node if node.op_type == "Tanh").op_type = "NoSuchOperator"
    onnx.save(model, chain[2])
    report = measure(encoder, chain[:3])
    assert report.broken is report.files[1] and report.files[2].beginnings[-1].failure
    assert "as before" not in str(report).splitlines()[2]


def test_a_chain_needs_two_files(encoder, chain):
    with pytest.raises(whence.WhenceError) as raised:
        measure(encoder, chain[:1])
    assert raised.value.code == "E0101"
