"""`whence place` assigns devices to modules in ONNX Runtime's format. Sessions of ONNX Runtime check the result."""

import json
import re

import onnx
import onnxruntime
import pytest

import command
import whence
from functions import graphs
from functions.graphs import node
from functions.test_dialects import in_module, with_body


def save_model(path, ir_version=10):
    graphs.model([in_module(node("MatMul", ["x", "w"], ["a"]), "/enc/0/MatMul", "enc.0"),
                  in_module(node("Relu", ["a"], ["b"]), "/enc/1/Relu", "enc.1"),
                  in_module(node("MatMul", ["b", "w"], ["c"]), "/dec/MatMul", "dec"),
                  in_module(node("Add", ["c", "v"], ["y"]), "/Add", "")],
                 [graphs.weight("w", 4, 4), graphs.weight("v", 4)], {"x": [1, 4]}, ["y"], path, ir_version)
    return path


@pytest.fixture
def path(tmp_path):
    return save_model(tmp_path / "model.onnx")


def layers(path):
    return {node.name: next((entry.value for entry in node.metadata_props if entry.key == "layer_ann"), None)
            for node in onnx.load(path).graph.node}


def session(path, settings, log_severity=3):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = log_severity
    options.add_session_config_entry("session.layer_assignment_settings", settings)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


RULES = ["--rule", "gpu=enc", "--rule", "cpu=**"]


def test_the_first_matching_rule_decides(path, tmp_path):
    placed = tmp_path / "placed.onnx"
    text = command.run("place", path, *RULES, "-o", placed).stdout
    assert layers(placed) == {"/enc/0/MatMul": "gpu", "/enc/1/Relu": "gpu", "/dec/MatMul": "cpu", "/Add": "cpu"}
    assert "session.layer_assignment_settings: gpu(=gpu); cpu(=cpu)\n" in text
    report = command.run_json("place", path, "--rule", "npu=enc.1", "--rule", "gpu=enc", "--rule", "cpu=**")
    assert {device["device"]: device["nodes"] for device in report["devices"]} == {"npu": 1, "gpu": 1, "cpu": 2}


def test_weights_and_crossings_are_counted(path):
    report = command.run_json("place", path, *RULES)
    # w (64 bytes) is read on both devices, v (16 bytes) on one.
    assert report["devices"] == [
        {"device": "gpu", "nodes": 2, "weights": 1, "bytes": 64, "microseconds": None},
        {"device": "cpu", "nodes": 2, "weights": 2, "bytes": 80, "microseconds": None}]
    assert report["crossings"] == [{"from": "gpu", "to": "cpu", "values": 1}]
    report = command.run_json("place", path, "--rule", "cpu=**")
    # w counts once, although two nodes read it.
    assert [(device["weights"], device["bytes"]) for device in report["devices"]] == [(2, 80)]


def test_packed_weights_are_rounded_up_to_bytes(tmp_path):
    """Seven elements occupy four bytes with four bits each, and two bytes with two bits each."""
    byte_counts = {"INT4": 4, "INT2": 2}
    weights = [onnx.helper.make_tensor(name, getattr(onnx.TensorProto, name), [7], bytes(size), raw=True)
               for name, size in byte_counts.items()]
    nodes = [in_module(node("DequantizeLinear", [name, "s"], [f"y_{name}"]), f"/{name}", name) for name in byte_counts]
    graphs.model(nodes, [*weights, graphs.weight("s", 1)], {"x": [7]}, [f"y_{name}" for name in byte_counts],
                 tmp_path / "m.onnx", 13)
    report = command.run_json("place", tmp_path / "m.onnx", "--rule", "npu=INT4", "--rule", "cpu=INT2")
    sizes = {device["device"]: device["bytes"] for device in report["devices"]}
    assert sizes == {"npu": 4 + 4, "cpu": 2 + 4}  # s adds 4 bytes to each


