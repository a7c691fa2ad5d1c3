"""PyTorch's dynamo exporter, and the truth of its files.

Its metadata is correct until its optimiser runs, and then wrong on one node in thirty. So the truth is read from the
unoptimised file and transferred through the optimiser as through any other tool. A module with several names is listed
under its first name.
"""

import collections
import re
from pathlib import Path

import onnx
import torch

from accuracy import carry, models
from accuracy.graphs import all_nodes, metadata
from accuracy.truth import Call, Truth

FX_NAME = re.compile(r"%(\w+) :")


def export(name: str, opset: int, dynamic: bool, path: Path) -> Truth:
    """Writes the file that a user would get and returns its truth."""
    program = trace(name, opset, dynamic)
    unoptimised = onnx.load_from_string(program.model_proto.SerializeToString())
    program.optimize()
    program.save(path, external_data=False)
    truth = unoptimised_truth(name, program, unoptimised)
    return carry.transfer(unoptimised, truth, onnx.load(path), models.example(name))


def trace(name: str, opset: int, dynamic: bool) -> torch.onnx.ONNXProgram:
    entry, inputs = models.ENTRIES[name], models.example(name)
    options = {}
    if dynamic:
        options["dynamic_shapes"] = {key: {axis: torch.export.Dim.DYNAMIC for axis in entry.dynamic.get(key, {})}
                                     for key in inputs}
        inputs = entry.inputs({key: max(size, 2) for key, size in entry.first.items()})  # 1 would be specialised
    with models.quiet():
        return torch.onnx.export(entry.model(), kwargs=inputs, input_names=list(inputs), opset_version=opset,
                                 dynamo=True, optimize=False, verbose=False, **options)


def unoptimised_truth(name: str, program: torch.onnx.ONNXProgram, model: onnx.ModelProto) -> Truth:
    """Returns each node's truth, the innermost module call of the torch.fx node in its metadata."""
    truth, calls = Truth(), calls_by_fx_node(name, program)
    for key, node in all_nodes(model):
        fx_node = FX_NAME.match(metadata(node).get("pkg.torch.onnx.fx_node", ""))
        if fx_node is not None and fx_node[1] in calls:
            truth.nodes[key] = frozenset({calls[fx_node[1]]})
        else:
            truth.unknown[key] = "no metadata"
    return truth


def calls_by_fx_node(name: str, program: torch.onnx.ONNXProgram) -> dict[str, Call]:
    """Maps a torch.fx node to its innermost module and call number. A stack's keys differ between calls (`block@1`).
    The size queries that torch.export inserts have a stack without modules."""
    canonical, seen, calls = models.canonical(name), collections.defaultdict(list), {}
    for node in program.exported_program.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack and any(path not in canonical for path, _ in stack.values()):
            continue
        for key, (path, _) in (stack or {}).items():
            if key not in seen[canonical[path]]:
                seen[canonical[path]].append(key)
        if stack:
            key, (path, _) = list(stack.items())[-1]
            calls[node.name] = (canonical[path], seen[canonical[path]].index(key))
    return calls
