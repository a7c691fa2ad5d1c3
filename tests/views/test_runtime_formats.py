"""Tests `whence profile` on handwritten files in the formats of TensorRT, QNN and ONNX Runtime's plugin providers, which
cannot run here, and on broken files of every format."""

import json

import pytest
from onnx import helper

import command
from views import profiled, view_files

PROFILE = profiled.schema("profile")
# The module of each node. The nodes form a chain; "/head/Softmax" computes the output "y".
NODES = {"/enc/layer.0/attn/MatMul": "enc.layer.0.attn", "/enc/layer.0/attn/Add": "enc.layer.0.attn",
         "/enc/layer.0/act/Gelu": "enc.layer.0.act", "/enc/layer.1/attn/MatMul": "enc.layer.1.attn",
         "/enc/layer.1/act/Gelu": "enc.layer.1.act", "/head/MatMul": "head", "/head/Softmax": "head"}
A, B, C, D, E, F, G = NODES


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    nodes = []
    for i, (name, module) in enumerate(NODES.items()):
        op = name.rpartition("/")[2]
        inputs = [f"v{i - 1}" if i else "x"] * (2 if op in ("MatMul", "Add") else 1)
        nodes.append(helper.make_node(op, inputs, ["y" if name == G else f"v{i}"], name=name))
        view_files.add_keys(nodes[-1], module=module, confidence="exact", call="0")
    return view_files.save(nodes, tmp_path_factory.mktemp("chain") / "m.onnx")


def report_of(model, folder, **files) -> dict:
    """Writes the files under these names and returns the report on them."""
    options = []
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
        options += ["--profile", folder / name]
    report = command.run_json("profile", model, *options)
    PROFILE.validate(report)
    return report


def node_modules(report: dict) -> dict[str, tuple]:
    return {node["name"]: (node["module"], sorted(node.get("parts", []))) for node in report["nodes"]}


# ---- TensorRT -----------------------------------------------------------------------------------------------------

def trt(*layers: str) -> list[dict]:
    """Returns a profile of ten runs in which the first layer takes 1 ms per run, the second 2 ms, and so on."""
    return [{"count": 10}, *({"name": name, "timeMs": 10.0 * (i + 1), "averageMs": i + 1.0, "medianMs": i + 1.0,
                              "percentage": 1.0} for i, name in enumerate(layers))]


WITHIN_1 = ["enc.layer.1.act", "enc.layer.1.attn"]
ACROSS = ["enc.layer.0.act", "enc.layer.0.attn", "enc.layer.1.attn"]


@pytest.mark.parametrize("name, module, parts", [
    (A, "enc.layer.0.attn", []),
    (f"{A} + {B}", "enc.layer.0.attn", []),
    (f"{B} + {C}", "enc.layer.0", ["enc.layer.0.act", "enc.layer.0.attn"]),
    (f"{A} || {D}", "enc.layer", ["enc.layer.0.attn", "enc.layer.1.attn"]),
    (f"PWN({C})", "enc.layer.0.act", []),
    (f"PWN(PWN({C}), {E})", "enc.layer", ["enc.layer.0.act", "enc.layer.1.act"]),
    (f"{D} + PWN({E})", "enc.layer.1", WITHIN_1),
    (f"PWN((Unnamed Layer* 286) [Shuffle] + {E}, {D})", "enc.layer.1", WITHIN_1),
    (f"{{ForeignNode[{D}...{E}]}}", "enc.layer.1", WITHIN_1),
    (f"{{ForeignNode[{A}...{D}]}}", "enc.layer", ACROSS),
    (f"{{ForeignNode[{A}...{B} + (Unnamed Layer* 4) [Shuffle]]}}", "enc.layer.0.attn", []),
    (f"{{ForeignNode[ONNXTRT_ShapeShuffle_3_output[Constant]...{B}]}}", "enc.layer.0.attn", []),
    (f"{{ForeignNode[{F}]}}", "head", []),
    (f"Reformatting CopyNode for Input Tensor 0 to {D} + PWN({E})", "enc.layer.1", WITHIN_1),
    (f"Reformatting CopyNode for Output Tensor 0 to {{ForeignNode[{D}...{E}]}}", "enc.layer.1", WITHIN_1),
    ("v2 copy", "enc.layer.0.act", []),
    ("/enc/layer_1/attn/MatMul_myl109_2", "enc.layer.1.attn", []),
    ("y", "head", []),
    ("__myl_MulMaxSubExpSum_myl109_3", None, []),
    ("Reformatting CopyNode for Network Input x", None, []),
    ("(Unnamed Layer* 52) [Shuffle]", None, []),
])
def test_tensorrts_layer_names_are_parsed(model, tmp_path, name, module, parts):
    report = report_of(model, tmp_path, profile=trt(F, name))
    assert node_modules(report)[name] == (module, parts)
    assert (report["source"], report["runs"], report["warmup_runs"]) == ("tensorrt", 10, 0)
    assert report["operator_time"] == 30_000 and report["unattributed"] == (0 if module is not None else 20_000)