@pytest.mark.parametrize("ir_version", [8, 10])
def test_strip_removes_the_devices(tmp_path, ir_version):
    path = save_model(tmp_path / "model.onnx", ir_version)
    placed, replaced, stripped = (tmp_path / f"{name}.onnx" for name in ("placed", "replaced", "stripped"))
    command.run("place", path, *RULES, "-o", placed)
    command.run("strip", placed, "-o", stripped)
    assert placed.read_bytes() != path.read_bytes() == stripped.read_bytes()
    command.run("place", placed, "--rule", "cpu=enc", "--default", "none", "-o", replaced)
    assert layers(replaced) == {"/enc/0/MatMul": "cpu", "/enc/1/Relu": "cpu", "/dec/MatMul": None, "/Add": None}
    command.run("strip", replaced, "-o", stripped)
    assert stripped.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("ir_version", [8, 10])
def test_strip_removes_annotations_and_devices(tmp_path, ir_version):
    graphs.model([node("Relu", ["x"], ["a"], "enc:Enc"), node("Neg", ["a"], ["y"], "dec:Dec")], [], {"x": [2]}, ["y"],
                 tmp_path / "plain.onnx", ir_version)
    unannotated, annotated, placed, stripped = (
        tmp_path / f"{name}.onnx" for name in ("plain", "annotated", "placed", "stripped"))
    command.run("annotate", unannotated, "-o", annotated)
    command.run("place", annotated, *RULES, "-o", placed)
    command.run("annotate", placed, "--carry", "-o", placed)
    assert sorted(layers(placed).values()) == ["cpu", "gpu"]
    command.run("strip", placed, "-o", stripped)
    assert stripped.read_bytes() == unannotated.read_bytes()


