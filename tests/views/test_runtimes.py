"""Compares `whence profile` on real profiles of ONNX Runtime and OpenVINO with OpenVINO's counters, ONNX Runtime's
table, and sums by node name, computed here from the same files."""

import contextlib
import csv
import json
import pathlib
import xml.etree.ElementTree as ElementTree
from collections import defaultdict

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import command
from views import profiled, view_files

PROFILE, COMPARISON = profiled.schema("profile"), profiled.schema("profile_comparison")


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return profiled.export(tmp_path_factory.mktemp("net"))


@pytest.fixture(scope="module")
def openvino_run(net, tmp_path_factory):
    """Returns the runtime model of one inference, and OpenVINO's counters."""
    return profiled.run_openvino(net, tmp_path_factory.mktemp("openvino"), 1)


@pytest.fixture(scope="module")
def onnxruntime_run(net, tmp_path_factory):
    return profiled.run_onnxruntime(net, tmp_path_factory.mktemp("onnxruntime"), 4)


def report_of(model, path, *options) -> dict:
    report = command.run_json("profile", model, "--profile", path, *options)
    PROFILE.validate(report)
    return report


def rows_of(report: dict) -> dict[str, dict]:
    return {row["path"]: row for row in report["modules"]}


# ---- OpenVINO -----------------------------------------------------------------------------------------------------

def test_openvino_times_equal_counters(net, openvino_run):
    path, counters = openvino_run
    report = report_of(net, path)
    ran = {each.node_name: round(each.real_time.total_seconds() * 1e6) for each in counters
           if str(each.status) == "Status.EXECUTED"}
    assert {node["name"]: node["time"] for node in report["nodes"]} == ran and len(ran) >= 4
    assert (report["source"], report["unit"], report["averaged"], report["run_time"]) == (
        "openvino", "microseconds", True, None)
    assert report["operator_time"] == sum(ran.values())
    assert sum(row["own"] for row in report["modules"]) == report["operator_time"] - report["unattributed"]


def test_openvino_layers_belong_to_their_nodes_modules(net, openvino_run):
    """A layer belongs to the common ancestor of its nodes' modules, and possibly to each of these modules."""
    path, _ = openvino_run
    modules = profiled.modules_of(net)
    own, possible = defaultdict(int), defaultdict(int)
    listed = 0
    for layer in ElementTree.parse(path).getroot().find("layers"):
        data = layer.find("data")
        names = [name.removesuffix("/WithoutBiases") for name in data.get("originalLayersNames").split(",")]
        parts = {modules[name] for name in names if name in modules}
        if not parts or data.get("execTimeMcs") == "not_executed":
            continue
        listed += 1
        paths = [part.split(".") if part else [] for part in parts]
        common = next(n for n in range(len(paths[0]), -1, -1) if all(each[:n] == paths[0][:n] for each in paths))
        own[".".join(paths[0][:common])] += int(data.get("execTimeMcs"))
        for module in {".".join(each[:n]) for each in paths for n in range(common + 1, len(each) + 1)}:
            possible[module] += int(data.get("execTimeMcs"))
    assert listed >= 2 and any(module.endswith(".act") for module in possible)
    report = report_of(net, path)
    named = {row["path"]: row["own"] for row in report["modules"]}
    for node in report["nodes"]:
        if node["rule"] != "listed":
            named[node["module"]] -= node["time"]
    assert {module: time for module, time in named.items() if time} == {m: time for m, time in own.items() if time}
    for module, time in possible.items():
        row = rows_of(report)[module]
        assert row["at_most"] == row["total"] + time
    text = command.run("profile", net, "--profile", path).stdout
    assert "an average run" in text and "at most" in text and "and of others'" in text


