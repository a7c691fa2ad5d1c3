"""Tests `whence model-explorer`, node data and the Python package's extension, without the package model_explorer.

Output may have only the fields of the classes in `stand_in/`. tests/tool_dialects/test_in_model_explorer.py compares
these classes with the package, and displays the graph in it.
"""

import dataclasses
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

import command
from validate.onnx_files import chain, known, node
from validate.onnx_files import model as file_of
from views import view_files

STAND_IN = Path(__file__).parent / "stand_in"
UNATTRIBUTED_GROUP = "unattributed (by node names)"


def stand_in(module: str):
    """Loads a module of the stand-in without leaving it in sys.modules: the real package may be installed."""
    spec = importlib.util.spec_from_file_location(module, STAND_IN / "model_explorer" / f"{module}.py")
    result = importlib.util.module_from_spec(spec)
    sys.modules[module] = result  # dataclasses look it up
    try:
        spec.loader.exec_module(result)
    finally:
        del sys.modules[module]
    return result


BUILDER, DATA = stand_in("graph_builder"), stand_in("node_data_builder")


def require_fields(item_fields: dict, kind: type) -> None:
    """Asserts that all fields belong to the class, and that fields without a default are present."""
    fields = dataclasses.fields(kind)
    required = {each.name for each in fields if each.default is each.default_factory is dataclasses.MISSING}
    assert required <= item_fields.keys() <= {each.name for each in fields}, (kind, item_fields)


def require_metadata(items: list[dict]) -> None:
    for item in items:
        require_fields(item, BUILDER.MetadataItem)
        for attribute in item["attrs"]:
            require_fields(attribute, BUILDER.KeyValue)
            assert isinstance(attribute["value"], str)


def require_graph(graph: dict) -> None:
    """Asserts that all fields belong to their classes, ids are unique, edges start at nodes, and groups have nodes."""
    require_fields(graph, BUILDER.Graph)
    ids = {each["id"] for each in graph["nodes"]}
    assert len(ids) == len(graph["nodes"])
    groups = {""}
    for each in graph["nodes"]:
        require_fields(each, BUILDER.GraphNode)
        parts = each["namespace"].split("/") if each["namespace"] else []
        assert all(parts)
        groups |= {"/".join(parts[:end]) for end in range(1, len(parts) + 1)}
        for edge in each.get("incomingEdges", []):
            require_fields(edge, BUILDER.IncomingEdge)
            assert edge["sourceNodeId"] in ids
        for attribute in each.get("attrs", []):
            require_fields(attribute, BUILDER.KeyValue)
            if not isinstance(attribute["value"], str):
                require_fields(attribute["value"], BUILDER.NodeIdsNodeAttributeValue)
                assert set(attribute["value"]["nodeIds"]) <= ids
        require_metadata(each.get("inputsMetadata", []))
        require_metadata(each.get("outputsMetadata", []))
    assert graph["groupNodeAttributes"].keys() == groups
    assert all(isinstance(value, str) for group in graph["groupNodeAttributes"].values() for value in group.values())


def graph_of(model, *options) -> dict:
    collection = json.loads(command.run("model-explorer", model, *options).stdout)
    assert collection.keys() == {"label", "graphs"} and len(collection["graphs"]) == 1
    require_graph(collection["graphs"][0])
    return collection["graphs"][0]


def by_id(graph: dict) -> dict[str, dict]:
    return {each["id"]: each for each in graph["nodes"]}


def attributes(node: dict) -> dict:
    return {each["key"]: each["value"] for each in node["attrs"]}


class Block(torch.nn.Module):
    """Calls its norm twice."""

    def __init__(self):
        super().__init__()
        self.proj, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x + torch.relu(self.proj(self.norm(x))))


class Net(torch.nn.Module):
    """Calls its block twice, and so the norm four times."""

    def __init__(self):
        super().__init__()
        self.conv, self.block, self.layers = torch.nn.Conv1d(4, 8, 3), Block(), torch.nn.ModuleList([torch.nn.Linear(8, 8)])

    def forward(self, x):
        y = self.conv(x).transpose(1, 2)
        return self.layers[0](self.block(self.block(y)))


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    folder = tmp_path_factory.mktemp("net")
    torch.manual_seed(0)
    torch.export.save(torch.export.export(Net().eval(), (torch.randn(2, 4, 9),)), folder / "net.pt2")
    command.run("export", folder / "net.pt2", "-o", folder / "net.onnx", "--annotate", "--sidecar-out", folder / "net.whence.json")
    return folder / "net.onnx"