def test_modules_have_a_certain_and_a_maximum_time(model, tmp_path):
    """The layers take 1, 2 and 3 ms."""
    report = report_of(model, tmp_path, profile=trt(A, f"{B} + {C}", f"{{ForeignNode[{C}...{D}]}}"))
    rows = {row["path"]: (row["total"], row["at_most"]) for row in report["modules"]}
    assert rows == {"": (60_000, 60_000), "enc": (60_000, 60_000), "enc.layer": (60_000, 60_000),
                    "enc.layer.0": (30_000, 60_000), "enc.layer.0.attn": (10_000, 30_000),
                    "enc.layer.0.act": (0, 50_000), "enc.layer.1": (0, 30_000), "enc.layer.1.attn": (0, 30_000),
                    "enc.layer.1.act": (0, 0), "head": (0, 0)}
    text = command.run("profile", model, "--profile", tmp_path / "profile").stdout
    assert "at most" in text and "10 runs, 6.000 ms each in 3 operators" in text


def layer(name: str, *nodes: str, separator="\x1f") -> dict:
    return {"Name": name, "LayerType": "kgen", "Inputs": [], "Outputs": [],
            "Metadata": separator.join(f"[ONNX Layer: {node}]" for node in nodes)}


# What trtexec writes next to "Layers", and the tensors of each layer, up to TensorRT 10 and in TensorRT 11.
FORMS = {
    "10": ({"Bindings": ["x", "y"]}, [{"Name": "x", "Dimensions": [1, 4], "Format/Datatype": "Row major linear FP32"}]),
    "11": ({"I/O Tensors": [{"Name": "x", "IOMode": "Input", "DataType": "Float", "Dimensions": [1, 4],
                             "Location": "Device", "IsShapeInferenceIO": False, "ProfileInfo": []}]},
           [{"Name": "x", "Dimensions": [1, 4], "Format": "Row major linear FP32 format (kLINEAR)", "DataType": "Float"}]),
}


@pytest.mark.parametrize("version", FORMS)
def test_layer_information_lists_the_nodes_of_a_layer(model, tmp_path, version):
    beside, tensors = FORMS[version]
    names = ["__myl_Fused_myl0_1", "__myl_Two_myl0_2", f"{{ForeignNode[{A}...{E}]}}", "__myl_Cut_myl0_4", F]
    information = {"Layers": [
        layer(names[0], A, B), layer(names[1], A, C, separator="\x1e"), layer(names[2], D, f"{E} | Local Function: Block"),
        {**layer(names[3], A), "Metadata": f"[ONNX Layer: {A}]\x1f[ONNX Layer: {'n' * 1990} ... {'m' * 1990}]"},
        {**layer(names[4]), "Inputs": tensors, "Outputs": tensors}], **beside}
    report = report_of(model, tmp_path, profile=trt(*names), layers=information)
    found = node_modules(report)
    assert found[names[0]] == ("enc.layer.0.attn", [])
    assert found[names[1]] == ("enc.layer.0", ["enc.layer.0.act", "enc.layer.0.attn"])
    assert found[names[2]] == ("enc.layer.1", WITHIN_1)  # fewer nodes than the region in the name
    assert found[names[3]] == ("", ["", "enc.layer.0.attn"])  # TensorRT truncated the list, so any module is possible
    assert found[names[4]] == ("head", [])
    assert {node["op_type"] for node in report["nodes"]} == {"kgen"}
    without_layers = node_modules(report_of(model, tmp_path, profile=trt(*names)))
    assert without_layers[names[0]] == (None, [])