def test_parts_of_a_decomposed_operator_are_found_by_neighbours(net, openvino_run):
    """OpenVINO computes the model's two norms in layers such as "MVN_8", which do not mention LayerNormalization."""
    path, _ = openvino_run
    nodes = [node for node in report_of(net, path)["nodes"] if node["op_type"] == "MVN"]
    norms = ["blocks.0.norm", "blocks.1.norm"]
    # OpenVINO reports layers of less than half a microsecond as not executed; sometimes the second norm is one of them.
    assert nodes and [node["module"] for node in nodes] == norms[:len(nodes)]
    assert {node["rule"] for node in nodes} == {"between"}


def test_openvino_names_outputs_after_tensors(net, tmp_path):
    """The last Softmax has the name of its tensor, "output". benchmark_app's table has only the names of layers."""
    path = profiled.run_benchmark_app(net, tmp_path)
    report = report_of(net, path)
    with open(path, newline="") as file:
        table = [row for row in csv.reader(file, delimiter=";") if row]
    ran = {row[0]: round(float(row[4]) * 1000) for row in table if row[1].endswith("EXECUTED")}
    assert {node["name"]: node["time"] for node in report["nodes"]} == ran
    assert report["source"] == "openvino-counters" and "output" in ran
    found = {node["name"]: node["module"] for node in report["nodes"]}
    assert found["output"] == profiled.modules_of(net)["output"]
    assert found["/blocks.0/Add"] == "blocks.0"
    assert report["operator_time"] == pytest.approx(1000 * float(table[-1][4]), abs=len(ran))


# ---- ONNX Runtime: memory, warm-up, threads -----------------------------------------------------------------------

def test_memory_is_summed_by_module(net, tmp_path):
    """The sizes come from the profile; the expected sizes of outputs follow from the shapes."""
    path, _ = profiled.run_onnxruntime(net, tmp_path, 2)
    events = [event for event in json.loads(path.read_text()) if event["cat"] == "Node"]
    report = report_of(net, path)
    modules = profiled.modules_of(net)
    outputs = {}
    for event in events:
        name = event["name"].removesuffix("_kernel_time")
        outputs[name] = max(outputs.get(name, 0), int(event["args"]["output_size"]))
    assert {node["name"]: node["memory"]["outputs"] for node in report["nodes"]} == outputs
    up = next(node for node in report["nodes"] if node["name"] == "/blocks.0/up/Gemm")
    assert up["memory"]["outputs"] == 8 * 256 * 4
    assert up["memory"]["parameters"] == 256 * 4  # ONNX Runtime does not count a weight that it has packed
    sums = profiled.subtree_sums({module: sum(size for name, size in outputs.items() if modules.get(name) == module)
                             for module in set(modules.values())})
    assert rows_of(report)["blocks.1"]["memory"]["outputs"] == sums["blocks.1"] > 0
    peaks = [node["memory"]["peak"] for node in report["nodes"]]
    assert max(peaks) == max(int(event["args"]["mem_in_use_peak"]) for event in events)
    assert max(peaks) > min(peaks)
    text = command.run("profile", net, "--profile", path, "--memory").stdout
    assert "peak bytes" in text and "peak bytes" not in command.run("profile", net, "--profile", path).stdout


def test_onnxruntimes_memory_table_is_read(net, tmp_path):
    profiled.run_onnxruntime(net, tmp_path, 1, session__collect_node_memory_stats_to_file=str(tmp_path / "memory.csv"))
    with open(tmp_path / "memory.csv", newline="") as file:
        table = list(csv.DictReader(file))
    sizes = ("initializers_sizes", "total_dynamic_sizes", "total_temp_allocations")
    report = report_of(net, tmp_path / "memory.csv")
    assert (report["unit"], report["source"]) == ("bytes", "onnxruntime-memory")
    assert report["operator_time"] == sum(int(row[size]) for row in table for size in sizes)
    assert sorted(node["name"] for node in report["nodes"]) == sorted(
        row["#name"].rpartition("_")[0] for row in table)
    assert {node["module"] for node in report["nodes"]} >= {"blocks.0.up", "head"}
    assert "bytes in" in command.run("profile", net, "--profile", tmp_path / "memory.csv").stdout


