"""Where whence says that nodes come from, held against values: every call of every module, extracted from the export and
run by ONNX Runtime on what the module was given, returns what a forward hook saw it return.

The inputs differ in value from those that were recorded.
"""

from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import command
from functions import graphs
from models import calls, zoo
from models.architectures import ARCHITECTURES
from models.values import is_near, other_values, saved

QUICK = ("bert_tiny", "shared_block", "llama")
EVERY_MODEL = {**zoo.MODELS, **ARCHITECTURES}
MODELS = [pytest.param(name, marks=() if name in QUICK else pytest.mark.matrix) for name in EVERY_MODEL]

# The share of calls that an extract has to give; of the others nodes are joined with another module's (Conv and BatchNorm,
# of which ResNet-50 has 53), or nothing is left (Dropout).
EXTRACTED = 0.4


@dataclass
class Part:
    call: calls.Call
    path: object
    inputs: list[str]


class Extracts:
    """The calls of one export that extract gives, and the reasons for which it does not give the others."""

    def __init__(self, whole, seen: list[calls.Call], folder):
        self.parts: list[Part] = []
        self.joined: list[calls.Call] = []
        self.empty: list[calls.Call] = []
        for number, call in enumerate(seen):
            path = folder / f"part{number}.onnx"
            line = ["extract", whole, "--module", call.module, "--call", call.number, "-o", path]
            result = command.run(*line, code=None)
            if result.returncode == 0:
                self.parts.append(Part(call, path, [value.name for value in onnx.load(path).graph.input]))
            elif "to it and to other modules" in result.stderr or "is a part of" in result.stderr:
                self.joined.append(call)
            else:
                assert "no node" in result.stderr, result.stderr
                self.empty.append(call)


def values_of(path, inputs: dict, wanted: set[str], folder) -> dict:
    """Values of the whole file by name, as ONNX Runtime computes them without optimisation."""
    model = onnx.load(path)
    there = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(wanted - there - inputs.keys()))
    onnx.save(model, folder / "all_values.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / "all_values.onnx", options, providers=["CPUExecutionProvider"])
    fed = {value.name: inputs[value.name].numpy() for value in session.get_inputs()}
    return dict(zip([value.name for value in session.get_outputs()], session.run(None, fed), strict=True)) | fed


def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.numel() == other.numel() and torch.equal(one.flatten(), other.flatten())


def feed(part: Part, values: dict) -> dict:
    """What the hook saw, where an input of the part is one of the module's arguments; else the value of the whole file:
    the part may begin behind a reshape, or read what the module computes from a parameter of another."""
    fed = {}
    for name in part.inputs:
        match = next((tensor for tensor in part.call.read if is_near(values[name], tensor)), None)
        fed[name] = values[name] if match is None else match.numpy()
    return fed


def returned(call: calls.Call, results: list[np.ndarray]) -> bool:
    """True if the part gives what the module returned. Of several tensors a part leaves out those that nothing reads (the
    last state of an LSTM), and a module may return what it was given."""
    found = [any(is_near(result, tensor) for result in results) for tensor in call.returned]
    given = [any(is_same(tensor, read) for read in call.read) for tensor in call.returned]
    return any(found) or all(given)


@pytest.mark.parametrize("form", ["pt", "pt2"])
@pytest.mark.parametrize("name", MODELS)
def test_every_call_of_every_module_returns_what_a_hook_saw(name, form, tmp_path):
    entry = EVERY_MODEL[name]
    archive, *options = saved(entry, form, tmp_path)
    whole = tmp_path / "whole.onnx"
    command.run("export", archive, *options, "-o", whole, "--annotate")
    inputs = other_values(entry.inputs(entry.first))
    seen = calls.observe(entry.model(), inputs)
    found = Extracts(whole, seen, tmp_path)
    values = values_of(whole, inputs, {name for part in found.parts for name in part.inputs}, tmp_path)
    wrong = []
    for part in found.parts:
        results = graphs.run(part.path, feed(part, values))
        if not returned(part.call, results):
            wrong.append((part.call.module, part.call.number, [result.shape for result in results]))
    assert wrong == []
    assert len(found.parts) >= EXTRACTED * len(seen), (found.joined, found.empty)
    for call in found.empty:
        constant = next(each for each in calls.observe(entry.model(), entry.inputs(entry.first))
                        if (each.module, each.number) == (call.module, call.number))
        for tensor, other in zip(call.returned, constant.returned, strict=True):
            assert any(is_same(tensor, read) for read in call.read) or is_same(tensor, other), call.module
