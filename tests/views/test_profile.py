"""Compares `whence profile` on profiles of ONNX Runtime with sums by module, computed here from the same JSON."""

import json
from collections import defaultdict

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from jsonschema import Draft202012Validator
from onnx import TensorProto, helper
from transformers import BertConfig, BertModel

import command
from views import view_files

RUNS = 4
LEVELS = {"plain": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
          "optimised": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL}
SCHEMA = Draft202012Validator(json.loads((command.ROOT / "schema" / "profile.schema.json").read_text()))


def profile(model, folder, level: str, feeds: dict, runs=RUNS):
    """Runs the model. Returns the profile and the optimised file."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(folder / level)
    options.graph_optimization_level, options.log_severity_level = LEVELS[level], 3
    options.optimized_model_filepath = str(folder / f"{level}.onnx")
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    for _ in range(runs):
        session.run(None, feeds)
    return session.end_profiling(), folder / f"{level}.onnx"


def kernels(path) -> list[dict]:
    """Returns the kernel events of all runs except the first, which is a warm-up."""
    with open(path) as file:
        all_events = json.load(file)
    first = min((event for event in all_events if event["name"] == "model_run"), key=lambda event: event["ts"])
    return [event for event in all_events if event["cat"] == "Node" and event["ts"] >= first["ts"] + first["dur"]]


def report_of(model, path, *options) -> dict:
    report = command.run_json("profile", model, "--ort-profile", path, *options)
    SCHEMA.validate(report)
    return report


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """Returns (file, folder, feeds) of a small annotated BERT."""
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    config = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=64,
                        return_dict=False)
    program = torch.export.export(BertModel(config).eval(), (torch.randint(0, 100, (1, 8)),), strict=False)
    torch.export.save(program, folder / "bert.pt2")
    command.run("export", folder / "bert.pt2", "-o", folder / "bert.onnx", "--annotate")
    name = onnx.load(folder / "bert.onnx").graph.input[0].name
    return folder / "bert.onnx", folder, {name: np.ones((1, 8), np.int64)}


@pytest.fixture(scope="module", params=LEVELS)
def bert_profile(request, bert):
    return profile(bert[0], bert[1], request.param, bert[2])


def module_sums(model, events) -> dict:
    """Sums the microseconds of each module and its descendants, by node names only."""
    modules = {node.name: view_files.keys_of(node)["pkg.whence.module"] for node in onnx.load(model).graph.node}
    sums = defaultdict(int)
    for event in events:
        path = modules[event["name"].removesuffix("_kernel_time")]
        sums[""] += event["dur"]
        while path:
            sums[path] += event["dur"]
            path = path.rpartition(".")[0]
    return dict(sums)


def test_time_is_summed_by_module(bert, tmp_path):
    model, _, feeds = bert
    path, _ = profile(model, tmp_path, "plain", feeds)
    report = report_of(model, path)
    assert {row["path"]: row["total"] for row in report["modules"] if row["total"]} == {
        module: time for module, time in module_sums(model, kernels(path)).items() if time}
    assert report["unattributed"] == 0
    assert (report["runs"], report["warmup_runs"]) == (RUNS - 1, 1)
    assert all(node["count"] == RUNS - 1 and node["rule"] == "name" for node in report["nodes"])


@pytest.mark.parametrize("with_optimized", [False, True])
def test_no_time_is_lost(bert, bert_profile, with_optimized):
    path, optimized = bert_profile
    report = report_of(bert[0], path, *(["--optimized", optimized] if with_optimized else []))
    events = kernels(path)
    assert report["operator_time"] == sum(event["dur"] for event in events)
    assert sum(node["time"] for node in report["nodes"]) == report["operator_time"]
    assert sum(row["own"] for row in report["modules"]) == report["operator_time"] - report["unattributed"]
    root = report["modules"][0]
    assert root["path"] == "" and root["total"] == report["operator_time"] - report["unattributed"]
    with open(path) as file:
        runs = [event["dur"] for event in json.load(file) if event["name"] == "model_run"]
    assert report["run_time"] == sum(runs[1:])


def test_fused_operators_are_matched_or_unattributed(bert, tmp_path):
    model, _, feeds = bert
    path, optimized = profile(model, tmp_path, "optimised", feeds)
    by_name, by_match = report_of(model, path), report_of(model, path, "--optimized", optimized)
    skipped = [node for node in by_name["nodes"] if node["op_type"] == "SkipLayerNormalization"]
    assert skipped and all(node["module"] is None and node["rule"] == "none" for node in skipped)
    assert by_name["unattributed"] == sum(node["time"] for node in by_name["nodes"] if node["module"] is None) > 0
    # A residual Add that is fused with the next LayerNorm counts for the norm, which names the operator.
    found = {node["module"] for node in by_match["nodes"] if node["op_type"] == "SkipLayerNormalization"}
    assert {f"encoder.layer.{i}.{part}.LayerNorm" for i in (0, 1) for part in ("attention.output", "output")} <= found
    assert by_match["unattributed"] < 0.1 * by_match["operator_time"]
    gemm = next(node for node in by_name["nodes"] if node["name"].endswith("query/MatMul/MatMulAddFusion"))
    assert (gemm["rule"], gemm["module"]) == ("derived", gemm["name"].split("/MatMul")[0][1:].replace("/", "."))
    assert "--optimized FILE" in command.run("profile", model, "--ort-profile", path).stdout


def test_flame_graphs_contain_all_time(bert, bert_profile):
    path, _ = bert_profile
    total = sum(event["dur"] for event in kernels(path))
    lines = command.run("profile", bert[0], "--ort-profile", path, "--format", "collapsed").stdout.splitlines()
    stacks = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines}
    assert sum(stacks.values()) == total and len(stacks) == len(lines)
    assert any(stack.startswith("model;encoder;layer;0;attention;self;") for stack in stacks)
    scope = json.loads(command.run("profile", bert[0], "--ort-profile", path, "--format", "speedscope").stdout)
    flame = scope["profiles"][0]
    assert scope["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert (flame["type"], flame["unit"], flame["startValue"], flame["endValue"]) == ("sampled", "microseconds", 0,
                                                                                      total)
    assert len(flame["samples"]) == len(flame["weights"]) and sum(flame["weights"]) == total
    names = [frame["name"] for frame in scope["shared"]["frames"]]
    samples = zip(flame["samples"], flame["weights"], strict=True)
    assert {";".join(names[i] for i in sample): weight for sample, weight in samples} == stacks


def test_subgraphs_are_not_counted_twice(tmp_path):
    """The time of an If includes the time of its branch; only the difference is its own time."""
    def branch(name, op):
        return helper.make_graph([helper.make_node(op, ["x"], [name], name=f"in_{name}")], name, [],
                                 [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])
    nodes = [helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch("t", "Exp"),
                              else_branch=branch("e", "Neg"))]
    view_files.add_keys(nodes[0], module="outer", confidence="exact")
    for attribute in nodes[0].attribute:
        view_files.add_keys(attribute.g.node[0], module="outer.inner", confidence="exact")
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [200_000]),
                                               helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "m.onnx")
    path, _ = profile(tmp_path / "m.onnx", tmp_path, "plain", {"x": np.ones(200_000, np.float32), "c": np.array(True)})
    time = defaultdict(int)
    for event in kernels(path):
        time[event["args"]["op_name"]] += event["dur"]
    report = {row["path"]: row for row in report_of(tmp_path / "m.onnx", path)["modules"]}
    assert report["outer.inner"]["own"] == time["Exp"] > 0
    assert report["outer"]["own"] == time["If"] - time["Exp"]
    assert report["outer"]["total"] == time["If"]


def events(*rows) -> list[dict]:
    """Returns a profile of one run from rows of (name, operator, microseconds)."""
    result = [{"cat": "Session", "pid": 1, "tid": 1, "dur": 1000, "ts": 0, "ph": "X", "name": "model_run", "args": {}}]
    for i, (name, op, time) in enumerate(rows):
        result.append({"cat": "Node", "pid": 1, "tid": 1, "dur": time, "ts": 10 * i, "ph": "X",
                     "name": f"{name}_kernel_time",
                     "args": {"op_name": op, "provider": "CPUExecutionProvider"}})
    return result


def test_calls_are_separate_and_numbered_names_are_not_guessed(tmp_path):
    """A layer /Neg_1 is not the node /Neg, even if the model has no /Neg_1."""
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="/block/Relu"),
             helper.make_node("Relu", ["a"], ["b"], name="/block/Relu_1"),
             helper.make_node("Neg", ["b"], ["y"], name="/head/Neg")]
    for node, call in zip(nodes, "010", strict=False):
        view_files.add_keys(node, module=node.name.split("/")[1], confidence="exact", call=call)
    model = view_files.save(nodes, tmp_path / "m.onnx")
    (tmp_path / "p.json").write_text(json.dumps(events(
        ("/block/Relu", "Relu", 5), ("/block/Relu_1", "Relu", 7), ("/head/Neg_1", "Neg", 11),
        ("/head/Neg/NegFusion", "X", 13))))
    report = report_of(model, tmp_path / "p.json")
    rows = {row["path"]: row for row in report["modules"]}
    assert rows["block"]["calls"] == [{"call": "0", "own": 5}, {"call": "1", "own": 7}]
    assert rows["head"]["own"] == 13 and report["unattributed"] == 11
    text = command.run("profile", model, "--ort-profile", tmp_path / "p.json").stdout
    assert "call 0" in text and "call 1" in text and "(no module known)" in text
    stacks = command.run("profile", model, "--ort-profile", tmp_path / "p.json", "--format", "collapsed").stdout
    assert stacks.splitlines() == ["(no module known);Neg 11", "model;block;Relu 5", "model;block#1;Relu 7",
                                   "model;head;X 13"]


# ---- refused profiles ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("content, code, exit_code, fragment", [
    ("", "E0201", 3, "try"), ("[{\"cat\": \"Node\",", "E0202", 3, "end_profiling"),
    ("nonsense", "E0203", 3, "end_profiling"),
    ("{}", "E0203", 3, "enable_profiling"), ("[]", "E0203", 3, "enable_profiling"),
    ("[1, null, {\"cat\": 3}]", "E0203", 3, "enable_profiling"),
    (json.dumps(events(("/other/Conv", "Conv", 5))), "E0206", 3, "--optimized"),
    (json.dumps([{"cat": "Node", "name": "/a_kernel_time"}, *events()]), "E0204", 3, "end_profiling"),
    (json.dumps(events(("/layers.0/attn/MatMul_0", "MatMul", 2 ** 60))), "E0204", 3, "end_profiling"),
    (json.dumps(events(("/layers.0/attn/MatMul_0", "MatMul", 2 ** 52), ("/a/Add", "Add", 2 ** 52))), "E0204", 3, "overflows"),
    (json.dumps([{**events()[0], "dur": 2 ** 52}] * 1100), "E0204", 3, "overflows"),
], ids=["empty", "truncated", "not JSON", "object", "no events", "invalid events", "another model", "no times",
        "time overflow", "sum overflow", "run time overflow"])
def test_invalid_profiles_are_refused(content, code, exit_code, fragment, tmp_path):
    model = view_files.layers(20, tmp_path / "m.onnx")
    (tmp_path / "p.json").write_text(content)
    error = command.run("profile", model, "--ort-profile", tmp_path / "p.json", "-o", tmp_path / "out",
                        code=exit_code).stderr
    assert error.startswith(code) and fragment in error
    assert not (tmp_path / "out").exists()


def test_a_profile_of_another_model_is_refused(bert, tmp_path):
    model = view_files.layers(20, tmp_path / "m.onnx")
    path, optimized = profile(bert[0], tmp_path, "optimised", bert[2])
    for options in ([], ["--optimized", optimized]):
        error = command.run("profile", model, "--ort-profile", path, *options, "-o", tmp_path / "out", code=3).stderr
        assert error.startswith("E0206") and not (tmp_path / "out").exists()
    own, saved = profile(model, tmp_path, "plain", {"x": np.ones((4, 4), np.float32)})
    assert command.run("profile", bert[0], "--ort-profile", path, "--optimized", saved,
                       code=3).stderr.startswith("E0206")


@pytest.mark.parametrize("options, fragment", [(["--format", "xml"], "speedscope"), (["--depth", "-1"], "--depth"),
                                           (["--ort-profile"], "ort-profile")])
def test_invalid_options_are_refused(options, fragment, tmp_path):
    model = view_files.layers(20, tmp_path / "m.onnx")
    profile_options = [] if "--ort-profile" in options else ["--ort-profile", tmp_path / "p.json"]
    error = command.run("profile", model, *profile_options, *options, code=2).stderr
    assert error.startswith("E0101") and fragment in error


def test_a_file_without_modules_must_be_annotated(tmp_path):
    model = view_files.save([helper.make_node("Relu", ["x"], ["y"], name="relu")], tmp_path / "m.onnx")
    path, _ = profile(model, tmp_path, "plain", {"x": np.ones((4, 4), np.float32)})
    assert "whence annotate" in command.run("profile", model, "--ort-profile", path, code=2).stderr