def test_onnxruntimes_assignment_of_providers_is_read(net, tmp_path):
    """Runs the lines in docs/profile.md."""
    lines = (command.ROOT / "docs" / "profile.md").read_text().split("```python\n")[1].split("```")[0]
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = onnxruntime.InferenceSession(str(net), options, providers=["CPUExecutionProvider"])
    with contextlib.chdir(tmp_path):
        exec(lines, {"session": session, "json": json, "pathlib": pathlib})
    placed = [node.name for part in session.get_provider_graph_assignment_info() for node in part.get_nodes()]
    report = report_of(net, tmp_path / "providers.json")
    assert (report["unit"], report["source"]) == ("nodes", "onnxruntime-providers")
    assert [node["name"] for node in report["nodes"]] == placed and report["operator_time"] == len(placed) > 5
    assert rows_of(report)["blocks.0.up"]["providers"] == {"CPUExecutionProvider": 1}


def test_providers_are_counted_by_module(net, tmp_path):
    """Two nodes run on one provider and one node on another. Nodes that the list lacks are not counted."""
    parts = [{"provider": "CUDAExecutionProvider", "nodes": [{"name": "/blocks.0/up/Gemm", "op_type": "Gemm"},
                                                             {"name": "/head/Gemm", "op_type": "Gemm"}]},
             {"provider": "CPUExecutionProvider", "nodes": [{"name": "/blocks.0/act/Gelu", "op_type": "Gelu"}]}]
    (tmp_path / "p.json").write_text(json.dumps(parts))
    rows = rows_of(report_of(net, tmp_path / "p.json"))
    assert rows["blocks.0"]["providers"] == {"CUDAExecutionProvider": 1, "CPUExecutionProvider": 1}
    assert rows["head"]["providers"] == {"CUDAExecutionProvider": 1}
    text = command.run("profile", net, "--profile", tmp_path / "p.json").stdout
    line = next(line for line in text.splitlines() if "(root)" in line)
    assert "CPU 33.3 %, CUDA 66.7 %" in line and "3 nodes in 3 operators" in text


@pytest.mark.parametrize("options, run_counts", [([], (3, 1)), (["--warmup", "0"], (4, 0)), (["--warmup", "3"], (1, 3))])
def test_warmup_runs_are_excluded(net, onnxruntime_run, options, run_counts):
    path, _ = onnxruntime_run
    events = json.loads(path.read_text())
    runs = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event["name"] == "model_run")
    begin = runs[run_counts[1]][0]
    report = report_of(net, path, *options)
    assert (report["runs"], report["warmup_runs"]) == run_counts
    assert report["operator_time"] == sum(event["dur"] for event in events
                                          if event["cat"] == "Node" and event["ts"] >= begin)
    assert report["run_time"] == sum(end - start for start, end in runs[run_counts[1]:])
    mentions_warmup = "warm-up" in command.run("profile", net, "--profile", path, *options).stdout
    assert mentions_warmup == (run_counts[1] > 0)


def union(events: list[dict]) -> int:
    """Returns the microseconds in which at least one of the events ran."""
    covered, end = 0, -1
    for event in sorted(events, key=lambda event: event["ts"]):
        covered += max(0, event["ts"] + event["dur"] - max(end, event["ts"]))
        end = max(end, event["ts"] + event["dur"])
    return covered


def test_operators_on_several_threads_count_once_in_wall_time(tmp_path):
    """Two threads run one session at the same time."""
    nodes = []
    for i, module in enumerate(["pair.first", "pair.second", ""]):
        nodes.append(helper.make_node("MatMul", [nodes[-1].output[0] if nodes else "x", "x"], [f"v{i}"], name=f"/node{i}x"))
        view_files.add_keys(nodes[-1], module=module, confidence="exact", call="0")
    model = view_files.save(nodes, tmp_path / "m.onnx", (384, 384))
    path, _ = profiled.run_onnxruntime(model, tmp_path, 41, callers=2)
    events = json.loads(path.read_text())
    begin = sorted(event["ts"] for event in events if event["name"] == "model_run")[1]
    ran = [event for event in events if event["cat"] == "Node" and event["ts"] >= begin]
    assert len({event["tid"] for event in ran}) == 2 and union(ran) < sum(event["dur"] for event in ran)
    report = report_of(model, path)
    assert (report["runs"], report["warmup_runs"]) == (80, 1)
    assert (report["operator_wall"], report["operator_time"]) == (union(ran), sum(event["dur"] for event in ran))
    pair = [event for event in ran if not event["name"].startswith("/node2x")]
    assert rows_of(report)["pair"]["wall"] == union(pair)
    assert rows_of(report)["pair"]["total"] == sum(event["dur"] for event in pair)
    assert "wall ms" in command.run("profile", model, "--profile", path).stdout


