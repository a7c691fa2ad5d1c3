"""`whence functions` makes one function for each unique block. `whence inline` restores the graph."""

import json

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

import command
from functions import graphs
from functions.graphs import node, weight
from models import zoo


def make_functions(path, tmp_path, *options, code=0):
    output = tmp_path / "functions.onnx"
    report = command.run_json("functions", path, "-o", output, *options, code=code)
    return report, onnx.load(output) if code == 0 else None, output


def assert_inline_restores(before, functions, tmp_path):
    flat = tmp_path / "flat.onnx"
    command.run("inline", functions, "-o", flat)
    model_proto = onnx.load(flat)
    assert not model_proto.functions
    assert graphs.metadata(model_proto) == graphs.metadata(onnx.load(before))
    graphs.assert_same_results(before, flat)
    assert model_proto.ir_version == onnx.load(before).ir_version


# ---- files without module metadata ------------------------------------------------------------------------------

@pytest.mark.parametrize("command_line", [("functions", "--by-structure"), ("annotate", "--functions", "structure")])
def test_files_without_modules_must_be_annotated_first(command_line, exported, tmp_path):
    name, *options = command_line
    result = command.run(name, exported("bert_tiny"), "-o", tmp_path / "out.onnx", *options, code=2)
    assert "E0101" in result.stderr and " was removed" in result.stderr and "`whence annotate`" in result.stderr
    assert not (tmp_path / "out.onnx").exists()


# ---- names --------------------------------------------------------------------------------------------------------

class Branches(torch.nn.Module):
    """Blocks in a ModuleList: the names of their nodes repeat the block's qualified name."""

    def __init__(self):
        super().__init__()
        self.b = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Tanh())
                                     for _ in range(3))

    def forward(self, x):
        for block in self.b:
            x = block(x)
        return x


def test_inline_restores_the_names_of_nodes(tmp_path):
    torch.jit.trace(Branches().eval(), torch.randn(2, 4)).save(tmp_path / "m.pt")
    torch.save((torch.randn(2, 4),), tmp_path / "m.inputs")
    command.run("export", tmp_path / "m.pt", "--inputs", tmp_path / "m.inputs", "-o", tmp_path / "m.onnx", "--annotate")
    report, _, functions = make_functions(tmp_path / "m.onnx", tmp_path)
    assert report["functions"][0]["calls"] == 3
    names = [node.name for node in onnx.load(tmp_path / "m.onnx").graph.node]
    assert "/b.2/b.2.2/Tanh" in names
    explained = command.run_json("explain", functions, "/b.2/b.2.2/Tanh")
    assert json.dumps(explained).count("b.2.2") >= 1
    command.run("inline", functions, "-o", tmp_path / "flat.onnx")
    assert [node.name for node in onnx.load(tmp_path / "flat.onnx").graph.node] == names


# ---- functions in export and annotate -----------------------------------------------------------------------------

CHOICES = [("auto", []), ("types=BertLayer,BertSelfOutput", ["--types", "BertLayer,BertSelfOutput"]),
           ("modules=encoder.layer.*,**.intermediate", ["--modules", "encoder.layer.*", "--modules", "**.intermediate"]),
           ("depth=3", ["--depth", "3"])]


@pytest.mark.parametrize("choice, options", CHOICES, ids=[choice for choice, _ in CHOICES])
def test_export_and_annotate_make_the_same_functions(choice, options, tmp_path):
    """One command writes the same bytes as several commands."""
    steps, unannotated, sidecar = tmp_path / "steps", tmp_path / "plain.onnx", tmp_path / "s.json"
    steps.mkdir()
    archive = ["export", zoo.trace("bert_tiny"), "--inputs", zoo.inputs_file("bert_tiny")]
    command.run(*archive, "-o", unannotated, "--sidecar-out", sidecar)
    command.run("annotate", unannotated, "--sidecar", sidecar, "-o", steps / "annotated.onnx")
    command.run("functions", steps / "annotated.onnx", "-o", steps / "functions.onnx", *options)
    expected = (steps / "functions.onnx").read_bytes()

    report = command.run_json(*archive, "-o", tmp_path / "exported.onnx", "--functions", choice)
    assert report["functions"]["nodes_after"] < report["functions"]["nodes_before"] == report["nodes"]
    assert (tmp_path / "exported.onnx").read_bytes() == expected
    command.run("annotate", unannotated, "--sidecar", sidecar, "-o", tmp_path / "annotated.onnx", "--functions", choice)
    assert (tmp_path / "annotated.onnx").read_bytes() == expected
    graphs.assert_same_results(unannotated, tmp_path / "exported.onnx")


