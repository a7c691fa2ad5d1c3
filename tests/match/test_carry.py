"""`whence carry` with real tools and with tools that fail. The sizes of weights identify the modules."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import command
from cli.test_errors import refused
from match.test_annotate_foreign import keys

LAYERS = {8: "first", 12: "blocks.0", 20: "blocks.1", 10: "head"}  # by number of outputs
PYTHON = shlex.quote(sys.executable)

ONNX_RUNTIME = """
import sys, onnxruntime
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
options.optimized_model_filepath = sys.argv[2]
options.log_severity_level = 4
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""
VERSION = """
import sys, onnx, onnx.version_converter
onnx.save(onnx.version_converter.convert_version(onnx.load(sys.argv[1]), 21), sys.argv[2])
"""
# Drops the metadata of nodes, renames them, and inserts an Identity after the graph's first node.
CHANGE = """
import sys, onnx
model = onnx.load(sys.argv[1], load_external_data=False)
for number, node in enumerate(model.graph.node):
    del node.metadata_props[:]
    node.name = f"n{number}"
first = model.graph.node[0]
NAME = f"inserted{len(model.graph.node)}"
for node in model.graph.node[1:]:
    node.input[:] = [NAME if name == first.output[0] else name for name in node.input]
model.graph.node.insert(1, onnx.helper.make_node("Identity", [first.output[0]], [NAME], name="inserted"))
onnx.save(model, sys.argv[-1])
"""
CYCLE = """
import sys, onnx
model = onnx.load(sys.argv[1])
first = model.graph.node[0]
first.input[0] = first.output[0]
onnx.save(model, sys.argv[1])
"""
SCRIPTS = {"cycle": CYCLE, "onnx_runtime": ONNX_RUNTIME, "version": VERSION, "change": CHANGE}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.blocks = nn.ModuleList([nn.Conv2d(8, 12, 3), nn.Conv2d(12, 20, 3)])
        self.head = nn.Linear(20, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        for block in self.blocks:
            x = torch.relu(block(x)) * 2 - 1
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the annotated export net.onnx, the scripts, and data/net.onnx with external weights in w.bin."""
    folder = tmp_path_factory.mktemp("carry")
    torch.manual_seed(3)
    torch.export.save(torch.export.export(Net().eval(), (torch.randn(1, 3, 10, 10),)), folder / "net.pt2")
    command.run("export", folder / "net.pt2", "-o", folder / "net.onnx", "--annotate")
    for name, text in SCRIPTS.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "data").mkdir()
    onnx.save(onnx.load(folder / "net.onnx"), folder / "data" / "net.onnx", save_as_external_data=True, location="w.bin",
              size_threshold=64)
    return folder


def script(folder, name: str) -> list:
    return [sys.executable, folder / f"{name}.py"]


def carry_report(*arguments) -> dict:
    return json.loads(command.run("carry", "--json", *arguments).stdout)


def without_metadata(path) -> bytes:
    """Returns the file without the metadata that annotating adds."""
    model = onnx.load(path)
    for node in model.graph.node:
        del node.metadata_props[:]
    del model.metadata_props[:]
    model.ir_version = 10
    return model.SerializeToString(deterministic=True)


def layers(path) -> dict:
    """Maps each layer, by its number of outputs, to the modules of the nodes that read its weight."""
    model = onnx.load(path)
    sizes = {tensor.name: tensor.dims for tensor in model.graph.initializer if len(tensor.dims) > 1}
    layer_modules = {}
    for node in model.graph.node:
        for name in node.input:
            for size in set(sizes.get(name, ())) & set(LAYERS) if name in sizes else ():
                if node.op_type in ("Conv", "FusedConv", "Gemm", "MatMul") and size in (sizes[name][0], sizes[name][-1]):
                    metadata = keys(node)
                    layer_modules.setdefault(size, set()).update(json.loads(metadata.get("modules", "null")) or [metadata["module"]])
    return layer_modules


TOOLS = ["onnxslim", "onnxsim", "onnx_runtime", "version"]


def command_line(folder, tool: str) -> str:
    program = shutil.which(tool, path=os.path.dirname(sys.executable)) or f"{PYTHON} {folder / tool}.py"
    return f"{program} {{in}} {{out}}"


@pytest.mark.parametrize("tool", TOOLS)
def test_carry_adds_modules_to_the_tools_file(folder, tmp_path, tool):
    tool_file, out = tmp_path / "tool.onnx", tmp_path / "out.onnx"
    before = (folder / "net.onnx").read_bytes()
    report = carry_report(folder / "net.onnx", "-o", out, "--", "sh", "-c",
                              f"{command_line(folder, tool)} && cp {{out}} {tool_file}")
    assert without_metadata(out) == without_metadata(tool_file)
    assert (folder / "net.onnx").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["out.onnx", "tool.onnx"]
    nodes = onnx.load(out).graph.node
    assert report["nodes"] == len(nodes) > 5
    assert report["before"]["exact"] == report["before"]["nodes"] and report["unattributed"] == 0
    assert [keys(node)["confidence"] for node in nodes].count("matched") == report["matched"]
    layer_modules = layers(out)
    assert len(layer_modules) == len(LAYERS)
    assert all(LAYERS[size] in modules for size, modules in layer_modules.items()), layer_modules
    x = np.random.default_rng(0).standard_normal((1, 3, 10, 10)).astype(np.float32)
    results = [onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
               for path in (out, tool_file)]
    assert np.array_equal(*results)


def test_tools_run_in_sequence(folder, tmp_path):
    out = tmp_path / "out.onnx"
    change = [*script(folder, "change"), "{in}", "{out}"]
    report = carry_report(folder / "net.onnx", "-o", out, "--", *change, "--then", *script(folder, "version"),
                              "{in}", "{out}", "--then", *script(folder, "change"), "{in}")
    before = report["before"]["nodes"]
    assert [step["nodes"] for step in report["tools"]] == [before + 1, before + 1, before + 2]
    assert report["tools"][2]["tool"].endswith("change.py {in}") and report["exact"] == 0
    assert {size: modules & {LAYERS[size]} for size, modules in layers(out).items()} == {
        size: {name} for size, name in LAYERS.items()}
    output = command.run("carry", folder / "net.onnx", "-o", out, "--", *change).stdout.splitlines()
    assert output[0].endswith(f"net.onnx: {before} nodes: {before} exact")
    assert output[1].startswith("  ") and output[1].endswith(" s") and output[2].startswith(f"{out}: {before + 1} nodes: ")


@pytest.mark.parametrize("arguments", [["{in}"], ["{in}", "{out}"]], ids=["in place", "to another file"])
@pytest.mark.parametrize("same_folder", [True, False], ids=["same folder", "other folder"])
def test_external_weights_are_copied(folder, tmp_path, arguments, same_folder):
    """The tool either changes a copy, or writes a file that refers to the copy's weights."""
    source = tmp_path / "data"
    shutil.copytree(folder / "data", source)
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    out = (source if same_folder else tmp_path) / "out.onnx"
    command.run("carry", source / "net.onnx", "-o", out, "--", *script(folder, "change"), *arguments)
    assert {name: (source / name).read_bytes() for name in before} == before
    output, original = onnx.load(out), onnx.load(source / "net.onnx")
    first, inserted = (keys(node) for node in output.graph.node[:2])
    assert output.graph.node[1].name == "inserted" and inserted["module"] == first["module"]
    assert json.loads(first["modules"]) == ["first", "norm"]
    located = {entry.value for tensor in onnx.load(out, load_external_data=False).graph.initializer
               for entry in tensor.external_data if entry.key == "location"}
    assert located == {"out.onnx.data"}
    for copied, source_tensor in zip(output.graph.initializer, original.graph.initializer, strict=True):
        assert copied.name == source_tensor.name and np.array_equal(numpy_helper.to_array(copied), numpy_helper.to_array(source_tensor))


def test_inlined_function_calls_get_modules(folder, tmp_path):
    """The tool's file still defines the functions but does not call them."""
    command.run("functions", folder / "net.onnx", "-o", tmp_path / "functions.onnx", "--modules", "head")
    assert [function.name for function in onnx.load(tmp_path / "functions.onnx").functions]
    inline_calls = """
import sys, onnx, onnx.inliner
model = onnx.load(sys.argv[1])
flat = onnx.inliner.inline_local_functions(model)
flat.functions.extend(model.functions)
flat.opset_import.extend(opset for opset in model.opset_import if opset.domain)
onnx.save(flat, sys.argv[2])
"""
    (tmp_path / "inline_calls.py").write_text(inline_calls)
    command.run("carry", tmp_path / "functions.onnx", "-o", tmp_path / "out.onnx", "--", *script(tmp_path, "inline_calls"), "{in}",
                "{out}")
    layer_modules = layers(tmp_path / "out.onnx")
    assert {size for size, modules in layer_modules.items() if LAYERS[size] in modules} == set(LAYERS)
    gemm = next(node for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "Gemm")
    assert not [entry.key for entry in gemm.metadata_props if "{module}" in entry.value]


def test_old_tokens_are_removed(folder, tmp_path):
    command.run("annotate", folder / "net.onnx", "-o", tmp_path / "tokens.onnx", "--carry")
    tokens = [node.doc_string for node in onnx.load(tmp_path / "tokens.onnx").graph.node]
    assert all(text.startswith("whence: ") for text in tokens)
    command.run("carry", tmp_path / "tokens.onnx", "-o", tmp_path / "out.onnx", "--", *script(folder, "change"), "{in}")
    nodes = onnx.load(tmp_path / "out.onnx").graph.node
    assert len(nodes) == len(tokens) + 1 and not [node.name for node in nodes if node.HasField("doc_string")]
    assert not [node.name for node in nodes if "carry" in keys(node)]


def test_a_fused_node_has_both_modules(folder, tmp_path):
    """QDQ quantisers fuse a Relu into the Conv before it and keep only the metadata of the Conv."""
    model = onnx.load(folder / "net.onnx")
    relus = {node.input[0]: node for node in model.graph.node if node.op_type == "Relu"}
    fused = [node for node in model.graph.node if node.op_type == "Conv" and node.output[0] in relus]
    assert len(fused) == 3 and all(keys(node)["confidence"] == "exact" for node in fused)
    for node in fused:
        relu = relus[node.output[0]]
        node.output[0] = relu.output[0]
        model.graph.node.remove(relu)
    onnx.save(model, tmp_path / "fused.onnx")
    command.run("annotate", tmp_path / "fused.onnx", "-o", tmp_path / "out.onnx", "--from", folder / "net.onnx")
    nodes = {node.name: keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node}
    for node in fused:
        metadata = nodes[node.name]
        assert metadata["confidence"] == "matched"  # the Relu belongs to the root
        assert metadata["module"] == "" and "" in json.loads(metadata["modules"])
    other_confidences = [metadata["confidence"] for name, metadata in nodes.items() if name not in {node.name for node in fused}]
    assert other_confidences and set(other_confidences) == {"exact"}
    report = command.run_json("annotate", tmp_path / "out.onnx", "-o", tmp_path / "again.onnx", "--from", folder / "net.onnx")
    assert not report["changed"] and (tmp_path / "again.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()


FAILING = {  # (tool, error code, fragment of the message)
    "status": (["sh", "-c", "echo first; echo no such layer >&2; exit 3", "{in}"], "E0210", "status 3; it printed: first | no such layer"),
    "signal": (["sh", "-c", "kill -9 $$", "{in}"], "E0210", "signal 9 (Killed)"),
    "nothing": (["true", "{in}", "{out}"], "E0210", "wrote no file"),
    "elsewhere": (["sh", "-c", "cp $0 $1.onnx", "{in}", "{out}"], "E0210", "it left target.onnx"),
    "text": (["sh", "-c", "echo text > $1; echo done", "{in}", "{out}"], "E0210", "not an ONNX model: it is text; it printed: done"),
    "empty": (["sh", "-c", ": > $1", "{in}", "{out}"], "E0210", "has no bytes"),
    "cycle": ([], "E0210", "the tool's file cannot be read: the graph has a cycle"),
    "removed": (["rm", "{in}"], "E0210", "removed"),
    "not there": (["no-such-tool", "{in}"], "E0102", "no program no-such-tool"),
    "no program": ([__file__, "{in}"], "E0102", "Permission denied"),
    "second": (["true", "{in}", "--then", "false", "{in}"], "E0210", "`false {in}` ended with status 1"),
    "no {in}": (["true", "{out}"], "E0101", "{in}"),
    "no tool": ([], "E0101", "no tool"),
    "empty chain": (["true", "{in}", "--then"], "E0101", "no program name"),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_failing_tool_is_reported(folder, tmp_path, case):
    tool, code, text = FAILING[case]
    tool = [*script(folder, "cycle"), "{in}"] if case == "cycle" else tool
    diagnostic = refused(["carry", folder / "net.onnx", "-o", tmp_path / "target"], tmp_path, code, trailing=["--", *tool])
    assert text in diagnostic["message"] and str(tmp_path) not in diagnostic["message"]


def test_a_file_without_origins_is_refused_before_the_tool_runs(folder, tmp_path):
    command.run("strip", folder / "net.onnx", "-o", tmp_path / "plain.onnx")
    model = onnx.load(tmp_path / "plain.onnx")
    for node in model.graph.node:
        del node.metadata_props[:]
    onnx.save(model, tmp_path / "plain.onnx")
    diagnostic = refused(["carry", tmp_path / "plain.onnx", "-o", tmp_path / "target"], tmp_path, "E0203",
                   trailing=["--", "sh", "-c", f"touch {tmp_path}/ran", "{in}"])
    assert "whence annotate" in diagnostic["remedy"] and not (tmp_path / "ran").exists()


@pytest.mark.parametrize("output, code", [("net.onnx", "E0101"), ("w.bin", "E0101"), ("no/out.onnx", "E0401")])
def test_inputs_and_missing_folders_are_refused_as_output(folder, tmp_path, output, code):
    source = tmp_path / "data"
    shutil.copytree(folder / "data", source)
    refused(["carry", source / "net.onnx", "-o", source / output], tmp_path, code,
            trailing=["--", "sh", "-c", "touch ran", "{in}"])


def test_the_timeout_stops_the_tool(folder, tmp_path):
    diagnostic = refused(["carry", folder / "net.onnx", "-o", tmp_path / "target", "--timeout", "0.3"], tmp_path, "E0210",
                   trailing=["--", "sh", "-c", "echo waiting; sleep 60", "{in}"])
    assert "more than 0.3 s" in diagnostic["message"] and diagnostic["message"].endswith("it printed: waiting")
    for timeout in ("0", "-1", "soon", "inf"):
        assert "--timeout" in refused(["carry", folder / "net.onnx", "-o", tmp_path / "target", "--timeout", timeout], tmp_path,
                                      "E0101", trailing=["--", "true", "{in}"])["message"]


def running_in_group(process_group: int) -> list[str]:
    """Returns the commands of the running processes of a group. Skips zombies."""
    listing = subprocess.run(["ps", "-A", "-o", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    assert str(os.getpgid(0)) in listing
    lines = [line.split(None, 2) for line in listing.splitlines()]
    return [line[2] for line in lines if line[0] == str(process_group) and not line[1].startswith("Z")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_stopping_the_command_stops_the_tool(folder, tmp_path, number):
    started, out = tmp_path / "started", tmp_path / "out.onnx"
    work = f"mkdir -p $(dirname $0)/sub; echo $$ > $(dirname $0)/sub/x; echo $$ > {started}.part; mv {started}.part {started}"
    process = subprocess.Popen([command.BINARY, "carry", folder / "net.onnx", "-o", out, "--", "sh", "-c", f"{work}; sleep 60; true",
                                "{in}", "--then", "true", "{in}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    for _ in range(500):
        if started.exists():
            break
        time.sleep(0.02)
    tool = int(started.read_text())
    process.send_signal(number)
    assert process.wait(timeout=20) == -number
    assert process.stdout.read() == process.stderr.read() == b""
    assert os.listdir(tmp_path) == ["started"]
    assert not running_in_group(tool)
