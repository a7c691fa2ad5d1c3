"""Runs PyTorch's two exporters; a recording provides the origins for their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..arguments import caches, trees
from ..axes.dynamic_axes import Axes
from ..files.atomic_files import draft_folder, folder_of, place
from .job import Job


def run_torch_onnx(job: Job, model: Any, tensors: Mapping[Any, Any], axes: Axes, dynamo: bool = False) -> None:
    options = job.options.for_torch(tensors, axes, dynamo)
    options |= job.request.for_torch_dynamo() if dynamo else {"autograd_inlining": job.request.autograd_inlining}
    with job.stage("torch.onnx.export"), torch.no_grad(), \
            draft_folder(folder_of(job.target)) as draft:
        target = draft / job.target.name
        program = torch.onnx.export(model, trees.copied_apart(tuple(tensors.values())), str(target), **options)
        if dynamo and _bypass_identities(program.model.graph):
            program.save(str(target), include_initializers=options["export_params"],
                         keep_initializers_as_inputs=options["keep_initializers_as_inputs"],
                         external_data=options["external_data"])
        place(draft, job.target, job.options.overwrite)


def output_names_of(job: Job) -> Sequence[str]:
    """Returns the output names. Tensors of a returned cache have fixed names, which PyTorch needs before the export."""
    results = job.observed.result if job.observed else None
    names = list(results) if isinstance(results, dict) and any(map(caches.is_output, results)) else []
    return [*job.options.output_names, *names[len(job.options.output_names):]]


def _bypass_identities(graph: Any) -> bool:
    """Connects inputs that the model returns unchanged directly to the graph's outputs; returns true if there were any.
    If input names are set, PyTorch gives the input and its Identity the same name, which ONNX Runtime refuses."""
    inputs = {value.name: value for value in graph.inputs}
    identities = [node for node in graph
                  if node.op_type == "Identity" and node.inputs[0] is inputs.get(node.outputs[0].name)]
    for node in identities:
        for position, value in enumerate(graph.outputs):
            if value is node.outputs[0]:
                graph.outputs[position] = node.inputs[0]
        graph.remove(node, safe=False)
    return bool(identities)
