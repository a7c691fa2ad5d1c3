"""whence.carry with functions and commands as tools, also several in sequence."""

import os
import shutil
import sys
import threading

import onnx
import pytest
import whence
from onnx import helper

import command


@pytest.fixture(scope="module")
def annotated(small_archive, tmp_path_factory):
    path = tmp_path_factory.mktemp("carry") / "small.onnx"
    command.run("export", small_archive, "-o", path, "--annotate")
    return path


def without_metadata(source: str, target: str) -> None:
    model = onnx.load(source)
    for node in model.graph.node:
        del node.metadata_props[:]
    model.producer_name += "+tool"
    onnx.save(model, target)


def in_place(source: str, target: str) -> None:
    without_metadata(source, source)


def modules(path) -> list:
    metadata = [{entry.key: entry.value for entry in node.metadata_props} for node in onnx.load(path).graph.node]
    return [node["pkg.whence.module"] for node in metadata]


COPY = ["cp", "{in}", "{out}"]


@pytest.mark.parametrize("tool", [without_metadata, in_place, COPY, tuple(COPY), [without_metadata, COPY, in_place], [COPY, COPY]],
                         ids=["function", "in place", "command", "tuple", "chain", "commands"])
def test_every_kind_of_tool(annotated, tmp_path, tool):
    before = annotated.read_bytes()
    report = whence.carry(annotated, tool, tmp_path / "out.onnx")
    assert isinstance(report, whence.AnnotateReport) and report.path == tmp_path / "out.onnx"
    assert report.nodes == report.exact + report.matched == 3 and not report.diagnostics
    assert modules(tmp_path / "out.onnx") == modules(annotated) == ["first", "", "second"]
    functions = sum(map(callable, tool if isinstance(tool, list) else [tool]))
    assert onnx.load(tmp_path / "out.onnx").producer_name.count("+tool") == functions
    assert (report.matched == 3) == (functions > 0)
    assert annotated.read_bytes() == before and os.listdir(tmp_path) == ["out.onnx"]


def test_functions_run_in_this_process_with_their_closures(annotated, tmp_path):
    """Functions run in the main thread, because tools may handle signals. Both paths are in a temporary folder."""
    calls = []

    def tool(source, target):
        calls.append((threading.current_thread() is threading.main_thread(), source, target,
                      os.listdir(os.path.dirname(source))))
        shutil.copy(source, target)

    whence.carry(annotated, tool, tmp_path / "out.onnx")
    (main, source, target, files), = calls
    assert main and files == ["small.onnx"] and os.path.dirname(source) == os.path.dirname(target)
    assert not os.path.exists(os.path.dirname(source))


def test_default_output_is_next_to_the_model(annotated, tmp_path):
    model = shutil.copy(annotated, tmp_path / "model.onnx")
    assert whence.carry(model, COPY).path == tmp_path / "model.carried.onnx"
    assert sorted(os.listdir(tmp_path)) == ["model.carried.onnx", "model.onnx"]


def raises(source, target):
    raise ValueError("no such layer")


def does_nothing(source, target):
    pass


@pytest.mark.parametrize("tool, code, text", [
    (raises, "E0210", "ValueError: no such layer"),
    ([COPY, raises], "E0210", "ValueError: no such layer"),
    (does_nothing, "E0210", "`does_nothing {in} {out}`: the tool succeeded but wrote no file"),
    ([sys.executable, "-c", "raise SystemExit('not today')", "{in}"], "E0210", "status 1; it printed: not today"),
    (["no-such-tool", "{in}"], "E0102", "no-such-tool"),
    (["cp", "x", "{out}"], "E0101", "{in}"),
    ("onnxslim", "E0101", "not a tool"), ([], "E0101", "not a tool"), ([COPY, 3], "E0101", "not a tool"),
], ids=["raises", "second raises", "writes nothing", "status", "missing command", "no {in}", "string",
        "empty", "number"])
def test_failing_and_invalid_tools(annotated, tmp_path, tool, code, text):
    with pytest.raises(whence.WhenceError) as failed:
        whence.carry(annotated, tool, tmp_path / "out.onnx")
    assert failed.value.code == code and text in str(failed.value) and failed.value.remedy
    assert isinstance(failed.value.__cause__, ValueError) == ("ValueError" in text)
    assert os.listdir(tmp_path) == []


def test_interrupt_is_passed_on(annotated, tmp_path):
    def tool(source, target):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whence.carry(annotated, tool, tmp_path / "out.onnx")
    assert os.listdir(tmp_path) == []


def test_options_reach_the_command(annotated, tmp_path):
    with pytest.raises(whence.WhenceError, match="more than 0.2 s"):
        whence.carry(annotated, ["sh", "-c", "sleep 60", "{in}"], tmp_path / "out.onnx", timeout=0.2)
    model = tmp_path / "model.onnx"
    onnx.save(onnx.load(annotated), model, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "out.onnx.data").write_bytes(b"another's")
    with pytest.raises(whence.WhenceError, match="E0401"):
        whence.carry(model, COPY, tmp_path / "to" / "out.onnx")
    assert os.listdir(tmp_path / "to") == ["out.onnx.data"]
    whence.carry(model, COPY, tmp_path / "to" / "out.onnx", overwrite=True)
    assert (tmp_path / "to" / "out.onnx.data").read_bytes() == (tmp_path / "w.bin").read_bytes()


def fused_without_a_name(source: str, target: str) -> None:
    """Replaces Relu(Relu(x)) like onnxscript's rewriter: the new node has no name and the metadata of the last one."""
    model = onnx.load(source)
    first, second = (node for node in model.graph.node if node.op_type == "Relu")
    second.ClearField("name")
    second.input[0] = first.input[0]
    model.graph.node.remove(first)
    onnx.save(model, target)


def test_new_node_with_copied_metadata_is_matched_again(tmp_path):
    """It has absorbed a node of another module, so its metadata is outdated; the others keep their word."""
    def relu(value, result, module, number):
        node = helper.make_node("Relu" if number in (1, 2) else "Exp", [value], [result], f"/{module}/node")
        for key, text in {"module": module, "confidence": "exact", "op": str(number), "rule": "exported", "version": "1"}.items():
            entry = node.metadata_props.add()
            entry.key, entry.value = f"pkg.whence.{key}", text
        return node

    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([relu("x", "a", "enc", 0), relu("a", "b", "first", 1), relu("b", "c", "second", 2),
                               relu("c", "y", "dec", 3)], "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "in.onnx")
    whence.carry(tmp_path / "in.onnx", fused_without_a_name, tmp_path / "out.onnx")
    keys = [{entry.key: entry.value for entry in node.metadata_props} for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert [each["pkg.whence.confidence"] for each in keys] == ["exact", "matched", "exact"]
    assert keys[1]["pkg.whence.modules"] == '["first","second"]'
