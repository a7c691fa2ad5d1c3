"""whence attest --values: files that compute something else than the model are found, with the module; honest ones pass."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import whence
from onnx import helper, numpy_helper

import small_models as models

EXPORTERS = ("dynamo", "torchscript")


def run(*arguments):
    """Runs the package's command line, to which the binary hands over."""
    return subprocess.run([sys.executable, "-m", "whence", "attest", *map(str, arguments)], capture_output=True, text=True)


def attest(files, path, *options, code=0):
    result = run(path, "--weights", files.weights, "--sidecar", files.sidecar, "--values", files.values(), *options)
    assert result.returncode == code, result.stdout + result.stderr
    return result


def numbers_of(files, path):
    return whence.attest(path, files.weights, sidecar=files.sidecar, values=files.values()).numbers


# ---- honest files

@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", ["images", "text", "series", "pair"])
def test_exports_have_the_numbers_of_the_model(files_of, name, exporter):
    files = files_of(name)
    numbers = numbers_of(files, files.export(exporter))
    assert numbers.first_difference is None and numbers.runs == 2
    assert numbers.tolerance_of == "float32" and numbers.tolerance < 1e-3 and numbers.compared > 0.6 * numbers.calls


@pytest.mark.parametrize("tool", ["onnxslim", "ort_all", "float16", "dynamic", "dynamic_channels", "static", "static_channels",
                                  "blocks_of_8"])
@pytest.mark.parametrize("name", ["images", "text", "series", "pair"])
def test_files_of_tools_have_the_numbers_of_the_model(files_of, name, tool):
    files = files_of(name)
    numbers = numbers_of(files, files.tool("dynamo", tool))
    assert numbers.first_difference is None and numbers.compared > 0


# ---- files that compute something else, with all weights in their places

def node(graph, op_type, at=0):
    return [each for each in graph.node if each.op_type == op_type][at]


def sigmoid_for_tanh(graph):
    node(graph, "Tanh").op_type = "Sigmoid"


def no_tanh(graph):
    removed = node(graph, "Tanh")
    for each in graph.node:
        each.input[:] = [removed.input[0] if name == removed.output[0] else name for name in each.input]
    graph.node.remove(removed)


def exchanged_inputs(op_type, at=0):
    def edit(graph):
        changed = node(graph, op_type, at)
        changed.input[:] = reversed(changed.input)
    return edit


def epsilon(graph):
    changed = node(graph, "LayerNormalization", 1)
    kept = [each for each in changed.attribute if each.name != "epsilon"]
    del changed.attribute[:]
    changed.attribute.extend([*kept, helper.make_attribute("epsilon", 0.01)])


def skipped_layer(graph):
    first, second = node(graph, "LayerNormalization"), node(graph, "LayerNormalization", 1)
    skipped = second.input[0]
    for each in graph.node:
        each.input[:] = [first.input[0] if name == skipped else name for name in each.input]


def exchanged_graph_inputs(graph):
    first, second = (each.name for each in graph.input)
    for each in graph.node:
        each.input[:] = [{first: second, second: first}.get(name, name) for name in each.input]


EDITS = [(sigmoid_for_tanh, "blocks.0.activation"), (no_tanh, "blocks.0"), (exchanged_inputs("Sub"), ""),
         (exchanged_inputs("Sub", 1), ""), (exchanged_inputs("Div"), ""), (epsilon, "blocks.1.norm"),
         (skipped_layer, "blocks.0"), (exchanged_graph_inputs, "")]


def changed(source, target, edit):
    model = onnx.load(source)
    edit(model.graph)
    onnx.save(model, target)
    return target


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("edit, module", EDITS)
def test_another_computation_is_found_with_its_module(files_of, tmp_path, exporter, edit, module):
    files = files_of("pair")
    path = changed(files.export(exporter), tmp_path / "changed.onnx", edit)
    report = whence.attest(path, files.weights, sidecar=files.sidecar, values=files.values())
    assert not report.accounted
    assert report.numbers.first_difference.module == module
    assert report.numbers.first_difference.node in {each["name"] for each in report.raw["predicate"]["nodes"]}


@pytest.mark.parametrize("tool", ["float16", "dynamic", "static"])
@pytest.mark.parametrize("edit, module", [(sigmoid_for_tanh, "blocks.0.activation"), (skipped_layer, None)])
def test_another_computation_is_found_in_converted_files(files_of, tmp_path, tool, edit, module):
    files = files_of("pair")
    first = numbers_of(files, changed(files.tool("dynamo", tool), tmp_path / "changed.onnx", edit)).first_difference
    assert first is not None and (module is None or first.module == module)