def test_the_output_may_be_in_a_different_folder_from_its_external_data(path, tmp_path):
    model_proto = onnx.load(path)
    onnx.save(model_proto, tmp_path / "big.onnx", save_as_external_data=True, location="big.onnx.data",
              size_threshold=0)
    before = (tmp_path / "big.onnx").read_bytes()
    (tmp_path / "out").mkdir()
    command.run("place", tmp_path / "big.onnx", *RULES, "-o", tmp_path / "out" / "placed.onnx")
    assert session(tmp_path / "out" / "placed.onnx", "cpu(=cpu)").run(None, graphs.feeds(model_proto))
    command.run("strip", tmp_path / "out" / "placed.onnx", "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == before


def test_nodes_of_bodies_are_placed(tmp_path):
    report = command.run_json("place", with_body(tmp_path), "--rule", "cpu=**", "-o", tmp_path / "placed.onnx")
    assert report["devices"][0]["nodes"] == 5
    body = onnx.load(tmp_path / "placed.onnx").graph.node[2].attribute[0].g.node[0]
    assert {entry.key: entry.value for entry in body.metadata_props}["layer_ann"] == "cpu"


def test_onnx_runtime_accepts_the_settings(path, tmp_path, capfd):
    """ONNX Runtime's log counts the rules that match an available provider."""
    placed = tmp_path / "placed.onnx"
    settings = command.run_json("place", path, *RULES, "-o", placed)["settings"]
    session(placed, settings, log_severity=0)
    assert "Matched 1 out of 2 rules" in capfd.readouterr().err
    report = command.run_json("place", path, "--rule", "cpu=enc", "--rule", "CPUExecutionProvider=**", "-o", placed)
    session(placed, report["settings"], log_severity=0)
    assert "Matched 2 out of 2 rules" in capfd.readouterr().err


def assignment(session):
    return [{"provider": part.ep_name,
             "nodes": [{"name": node.name, "op_type": node.op_type} for node in part.get_nodes()]}
            for part in session.get_provider_graph_assignment_info()]


def test_assigned_providers_are_compared_with_the_devices(path, tmp_path):
    placed = tmp_path / "placed.onnx"
    settings = command.run_json("place", path, *RULES, "-o", placed)["settings"]
    providers = assignment(session(placed, settings))
    # ONNX Runtime fused the Add into the decoder's MatMul before it assigned providers.
    assert "/dec/MatMul/MatMulAddFusion" in [node["name"] for part in providers for node in part["nodes"]]
    (tmp_path / "providers.json").write_text(json.dumps(providers))
    report = command.run_json("place", placed, "--assigned", tmp_path / "providers.json", code=1)
    assert report["assigned"]["differences"] == [
        {"node": name, "module": module, "device": "gpu", "provider": "CPUExecutionProvider"}
        for name, module in [("/enc/0/MatMul", "enc.0"), ("/enc/1/Relu", "enc.1")]]
    assert report["assigned"]["as_placed"] == 1 and report["assigned"]["not_listed"] == 1
    text = command.run("place", placed, "--assigned", tmp_path / "providers.json", code=1).stdout
    assert "nodes in ONNX Runtime: 1 as placed, 2 elsewhere, 1 not listed" in text
    assert re.search(r"/enc/1/Relu +enc.1 +gpu", text)
    command.run("place", path, "--rule", "cpu=**", "--assigned", tmp_path / "providers.json", code=0)


@pytest.mark.parametrize("provider, device, fits", [
    ("CUDAExecutionProvider", "gpu", True), ("CUDAExecutionProvider", "gpu:1", True),
    ("CUDAExecutionProvider", "cpu", False), ("CUDAExecutionProvider", "gpu:amd", False),
    ("QNNExecutionProvider", "npu", True), ("DmlExecutionProvider", "cuda", False),
    ("CPUExecutionProvider", "accelerator", False), ("MyExecutionProvider", "MyExecutionProvider", True),
])
def test_providers_of_devices(path, tmp_path, provider, device, fits):
    """The expected values follow ONNX Runtime's MatchEpDevice(), because the tests cannot load these providers."""
    nodes = [{"name": node.name, "op_type": node.op_type} for node in onnx.load(path).graph.node]
    (tmp_path / "providers.json").write_text(json.dumps([{"provider": provider, "nodes": nodes}]))
    report = command.run_json("place", path, "--rule", f"{device}=**", "--assigned", tmp_path / "providers.json",
                              code=0 if fits else 1)
    assert len(report["assigned"]["differences"]) == (0 if fits else 4)


def listed(path, provider: str, **more) -> str:
    nodes = [{"name": node.name, "op_type": node.op_type} for node in onnx.load(path).graph.node]
    return json.dumps([{"provider": provider, "nodes": nodes, **more}])


@pytest.mark.parametrize("device, devices, fits", [
    ("cpu", [{"type": "CPU"}], True), ("npu", [{"type": "CPU"}], False),
    ("npu", [{"type": "CPU"}, {"type": "NPU"}], True), ("accelerator", [{"type": "CPU"}], False),
    ("accelerator", [{"type": "NPU"}], True), ("gpu", [{"type": "GPU"}], True), ("gpu:0", [{"type": "GPU"}], True),
    ("gpu:intel", [{"type": "GPU", "vendor": "Intel"}], True),
    ("gpu:amd", [{"type": "GPU", "vendor": "Advanced Micro Devices, Inc.", "vendor_id": 0x1002}], True),
    ("gpu:nvidia", [{"type": "GPU", "vendor": "Intel", "vendor_id": 0x8086}], False),
    ("provider:Mine", [], True), ("provider:Other", [{"type": "NPU"}], False),
])
def test_a_plugin_provider_of_any_name_is_compared_by_its_devices(path, tmp_path, device, devices, fits):
    """The expected values follow EpLayeringMatcher::Match() of ONNX Runtime 1.32."""
    (tmp_path / "providers.json").write_text(listed(path, "Mine", devices=devices))
    report = command.run_json("place", path, "--rule", f"{device}=**", "--assigned", tmp_path / "providers.json",
                              code=0 if fits else 1)
    assert len(report["assigned"]["differences"]) == (0 if fits else 4) and report["diagnostics"] == []


def test_a_provider_of_unknown_devices_is_neither_right_nor_wrong(path, tmp_path):
    (tmp_path / "providers.json").write_text(listed(path, "Mine"))
    options = ["--rule", "gpu=enc", "--rule", "cpu=**", "--assigned", tmp_path / "providers.json"]
    report = command.run_json("place", path, *options)
    assert report["assigned"] == {"as_placed": 0, "not_listed": 0, "unknown_device": 4, "differences": []}
    assert [each["severity"] for each in report["diagnostics"]] == ["warning"]
    result = command.run("place", path, *options)
    assert "4 on unknown devices" in result.stdout and "'Mine' are unknown" in result.stderr


def test_onnx_runtime_gets_the_name_of_a_plugin_provider(path, tmp_path):
    report = command.run_json("place", path, "--rule", "provider:Mine.AUTO=enc", "--rule", "AnExecutionProvider.CPU=**",
                              "-o", tmp_path / "placed.onnx")
    assert report["settings"] == "Mine.AUTO(=Mine.AUTO); AnExecutionProvider.CPU(=AnExecutionProvider.CPU)"
    assert sorted(set(layers(tmp_path / "placed.onnx").values())) == ["AnExecutionProvider.CPU", "Mine.AUTO"]


def test_times_of_devices_add_up_to_the_profile(path, tmp_path):
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "run")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    profiled = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        profiled.run(None, graphs.feeds(onnx.load(path)))
    profile = profiled.end_profiling()
    report = command.run_json("place", path, *RULES, "--profile", profile)
    total = json.loads(command.run("profile", path, "--ort-profile", profile, "--format", "json").stdout)
    times = [device["microseconds"] for device in report["devices"]]
    assert total["runs"] > 1 and all(time is not None for time in times)
    assert sum(times) + report["unattributed_microseconds"] == pytest.approx(
        total["operator_time"] / total["runs"], abs=2)
    assert "ms a run\n" in command.run("place", path, *RULES, "--profile", profile).stdout