# ---- two profiles -------------------------------------------------------------------------------------------------

def test_onnxruntime_is_compared_with_openvino(net, onnxruntime_run, openvino_run):
    """Each side has the values of its own profile, per run. A verdict requires ranges that do not overlap."""
    (first, saved), (second, _) = onnxruntime_run, openvino_run
    report = command.run_json("profile", net, "--profile", first, "--optimized", saved, "--against", second)
    COMPARISON.validate(report)
    sides = {"first": report_of(net, first, "--optimized", saved), "second": report_of(net, second)}
    assert [report[side]["source"] for side in sides] == ["onnxruntime", "openvino"]
    changes = set()
    for row in report["modules"]:
        low, high = {}, {}
        for side, single in sides.items():
            module, runs = rows_of(single)[row["path"]], single["runs"]
            for key in ("own", "total", "at_most"):
                assert row[side][key] == pytest.approx(module[key] / runs)
            low[side], high[side] = module["total"] / runs, (module["at_most"] + single["unattributed"]) / runs
        expected = ("faster" if high["second"] < low["first"] else "slower" if low["second"] > high["first"] else
                    "same" if low == high and low["first"] == low["second"] else "unclear")
        assert row["change"] == expected, row
        changes.add(expected)
    assert "unclear" in changes and changes & {"faster", "slower"}
    text = command.run("profile", net, "--profile", first, "--optimized", saved, "--against", second).stdout
    assert "A: onnxruntime ms" in text and "B: openvino ms" in text and "unclear" in text


def test_a_profile_against_itself_is_equal(net, onnxruntime_run):
    path, saved = onnxruntime_run
    report = command.run_json("profile", net, "--profile", path, "--optimized", saved, "--against", path,
                              "--against-optimized", saved)
    assert report["first"] == report["second"]
    assert all(row["first"] == row["second"] and row["change"] in ("same", "unclear") for row in report["modules"])
    assert rows_of(report)[""]["change"] == "same"


def test_incomparable_profiles_are_refused(net, onnxruntime_run, tmp_path):
    path, _ = onnxruntime_run
    (tmp_path / "memory.csv").write_text("#name,input_sizes,initializers_sizes,total_dynamic_sizes,"
                                         "total_temp_allocations\n/head/Gemm_77,1,2,3,4\n")
    error = command.run("profile", net, "--profile", path, "--against", tmp_path / "memory.csv", code=2).stderr
    assert error.startswith("E0101") and "microseconds" in error and "bytes" in error
    assert "text or json" in command.run("profile", net, "--profile", path, "--against", path, "--format",
                                         "speedscope", code=2).stderr


# ---- traces -------------------------------------------------------------------------------------------------------