def test_a_node_that_quantises_does_not_raise_the_limit(files_of, tmp_path):
    """The weights are float32, so the numbers must be those of float32."""
    def round_coarsely(graph):
        first = node(graph, "Tanh")
        graph.initializer.extend([numpy_helper.from_array(np.float32(1 / 64), "step"),
                                  numpy_helper.from_array(np.int8(0), "zero")])
        at = list(graph.node).index(first) + 1
        for each in list(graph.node)[at:]:
            each.input[:] = ["rounded" if name == first.output[0] else name for name in each.input]
        graph.node.insert(at, helper.make_node("QuantizeLinear", [first.output[0], "step", "zero"], ["integers"], "quantise"))
        graph.node.insert(at + 1, helper.make_node("DequantizeLinear", ["integers", "step", "zero"], ["rounded"], "dequantise"))

    files = files_of("pair")
    numbers = numbers_of(files, changed(files.export("dynamo"), tmp_path / "changed.onnx", round_coarsely))
    assert (numbers.tolerance, numbers.tolerance_of) == (1e-3, "weights in float32")
    assert numbers.first_difference is not None, numbers


def test_an_output_after_the_right_value_is_compared(files_of, tmp_path):
    """The right value is still in the file, but no output depends on it alone."""
    def reverse_output(graph):
        last = graph.output[0].name
        next(each for each in graph.node if last in each.output).output[0] = "right"
        graph.initializer.append(numpy_helper.from_array(np.array([4, 3, 2, 1, 0]), "order"))
        graph.node.append(helper.make_node("Gather", ["right", "order"], [last], "reorder", axis=1))

    files = files_of("pair")
    first = numbers_of(files, changed(files.export("dynamo"), tmp_path / "changed.onnx", reverse_output)).first_difference
    assert (first.module, first.node) == ("", "reorder") and "output" in first.extent


def test_exchanged_outputs_are_found(files_of, tmp_path):
    def exchange(graph):
        first, second = (each.name for each in graph.output)
        for each in graph.node:
            each.output[:] = [{first: second, second: first}.get(name, name) for name in each.output]

    files = files_of("pair")
    path = changed(files.export("dynamo"), tmp_path / "changed.onnx", exchange)
    assert numbers_of(files, path).first_difference is not None


def test_another_output_is_found(files_of, tmp_path):
    """A hidden value that leaves the file is no result of the model."""
    def leak(graph):
        hidden = node(graph, "Tanh").output[0]
        graph.output.append(helper.make_tensor_value_info(hidden, onnx.TensorProto.FLOAT, None))

    files = files_of("pair")
    first = numbers_of(files, changed(files.export("dynamo"), tmp_path / "changed.onnx", leak)).first_difference
    assert first is not None and "output" in first.extent


def test_a_file_that_does_not_run_is_found(files_of, tmp_path):
    files = files_of("pair")

    def other_sizes(graph):
        sizes = numpy_helper.from_array(np.array([-1, 7]))
        graph.node.insert(0, helper.make_node("Constant", [], ["shape"], "shape", value=sizes))
        first = node(graph, "Tanh")
        graph.node.insert(list(graph.node).index(first) + 1,
                          helper.make_node("Reshape", [first.output[0], "shape"], ["wrong"], "wrong"))
        for each in graph.node:
            if each.name != "wrong":
                each.input[:] = ["wrong" if name == first.output[0] else name for name in each.input]

    path = changed(files.export("dynamo"), tmp_path / "changed.onnx", other_sizes)
    assert "does not run" in numbers_of(files, path).first_difference.extent


# ---- the statement

def test_the_statement_has_the_numbers(files_of, tmp_path):
    files = files_of("pair")
    text = attest(files, files.export("dynamo"), "-o", tmp_path / "statement.json", "--bom", tmp_path / "bom.json").stdout
    statement = json.loads((tmp_path / "statement.json").read_text())
    numbers = statement["predicate"]["numbers"]
    assert numbers["first_difference"] is None and numbers["runs"] == 2
    assert numbers["share"] == round(numbers["compared"] / numbers["calls"], 4)
    assert numbers["versions"] == {"onnxruntime": onnxruntime.__version__}
    [digest] = [each["digest"]["sha256"] for each in statement["predicate"]["sources"]
                if each["name"] == files.values().name]
    assert digest == hashlib.sha256(files.values().read_bytes()).hexdigest()
    lines = text.splitlines()
    assert f"numbers: {numbers['compared']} of {numbers['calls']} module calls compared in 2 runs, none differs" in text
    assert lines[-2:] == [f"{tmp_path}/statement.json: written", f"{tmp_path}/bom.json: written"]
    assert json.loads((tmp_path / "bom.json").read_text())["bomFormat"] == "CycloneDX"
    # All that the command itself writes is still there.
    plain = whence.attest(files.export("dynamo"), files.weights, sidecar=files.sidecar).raw
    others = {"numbers": None, "sources": None}
    assert {**statement["predicate"], **others} == {**plain["predicate"], **others}
    assert statement["subject"] == plain["subject"]
    assert whence.validate(files.export("dynamo"), attested=tmp_path / "statement.json", allowed=["re:V[1-3].."]).clean