def test_layer_information_may_contain_only_names(model, tmp_path):
    report = report_of(model, tmp_path, layers={"Layers": [A, f"{D} + {E}"]}, profile=trt(A, f"{D} + {E}"))
    assert node_modules(report) == {A: ("enc.layer.0.attn", []), f"{D} + {E}": ("enc.layer.1", WITHIN_1)}


# ---- QNN ----------------------------------------------------------------------------------------------------------

HEADER = "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier"


def qnn(*runs: dict[str, int], unit="CYCLES", sources=None) -> str:
    """Returns a detailed profile from the time of each operator in each run."""
    lines = [HEADER + (",ONNX Source Ops" if sources else "")]
    for run in runs:
        lines.append("0,ROOT,1000,CYCLES,BACKEND,ROOT,Accelerator (execute) time (cycles)" + ("," if sources else ""))
        for i, (name, time) in enumerate(run.items()):
            more = "," + ";".join(sources[name]) if sources else ""
            lines.append(f'{i},NODE,{time},{unit},BACKEND,SUB-EVENT,"{name}:OpId_{i} ({unit.lower()})"{more}')
    return "\n".join(lines) + "\n"


def test_qnn_lists_source_operators(model, tmp_path):
    sources = {"Conv_1": [A, B], "Gelu_7": [C, D], "other": []}
    runs = [{"Conv_1": 900, "Gelu_7": 700, "other": 5}, {"Conv_1": 100, "Gelu_7": 50, "other": 5},
            {"Conv_1": 110, "Gelu_7": 60, "other": 5}]
    report = report_of(model, tmp_path, profile=qnn(*runs, sources=sources))
    assert (report["source"], report["unit"], report["runs"], report["warmup_runs"]) == ("qnn", "cycles", 2, 1)
    assert node_modules(report) == {"Conv_1": ("enc.layer.0.attn", []), "other": (None, []),
                                "Gelu_7": ("enc.layer", ["enc.layer.0.act", "enc.layer.1.attn"])}
    assert {node["name"]: node["time"] for node in report["nodes"]} == {"Conv_1": 210, "Gelu_7": 110, "other": 10}
    assert "cycles a run" in command.run("profile", model, "--profile", tmp_path / "profile").stdout


def test_qnns_trace_completes_the_table(model, tmp_path):
    trace = {"schema_version": 2, "model_name": "m", "subgraph_traces": [{"graph_name": "g", "tensor_mappings": [],
             "op_mappings": [
                 {"dst_name": "Conv_1", "dst_qnn_op_type": "MatMul", "node_group_type": "OrtNodeUnit",
                  "sources": [{"name": A, "type": "OP"}, {"name": "v0", "type": "TENSOR"}, {"name": B, "type": "OP"}]},
                 {"dst_name": "Fused_2", "dst_qnn_op_type": "Gelu", "sources": [{"name": "optimised", "type": "OP"}],
                  "original_sources": [{"name": E, "type": "OP"}]}]}], "unsupported_nodes": []}
    report = report_of(model, tmp_path, profile=qnn({"Conv_1": 7, "Fused_2": 3}, unit="US"), trace=trace)
    assert node_modules(report) == {"Conv_1": ("enc.layer.0.attn", []), "Fused_2": ("enc.layer.1.act", [])}
    assert [node["op_type"] for node in report["nodes"]] == ["MatMul", "Gelu"]
    assert (report["unit"], report["operator_time"], report["warmup_runs"]) == ("microseconds", 10, 0)