def test_groups_are_modules_with_their_calls(net):
    graph, proto = by_id(graph_of(net)), onnx.load(net).graph
    nodes = {each.name: each for each in proto.node}
    assert graph.keys() == nodes.keys() | {f"input {proto.input[0].name}", f"output {proto.output[0].name}"}
    for name, each in nodes.items():
        keys, shown = view_files.keys_of(each), graph[name]
        module = keys["pkg.whence.module"]
        levels = [part.partition(":")[0] for part in shown["namespace"].split("/")] if module else []
        assert ([part.rpartition(".")[2] for part in levels] if module else []) == ([] if not module else module.split("."))
        assert shown["label"] == each.op_type and attributes(shown)["confidence"] == keys["pkg.whence.confidence"]
        assert attributes(shown)["source"] == keys["pkg.whence.source"] and attributes(shown)["module"] == (module or "(root)")
    calls = {each["namespace"] for each in graph.values() if each["namespace"].startswith("block")}
    assert calls == {f"block: Block (call {call}){rest}" for call in (0, 1) for rest in
                     ("", "/proj: Linear" + f" (call {call})", *(f"/norm: LayerNorm (call {2 * call + n})" for n in (0, 1)))}
    conv = graph["/conv/Conv"]
    assert conv["namespace"] == "conv: Conv1d" and attributes(conv)["module type"].endswith("Conv1d")
    assert (attributes(conv)["kernel_shape"], attributes(conv)["group"]) == ("[3]", "1")
    assert {each["namespace"] for each in graph.values() if "layers" in each["namespace"]} == {"layers/layers.0: Linear"}


def test_edges_are_the_edges_of_the_file(net):
    graph, proto = by_id(graph_of(net)), onnx.load(net).graph
    producer = {value: (each.name, place) for each in proto.node for place, value in enumerate(each.output)}
    producer |= {each.name: (f"input {each.name}", 0) for each in proto.input}
    readers = {each.name: list(each.input) for each in proto.node} | {f"output {each.name}": [each.name] for each in proto.output}
    weights = {each.name: each for each in proto.initializer}
    for name, read in readers.items():
        edges = {(edge["sourceNodeId"], int(edge["sourceNodeOutputId"]), int(edge["targetNodeInputId"]))
                 for edge in graph[name].get("incomingEdges", [])}
        assert edges == {(*producer[value], place) for place, value in enumerate(read) if value in producer}
        for entry in graph[name]["inputsMetadata"]:
            metadata = {each["key"]: each["value"] for each in entry["attrs"]}
            value = read[int(entry["id"])]
            assert metadata["__tensor_tag"] == value and (metadata.get("weight") == value) == (value in weights)
            if value in weights:
                assert metadata["weight_shape"] == f"float32[{','.join(map(str, weights[value].dims))}]"
    shape = {each["key"]: each["value"] for each in graph["/conv/Conv"]["outputsMetadata"][0]["attrs"]}
    assert shape == {"tensor_name": proto.node[0].output[0], "tensor_shape": "float32[2,8,7]"}


def test_nodes_without_annotations_are_grouped_by_their_names(net, tmp_path):
    command.run("strip", net, "-o", tmp_path / "plain.onnx")
    graph = graph_of(tmp_path / "plain.onnx")
    for each in onnx.load(tmp_path / "plain.onnx").graph.node:
        shown = by_id(graph)[each.name]
        assert shown["namespace"] == "/".join([UNATTRIBUTED_GROUP, *each.name.split("/")[1:-1]])
        assert attributes(shown)["confidence"] == "unattributed" and "module" not in attributes(shown)
    count = str(len(graph["nodes"]) - 2)
    assert graph["groupNodeAttributes"][UNATTRIBUTED_GROUP] == {"nodes": count, "unattributed": count}