@pytest.mark.parametrize("options, fragment", [
    ([], "no node of the file has a device"),
    (["--rule", "gpu=enc"], "2 of 4 nodes have no device: '/dec/MatMul' of dec"),
    (["--rule", "gpuu=**"], "did you mean gpu?"), (["--rule", "gpu:intle=**"], "not a device"),
    (["--rule", "My(x)ExecutionProvider=**"], "not a device"), (["--rule", "provider:=**"], "not a device"),
    (["--rule", "provider:My(x)=**"], "not a device"),
    (["--rule", "gpu"], "is not a rule"), (["--rule", "=enc"], "is not a rule"),
    (["--rule", "cpu=**", "--rule", "gpu=enc"], "'gpu=enc' places no node"),
    (["--rule", "cpu=encoder"], "no module of the file matches 'encoder'"),
    (["--rule", "cpu=enc", "--default", "cpuu"], "did you mean cpu?"),
])
def test_ineffective_rules_are_errors(path, tmp_path, options, fragment):
    output = ["-o", tmp_path / "placed.onnx"] if options else []
    result = command.run("place", path, *options, *output, code=2)
    assert result.stderr.startswith("E0101") and fragment in result.stderr and "; try: " in result.stderr
    assert result.stdout == "" and not (tmp_path / "placed.onnx").exists()


def test_a_file_without_modules_must_be_annotated_first(tmp_path):
    relu = node("Relu", ["x"], ["y"])
    del relu.metadata_props[:]
    graphs.model([relu], [], {"x": [2]}, ["y"], tmp_path / "plain.onnx")
    assert "`whence annotate`" in command.run("place", tmp_path / "plain.onnx", "--rule", "cpu=**", code=2).stderr


def test_an_output_needs_rules(path, tmp_path):
    assert "at least one rule" in command.run("place", path, "-o", tmp_path / "placed.onnx", code=2).stderr


