"""``whence.accuracy`` inside the bodies of If, Loop and Scan, and inside local functions: values are compared call by call,
and a fault is named with its module and operation."""

import onnx
import pytest
import torch
from onnx import helper
from torch import nn

import command
import whence


class Cell(nn.Module):
    """[n, 6] -> [n, 6]."""

    def __init__(self):
        super().__init__()
        self.inner, self.gate = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        return torch.tanh(self.inner(x)) * torch.sigmoid(self.gate(x))


class Recurrent(nn.Module):
    """x [time, n, 6] -> [n, 2], with a loop over time, a branch on data, and the loop's module once more."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.stem, self.cell, self.head = nn.Linear(6, 6), Cell(), nn.Linear(6, 2)
        self.positive, self.negative = Cell(), Cell()

    def forward(self, x):
        y = self.stem(x[0])
        for t in range(x.size(0)):
            if bool(x[t].sum() > 0):
                y = y + self.cell(x[t] + y)
            else:
                y = y - self.negative(self.cell(y))
        if bool(x[0].sum() < 0):
            y = self.positive(y)
        else:
            y = self.negative(y)
        return self.head(self.cell(y))


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory):
    """Returns the folder of m.onnx, exported with 3 steps; its values have 5, of which 2 are negative."""
    folder = tmp_path_factory.mktemp("recurrent")
    model = Recurrent().eval()
    whence.export(torch.jit.script(model), (torch.randn(3, 2, 6),), folder / "m.onnx", dynamic_axes={"x": {0: "time"}})
    x = torch.rand(5, 2, 6) * torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0]).reshape(5, 1, 1)
    whence.record_values(model, (x,), folder / "m.values.safetensors", operations=True)
    return folder


def measure(folder, path, **options):
    return whence.accuracy(path, folder / "m.values.safetensors", sidecar=folder / "m.whence.json", **options)


def nodes_in(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_in(attribute.g)


def module_of(node) -> str:
    return next((each.value for each in node.metadata_props if each.key == "pkg.whence.module"), "")


def changed(folder, tmp_path, module, op_type, new, nodes=nodes_in):
    model = onnx.load(folder / "m.onnx")
    count = 0
    for node in nodes(model.graph):
        if node.op_type == op_type and module_of(node) == module:
            node.op_type, count = new, count + 1
    assert count
    onnx.save(model, tmp_path / "changed.onnx")
    return tmp_path / "changed.onnx"


def test_every_call_is_observable(recurrent):
    assert {"Loop", "If"} <= {node.op_type for node in onnx.load(recurrent / "m.onnx").graph.node}
    report = measure(recurrent, recurrent / "m.onnx")
    assert report.first is None and report.verdict == "no module differs"
    rows = {(each.module, each.call): each.status for each in report.modules}
    assert [rows["cell", call] for call in range(6)] == ["equal"] * 6
    assert [rows["negative", call] for call in range(3)] == ["equal"] * 3 and set(rows.values()) == {"equal"}


@pytest.mark.parametrize("module, op_type, new, call, operation", [
    ("cell", "Tanh", "Softsign", 0, "aten::tanh"), ("cell", "Sigmoid", "HardSigmoid", 0, "aten::sigmoid"),
    ("negative", "Sigmoid", "HardSigmoid", 0, "aten::sigmoid"), ("", "Sub", "Add", 0, "aten::sub")])
def test_a_fault_in_a_loop_is_named(recurrent, tmp_path, module, op_type, new, call, operation):
    first = measure(recurrent, changed(recurrent, tmp_path, module, op_type, new)).first
    assert (first.module, first.operation) == (module, operation) and "test_bodies.py" in first.source
    assert first.call == call and first.nodes


def test_a_fault_after_the_loop_is_named_by_its_call(recurrent, tmp_path):
    """The file numbers the calls of the loop's body as one."""
    path = changed(recurrent, tmp_path, "cell", "Tanh", "Softsign", nodes=lambda graph: graph.node)
    first = measure(recurrent, path).first
    assert (first.module, first.call, first.operation) == ("cell", 5, "aten::tanh")


def test_later_faults_in_bodies(recurrent, tmp_path):
    whence.record_values(Recurrent().eval(), (torch.rand(2, 2, 6),), tmp_path / "whole.values.safetensors", operations=True,
                         full=["**"])
    path = changed(recurrent, tmp_path, "cell", "Tanh", "Softsign")
    report = whence.accuracy(path, tmp_path / "whole.values.safetensors", sidecar=recurrent / "m.whence.json", all_faults=True)
    assert [(each.module, each.call, each.operation) for each in report.faults] == [
        ("cell", call, "aten::tanh") for call in range(3)]


