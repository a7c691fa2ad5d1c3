"""`whence annotate` and `whence strip` on complete models: PyTorch's keys, equal results, restored bytes."""

import ast
import functools
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import command
from models import zoo

MODELS = ["bert_tiny", "resnet50", "shared_block"]


@functools.cache
def export_and_annotate(name: str) -> tuple:
    """Exports and annotates a model; returns (plain file, sidecar, annotated file)."""
    plain = zoo.folder() / f"{name}.plain.onnx"
    sidecar, output = plain.with_suffix(".whence.json"), zoo.folder() / f"{name}.annotated.onnx"
    command.run("export", zoo.trace(name), "-o", plain, "--inputs", zoo.inputs_file(name), "--sidecar-out", sidecar)
    command.run("annotate", plain, "--sidecar", sidecar, "-o", output)
    return plain, sidecar, output


def metadata(node: onnx.NodeProto) -> dict:
    entries = [(entry.key, entry.value) for entry in node.metadata_props]
    assert len(dict(entries)) == len(entries), f"{node.name} has a key twice"
    return dict(entries)


@pytest.mark.parametrize("name", MODELS)
def test_every_node_has_its_origin(name):
    model = onnx.load(export_and_annotate(name)[2])
    onnx.checker.check_model(model, full_check=True)
    modules = {path for path, _ in zoo.MODELS[name].model().named_modules()}
    for node in model.graph.node:
        keys = metadata(node)
        assert keys["pkg.whence.module"] in modules
        assert keys["pkg.whence.confidence"] in ("exact", "ancestor")
        assert keys["namespace"].startswith(": ")
        assert ast.literal_eval(keys["pkg.torch.onnx.name_scopes"])[0] == ""


@pytest.mark.parametrize("name", MODELS)
def test_annotation_does_not_change_results(name):
    plain, _, output = export_and_annotate(name)
    inputs = {key: value.numpy() for key, value in zoo.MODELS[name].inputs(zoo.MODELS[name].first).items()}
    results = [onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs)
               for path in (plain, output)]
    for before, after in zip(*results, strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("name", MODELS)
def test_strip_restores_the_original_bytes(name, tmp_path):
    plain, sidecar, output = export_and_annotate(name)
    again, stripped = tmp_path / "again.onnx", tmp_path / "stripped.onnx"
    command.run("annotate", output, "--sidecar", sidecar, "-o", again)
    assert again.read_bytes() == output.read_bytes(), "the second annotation changed the file"
    command.run("strip", again, "-o", stripped)
    assert stripped.read_bytes() == plain.read_bytes()


def test_keys_of_modules_equal_those_of_pytorch(tmp_path):
    """Linear layers and normalizations get exactly the keys that PyTorch's exporter writes."""
    model, inputs = zoo.MODELS["bert_tiny"].model(), zoo.MODELS["bert_tiny"].inputs(zoo.MODELS["bert_tiny"].first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (), tmp_path / "torch.onnx", kwargs=inputs, dynamo=True, verbose=False)
    compared_keys = ("namespace", "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.name_scopes")

    def key_values(path) -> set:
        nodes = [metadata(node) for node in onnx.load(path, load_external_data=False).graph.node]
        targets = ("aten.linear.default", "aten.layer_norm.default")
        return {tuple(keys[key] for key in compared_keys)
                for keys in nodes if keys.get("namespace", "").endswith(targets)}

    actual, expected = key_values(export_and_annotate("bert_tiny")[2]), key_values(tmp_path / "torch.onnx")
    assert len(expected) == 18
    assert actual == expected


def test_calls_of_one_module_are_distinguished():
    nodes = [metadata(node) for node in onnx.load(export_and_annotate("shared_block")[2]).graph.node]
    calls = {}
    for keys in nodes:
        calls.setdefault(keys["pkg.whence.module"], set()).add(keys["pkg.whence.call"])
    assert max(len(numbers) for numbers in calls.values()) > 1


def test_external_data_is_copied_to_another_folder(small_archive, tmp_path):
    plain, sidecar, other = tmp_path / "m.onnx", tmp_path / "m.whence.json", tmp_path / "other"
    other.mkdir()
    archive = tmp_path / "wide.pt"
    torch.jit.trace(torch.nn.Linear(64, 64), torch.zeros(1, 64)).save(str(archive))
    command.run("export", archive, "-o", plain, "--sidecar-out", sidecar, "--external-data")
    command.run("annotate", plain, "-o", other / "out.onnx", "--sidecar", sidecar)
    onnx.checker.check_model(str(other / "out.onnx"), full_check=True)
    command.run("strip", other / "out.onnx", "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == plain.read_bytes()


def test_annotate_finds_the_sidecar_next_to_the_model(small_export, tmp_path):
    model, _ = small_export
    report = command.run_json("annotate", model, "-o", tmp_path / "out.onnx", "--keys", "module,source", "--no-names")
    assert report["nodes"] == report["exact"] + report["ancestor"] > 0
    node = onnx.load(tmp_path / "out.onnx").graph.node[0]
    assert set(metadata(node)) == {"pkg.whence.op", "pkg.whence.module", "pkg.whence.source", "pkg.whence.confidence"}


def test_annotate_matches_nodes_without_stamps(small_export, tmp_path):
    model, sidecar = small_export
    foreign = onnx.load(model)
    del foreign.metadata_props[:]
    for node in foreign.graph.node:
        del node.metadata_props[:]
    onnx.save(foreign, tmp_path / "foreign.onnx")
    report = command.run_json("annotate", tmp_path / "foreign.onnx", "--sidecar", sidecar, "-o", tmp_path / "out.onnx")
    assert report["exact"] == 0 and report["matched"] == report["nodes"] > 0


def test_the_sidecar_of_another_program_is_refused(small_export, tmp_path):
    model, _ = small_export
    other = export_and_annotate("shared_block")[1]
    result = command.run("annotate", model, "--sidecar", other, "-o", tmp_path / "out.onnx", code=3)
    assert "E0206" in result.stderr
    assert not (tmp_path / "out.onnx").exists()


def test_unknown_keys_are_refused(small_export, tmp_path):
    model, sidecar = small_export
    result = command.run("annotate", model, "--sidecar", sidecar, "-o", tmp_path / "out.onnx", "--keys", "modul",
                         code=2)
    assert "pkg.whence.module" in result.stderr
