"""Commands show a fused node at the module of its main operation, and list its other modules."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper

import command
import whence
from validate.onnx_files import known, model, node

ATTENTION = {**known("model", "matched"), "pkg.whence.modules": '["model.rotary","model.layers.0.attn","model.layers.1.attn"]',
             "pkg.whence.primary": "model.layers.0.attn"}


@pytest.fixture
def path(tmp_path):
    nodes = [node("Sin", ["x"], "angles", "rotary", known("model.rotary")),
             node("GroupQueryAttention", ["x", "angles"], "a", "attention", ATTENTION, domain="com.microsoft"),
             node("Relu", ["a"], "y", "relu", known("model.layers.1.attn"))]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return model(nodes, tmp_path / "m.onnx", opsets=opsets)


def test_explain_shows_the_module_of_the_main_operation(path):
    report = command.run_json("explain", path, "attention")
    assert (report["primary"], report["module"]) == ("model.layers.0.attn", "model")
    assert len(report["modules"]) == 3
    lines = command.run("explain", path, "attention").stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("  module  ")][-1:] == ["model.layers.0.attn"]
    assert sum(line.strip().startswith("stands for") for line in lines) == 3
    explanation = whence.explain(path, "attention")
    assert explanation.primary == "model.layers.0.attn" and "model.layers.0.attn" in str(explanation)


@pytest.mark.parametrize("keys", [{"pkg.whence.primary": "other"}, {}])
def test_without_a_valid_key_the_enclosing_module_is_shown(keys, tmp_path):
    metadata = {key: value for key, value in ATTENTION.items() if key != "pkg.whence.primary"} | keys
    path = model([node("Relu", ["x"], "y", "n", metadata)], tmp_path / "m.onnx")
    assert command.run_json("explain", path, "n")["primary"] == "model"


def test_select_leaves_out_only_nodes_of_the_excluded_operation(path):
    def names(*arguments) -> list[str]:
        return [entry["name"] for entry in command.run_json("select", path, *arguments)["nodes"]]

    assert names("--modules", "model.layers.1") == ["attention", "relu"]
    assert names("--modules", "model.layers", "--not", "model.rotary") == ["attention", "relu"]
    assert names("--modules", "model", "--not", "model.layers.0") == ["rotary", "relu"]
    assert [entry["primary"] for entry in command.run_json("select", path)["nodes"]] == [
        "model.rotary", "model.layers.0.attn", "model.layers.1.attn"]


def test_place_follows_the_main_operation(path):
    report = command.run_json("place", path, "--rule", "cpu=model.rotary", "--rule", "npu=model.layers.0",
                              "--rule", "gpu=model.layers.1")
    assert {device["device"]: device["nodes"] for device in report["devices"]} == {"cpu": 1, "npu": 1, "gpu": 1}
    assert report["of_several_devices"] == 1


def test_drawings_put_the_node_in_its_module(path, tmp_path):
    command.run("model-explorer", path, "-o", tmp_path / "m.json")
    graph = json.loads((tmp_path / "m.json").read_text())["graphs"][0]
    shown = next(each for each in graph["nodes"] if "GroupQueryAttention" in each["label"])
    assert "layers.0" in shown["namespace"] and "attn" in shown["namespace"]
    assert {"key": "module", "value": "model.layers.0.attn"} in shown["attrs"]


def test_a_profile_counts_the_time_for_the_main_operation(path, tmp_path):
    events = [{"cat": "Session", "name": "model_run", "ts": 100 * run, "dur": 50, "pid": 1, "tid": 1, "ph": "X", "args": {}} for run in range(2)]
    events += [{"cat": "Node", "name": f"{name}_kernel_time", "ts": 101 + at, "dur": time, "pid": 1, "tid": 1, "ph": "X", "args": {"op_name": "X"}}
               for at, (name, time) in enumerate({"rotary": 1, "attention": 20, "relu": 4}.items())]
    (tmp_path / "profile.json").write_text(json.dumps(events))
    report = command.run_json("profile", path, "--ort-profile", tmp_path / "profile.json")
    rows = {row["path"]: row for row in report["modules"]}
    assert rows["model.layers.0.attn"]["own"] == 20 and rows["model"]["own"] == 0
    assert (rows["model.layers.1.attn"]["own"], rows["model.layers.1.attn"]["at_most"]) == (4, 24)
    assert rows["model.rotary"]["at_most"] == 21


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.norm, self.fc = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.LayerNorm(4), \
            torch.nn.Linear(4, 4)

    def forward(self, x):
        x = self.bn(self.conv(x)).flatten(2).transpose(1, 2)
        return self.norm(x + self.fc(x))


def primaries(path) -> dict[str, str]:
    keys = {node.op_type: {each.key: each.value for each in node.metadata_props}
            for node in onnx.load(path).graph.node}
    return {op_type: each["pkg.whence.primary"] for op_type, each in keys.items() if "pkg.whence.primary" in each}


def test_our_own_export_and_matched_files_name_the_main_operation(tmp_path):
    block = Block().eval()
    torch.nn.init.uniform_(block.bn.running_mean)
    args = (torch.randn(2, 3, 8, 8),)
    whence.export(block, args, tmp_path / "m.onnx")
    assert primaries(tmp_path / "m.onnx")["Conv"] == "conv"  # with the norm's statistics in its weights
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(tmp_path / "fused.onnx"), 3
    onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
    command.run("annotate", tmp_path / "fused.onnx", "--from", tmp_path / "m.onnx", "-o", tmp_path / "known.onnx")
    found = primaries(tmp_path / "known.onnx")
    assert found["Conv"] == "conv" or found["FusedConv"] == "conv"
    assert found["SkipLayerNormalization"] == "norm"
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(tmp_path / "known.onnx"), providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = block(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(session.run(None, {session.get_inputs()[0].name: x})[0], expected, atol=1e-5)
