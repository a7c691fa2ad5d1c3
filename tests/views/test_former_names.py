"""Tests that commands accept node names from before `annotate`, which old profiles and lists of providers contain."""

import json
import warnings

import onnx
import onnxruntime
import pytest
import torch

import command
from validate.onnx_files import known, model, node
from views.view_files import keys_of

ORIGINAL = "pkg.whence.original_name"


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow, self.act = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16), torch.nn.GELU()

    def forward(self, x):
        return x + self.narrow(self.act(self.wide(x)))


X = torch.linspace(-1, 1, 5 * 16).reshape(5, 16)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Returns the folder with PyTorch's plain.onnx and the annotated m.onnx."""
    folder = tmp_path_factory.mktemp("former")
    torch.manual_seed(5)
    network = torch.nn.Sequential(Gate(), torch.nn.LayerNorm(16), Gate()).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(network, (X,))
        torch.onnx.export(program, f=str(folder / "plain.onnx"), dynamo=True, external_data=False, verbose=False)
    torch.export.save(program, folder / "m.pt2")
    command.run("record", folder / "m.pt2", "-o", folder / "m.json")
    command.run("annotate", folder / "plain.onnx", "--sidecar", folder / "m.json", "-o", folder / "m.onnx")
    return folder


def run_profiled(path, folder, optimise: bool) -> str:
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "run")
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    for _ in range(3):
        session.run(None, {session.get_inputs()[0].name: X.numpy()})
    return session.end_profiling()


@pytest.mark.parametrize("optimise", [False, True])
@pytest.mark.parametrize("profiled_file", ["plain.onnx", "m.onnx"])
def test_profiles_of_both_files_fit_the_annotated_file(files, tmp_path, profiled_file, optimise):
    profile = run_profiled(files / profiled_file, tmp_path, optimise)
    result = command.run("profile", files / "m.onnx", "--profile", profile, "--json")
    assert "alike" not in result.stderr  # no name is ambiguous
    rows = {row["path"]: row for row in json.loads(result.stdout)["modules"]}
    assert all(rows[each]["total"] > 0 for each in ("0", "1", "2", "0.wide", "2.narrow"))
    assert all(layer["module"] is not None for layer in json.loads(result.stdout)["nodes"])


def test_layers_of_an_old_profile_get_current_modules(files, tmp_path):
    """Each layer gets the module of the node that had the layer's name before annotate."""
    old_modules = {keys_of(each)[ORIGINAL]: keys_of(each)["pkg.whence.module"]
           for each in onnx.load(files / "m.onnx").graph.node if ORIGINAL in keys_of(each)}
    profile = run_profiled(files / "plain.onnx", tmp_path, optimise=False)
    layers = command.run_json("profile", files / "m.onnx", "--profile", profile)["nodes"]
    assert len(layers) > 5 and {layer["name"]: layer["module"] for layer in layers} == {
        name: old_modules[name] for name in (layer["name"] for layer in layers)}


def test_explain_finds_a_node_by_its_former_name(files):
    for each in onnx.load(files / "m.onnx").graph.node:
        keys = keys_of(each)
        found = command.run_json("explain", files / "m.onnx", keys[ORIGINAL])
        assert (found["node"], found["module"]) == (each.name, keys["pkg.whence.module"])


def test_a_former_name_of_another_node_is_reported(tmp_path):
    nodes = [node("Relu", ["x"], "a", "/first/Relu", {**known("first"), ORIGINAL: "relu"}),
             node("Relu", ["a"], "b", "relu", {**known("second"), ORIGINAL: "relu_1"}),
             node("Relu", ["b"], "c", "/third/Relu", {**known("third"), ORIGINAL: "twice"}),
             node("Relu", ["c"], "d", "/fourth/Relu", {**known("fourth"), ORIGINAL: "twice"})]
    path = model(nodes, tmp_path / "m.onnx")
    current = command.run("explain", path, "relu")
    assert "second" in current.stdout and "'/first/Relu' was called 'relu', too, before" in current.stderr
    assert "/third/Relu" in command.run("explain", path, "twice", code=2).stderr
    events = [{"cat": "Session", "name": "model_run", "ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 9},
              {"cat": "Node", "name": "relu_kernel_time", "ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 5,
               "args": {"op_name": "Relu", "provider": "CPUExecutionProvider", "node_index": "0"}}]
    (tmp_path / "p.json").write_text(json.dumps(events))
    result = command.run("profile", path, "--profile", tmp_path / "p.json", "--json")
    assert "read as present names" in result.stderr
    assert [layer["module"] for layer in json.loads(result.stdout)["nodes"]] == ["second"]


def test_providers_may_be_listed_for_the_file_before(files, tmp_path):
    names = [each.name for each in onnx.load(files / "plain.onnx").graph.node]
    listed = [{"provider": "CPUExecutionProvider", "nodes": [{"name": name, "op_type": "X"} for name in names]}]
    (tmp_path / "chosen.json").write_text(json.dumps(listed))
    report = command.run_json("place", files / "m.onnx", "--rule", "cpu=**", "--assigned", tmp_path / "chosen.json")
    assert report["assigned"]["as_placed"] == len(names)


def test_diff_pairs_nodes_by_former_names(tmp_path):
    """The values are renamed too, so only former names can match."""
    before = [node("Relu", ["x"], "a", "r0"), node("Relu", ["a"], "b", "r1"), node("Sin", ["b"], "c", "s")]
    after = [node("Relu", ["x"], "p", "/one/Relu", {**known("one"), ORIGINAL: "r0"}),
             node("Relu", ["p"], "q", "/two/Relu", {**known("two"), ORIGINAL: "r1"}),
             node("Sin", ["q"], "r", "/two/Sin", {**known("two"), ORIGINAL: "s"})]
    changed = command.run_json("diff", model(before, tmp_path / "a.onnx"), model(after, tmp_path / "b.onnx"))
    assert (changed["changes"]["added"], changed["changes"]["removed"]) == (0, 0)
    assert ["r1", "/two/Relu"] in [each["names"] for each in changed["changed_nodes"] if each["change"] == "renamed"]