def test_export_with_functions_and_external_data(tmp_path):
    output = tmp_path / "m.onnx"
    command.run("export", zoo.trace("bert_tiny"), "--inputs", zoo.inputs_file("bert_tiny"), "-o", output,
                "--external-data", "--functions", "auto")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    reference = tmp_path / "plain.onnx"
    command.run("export", zoo.trace("bert_tiny"), "--inputs", zoo.inputs_file("bert_tiny"), "-o", reference)
    graphs.assert_same_results(reference, output)


def test_export_warns_if_no_module_repeats(tmp_path):
    torch.jit.trace(torch.nn.Linear(3, 4), torch.randn(2, 3)).save(str(tmp_path / "m.pt"))
    result = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--functions", "auto")
    assert "E0101" in result.stderr and "no function was made" in result.stderr
    model_proto = onnx.load(tmp_path / "m.onnx")
    assert not model_proto.functions and model_proto.graph.node[0].metadata_props


@pytest.mark.parametrize("choice, fragment", [("BertLayer", "--converters"), ("depth=0", "1 or more"), ("types=", "depth=2"),
                                          ("types=NoSuch", "BertLayer"), ("modules=encoder.leyer.*", "encoder.layer")])
def test_an_invalid_choice_writes_no_file(choice, fragment, tmp_path):
    result = command.run("export", zoo.trace("bert_tiny"), "--inputs", zoo.inputs_file("bert_tiny"), "-o",
                         tmp_path / "m.onnx", "--functions", choice, code=2)
    assert "E0101" in result.stderr and fragment in result.stderr
    assert not list(tmp_path.iterdir())


# ---- zoo models, exported by whence and by PyTorch ----------------------------------------------------------------

def test_one_function_for_all_layers_of_bert(exported, tmp_path):
    path = exported("bert_tiny")
    report, model_proto, output = make_functions(path, tmp_path)
    layers = [function for function in report["functions"] if function["name"] == "BertLayer"]
    assert [layer["modules"] for layer in layers] == [["encoder.layer.0", "encoder.layer.1"]]
    calls = [node for node in model_proto.graph.node if node.op_type == "BertLayer"]
    assert [call.name for call in calls] == ["/encoder/layer.0", "/encoder/layer.1"]
    assert report["nodes_after"] == report["nodes_before"] - layers[0]["nodes"] + 2
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


def test_different_blocks_are_different_functions(exported, tmp_path):
    path = exported("resnet50")
    report, model_proto, output = make_functions(path, tmp_path, "--types", "Bottleneck")
    assert [(function["name"], function["calls"]) for function in report["functions"]] == [
        ("Bottleneck", 1), ("Bottleneck_layer1_1", 12), ("Bottleneck_layer2_0", 3)]
    assert {function.name for function in model_proto.functions} == {"Bottleneck", "Bottleneck_layer1_1", "Bottleneck_layer2_0"}
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


def test_functions_call_functions(exported, tmp_path):
    path = exported("bert_tiny")
    report, model_proto, output = make_functions(path, tmp_path, "--types", "BertLayer,BertSelfAttention,Linear")
    by_name = {function.name: function for function in model_proto.functions}
    operators_in_layer = {node.op_type for node in by_name["BertLayer"].node}
    assert {"BertSelfAttention", "Linear"} <= operators_in_layer
    assert "Linear" in {node.op_type for node in by_name["BertSelfAttention"].node}
    assert len([function for function in report["functions"] if function["name"].startswith("BertLayer")]) == 1
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


def test_modules_down_to_a_depth_become_functions(exported, tmp_path):
    path = exported("bert_tiny")
    _, model_proto, output = make_functions(path, tmp_path, "--depth", "2")
    assert {"BertEmbeddings", "BertEncoder", "BertPooler"} <= {node.op_type for node in model_proto.graph.node}
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


def test_a_second_run_replaces_the_functions(exported, tmp_path):
    path = exported("bert_tiny")
    _, _, first = make_functions(path, tmp_path, "--types", "BertLayer")
    second = tmp_path / "second.onnx"
    command.run("functions", first, "-o", second, "--types", "BertPooler")
    assert [function.name for function in onnx.load(second).functions] == ["BertPooler"]
    assert_inline_restores(path, second, tmp_path)


# ---- the contents of a function -------------------------------------------------------------------------------------