def test_a_bundle_of_a_node_in_a_body_fails(recurrent, tmp_path):
    path = changed(recurrent, tmp_path, "cell", "Tanh", "Softsign")
    report = measure(recurrent, path, repro=tmp_path / "bundle")
    assert "fails" in report.bundle
    piece = onnx.load(tmp_path / "bundle" / "piece.onnx")
    assert [node.op_type for node in piece.graph.node] == ["Softsign"]


def test_the_file_stays_as_it_is(recurrent):
    before = (recurrent / "m.onnx").read_bytes()
    measure(recurrent, recurrent / "m.onnx")
    assert (recurrent / "m.onnx").read_bytes() == before


def test_a_loop_without_iterations(recurrent, tmp_path):
    """Its body computes nothing, so nothing is unrolled."""
    model = Recurrent().eval()
    model.forward = lambda x: model.head(model.cell(x))
    path = tmp_path / "none.onnx"
    graph = helper.make_graph(
        [helper.make_node("Loop", ["count", "", "x"], ["y"], body=helper.make_graph(
            [helper.make_node("Tanh", ["a"], ["b"]), helper.make_node("Identity", ["go"], ["on"])], "body",
            [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("go", 9, []),
             helper.make_tensor_value_info("a", 1, [2])],
            [helper.make_tensor_value_info("on", 9, []), helper.make_tensor_value_info("b", 1, [2])]))], "g",
        [helper.make_tensor_value_info("x", 1, [2])], [helper.make_tensor_value_info("y", 1, [2])],
        [helper.make_tensor("count", 7, [], [0])])
    graph.node[0].metadata_props.add(key="pkg.whence.module", value="act")
    graph.node[0].metadata_props.add(key="pkg.whence.confidence", value="exact")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)

    class Same(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.Identity()

        def forward(self, x):
            return self.act(x) + 0

    values = whence.record_values(Same(), (torch.randn(2),), tmp_path / "same.values.safetensors")
    assert whence.accuracy(path, values).first is None


SCAN = """
agraph (float[5, 2] x, float[2] start) => (float[2] last, float[2, 5] all) <float[1] one = {{1.0}}> {{
    last, all = Scan<num_scan_inputs = 1, scan_input_directions = [1], scan_output_axes = [1], scan_output_directions = [{direction}],
        body = b (float[2] state, float[2] step) => (float[2] next, float[2] out) {{
            sum = Add(state, step)
            next = Tanh(sum)
            out = Mul(next, next)
        }}>(start, x)
}}
"""


@pytest.mark.parametrize("direction", [0, 1])
def test_scans_are_unrolled_like_the_runtime_runs_them(tmp_path, direction):
    """Scans the input backwards and stacks along another axis."""
    from whence.numerics import api, annotated_file, straight_line

    model = helper.make_model(onnx.parser.parse_graph(SCAN.format(direction=direction).strip().replace("agraph ", "g ")),
                              opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "scan.onnx")
    file = annotated_file.read(tmp_path / "scan.onnx", annotated=False)
    feed = {"x": torch.randn(5, 2), "start": torch.randn(2)}
    line, _ = straight_line.of_run(file, None, whence.record_values(nn.Identity(), (torch.ones(1),), tmp_path / "v.safetensors").runs[0],
                                   api.runtime_of, feed)
    assert [node.op_type for node in line.nodes].count("Tanh") == 5 and "Scan" not in {node.op_type for node in line.nodes}
    state, outs = feed["start"], []
    for step in feed["x"].flip(0):
        state = torch.tanh(state + step)
        outs.append(state * state)
    found = dict(api.runtime_of(line).take(feed, ["last", "all"]))
    assert torch.allclose(found["last"], state)
    assert torch.allclose(found["all"], torch.stack(outs[::-1] if direction else outs, 1))


def test_faults_in_functions_are_named(encoder, tmp_path):
    """Both layers call one function."""
    whence.functions(encoder / "encoder.onnx", types=["Layer"], output=tmp_path / "functions.onnx")
    model = onnx.load(tmp_path / "functions.onnx")
    assert model.functions
    values = encoder / "encoder.values.safetensors"
    report = whence.accuracy(tmp_path / "functions.onnx", values, sidecar=encoder / "encoder.whence.json")
    assert report.first is None and not [each for each in report.modules if each.status == "not observable"]
    for function in model.functions:
        for node in function.node:
            if node.op_type == "Softmax":
                node.op_type = "LogSoftmax"
    onnx.save(model, tmp_path / "wrong.onnx")
    first = whence.accuracy(tmp_path / "wrong.onnx", values, sidecar=encoder / "encoder.whence.json").first
    assert first.module == "layers.0.attention"


def test_the_command_shows_each_iteration(recurrent):
    report = command.run_json("accuracy", recurrent / "m.onnx", "--values", recurrent / "m.values.safetensors", "--sidecar",
                              recurrent / "m.whence.json")
    assert sum(each["module"] == "cell" for each in report["modules"]) == 6
