"""show, explain, diff, extract and profile in Python, compared with the model, ONNX Runtime and the command."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import whence

import command


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("views")
    model, x = Net().eval(), torch.randn(2, 6)
    whence.export(model, (x,), folder / "net.onnx")
    return folder, model, x


def test_show(exported):
    folder, model, _ = exported
    rows = whence.show(folder / "net.onnx")
    assert [row.path for row in rows] == ["", "first", "second"]
    sizes = {path: sum(tensor.numel() for tensor in module.parameters()) for path, module in model.named_modules()}
    assert {row.path: row.parameters for row in rows} == sizes
    assert rows[0].nodes == len(onnx.load(folder / "net.onnx").graph.node) and rows[1].parent == ""
    assert [row.path for row in whence.show(folder / "net.onnx", depth=0)] == [""]
    assert [row.path for row in whence.show(folder / "net.onnx", select="sec*")] == ["second"]
    with pytest.raises(whence.WhenceError, match="E0105"):
        whence.show(folder / "net.onnx", select="third")


def test_show_of_a_recording(exported, tmp_path):
    _, model, x = exported
    with whence.record(tmp_path / "net.whence.json"):
        torch.jit.trace(model, x, check_trace=False)
    rows = whence.show(tmp_path / "net.whence.json")
    assert {row.path: row.own_nodes for row in rows} == {"": 1, "first": 1, "second": 1}
    assert rows[0].trainable == sum(parameter.numel() for parameter in model.parameters())


def test_explain(exported):
    folder, _, _ = exported
    node = next(node for node in onnx.load(folder / "net.onnx").graph.node if node.op_type == "Relu")
    for name in (node.name, node.output[0]):
        report = whence.explain(folder / "net.onnx", name)
        assert (report.node, report.module, report.confidence) == (node.name, "", "exact")
        assert report.source.endswith("forward") and report.raw["inputs"] == list(node.input)
    with pytest.raises(whence.WhenceError):
        whence.explain(folder / "net.onnx", "no such node")


def test_diff(exported, tmp_path):
    folder, _, _ = exported
    file = onnx.load(folder / "net.onnx")
    relu = next(node for node in file.graph.node if node.op_type == "Relu")
    negated = onnx.helper.make_node("Neg", [relu.output[0]], ["negated"], name="negation")
    for node in file.graph.node:
        if relu.output[0] in node.input:
            node.input[:] = ["negated" if name == relu.output[0] else name for name in node.input]
    file.graph.node.insert(list(file.graph.node).index(relu) + 1, negated)
    onnx.save(file, tmp_path / "changed.onnx")
    report = whence.diff(folder / "net.onnx", tmp_path / "changed.onnx")
    assert not report.same and report.changes["added"] == 1 and report.changes["removed"] == 0
    assert [row.path for row in report.modules] == ["", "first", "second", None]  # the new node has no module
    assert (report.modules[0].nodes, report.modules[-1].nodes) == ((3, 3), (0, 1))
    assert whence.diff(folder / "net.onnx", folder / "net.onnx").same
    weight = next(tensor for tensor in file.graph.initializer if len(tensor.dims) == 2)
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 1.5, weight.name))
    onnx.save(file, tmp_path / "scaled.onnx")
    report = whence.diff(tmp_path / "changed.onnx", tmp_path / "scaled.onnx")
    assert not report.same and sum(row.changed for row in report.modules[1:]) == report.changes["changed"] == 1


def test_extract(exported, tmp_path):
    folder, model, x = exported
    path = whence.extract(folder / "net.onnx", "first", tmp_path / "first.onnx")
    session = onnxruntime.InferenceSession(str(path))
    [got] = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(got, model.first(x).numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(whence.WhenceError, match="E0105"):
        whence.extract(folder / "net.onnx", "third", tmp_path / "third.onnx")
    assert not (tmp_path / "third.onnx").exists()


def test_profile(exported, tmp_path):
    folder, _, x = exported
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "ort")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(folder / "net.onnx"), options)
    for _ in range(3):
        session.run(None, {session.get_inputs()[0].name: x.numpy()})
    measured = session.end_profiling()
    report = whence.profile(folder / "net.onnx", measured)
    assert (report.unit, report.runs, report.unattributed) == ("microseconds", 2, 0)
    by_path = {row.path: row for row in report.modules}
    assert by_path[""].total == report.operator_time == sum(row.own for row in report.modules)
    assert whence.profile(folder / "net.onnx", measured, warmup=0).runs == 3
    assert report.raw == command.run_json("profile", folder / "net.onnx", "--profile", measured)
    with pytest.raises(whence.WhenceError, match="E02"):
        whence.profile(folder / "net.onnx", folder / "net.onnx")
