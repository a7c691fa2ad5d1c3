"""Compares the truth of the corpus with other evidence: the modules that contain the weights, and the truth of the
other exporter, which is derived differently."""

import collections
import functools

import onnx
import pytest

from accuracy import corpus, equal, models
from accuracy.graphs import all_nodes, first_output
from accuracy.truth import Truth, modules
from models import zoo

MODELS = ("shared_block", "unet", "vit")


@functools.cache
def exported(folder, model: str, source: str) -> tuple[onnx.ModelProto, Truth]:
    exporter, opset, dynamic = corpus.SOURCES[source]
    path = folder / f"{model}.{source}.onnx"
    truth = exporter(model, opset, dynamic, path)
    return onnx.load(path), truth


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("truth")


def owners(name: str) -> dict[str, set]:
    """Maps the digest of a parameter, equal for its transpose, to the modules that contain it."""
    model, canonical = zoo.MODELS[name].model(), models.canonical(name)
    found = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    digests = equal.weights({path: tensor.detach().numpy() for path, tensor in found})
    result = collections.defaultdict(set)
    for path, digest in digests.items():
        result[digest].add(canonical[path.rpartition(".")[0]])
    return result


@pytest.mark.parametrize("source", ["dynamo-18", "torchscript-18"])
@pytest.mark.parametrize("name", MODELS)
def test_a_node_that_reads_a_weight_has_the_weights_module(folder, name, source):
    model, truth = exported(folder, name, source)
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    digests, holders, checked = equal.weights(stored), owners(name), 0
    for key, node in all_nodes(model):
        for weight in (digests[value] for value in node.input if value in digests):
            if weight in holders and key in truth.nodes:
                checked += 1
                assert holders[weight] & modules(truth.nodes[key]), (key, holders[weight], truth.nodes[key])
    assert checked >= 3


@pytest.mark.parametrize("name", MODELS)
def test_both_exporters_agree_on_equal_values(folder, name):
    (one, one_truth), (other, other_truth) = (exported(folder, name, source)
                                              for source in ["dynamo-18", "torchscript-18"])
    producers = [{output: node for node in model.graph.node for output in node.output} for model in (one, other)]
    values = [equal.values(model, models.example(name)) for model in (one, other)]
    results = [{prefix + value: array for value, array in found.items() if value in producer}
               for prefix, found, producer in zip(("", "other "), values, producers, strict=True)]
    compared = 0
    for torchscript_value, dynamo_value in equal.renamed_values(*results).items():
        nodes = producers[0][dynamo_value], producers[1][torchscript_value.removeprefix("other ")]
        keys = [first_output(node) for node in nodes]
        if nodes[0].op_type == nodes[1].op_type and keys[0] in one_truth.nodes and keys[1] in other_truth.nodes:
            compared += 1
            assert modules(one_truth.nodes[keys[0]]) == modules(other_truth.nodes[keys[1]]), keys
    assert compared > 20
