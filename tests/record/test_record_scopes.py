"""Compares `whence record` with the tracing process: each operation and its module, call number and source line."""

import functools
import re

import pytest
import torch

import command
from models import zoo
from sidecar import Sidecar

pytestmark = pytest.mark.parametrize("name", zoo.MODELS)


@functools.cache
def recorded(name: str) -> Sidecar:
    path = zoo.folder() / f"{name}.whence.json"
    command.run("record", zoo.trace(name), "-o", path, "--inputs", zoo.inputs_file(name))
    return Sidecar(path)


@functools.cache
def canonical_names(name: str) -> dict:
    """Maps every name of every module object to its name in named_modules()."""
    model = zoo.MODELS[name].model()
    first = {id(module): path for path, module in model.named_modules()}
    return {path: first[id(module)] for path, module in model.named_modules(remove_duplicate=False)}


def aten_nodes(graph) -> list:
    nodes = []
    for node in graph.nodes():
        if node.kind().startswith("aten::"):
            nodes.append(node)
        for block in node.blocks():
            nodes += aten_nodes(block)
    return nodes


def innermost_module(node) -> str:
    """Returns the innermost module of a scope such as `__module.encoder/__module.encoder.layer.0`."""
    return node.scopeName().rpartition("/")[2].removeprefix("__module").removeprefix(".")


def recorded_aten(name: str) -> list[dict]:
    return [row for row in recorded(name).operations() if row["target"].startswith("aten::")]


def test_operations_and_modules_equal_the_trace(name):
    canonical = canonical_names(name)
    expected = [(node.kind(), canonical[innermost_module(node)]) for node in aten_nodes(zoo.traced(name).inlined_graph)]
    assert [(row["target"], row["module"]) for row in recorded_aten(name)] == expected


def test_scope_chains_equal_the_trace(name):
    """Compares all modules of each scope in order, not only the innermost one."""
    sidecar, canonical = recorded(name), canonical_names(name)
    modules, scopes = sidecar.table("modules"), sidecar.table("scopes")

    def chain(scope: int) -> list[str]:
        path = []
        while scope >= 0:
            path.append(modules[scopes[scope]["module"]]["path"])
            scope = scopes[scope]["parent"]
        return path[-2::-1]  # without the root, outermost first

    def expected_chain(node) -> list[str]:
        steps = [step.removeprefix("__module").removeprefix(".") for step in node.scopeName().split("/")]
        return [canonical[step] for step in steps if step]

    expected = [expected_chain(node) for node in aten_nodes(zoo.traced(name).inlined_graph)]
    assert [chain(row["scope"]) for row in recorded_aten(name)] == expected


def test_calls_are_numbered_in_call_order(name):
    """A forward hook counts each module's calls; calls that record an operation are numbered from 0 without gaps."""
    entry = zoo.MODELS[name]
    model = entry.model()
    calls = dict.fromkeys((path for path, _ in model.named_modules()), 0)
    for path, module in model.named_modules():
        module.register_forward_pre_hook(lambda *_, path=path: calls.__setitem__(path, calls[path] + 1))
    zoo.run(model, entry.inputs(entry.first))

    sidecar = recorded(name)
    modules = sidecar.table("modules")
    numbers = {}
    for scope in sidecar.table("scopes"):
        numbers.setdefault(modules[scope["module"]]["path"], []).append(scope["call"])
    for path, recorded_calls in numbers.items():
        assert recorded_calls == list(range(calls[path])), path
    # A module without a scope was not called, or has no traced operations.
    without_scope = {path for path, count in calls.items() if count and path not in numbers}
    assert all(isinstance(model.get_submodule(path), torch.nn.Identity) for path in without_scope), without_scope


def test_source_lines_equal_the_trace(name):
    expected = []
    for node in aten_nodes(zoo.traced(name).inlined_graph):
        match = re.match(r"(.+)\((\d+)\): (\S+)", node.sourceRange())
        expected.append((match[1].rpartition("/")[2], int(match[2]), match[3]) if match else None)
    for row, source in zip(recorded_aten(name), expected, strict=True):
        if source is not None:
            innermost = row["frames"][0]
            assert (innermost["file"].rpartition("/")[2], innermost["line"], innermost["function"]) == source


def test_inputs_have_the_argument_names_of_forward(name):
    entry = zoo.MODELS[name]
    assert [row["name"] for row in recorded(name).table("inputs")] == list(entry.inputs(entry.first))


def test_types_equal_the_example_run(name):
    """Inputs and outputs have the dtype and shape that PyTorch returns."""
    entry, sidecar = zoo.MODELS[name], recorded(name)
    inputs, values = entry.inputs(entry.first), sidecar.table("values")
    for row in sidecar.table("inputs"):
        value, tensor = values[row["value"]], inputs[row["name"]]
        assert (value["dtype"], value["dims"]) == (str(tensor.dtype).removeprefix("torch."), list(tensor.shape))
    for row in sidecar.operations():
        for value in (values[output] for output in row["outputs"]):
            assert value["kind"] != "tensor" or (value["dims"] is not None and value["dtype"] != "undefined"), row
