"""Checks attribution by values: each call of each module, extracted from the export and run by ONNX Runtime on the
module's inputs, returns the values that a forward hook received. The inputs differ in value from the recorded ones.
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

# The minimum share of calls that can be extracted. The other calls share nodes with another module (Conv and BatchNorm,
# 53 pairs in ResNet-50) or have no nodes (Dropout).
EXTRACTED = 0.4


@dataclass
class Part:
    call: calls.Call
    path: object
    inputs: list[str]


class Extracts:
    """Extracts every call of an export; `joined` are the calls with shared nodes, `empty` those without nodes."""

    def __init__(self, model, observed_calls: list[calls.Call], folder):
        self.parts: list[Part] = []
        self.joined: list[calls.Call] = []
        self.empty: list[calls.Call] = []
        for number, call in enumerate(observed_calls):
            path = folder / f"part{number}.onnx"
            arguments = ["extract", model, "--module", call.module, "--call", call.number, "-o", path]
            result = command.run(*arguments, code=None)
            if result.returncode == 0:
                self.parts.append(Part(call, path, [value.name for value in onnx.load(path).graph.input]))
            elif "to it and to other modules" in result.stderr or "is a part of" in result.stderr:
                self.joined.append(call)
            else:
                assert "no node" in result.stderr, result.stderr
                self.empty.append(call)


def values_of(path, inputs: dict, names: set[str], folder) -> dict:
    """Computes values of the complete file by name, in ONNX Runtime without optimisation."""
    model = onnx.load(path)
    outputs = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(names - outputs - inputs.keys()))
    onnx.save(model, folder / "all_values.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / "all_values.onnx", options, providers=["CPUExecutionProvider"])
    feeds = {value.name: inputs[value.name].numpy() for value in session.get_inputs()}
    return dict(zip([value.name for value in session.get_outputs()], session.run(None, feeds), strict=True)) | feeds


def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.numel() == other.numel() and torch.equal(one.flatten(), other.flatten())


def feed(part: Part, values: dict) -> dict:
    """Feeds the hook's value to inputs that are arguments of the module, else the value in the complete file: the part
    may begin after a reshape, or read a value computed from another module's parameter."""
    feeds = {}
    for name in part.inputs:
        match = next((tensor for tensor in part.call.inputs if is_near(values[name], tensor)), None)
        feeds[name] = values[name] if match is None else match.numpy()
    return feeds


def is_result(call: calls.Call, results: list[np.ndarray]) -> bool:
    """Returns true if the part computes one of the module's results (it omits results that nothing reads, such as the
    last state of an LSTM), or if the module returns its inputs."""
    computed = [any(is_near(result, tensor) for result in results) for tensor in call.results]
    passed_through = [any(is_same(tensor, argument) for argument in call.inputs) for tensor in call.results]
    return any(computed) or all(passed_through)


@pytest.mark.parametrize("form", ["pt", "pt2"])
@pytest.mark.parametrize("name", MODELS)
def test_every_call_of_every_module_returns_the_values_of_the_hook(name, form, tmp_path):
    entry = EVERY_MODEL[name]
    archive, *options = saved(entry, form, tmp_path)
    model = tmp_path / "model.onnx"
    command.run("export", archive, *options, "-o", model, "--annotate")
    inputs = other_values(entry.inputs(entry.first))
    observed_calls = calls.observe(entry.model(), inputs)
    extracts = Extracts(model, observed_calls, tmp_path)
    values = values_of(model, inputs, {name for part in extracts.parts for name in part.inputs}, tmp_path)
    wrong = []
    for part in extracts.parts:
        results = graphs.run(part.path, feed(part, values))
        if not is_result(part.call, results):
            wrong.append((part.call.module, part.call.number, [result.shape for result in results]))
    assert wrong == []
    assert len(extracts.parts) >= EXTRACTED * len(observed_calls), (extracts.joined, extracts.empty)
    for call in extracts.empty:
        on_recorded_inputs = next(observed for observed in calls.observe(entry.model(), entry.inputs(entry.first))
                                  if (observed.module, observed.number) == (call.module, call.number))
        for tensor, recorded in zip(call.results, on_recorded_inputs.results, strict=True):
            assert any(is_same(tensor, argument) for argument in call.inputs) or is_same(tensor, recorded), call.module