def layer(index: int, value: str, result: str, scale: float = 2.0) -> list:
    """Returns the nodes of reshape(x * scale + weight, shape), in which scale and shape are small constants."""
    module = f"layers.{index}:Layer"
    return [node("Mul", [value, f"scale{index}"], [f"m{index}"], module),
            node("Add", [f"m{index}", f"layers.{index}.weight"], [f"a{index}"], module),
            node("Reshape", [f"a{index}", f"shape{index}"], [result], module)]


def layers_of(tmp_path, scales=(2.0, 2.0, 2.0), shapes=([2, 4], [2, 4], [2, 4])):
    nodes, initializers, value = [], [], "x"
    for i, (scale, shape) in enumerate(zip(scales, shapes, strict=True)):
        nodes += layer(i, value, f"y{i}")
        initializers += [weight(f"layers.{i}.weight", 4), numpy_helper.from_array(np.float32(scale), f"scale{i}"),
                         numpy_helper.from_array(np.array(shape, np.int64), f"shape{i}")]
        value = f"y{i}"
    path = tmp_path / "layers.onnx"
    graphs.model(nodes, initializers, {"x": [2, 4]}, [value], path)
    return path


def test_weights_become_inputs_and_small_constants_stay_inside(tmp_path):
    path = layers_of(tmp_path)
    _, model_proto, output = make_functions(path, tmp_path)
    (function,) = model_proto.functions
    assert list(function.input) == ["input", "weight"]
    assert [node.op_type for node in function.node] == ["Constant", "Constant", "Mul", "Add", "Reshape"]
    assert [list(node.input) for node in model_proto.graph.node] == [
        ["x", "layers.0.weight"], ["y0", "layers.1.weight"], ["y1", "layers.2.weight"]]
    assert {tensor.name for tensor in model_proto.graph.initializer} == {f"layers.{i}.weight" for i in range(3)}
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


def test_a_constant_that_differs_between_calls_becomes_an_input(tmp_path):
    path = layers_of(tmp_path, scales=(2.0, 3.0, 4.0))
    _, model_proto, output = make_functions(path, tmp_path)
    (function,) = model_proto.functions
    assert len(function.input) == 3
    assert [node.input[2] for node in model_proto.graph.node] == ["scale0", "scale1", "scale2"]
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


def test_a_different_shape_is_a_different_function(tmp_path):
    path = layers_of(tmp_path, shapes=([2, 4], [-1, 4], [2, 4]))
    report, model_proto, output = make_functions(path, tmp_path, "--types", "Layer")
    assert [(function["name"], function["modules"]) for function in report["functions"]] == [
        ("Layer", ["layers.0", "layers.2"]), ("Layer_layers_1", ["layers.1"])]
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


def test_values_used_outside_become_outputs(tmp_path):
    path = tmp_path / "model.onnx"
    graphs.model([node("Relu", ["x"], ["a"], "block:Block"), node("Neg", ["a"], ["b"], "block:Block"),
                  node("Add", ["a", "b"], ["y"])], [], {"x": [3]}, ["y", "a"], path)
    _, model_proto, output = make_functions(path, tmp_path, "--modules", "block")
    (call, _) = model_proto.graph.node
    assert list(call.output) == ["a", "b"]
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


def test_a_module_of_many_nodes_is_one_call(tmp_path):
    """The number of nodes does not fit into a byte."""
    path = tmp_path / "model.onnx"
    chain = [node(["Sin", "Neg"][i % 2], [f"v{i}"], [f"v{i + 1}"], "block:Block") for i in range(600)]
    graphs.model([*chain, node("Abs", ["v600"], ["y"])], [], {"v0": [3]}, ["y"], path)
    _, model_proto, output = make_functions(path, tmp_path, "--modules", "block")
    assert [node.op_type for node in model_proto.graph.node] == ["Block", "Abs"]
    assert len(model_proto.functions[0].node) == 600
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


def test_calls_of_one_module_are_distinguished(tmp_path):
    path = tmp_path / "model.onnx"
    nodes = []
    for call, (value, result) in enumerate([("x", "p"), ("q", "y")]):
        nodes += [node("Relu", [value], [f"r{call}"], f"shared:Shared#{call}", f"shared.inner:Inner#{call}"),
                  node("Neg", [f"r{call}"], [result], f"shared:Shared#{call}")]
        if call == 0:
            nodes.append(node("Exp", ["p"], ["q"]))
    graphs.model(nodes, [], {"x": [3]}, ["y"], path)
    report, model_proto, output = make_functions(path, tmp_path, "--modules", "shared")
    assert [(function["modules"], function["calls"]) for function in report["functions"]] == [(["shared", "shared"], 2)]
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