# ---- ONNX Runtime's plugin providers ------------------------------------------------------------------------------

def ort_event(category: str, name: str, start: int, duration: int, **arguments) -> dict:
    return {"cat": category, "pid": 1, "tid": 1, "ts": start, "dur": duration, "ph": "X", "name": name, "args": arguments}


def ort_run(start: int, *events: dict) -> list[dict]:
    return [ort_event("Session", "model_run", start, 100), *({**each, "ts": each["ts"] + start} for each in events)]


def compiled(number: int, start: int, duration: int) -> dict:
    return ort_event("Node", f"Mine_sub_{number}_{number}_kernel_time", start, duration, provider="Mine",
                     op_name=f"sub_{number}")


def part(number: int, name: str, start: int, duration: int) -> dict:
    return {**ort_event("Kernel", name, start, duration, ep="Mine",
                        parent_ort_event_name=f"Mine_sub_{number}_{number}_kernel_time"), "pid": -1, "tid": 77}


def providers(*parts: list[str]) -> list[dict]:
    return [{"provider": "Mine", "nodes": [{"name": name, "op_type": "Op"} for name in names]} for names in parts]


def times_of(report: dict) -> dict[str, int]:
    return {node["name"]: node["time"] for node in report["nodes"]}


CPU_NODE = ort_event("Node", f"{E}_kernel_time", 80, 8, provider="CPUExecutionProvider", op_name="Gelu")


def test_parts_of_a_compiled_operator_are_subtracted_from_it(model, tmp_path):
    warmup = ort_run(0, compiled(0, 10, 60), part(0, f"X::{A}", 10, 30))
    counted = ort_run(200, compiled(0, 10, 50), part(0, f"X::{A}", 10, 20), part(0, "y", 30, 10), part(0, "own_7", 40, 5),
                      CPU_NODE)
    report = report_of(model, tmp_path, run=warmup + counted)
    assert times_of(report) == {"Mine_sub_0_0": 15, A: 20, "y": 10, "own_7": 5, E: 8}
    assert node_modules(report) == {"Mine_sub_0_0": (None, []), A: ("enc.layer.0.attn", []), "y": ("head", []),
                                    "own_7": (None, []), E: ("enc.layer.1.act", [])}
    assert (report["operator_time"], report["unattributed"]) == (58, 20)
    listed = report_of(model, tmp_path, run=warmup + counted, providers=providers([A, G]))
    together = ("", ["enc.layer.0.attn", "head"])
    assert node_modules(listed) == {**node_modules(report), "Mine_sub_0_0": together, "own_7": together}
    assert listed["unattributed"] == 0
    assert "proportion" not in command.run("profile", model, "--profile", tmp_path / "run").stderr


def test_parts_that_take_longer_than_their_operator_are_scaled(model, tmp_path):
    run = ort_run(0, compiled(0, 10, 50), part(0, A, 10, 40), part(0, F, 12, 60))
    assert times_of(report_of(model, tmp_path, run=run)) == {"Mine_sub_0_0": 0, A: 20, F: 30}
    assert "proportion" in command.run("profile", model, "--profile", tmp_path / "run").stderr


def test_compiled_operators_are_told_apart_by_their_parts(model, tmp_path):
    both = providers([A, B], [F, G])
    with_parts = ort_run(0, compiled(0, 10, 20), part(0, A, 10, 5), compiled(1, 40, 20), part(1, G, 40, 5))
    found = node_modules(report_of(model, tmp_path, run=with_parts, providers=both))
    assert (found["Mine_sub_0_0"], found["Mine_sub_1_1"]) == (("enc.layer.0.attn", []), ("head", []))
    without = ort_run(0, compiled(0, 10, 20), compiled(1, 40, 20))
    found = node_modules(report_of(model, tmp_path, run=without, providers=both))
    assert list(found.values()) == 2 * [("", ["enc.layer.0.attn", "head"])]