def test_unattributed_nodes_have_their_own_group(tmp_path):
    nodes = chain(known("enc.0"), {}, known("enc/dec"))
    nodes[1].name = "//a//b/"
    graph = graph_of(file_of(nodes, tmp_path / "m.onnx"))
    assert [each["namespace"] for each in graph["nodes"][1:-1]] == ["enc/enc.0", f"{UNATTRIBUTED_GROUP}/a/b", "enc|dec"]
    assert graph["groupNodeAttributes"][""]["unattributed"] == "1"


def test_missing_and_repeated_names_get_unique_ids(tmp_path):
    nodes = chain({}, {}, {}, {}, {})
    for each, name in zip(nodes, ["", "Relu v0", "same", "same", "input x"], strict=True):
        each.name = name
    graph = graph_of(file_of(nodes, tmp_path / "m.onnx"))
    ids = [each["id"] for each in graph["nodes"]]
    assert ids == ["input x'", "Relu v0 #2", "Relu v0", "same", "same #2", "input x", "output v4"]
    assert [edge["sourceNodeId"] for each in graph["nodes"] for edge in each.get("incomingEdges", [])] == ids[:-1]


def test_nodes_in_subgraphs_are_shown(tmp_path):
    def branch(name, op):
        return helper.make_graph([helper.make_node(op, ["a"], [name], name=f"in_{name}")], name, [],
                                 [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])
    nodes = [node("Relu", ["x"], "a", "relu"), node("If", ["c"], "y", "if", then_branch=branch("t", "Exp"),
                                                    else_branch=branch("e", "Neg"))]
    proto = helper.make_model(helper.make_graph(nodes, "", [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]), opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(proto, tmp_path / "m.onnx")
    graph = graph_of(tmp_path / "m.onnx")
    assert graph["id"] == "main_graph"
    edges = {(edge["sourceNodeId"], each["id"]) for each in graph["nodes"] for edge in each.get("incomingEdges", [])}
    assert edges == {("input x", "relu"), ("input c", "if"), ("relu", "in_t"), ("relu", "in_e"), ("in_t", "if"), ("in_e", "if"),
                     ("if", "output y")}
    assert attributes(by_id(graph)["in_t"])["in a body of"]["nodeIds"] == ["if"]


def test_attributes_are_shown_as_text(tmp_path):
    weights = helper.make_tensor("t", TensorProto.FLOAT, [2], [1, 2])
    values = {"floats": [0.1, -2.0], "ints": [3, -4], "f": 0.5, "i": -7, "s": "reflect", "strings": ["a", "b"], "t": weights,
              "long": list(range(40)), "text": "x" * 300}
    graph = graph_of(file_of([node("Op", ["x"], "y", "n", domain="d", **values)], tmp_path / "m.onnx",
                             opsets=[helper.make_opsetid("", 18), helper.make_opsetid("d", 1)]))
    metadata = attributes(by_id(graph)["n"])
    assert by_id(graph)["n"]["label"] == "d::Op"
    assert {key: metadata[key] for key in ("floats", "ints", "f", "i", "s", "strings", "t")} == {
        "floats": "[0.1, -2]", "ints": "[3, -4]", "f": "0.5", "i": "-7", "s": "reflect", "strings": "[a, b]", "t": "tensor"}
    assert metadata["long"].endswith("31, ... 40 in all]") and metadata["text"] == "x" * 200 + "..."


def node_data(text: str, graph_id: str) -> dict:
    data = json.loads(text)
    assert list(data) == [graph_id]
    require_fields(data[graph_id], DATA.GraphNodeData)
    for each in data[graph_id]["results"].values():
        require_fields(each, DATA.NodeDataResult)
    for each in data[graph_id].get("gradient", []):
        require_fields(each, DATA.GradientItem)
    return data[graph_id]


def test_confidence_is_available_as_node_data(tmp_path):
    nodes = chain(known("a"), known("a", "inferred"), {})
    nodes[1].name = nodes[0].name
    path = file_of(nodes, tmp_path / "m.onnx")
    data = node_data(command.run("model-explorer", path, "--confidence").stdout, "graph")
    assert {key: each["value"] for key, each in data["results"].items()} == {"n0": "exact", "n0 #2": "inferred", "n2": "unattributed"}
    assert len({each["bgColor"] for each in data["results"].values()}) == 3
    assert data["results"].keys() <= by_id(graph_of(path)).keys()


@pytest.fixture(scope="module")
def measured(net):
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(net.parent / "run")
    session = onnxruntime.InferenceSession(str(net), options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        session.run(None, {session.get_inputs()[0].name: np.ones((2, 4, 9), np.float32)})
    return Path(session.end_profiling())


def test_time_is_available_as_node_data(net, measured):
    data = node_data(command.run("profile", net, "--profile", measured, "--format", "model-explorer").stdout, "main_graph")
    report = command.run_json("profile", net, "--profile", measured)
    assert data["results"].keys() <= by_id(graph_of(net)).keys() and report["runs"] == 2
    named = {each["name"]: each["time"] / 2 for each in report["nodes"] if each["name"] in data["results"]}
    assert len(named) > 3
    for name, time in named.items():
        assert data["results"][name]["value"] >= time
    shown = sum(each["value"] for each in data["results"].values())
    assert shown <= report["operator_time"] / 2 + 0.01
    part = 100 * shown * 2 / report["operator_time"]
    assert ("% of the total" in data["name"]) == (part < 99.99)
    if part < 99.99:
        assert float(data["name"].split("(")[1].split(" %")[0]) == pytest.approx(part, abs=0.2)


EXTENSION = """
import dataclasses, json, sys
from whence.model_explorer.main import WhenceAdapter, WhenceFigures
model, profile, absent = sys.argv[1:]
graph = dataclasses.asdict(WhenceAdapter().convert(model, {})["graphs"][0])
node_data, results = WhenceFigures(), {}
for each in WhenceFigures.metadata:
    editors = node_data.get_config_editors(each.id).configEditors
    results[each.id] = [editor.id for editor in editors]
def run(provider, **values):
    return dataclasses.asdict(node_data.run(provider_id=provider, model_path=model, graph_id=graph["id"], config_values=values, graph=None))
print(json.dumps({"graph": graph, "editors": results, "confidence": run("whence_confidence"),
                  "time": run("whence_time", profile=profile), "no_time": run("whence_time", profile=absent),
                  "exts": WhenceAdapter.metadata.fileExts,
                  "loaded": [name for name in ("torch", "onnx", "numpy") if name in sys.modules]}))
"""


def test_the_extension_works_without_pytorch(net, measured, tmp_path):
    """Calls the extension like model-explorer. It reads the sidecar next to the file, and loads no PyTorch, onnx or
    numpy."""
    environment = {**os.environ, "WHENCE": str(command.BINARY),
                   "PYTHONPATH": os.pathsep.join([str(STAND_IN), str(command.ROOT / "python")])}
    done = subprocess.run([sys.executable, "-c", EXTENSION, net, measured, tmp_path / "absent.json"], text=True, check=False,
                          capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert output["loaded"] == [] and output["exts"] == ["onnx"]
    output["graph"] = {key: value for key, value in output["graph"].items() if value is not None}
    assert output["graph"] == graph_of(net, "--sidecar", net.with_suffix(".whence.json"))
    assert output["editors"] == {"whence_confidence": [], "whence_time": ["profile"], "whence_error": ["values"]}
    assert {each["value"] for each in output["confidence"]["result"]["results"].values()} == {"exact"}
    assert output["time"]["error"] == "" and output["time"]["result"]["gradient"]
    assert output["no_time"]["result"] is None and output["no_time"]["error"].startswith("E0102 missing file: ")


def test_a_sidecar_of_another_model_is_ignored(net, small_export, tmp_path):
    sys.path.insert(0, str(command.ROOT / "python"))
    from whence.model_explorer import command_output

    path = tmp_path / "m.onnx"
    path.write_bytes(small_export[0].read_bytes())
    path.with_suffix(".whence.json").write_bytes(net.with_suffix(".whence.json").read_bytes())
    assert command_output.graph_of(str(path)) == graph_of(path)