def test_calls_without_class_metadata_are_grouped_by_module(tmp_path):
    """`annotate --keys` may omit the classes of modules."""
    path = tmp_path / "model.onnx"
    nodes = [node("Relu", ["x"], ["r0"], "shared:Shared"), node("Neg", ["r0"], ["p"], "shared:Shared"),
             node("Exp", ["p"], ["q"]), node("Relu", ["q"], ["r1"]), node("Neg", ["r1"], ["y"])]
    for proto in nodes[3:]:
        del proto.metadata_props[:]
        proto.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'shared', 'op']")
        proto.metadata_props.add(key="pkg.whence.calls", value="0/1")
    graphs.model(nodes, [], {"x": [3]}, ["y"], path)
    report, _, output = make_functions(path, tmp_path, "--types", "Shared")
    assert [(function["name"], function["calls"]) for function in report["functions"]] == [("Shared", 2)]
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


def test_metadata_need_not_be_utf8(tmp_path):
    """ONNX's checker accepts any bytes in metadata."""
    path = tmp_path / "model.onnx"
    nodes = [node("Relu", ["x"], ["p"], "a:Block"), node("Neg", ["p"], ["q"], "b:Block"),
             node("Relu", ["q"], ["r"], "b:Block")]
    graphs.model(nodes, [], {"x": [3]}, ["r"], path)
    model = onnx.load(path)
    for index, proto in enumerate(model.graph.node):
        proto.metadata_props.add(key="notes", value=f"by#tool{index}")
    path.write_bytes(model.SerializeToString().replace(b"by#tool", b"by\xfftool"))
    functions, flat = tmp_path / "functions.onnx", tmp_path / "flat.onnx"
    command.run("functions", path, "-o", functions, "--modules", "b")
    command.run("inline", functions, "-o", flat)
    assert [flat.read_bytes().count(b"by\xfftool%d" % index) for index in range(3)] == [1, 1, 1]


def test_functions_include_bodies_of_branches(tmp_path):
    path = tmp_path / "model.onnx"
    nodes = []
    for i, (value, result) in enumerate([("x", "m"), ("m", "y")]):
        module = f"blocks.{i}:Block"
        branches = {}
        for branch, op in (("then_branch", "Neg"), ("else_branch", "Abs")):
            body_node = node(op, [f"r{i}"], [f"{branch}{i}"], module)  # reads a value of the enclosing graph
            branches[branch] = helper.make_graph(
                [body_node], branch, [], [helper.make_tensor_value_info(f"{branch}{i}", 1, [3])])
        nodes += [node("Relu", [value], [f"r{i}"], module), node("ReduceSum", [f"r{i}"], [f"s{i}"], module, keepdims=0),
                  node("Cast", [f"s{i}"], [f"c{i}"], module, to=9), node("If", [f"c{i}"], [result], module, **branches)]
    graphs.model(nodes, [], {"x": [3]}, ["y"], path)
    report, model_proto, output = make_functions(path, tmp_path)
    assert [(function["nodes"], function["calls"]) for function in report["functions"]] == [(4, 2)]
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


# ---- modules that cannot become a function --------------------------------------------------------------------------

def test_a_module_interrupted_by_another_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    graphs.model([node("Relu", ["x"], ["a"], "first:Block"), node("Exp", ["a"], ["b"], "second:Other"),
                  node("Neg", ["b"], ["y"], "first:Block")], [], {"x": [3]}, ["y"], path)
    output = tmp_path / "out.onnx"
    result = command.run("functions", path, "-o", output, "--modules", "first", code=4)
    assert "Exp 'Exp_b' of second" in result.stderr and "E0303" in result.stderr
    assert not output.exists()
    # Other selected modules still become functions.
    report, _, _ = make_functions(path, tmp_path, "--modules", "first", "--modules", "second")
    assert [refusal["module"] for refusal in report["refused"]] == ["first"]
    assert [function["modules"] for function in report["functions"]] == [["second"]]


def test_modules_that_read_from_each_other_do_not_form_a_cycle(tmp_path):
    path = tmp_path / "model.onnx"
    first, second = "first:Block", "second:Other"
    graphs.model([node("Relu", ["x"], ["a"], first), node("Neg", ["z"], ["b"], second), node("Exp", ["a"], ["c"], second),
                  node("Abs", ["b"], ["d"], first), node("Add", ["c", "d"], ["y"])],
                 [], {"x": [3], "z": [3]}, ["y"], path)
    report, _, output = make_functions(path, tmp_path, "--modules", "first", "--modules", "second")
    assert len(report["functions"]) == 1 and len(report["refused"]) == 1
    assert "which also reads from it" in report["refused"][0]["reason"]
    graphs.assert_same_results(path, output)
    assert_inline_restores(path, output, tmp_path)


