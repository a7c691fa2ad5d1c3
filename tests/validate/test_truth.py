"""Compares annotated modules with independent evidence: the name of a weight contains its module."""

import json

import onnx
import pytest

from models import zoo
from validate.test_coverage import annotated


def modules_of(node: onnx.NodeProto) -> list[str]:
    keys = {entry.key: entry.value for entry in node.metadata_props}
    return json.loads(keys["pkg.whence.modules"]) if "pkg.whence.modules" in keys else [keys["pkg.whence.module"]]


@pytest.mark.parametrize("name", zoo.MODELS)
def test_a_node_that_reads_a_weight_belongs_to_its_module(name):
    model = zoo.MODELS[name].model()
    names = {}
    for path, tensor in [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]:
        names.setdefault(id(tensor), []).append(path)
    owners = {path: {alias.rpartition(".")[0] for alias in aliases} for aliases in names.values() for path in aliases}
    checked = 0
    for node in onnx.load(annotated(name)[0]).graph.node:
        weights = [value for value in node.input if value in owners]
        if weights:
            checked += 1
            modules = set(modules_of(node))
            assert any(owners[weight] & modules for weight in weights), (node.name, weights, modules)
    assert checked >= 2  # the LSTM's weights are reordered and renamed


@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_node_names_a_module_of_the_model(name):
    known = {path for path, _ in zoo.MODELS[name].model().named_modules()}
    for node in onnx.load(annotated(name)[0]).graph.node:
        assert set(modules_of(node)) <= known