def test_a_compiled_operator_in_a_loop_is_counted_once(model, tmp_path):
    loop = ort_event("Node", f"{B}_kernel_time", 5, 70, provider="CPUExecutionProvider", op_name="Loop")
    run = ort_run(0, loop, compiled(0, 10, 50), part(0, A, 10, 20))
    report = report_of(model, tmp_path, run=run)
    assert times_of(report) == {B: 20, "Mine_sub_0_0": 30, A: 20} and report["operator_time"] == 70


def test_a_compiled_operator_needs_the_list_of_providers(model, tmp_path):
    (tmp_path / "run").write_text(json.dumps(ort_run(0, compiled(0, 10, 50))))
    error = command.run("profile", model, "--profile", tmp_path / "run", code=3).stderr
    assert error.startswith("E0206") and "list of providers" in error
    (tmp_path / "providers").write_text(json.dumps(providers(["another"])))
    error = command.run("profile", model, "--profile", tmp_path / "run", "--profile", tmp_path / "providers", code=3).stderr
    assert error.startswith("E0206")


# ---- broken files -------------------------------------------------------------------------------------------------

XML = ('<?xml version="1.0"?>\n<net name="n" version="11"><layers><layer id="0" name="{name}" type="MatMul">'
       '<data execOrder="0" execTimeMcs="{time}" originalLayersNames="{name}"/></layer></layers>'
       '<edges>{edges}</edges></net>')
