"""Reads drawings of `whence dot` and `whence graphml` with Graphviz and an XML parser: their groups must follow the
nodes' metadata."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml

import onnx
import pytest
from onnx import TensorProto, helper

import command
from views import view_files

with_graphviz = pytest.mark.skipif(shutil.which("dot") is None,
                                   reason="no dot here: tools/setup/packages.sh installs it")
GRAPHML = "{http://graphml.graphdrawing.org/xmlns}"


def prefixes(path: str) -> list[str]:
    parts = path.split(".") if path else []
    return ["", *(".".join(parts[:i + 1]) for i in range(len(parts)))]


def modules_by_name(model) -> dict:
    """Maps each node name to the node's modules from the root down, or to an empty list if it has no module."""
    return {node.name: prefixes(view_files.keys_of(node)["pkg.whence.module"])
            if "pkg.whence.module" in view_files.keys_of(node) else [] for node in onnx.load(model).graph.node}


def edges_by_name(model) -> set:
    graph = onnx.load(model).graph
    producers = {output: node.name for node in graph.node for output in node.output}
    return {(producers[value], node.name) for node in graph.node for value in node.input if value in producers}


def read_dot(model, folder) -> tuple[dict, set]:
    """Returns the graph as Graphviz reads it: ({node name: modules, outermost first}, edges by name)."""
    command.run("dot", model, "-o", folder / "m.dot")
    result = subprocess.run(["dot", "-Tdot_json", folder / "m.dot"], capture_output=True, text=True, check=True,
                          timeout=120)
    assert result.stderr == ""
    graph = json.loads(result.stdout)
    objects = graph["objects"]
    clusters = [each for each in objects if each["name"].startswith("cluster_")]
    names = {each["_gvid"]: unescaped(each["nodename"])
             for each in objects if not each["name"].startswith("cluster_")}
    modules_around = {name: [] for name in names.values()}
    for cluster in clusters:
        for number in cluster.get("nodes", []):  # Graphviz omits empty attributes: the root's path
            modules_around[names[number]].append(unescaped(cluster.get("module", "")))
    return ({name: sorted(modules, key=len) for name, modules in modules_around.items()},
            {(names[edge["tail"]], names[edge["head"]]) for edge in graph["edges"]})


def unescaped(text: str) -> str:
    """Unescapes backslashes, which Graphviz leaves escaped."""
    return text.replace("\\\\", "\\")


def read_graphml(model, folder) -> tuple[dict, set]:
    command.run("graphml", model, "-o", folder / "m.graphml")
    outermost = xml.parse(folder / "m.graphml").getroot().find(f"{GRAPHML}graph")
    modules_around, names = {}, {}

    def visit(graph, modules):
        for node in graph.findall(f"{GRAPHML}node"):
            data = {each.get("key"): each.text or "" for each in node.findall(f"{GRAPHML}data")}
            if data["kind"] == "module":
                visit(node.find(f"{GRAPHML}graph"), [*modules, data["module"]])
            else:
                names[node.get("id")] = data["name"]
                modules_around[data["name"]] = modules

    visit(outermost, [])
    edges = outermost.findall(f"{GRAPHML}edge")
    return modules_around, {(names[edge.get("source")], names[edge.get("target")]) for edge in edges}


READERS = [pytest.param(read_dot, marks=with_graphviz), read_graphml]


@pytest.mark.parametrize("read", READERS)
def test_groups_are_the_modules_of_the_metadata(read, tmp_path):
    model = view_files.layers(200, tmp_path / "m.onnx")
    modules_around, edges = read(model, tmp_path)
    assert modules_around == modules_by_name(model)
    assert any(modules == [] for modules in modules_around.values())  # nodes without a module are outside all groups
    assert edges == edges_by_name(model)


def printable(text: str) -> str:
    """Escapes invisible characters like schema/printable.h."""
    return "".join("\\n" if each == "\n" else f"\\x{ord(each):02x}" if ord(each) < 0x20 or each == "\x7f" else each
                   for each in text)


@pytest.mark.parametrize("read", READERS)
def test_hostile_names_are_escaped(read, tmp_path):
    modules_around, edges = read(view_files.hostile(tmp_path / "m.onnx"), tmp_path)
    assert set(modules_around) == {printable(name) for name in view_files.HOSTILE}
    assert len(edges) == len(view_files.HOSTILE) - 1
    assert {modules[-1] for modules in modules_around.values()} == {
        "outer." + printable(name).replace(".", "") for name in view_files.HOSTILE}


@pytest.mark.parametrize("kind, node", [("dot", r"^ *n\d+ \["), ("graphml", '<data key="kind">node')])
def test_a_hundred_thousand_nodes_are_drawn(kind, node, tmp_path):
    model = view_files.layers(100_000, tmp_path / "m.onnx")
    command.run(kind, model, "-o", tmp_path / "drawing")
    drawn = re.findall(node, (tmp_path / "drawing").read_text(), re.MULTILINE)
    assert len(drawn) == len(onnx.load(model).graph.node) == 100_000


def test_edges_connect_subgraphs_with_outer_values(tmp_path):
    """The branches of an If read values of the outer graph; the If reads the results of its branches."""
    def branch(name, op):
        return helper.make_graph([helper.make_node(op, ["a"], [name], name=f"in_{name}")], name, [],
                                 [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="relu"),
             helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch("t", "Exp"),
                              else_branch=branch("e", "Neg"))]
    model = helper.make_model(helper.make_graph(nodes, "graph", [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]), opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(model, tmp_path / "m.onnx")
    assert read_graphml(tmp_path / "m.onnx", tmp_path)[1] == {("relu", "in_t"), ("relu", "in_e"), ("in_t", "if"),
                                                              ("in_e", "if")}


@pytest.mark.parametrize("kind", ["dot", "graphml"])
def test_output_goes_to_stdout_or_a_file(kind, tmp_path):
    model = view_files.layers(40, tmp_path / "m.onnx")
    text = command.run(kind, model).stdout
    report = command.run_json(kind, model, "-o", tmp_path / "drawing")
    assert (tmp_path / "drawing").read_text() == text
    assert (report["nodes"], report["size"]) == (40, len(text))
    assert "pass -o FILE" in command.run_json(kind, model, code=2)["diagnostics"][0]["remedy"]
    assert command.run(kind, model, "-o", model, code=2).stderr.startswith("E0101")
