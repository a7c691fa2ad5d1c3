"""PyTorch's dynamo exporter, and the truth of its files.

Its metadata is right before its optimiser ran and wrong after it on one node in thirty, so the truth is read from the
unoptimised file and carried through the optimiser like through any other tool. A module that is called under another
of its names is entered by its first one.
"""

import ast
from pathlib import Path

import onnx
import torch

from accuracy import carry, models
from accuracy.graphs import all_nodes, metadata
from accuracy.truth import Truth
from models import zoo


def export(name: str, opset: int, dynamic: bool, path: Path) -> Truth:
    """Writes the file as a user gets it and returns its truth."""
    program = trace(name, opset, dynamic)
    plain = onnx.load_from_string(program.model_proto.SerializeToString())
    program.optimize()
    program.save(path, external_data=False)
    return carry.through(plain, unoptimised_truth(name, plain), onnx.load(path), models.example(name))


def trace(name: str, opset: int, dynamic: bool) -> torch.onnx.ONNXProgram:
    entry, inputs = zoo.MODELS[name], models.example(name)
    options = {}
    if dynamic:
        options["dynamic_shapes"] = {key: {axis: torch.export.Dim.DYNAMIC for axis in entry.dynamic.get(key, {})}
                                     for key in inputs}
        inputs = entry.inputs({key: max(size, 2) for key, size in entry.first.items()})  # 1 would be specialised
    with models.quiet():
        return torch.onnx.export(entry.model(), kwargs=inputs, input_names=list(inputs), opset_version=opset,
                                 dynamo=True, optimize=False, verbose=False, **options)


def unoptimised_truth(name: str, model: onnx.ModelProto) -> Truth:
    truth, canonical = Truth(), models.canonical(name)
    for key, node in all_nodes(model):
        scopes = metadata(node).get("pkg.torch.onnx.name_scopes")
        if scopes is None:
            truth.unknown[key] = "no metadata"
        else:
            truth.nodes[key] = frozenset({(canonical[ast.literal_eval(scopes)[-2]], -1)})
    return truth