COUNTERS = "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n"
MEMORY = "#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations\n"
NESTED = "PWN(" * 3000 + A
BROKEN = {
    "xml, truncated": (XML.format(name=A, time=5, edges="")[:150], "E0202"),
    "xml, truncated in a tag": (XML.format(name=A, time=5, edges="")[:-3], "E0202"),
    "xml, two roots": (XML.format(name=A, time=5, edges="") + "<net/>", "E0204"),
    "xml, other tags": ("<net><b></c></net>", "E0204"),
    "xml, not a model": ("<html><body/></html>", "E0203"),
    "xml, no times": (XML.format(name=A, time="not_executed", edges=""), "E0203"),
    "xml, invalid number": (XML.format(name=A, time="many", edges=""), "E0204"),
    "xml, time overflow": (XML.format(name=A, time=2 ** 60, edges=""), "E0204"),
    "xml, edge to nowhere": (XML.format(name=A, time=5, edges='<edge from-layer="0" to-layer="9"/>'), "E0204"),
    "xml, entities": ('<!DOCTYPE net [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]>' +
                      XML.format(name="&b;", time=5, edges=""), "E0203"),
    "xml, another model": (XML.format(name="/other/MatMul", time=5, edges=""), "E0206"),
    "counters, truncated": (COUNTERS + f"{A};EXECUTED;MatMul;ref;0.5;0.5\n", "E0202"),
    "counters, invalid number": (COUNTERS + f"{A};EXECUTED;MatMul;ref;half;0.5\nTotal;;;;1;1\n", "E0204"),
    "counters, short row": (COUNTERS + f"{A};EXECUTED\nTotal;;;;1;1\n", "E0204"),
    "counters, negative": (COUNTERS + f"{A};EXECUTED;MatMul;ref;-1;0.5\nTotal;;;;1;1\n", "E0204"),
    "counters, nothing ran": (COUNTERS + f"{A};NOT_RUN;MatMul;ref;0;0\nTotal;;;;0;0\n", "E0203"),
    "memory, empty": (MEMORY, "E0202"),
    "memory, short row": (MEMORY + f"{A}_77,1,2\n", "E0204"),
    "memory, overflow": (MEMORY + f"{A}_77,1,{2 ** 52},{2 ** 52},0\n", "E0204"),
    "providers, no node": (json.dumps([{"provider": "CPU", "nodes": []}]), "E0203"),
    "tensorrt, no count": (json.dumps(trt(A)[1:]), "E0204"),
    "tensorrt, no time": (json.dumps([{"count": 1}, {"name": A, "timeMs": None}]), "E0204"),
    "tensorrt, truncated": (json.dumps(trt(A))[:-1], "E0202"),
    "tensorrt, another model": (json.dumps(trt("conv1", "conv2")), "E0206"),
    "tensorrt, only layers": (json.dumps({"Layers": [A]}), "E0101"),
    "qnn, basic": (HEADER + "\n0,ROOT,4,COUNT,BACKEND,ROOT,Number of HVX threads used\n", "E0203"),
    "qnn, invalid number": (HEADER + "\n0,NODE,x,CYCLES,BACKEND,SUB-EVENT,a:OpId_1 (cycles)\n", "E0204"),
    "qnn, short row": (HEADER + "\n0,NODE,4,CYCLES\n", "E0204"),
    "qnn, open quote": (HEADER + '\n0,NODE,4,CYCLES,BACKEND,SUB-EVENT,"a:OpId_1\n', "E0206"),
    "a table": ("a,b\n1,2\n", "E0203"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(model, tmp_path, name):
    content, code = BROKEN[name]
    (tmp_path / "p").write_text(content)
    exit_code = 2 if code == "E0101" else 3
    error = command.run("profile", model, "--profile", tmp_path / "p", "-o", tmp_path / "out", "--trace",
                        tmp_path / "trace", code=exit_code).stderr
    assert error.startswith(code) and "try:" in error, error
    assert not (tmp_path / "out").exists() and not (tmp_path / "trace").exists()


@pytest.mark.parametrize("files, fragment", [
    ({"a": trt(A), "b": trt(A)}, "--against"),
    ({"a": qnn({A: 5}), "b": {"Layers": [A]}}, "the same runtime"),
    ({"a": trt(A), "b": {"subgraph_traces": []}}, "the same runtime"),
])
def test_files_that_do_not_belong_together_are_refused(model, tmp_path, files, fragment):
    for name, content in files.items():
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    error = command.run("profile", model, "--profile", tmp_path / "a", "--profile", tmp_path / "b", code=2).stderr
    assert error.startswith("E0101") and fragment in error


def test_layers_of_another_engine_are_refused(model, tmp_path):
    (tmp_path / "a").write_text(json.dumps(trt(A)))
    (tmp_path / "b").write_text(json.dumps({"Layers": ["conv1"]}))
    error = command.run("profile", model, "--profile", tmp_path / "a", "--profile", tmp_path / "b", code=3).stderr
    assert error.startswith("E0206") and "engine" in error


def test_deeply_nested_names_are_read(model, tmp_path):
    report = report_of(model, tmp_path, profile=trt(A, NESTED))
    assert node_modules(report)[NESTED] == ("enc.layer.0.attn", [])


@pytest.mark.parametrize("options", [["--warmup", "-1"], ["--warmup", "2"], ["--warmup", "some"]])
def test_invalid_numbers_of_warmup_runs_are_refused(model, tmp_path, options):
    (tmp_path / "p").write_text(qnn({A: 5}, {A: 5}))
    assert command.run("profile", model, "--profile", tmp_path / "p", *options, code=2).stderr.startswith("E0101")


@pytest.mark.parametrize("options", [["--warmup", "1"], ["--against-optimized", "p"]])
def test_options_without_an_effect_are_refused(model, tmp_path, options):
    """TensorRT reports only sums over all runs, and no second profile is passed."""
    (tmp_path / "p").write_text(json.dumps(trt(A)))
    error = command.run("profile", model, "--profile", tmp_path / "p", *options, code=2).stderr
    assert error.startswith("E0101") and options[0].removesuffix("-optimized") in error
    command.run("profile", model, "--profile", tmp_path / "p", "--warmup", "0")


def test_a_profile_is_required(model):
    assert "--profile" in command.run("profile", model, code=2).stderr