@pytest.mark.parametrize("options, fragment", [
    (["--types", "Laier"], "the nearest are Layer"),
    (["--modules", "layers.7"], "layers.0"),
    (["--depth", "0"], "use 1 or more"),
    (["--auto", "--types", "Layer"], "pass only one of them"),
])
def test_selections_that_match_nothing_are_errors(tmp_path, options, fragment):
    path = layers_of(tmp_path)
    output = tmp_path / "out.onnx"
    result = command.run("functions", path, "-o", output, *options, code=2)
    assert result.stderr.startswith("E0101") and fragment in result.stderr
    assert not output.exists()


def test_a_file_without_modules_suggests_annotate(small_export, tmp_path):
    unannotated = tmp_path / "plain.onnx"
    model_proto = onnx.load(small_export[0])
    for node in model_proto.graph.node:
        node.ClearField("metadata_props")
    onnx.save(model_proto, unannotated)
    result = command.run("functions", unannotated, "-o", tmp_path / "out.onnx", code=2)
    assert "whence annotate" in result.stderr


# ---- inline ---------------------------------------------------------------------------------------------------------

def test_all_inlines_functions_of_other_tools(tmp_path):
    body = [helper.make_node("LeakyRelu", ["v"], ["w"], name="inner")]
    body[0].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    function = helper.make_function("other.tool", "Leaky", ["v"], ["w"], body, [helper.make_opsetid("", 18)],
                                    attributes=["slope"])
    graph = helper.make_graph(
        [helper.make_node("Leaky", ["x"], ["y"], domain="other.tool", name="call", slope=0.3)], "graph",
        [helper.make_tensor_value_info("x", 1, [3])], [helper.make_tensor_value_info("y", 1, [3])])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, functions=[function], ir_version=10, opset_imports=[
        helper.make_opsetid("", 18), helper.make_opsetid("other.tool", 1)]), path)
    flat = tmp_path / "flat.onnx"
    command.run("inline", path, "-o", flat)
    assert [node.op_type for node in onnx.load(flat).graph.node] == ["Leaky"]  # a function from another tool
    command.run("inline", path, "-o", flat, "--all")
    model_proto = onnx.load(flat)
    assert [node.op_type for node in model_proto.graph.node] == ["LeakyRelu"]
    assert [opset.domain for opset in model_proto.opset_import] == [""]
    graphs.assert_same_results(path, flat)


def test_a_call_that_does_not_fit_its_function_is_refused(tmp_path):
    _, model_proto, output = make_functions(layers_of(tmp_path), tmp_path)
    for node in model_proto.graph.node[0].metadata_props:
        if node.key == "pkg.whence.module":
            node.value = "other"
    model_proto.graph.node[0].metadata_props.add(key="pkg.whence.differs", value=json.dumps({"key": [None]}))
    onnx.save(model_proto, output)
    result = command.run("inline", output, "-o", tmp_path / "flat.onnx", code=3)
    assert result.stderr.startswith("E0204") and not (tmp_path / "flat.onnx").exists()


class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(x + torch.sigmoid(self.linear(x)))


@pytest.mark.parametrize("tail", [(), (torch.nn.ReLU(),)])
def test_auto_selects_blocks_not_their_containers(tmp_path, tail):
    torch.manual_seed(1)
    network = torch.nn.Sequential(*(torch.nn.Sequential(Cell(), *tail) for _ in range(3))).eval()
    torch.export.save(torch.export.export(network, (torch.randn(2, 4),)), tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--annotate")
    report, _, output = make_functions(tmp_path / "m.onnx", tmp_path)
    assert [(function["name"], function["calls"]) for function in report["functions"]] == [("Cell", 3)]
    assert report["functions"][0]["modules"] == ["0.0", "1.0", "2.0"]
    assert_inline_restores(tmp_path / "m.onnx", output, tmp_path)


def test_auto_selects_containers_if_nothing_else_repeats(tmp_path):
    def layers():
        return [torch.nn.Conv2d(3, 3, 3, padding=1), torch.nn.Sigmoid(), torch.nn.Conv2d(3, 3, 3, padding=1)]
    network = torch.nn.Sequential(*(torch.nn.Sequential(*layers(), torch.nn.ReLU()) for _ in range(3))).eval()
    torch.export.save(torch.export.export(network, (torch.randn(1, 3, 4, 4),)), tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--annotate")
    report, _, _ = make_functions(tmp_path / "m.onnx", tmp_path)
    assert [(function["name"], function["calls"]) for function in report["functions"]] == [("Sequential", 3)]