def slices(path) -> list[dict]:
    trace = json.loads(path.read_text())
    assert {event["ph"] for event in trace["traceEvents"]} == {"X", "M"}
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def enclosing(events: list[dict]) -> dict[int, list[dict]]:
    """Maps the number of each slice to the enclosing slices on its track, outermost first. Asserts that any two slices
    nest or are disjoint."""
    parents = {}
    for track in sorted({(event["pid"], event["tid"]) for event in events}):
        numbers = [i for i, event in enumerate(events) if (event["pid"], event["tid"]) == track]
        kinds = {"module": 0, "operator": 1}
        numbers.sort(key=lambda i: (events[i]["ts"], -events[i]["dur"], kinds[events[i]["cat"]],
                                    len(events[i]["args"]["module"] or "")))
        open_slices = []
        for i in numbers:
            start, end = events[i]["ts"], events[i]["ts"] + events[i]["dur"]
            while open_slices and open_slices[-1]["ts"] + open_slices[-1]["dur"] <= start:
                open_slices.pop()
            assert not open_slices or end <= open_slices[-1]["ts"] + open_slices[-1]["dur"]
            parents[i] = list(open_slices)
            open_slices.append(events[i])
    return parents


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_a_trace_nests_operators_in_their_modules(net, onnxruntime_run, openvino_run, runtime, tmp_path):
    path = {"onnxruntime": onnxruntime_run, "openvino": openvino_run}[runtime][0]
    command.run("profile", net, "--profile", path, "--trace", tmp_path / "trace.json")
    events, report = slices(tmp_path / "trace.json"), report_of(net, path)
    operators = [event for event in events if event["cat"] == "operator"]
    assert sum(event["dur"] for event in operators) == report["operator_time"]
    assert len(operators) == sum(node["count"] for node in report["nodes"])
    parents = enclosing(events)
    checked = 0
    for i, event in enumerate(events):
        module = event["args"]["module"]
        if event["cat"] != "operator" or module is None or event["dur"] == 0:
            continue
        parts = module.split(".") if module else []
        assert [each["args"]["module"] for each in parents[i]] == [".".join(parts[:n]) for n in range(len(parts) + 1)]
        checked += 1
    assert checked >= 4


def test_a_trace_has_threads_and_subgraphs(tmp_path):
    """An operator in a branch is inside the If, and each thread has its own track."""
    inner = helper.make_graph([helper.make_node("Exp", ["x"], ["t"], name="exp")], "t", [],
                              [helper.make_tensor_value_info("t", onnx.TensorProto.FLOAT, None)])
    nodes = [helper.make_node("If", ["c"], ["v"], name="if", then_branch=inner, else_branch=inner),
             helper.make_node("Neg", ["v"], ["y"], name="neg")]
    for node, module in ((nodes[0], "outer"), (nodes[1], "other")):
        view_files.add_keys(node, module=module, confidence="exact", call="0")
    for attribute in nodes[0].attribute:
        view_files.add_keys(attribute.g.node[0], module="outer.inner", confidence="exact", call="0")
    model = view_files.save(nodes, tmp_path / "m.onnx")
    event = {"cat": "Session", "pid": 1, "tid": 1, "ts": 0, "dur": 100, "ph": "X", "name": "model_run", "args": {}}

    def kernel(name, op, ts, dur, tid):
        return {**event, "cat": "Node", "name": f"{name}_kernel_time", "ts": ts, "dur": dur, "tid": tid,
                "args": {"op_name": op, "provider": "CPUExecutionProvider"}}

    (tmp_path / "p.json").write_text(json.dumps([kernel("exp", "Exp", 12, 20, 1), kernel("if", "If", 10, 40, 1),
                                                 kernel("neg", "Neg", 20, 50, 2), event]))
    command.run("profile", model, "--profile", tmp_path / "p.json", "--trace", tmp_path / "t.json", "-o", tmp_path / "o")
    events = slices(tmp_path / "t.json")
    parents = {event["args"].get("node"): [each["name"] for each in above] for event, above in
               ((events[i], above) for i, above in enclosing(events).items()) if event["cat"] == "operator"}
    assert parents == {"if": ["model", "outer"], "exp": ["model", "outer", "If", "inner"], "neg": ["model", "other"]}
    assert {event["tid"] for event in events if event["name"] == "other"} == {2}
    report = report_of(model, tmp_path / "p.json")
    assert (report["operator_time"], report["operator_wall"]) == (90, 60)  # 10 to 50 and 20 to 70
    assert (tmp_path / "o").read_text() == command.run("profile", model, "--profile", tmp_path / "p.json").stdout
    assert np.isclose(rows_of(report)["outer"]["share"], 40 / 90)