def test_the_text_names_module_and_operation(files_of, tmp_path):
    files = files_of("pair")
    path = changed(files.export("dynamo"), tmp_path / "changed.onnx", exchanged_inputs("Div"))
    text = attest(files, path, "-o", tmp_path / "statement.json", code=1).stdout
    assert "the first that differs: (root), aten::div, node" in text
    printed = json.loads(attest(files, path, "--json", code=1).stdout)
    written = json.loads((tmp_path / "statement.json").read_text())
    assert printed["predicate"] == written["predicate"]
    first = written["predicate"]["numbers"]["first_difference"]
    assert (first["module"], first["operation"]) == ("", "aten::div")


def test_a_tolerance_that_accepts_everything_is_refused(files_of):
    files = files_of("text")
    assert "E0101" in attest(files, files.export("dynamo"), "--tolerance", "1e9", code=2).stderr


def test_the_tolerance_is_in_the_statement(files_of, tmp_path):
    files = files_of("pair")
    attest(files, files.tool("dynamo", "dynamic"), "--tolerance", "1e-6", "-o", tmp_path / "statement.json", code=1)
    numbers = json.loads((tmp_path / "statement.json").read_text())["predicate"]["numbers"]
    assert (numbers["tolerance"], numbers["tolerance_of"]) == (1e-6, "as given") and numbers["first_difference"]


def test_nothing_is_written_if_the_numbers_cannot_be_compared(files_of, tmp_path):
    files, others = files_of("pair"), files_of("series")
    for target in ("statement.json", "bom.json"):
        (tmp_path / target).write_text("before")
    result = run(files.export("dynamo"), "--weights", files.weights, "--sidecar", files.sidecar, "--values", others.values(),
                 "-o", tmp_path / "statement.json", "--bom", tmp_path / "bom.json")
    assert result.returncode > 1 and result.returncode != 70 and "E0" in result.stderr
    assert (tmp_path / "statement.json").read_text() == (tmp_path / "bom.json").read_text() == "before"


def test_a_target_that_is_a_source_is_refused(files_of):
    files = files_of("pair")
    before = files.values().read_bytes()
    assert "E0101" in attest(files, files.export("dynamo"), "-o", files.values(), code=2).stderr
    assert files.values().read_bytes() == before


def test_values_need_the_sidecar(files_of):
    files = files_of("pair")
    with pytest.raises(whence.WhenceError, match="sidecar") as caught:
        whence.attest(files.export("dynamo"), files.weights, values=files.values())
    assert caught.value.code == "E0101"


def test_a_branch_that_no_input_enters_is_unaccounted(files_of, tmp_path):
    """Numbers do not show it."""
    def add_branch(graph):
        first, last = graph.input[0].name, graph.output[0].name
        next(each for each in graph.node if last in each.output).output[0] = "right"
        graph.initializer.append(numpy_helper.from_array(np.float32(1e6), "trigger"))
        value = helper.make_tensor_value_info("result", onnx.TensorProto.FLOAT, None)
        then = helper.make_graph([helper.make_node("Neg", ["right"], ["result"], "negate")], "then", [], [value])
        otherwise = helper.make_graph([helper.make_node("Identity", ["right"], ["result"], "keep")], "otherwise", [], [value])
        graph.node.extend([
            helper.make_node("ReduceMax", [first], ["largest"], "largest", keepdims=0),
            helper.make_node("Greater", ["largest", "trigger"], ["is_triggered"], "compare"),
            helper.make_node("If", ["is_triggered"], [last], "choose", then_branch=then, else_branch=otherwise)])

    files = files_of("pair")
    path = changed(files.export("dynamo"), tmp_path / "changed.onnx", add_branch)
    report = whence.attest(path, files.weights, sidecar=files.sidecar, values=files.values())
    assert report.numbers.first_difference is None
    assert not report.accounted and "compare" in report.unaccounted