def test_nodes_without_a_module_need_a_default(path, tmp_path):
    model_proto = onnx.load(path)
    del model_proto.graph.node[1].metadata_props[:]
    onnx.save(model_proto, path)
    assert "'/enc/1/Relu'" in command.run("place", path, "--rule", "cpu=**", code=2).stderr
    command.run("place", path, "--rule", "cpu=**", "--default", "npu", "-o", tmp_path / "placed.onnx")
    assert layers(tmp_path / "placed.onnx")["/enc/1/Relu"] == "npu"


def test_a_node_with_several_modules_follows_the_first_rule(path):
    model_proto = onnx.load(path)
    model_proto.graph.node[1].metadata_props.add(key="pkg.whence.modules", value='["enc.1", "dec"]')
    onnx.save(model_proto, path)
    report = command.run_json("place", path, *RULES)
    assert report["of_several_devices"] == 1 and report["devices"][0]["nodes"] == 2


def test_devices_from_another_tool_are_not_overwritten(path, tmp_path):
    model_proto = onnx.load(path)
    model_proto.graph.node[0].metadata_props.add(key="layer_ann", value="npu")
    onnx.save(model_proto, path)
    assert "another tool" in command.run("place", path, *RULES, "-o", tmp_path / "placed.onnx", code=2).stderr
    assert not (tmp_path / "placed.onnx").exists()
    devices = command.run_json("place", path)["devices"]
    assert {device["device"]: device["nodes"] for device in devices} == {"npu": 1, "none": 3}


def test_files_with_functions_are_refused(tmp_path):
    nodes = [node("Relu", ["x"], ["a"], "l:L", "l.0:B"), node("Neg", ["a"], ["b"], "l:L", "l.0:B"),
             node("Relu", ["b"], ["c"], "l:L", "l.1:B"), node("Neg", ["c"], ["y"], "l:L", "l.1:B")]
    graphs.model(nodes, [], {"x": [2]}, ["y"], tmp_path / "flat.onnx")
    command.run("functions", tmp_path / "flat.onnx", "--types", "B", "-o", tmp_path / "functions.onnx")
    assert "`whence inline`" in command.run("place", tmp_path / "functions.onnx", "--rule", "cpu=**", code=2).stderr


@pytest.mark.parametrize("text, code, fragment", [
    ("", 3, "E0201"), ("{", 3, "not a list"), ('{"a": 1}', 3, "not a list"), ("[1]", 3, "no provider"),
    ("[[]]", 3, "no provider"), ('[{"provider": "P", "nodes": 3}]', 3, "no provider or no nodes"),
    ('[{"provider": "P", "nodes": [3, {"name": 1}]}]', 3, "has a name"),
    ("[]", 3, "has a name"), ('[{"provider": "P", "nodes": [{"name": "other"}]}]', 3, "E0206"),
])
def test_invalid_lists_of_providers_are_errors(path, tmp_path, text, code, fragment):
    (tmp_path / "providers.json").write_text(text)
    result = command.run("place", path, "--rule", "cpu=**", "--assigned", tmp_path / "providers.json", code=code)
    assert fragment in result.stderr and "; try: " in result.stderr


def test_python_queries_the_session(path, tmp_path):
    placed = tmp_path / "placed.onnx"
    report = whence.place(path, ["gpu=enc", "cpu=**"], output=placed)
    assert report.clean and report.as_placed is None
    assert report.devices[0] == whence.DeviceShare("gpu", 2, 1, 64, None)
    assert report.crossings == (whence.Crossing("gpu", "cpu", 1),)
    comparison = whence.place(placed, assigned=session(placed, report.settings))
    assert not comparison.clean and comparison.as_placed == 1
    assert comparison.differences[0] == whence.PlacementDifference("/enc/0/MatMul", "enc.0", "gpu",
                                                                 "CPUExecutionProvider")
    with pytest.raises(whence.WhenceError, match="a list is expected"):
        whence.place(path, "cpu=**")
