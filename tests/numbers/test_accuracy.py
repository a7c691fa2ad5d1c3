"""whence.accuracy: reports on files with known faults, files from tools, and bad input."""

import json
import math
import re
import shutil

import jsonschema
import numpy
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import command
import whence
from numbers_models import Encoder, example
from whence.values.value_file import in_memory

SCHEMA = jsonschema.Draft202012Validator(json.loads((command.ROOT / "schema" / "accuracy.schema.json").read_text()))


def measure(encoder, path, **options):
    return whence.accuracy(path, encoder / "encoder.values.safetensors", **options)


# ---- faults -------------------------------------------------------------------------------------------------------


def swap(name):
    def change(model):
        weight = model.get_submodule(name).weight
        weight.data = weight.data.roll(1, 0)
    return change


def zero_bias(name):
    return lambda model: model.get_submodule(name).bias.data.zero_()


def change_eps(name):
    def change(model):
        model.get_submodule(name).eps = 1e-2
    return change


FAULTS = [("layers.0.attention.key", swap), ("layers.1.down", swap), ("embedding", swap), ("local", swap),
          ("head", zero_bias), ("layers.0.attention.value", zero_bias), ("layers.1.first_norm", change_eps)]


@pytest.mark.parametrize(("module", "fault"), FAULTS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("with_sidecar", [True, False])
def test_the_first_difference_is_in_the_faulty_module(encoder, export_changed, module, fault, with_sidecar):
    path = export_changed(fault(module), (module, fault))
    report = measure(encoder, path, sidecar=encoder / "encoder.whence.json" if with_sidecar else None)
    assert report.first is not None and report.first.module == module, str(report)
    assert report.first.suspects == (module,)
    assert report.of(module).status == "differs" and report.of("").status == "differs"
    assert not report.clean


def test_a_correct_file_has_no_first_difference(encoder):
    report = measure(encoder, encoder / "encoder.onnx", sidecar=encoder / "encoder.whence.json")
    assert report.first is None and report.beginnings == () and report.clean
    assert {row.status for row in report.modules} == {"equal"}
    assert report.observable == len(report.modules) == len(whence.record_values(Encoder(), example()).runs[0].calls)
    assert max(row.relative for row in report.modules) < 1e-5
    assert "no module differs" in str(report)


def test_a_fault_in_the_second_call_of_a_module_is_named(encoder, tmp_path):
    """Only the second call of the shared module reads a wrong weight."""
    model = onnx.load(encoder / "encoder.onnx")
    node = next(node for node in model.graph.node if origin(node).get("call") == "1" and node.op_type in ("MatMul", "Gemm"))
    weight = next(initializer for initializer in model.graph.initializer if initializer.name == node.input[1])
    other = numpy_helper.from_array(numpy.roll(numpy_helper.to_array(weight), 1, 1), "other")
    model.graph.initializer.append(other)
    node.input[1] = "other"
    onnx.save(model, tmp_path / "m.onnx")
    report = measure(encoder, tmp_path / "m.onnx")
    assert (report.first.module, report.first.call) == ("scale", 1)
    assert report.of("scale", 0).status == "equal" and report.of("scale", 1).status == "differs"


def origin(node) -> dict:
    return {entry.key.removeprefix("pkg.whence."): entry.value for entry in node.metadata_props}


def test_a_fault_between_modules_belongs_to_their_parent(encoder, tmp_path):
    """A Softmax over another axis belongs to the attention module itself, not to one of its children."""
    model = onnx.load(encoder / "encoder.onnx")
    node = next(node for node in model.graph.node if node.op_type == "Softmax" and "layers.1" in origin(node)["module"])
    next(attribute for attribute in node.attribute if attribute.name == "axis").i = 1
    onnx.save(model, tmp_path / "m.onnx")
    report = measure(encoder, tmp_path / "m.onnx", sidecar=encoder / "encoder.whence.json")
    assert report.first.module == "layers.1.attention" and node.name in report.first.nodes
    assert report.of("layers.1.attention.out").status == "differs"
    assert report.of("layers.1.attention.value").status == "equal"


def test_the_operation_and_its_source_line_are_named(encoder, export_changed):
    path = export_changed(swap("layers.1.up"), ("layers.1.up", swap))
    report = measure(encoder, path, sidecar=encoder / "encoder.whence.json")
    assert report.first.operation == "aten::linear"
    assert report.first.source.split()[0].rpartition(":")[0].endswith("linear.py")
    assert all("layers.1/up" in name for name in report.first.nodes)


# ---- metrics ------------------------------------------------------------------------------------------------------


def test_metrics_match_their_definitions(encoder, export_changed):
    """A known shift of the head's bias causes an exactly known difference."""
    shift = torch.tensor([0.5, 0.0, 0.0, -0.25, 0.0])

    def change(model):
        model.head.bias += shift

    report = measure(encoder, export_changed(change))
    with torch.no_grad():
        expected = Encoder()(*example())[0].double()
    difference = shift.double().expand_as(expected)
    row = report.of("head")
    assert row.relative == pytest.approx(float(difference.norm() / expected.norm()), rel=1e-4)
    assert row.largest == pytest.approx(0.5, rel=1e-4)
    assert row.sqnr == pytest.approx(-20 * math.log10(float(difference.norm() / expected.norm())), rel=1e-4)
    cosine = torch.nn.functional.cosine_similarity(expected.flatten(), (expected + difference).flatten(), dim=0)
    assert row.cosine == pytest.approx(float(cosine), abs=1e-5)
    assert not row.estimated and row.inherited < 1e-5


def test_an_error_from_a_sketch_is_an_estimate(encoder, export_changed):
    def change(model):
        model.layers[0].attention.query.bias += 0.3

    row = measure(encoder, export_changed(change)).of("layers.0.attention.query")
    with torch.no_grad():
        model = Encoder()
        expected = whence.record_values(model, example(), full=["layers.0.attention.query"])
    recorded = next(call for call in expected.runs[0].calls if call.module == "layers.0.attention.query").results[0]
    tensor = expected.whole(recorded).double()
    assert row.estimated
    assert row.relative == pytest.approx(0.3 * math.sqrt(tensor.numel()) / float(tensor.norm()), rel=0.3)
    assert row.largest == pytest.approx(0.3, rel=1e-3)


def test_integer_results_are_compared_exactly(encoder, export_changed):
    def change(model):
        model.head.bias += torch.tensor([100.0, 0, 0, 0, 0])  # class 0 always wins

    report = measure(encoder, export_changed(change))
    expected = Encoder()(*example())[1]
    session = onnxruntime.InferenceSession(report.path, providers=["CPUExecutionProvider"])
    actual = torch.from_numpy(session.run(None, {"ids": example()[0].numpy()})[1])
    unequal = float((actual != expected).double().mean())
    assert unequal > 0
    argmax = next(row for row in report.modules if row.module == "" and row.status == "differs")
    assert argmax.unequal in (None, unequal) and argmax.relative > 0
    assert "unequal" in report.to_json()["modules"][-1]


def test_nan_is_a_difference(encoder, export_changed):
    def change(model):
        model.layers[0].up.bias[3] = math.nan

    report = measure(encoder, export_changed(change))
    assert report.first.module == "layers.0.up" and report.of("layers.0.up").not_finite
    assert report.of("layers.0.up").relative == math.inf
    assert report.to_json()["first"]["error"]["relative"] is None


# ---- tools --------------------------------------------------------------------------------------------------------


def optimise_extended(source, target):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def slim(source, target):
    import onnxslim

    onnxslim.slim(str(source), str(target))


def float16(source, target):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def int8(source, target):
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(str(source), str(target), extra_options={"DefaultTensorType": TensorProto.FLOAT})


TOOLS = [optimise_extended, slim, float16, int8]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.__name__)
def test_only_the_fault_is_named_after_a_tool(encoder, export_changed, tmp_path, tool):
    for module, fault in [("layers.0.attention.key", swap), (None, None)]:
        source = export_changed(fault(module), (module, fault)) if fault else encoder / "encoder.onnx"
        target = tmp_path / "tool.onnx"
        copy = tmp_path / "copy.onnx"
        shutil.copy(source, copy)
        tool(copy, target)
        whence.annotate(target, source=source)
        report = measure(encoder, target)
        named = report.first.module if report.first else None
        assert named == module, f"{tool.__name__}: {report}"


def test_the_tolerance_follows_the_files_dtype(encoder, tmp_path):
    float16(encoder / "encoder.onnx", tmp_path / "half.onnx")
    whence.annotate(tmp_path / "half.onnx", source=encoder / "encoder.onnx")
    half = measure(encoder, tmp_path / "half.onnx")
    assert half.tolerance_of == "float16" and 1e-3 <= half.tolerance <= 0.05
    full = measure(encoder, encoder / "encoder.onnx")
    assert full.tolerance_of == "float32" and 1e-5 <= full.tolerance <= 1e-3
    strict = measure(encoder, tmp_path / "half.onnx", tolerance=1e-6)
    assert strict.tolerance == 1e-6 and strict.tolerance_of == "as given" and strict.first is not None


def test_a_result_with_permuted_axes_is_recognised(encoder, tmp_path):
    """Moves the convolution's channels last and back, as NHWC runtimes do; the result in between is the module's."""
    model = onnx.load(encoder / "encoder.onnx")
    node = next(node for node in model.graph.node if node.op_type == "Conv")
    before = node.output[0]
    node.output[0] = "conv_first"
    to_last = helper.make_node("Transpose", ["conv_first"], ["channels_last"], "to_last", perm=[0, 2, 1])
    to_first = helper.make_node("Transpose", ["channels_last"], [before], "to_first", perm=[0, 2, 1])
    to_last.metadata_props.extend(node.metadata_props)
    at = list(model.graph.node).index(node)
    for offset, transpose in enumerate((to_last, to_first)):
        model.graph.node.insert(at + 1 + offset, transpose)
    del model.graph.node[at].metadata_props[:]  # the result is visible only after the Transpose
    onnx.save(model, tmp_path / "m.onnx")
    row = measure(encoder, tmp_path / "m.onnx").of("local")
    assert row.status == "equal" and row.layout == "axes 0 2 1"


def test_a_result_removed_by_fusion_is_not_observable(encoder, tmp_path):
    optimise_extended(encoder / "encoder.onnx", tmp_path / "m.onnx")
    whence.annotate(tmp_path / "m.onnx", source=encoder / "encoder.onnx")
    report = measure(encoder, tmp_path / "m.onnx")
    unobservable = [row for row in report.modules if row.status == "not observable"]
    for row in unobservable:
        assert row.note.startswith("not observable: ")
    types = {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}
    assert unobservable or not types & {"BiasGelu", "SkipLayerNormalization", "FusedConv"}
    assert report.observable > 20


# ---- isolated modules ---------------------------------------------------------------------------------------------


def quantised_with_fault(encoder, export_changed, tmp_path):
    """Writes an 8-bit file in which a float module has a fault smaller than the error that it inherits."""
    def change(model):
        model.layers[1].first_norm.bias *= 0.7

    source, target = export_changed(change, "hidden"), tmp_path / "int8.onnx"
    int8(source, target)
    whence.annotate(target, source=source)
    return target


@pytest.mark.parametrize("form", ["live", "traced", "exported", "archive"])
def test_own_error_is_separated_from_inherited_error(encoder, export_changed, tmp_path, form):
    path = quantised_with_fault(encoder, export_changed, tmp_path)
    assert measure(encoder, path).first is None
    model = Encoder()
    if form in ("traced", "archive"):
        model = torch.jit.trace(model, example())
    if form == "exported":
        model = torch.export.export(model, example())
    if form == "archive":
        torch.jit.save(model, tmp_path / "model.pt")
        model = tmp_path / "model.pt"
    report = measure(encoder, path, model=model)
    assert report.first.module == "layers.1.first_norm", str(report)
    assert report.first.made == report.of("layers.1.first_norm").made > 1e-2
    assert report.of("layers.0.first_norm").relative > 1e-3 and report.of("layers.0.first_norm").made < 1e-5
    assert "on the file's values, it is off by" in str(report)


def test_an_isolated_module_gets_the_files_values(encoder, export_changed, tmp_path):
    """Compares with the live module run on the value in the file."""
    path = quantised_with_fault(encoder, export_changed, tmp_path)
    row = measure(encoder, path, model=Encoder()).of("scale", 1)
    model = onnx.load(path)
    producers = {name: node for node in model.graph.node for name in node.output}
    input_name = next(node for node in model.graph.node if origin(node).get("call") == "1"
                      and node.op_type == "DynamicQuantizeLinear").input[0]
    for name in (input_name, row.value):
        if name not in {output.name for output in model.graph.output}:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
    assert row.value in producers
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    input_value, result = session.run([input_name, row.value], {session.get_inputs()[0].name: example()[0].numpy()})
    with torch.no_grad():
        expected = Encoder().scale(torch.from_numpy(input_value)).double()
    assert row.made == pytest.approx(float((torch.from_numpy(result) - expected).norm() / expected.norm()), rel=1e-2)


class Attention(torch.nn.Module):
    """Reads its arguments in a different order from its signature."""

    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(8, 8)

    def forward(self, query, value, key):
        return self.line(torch.softmax(key @ query.transpose(1, 2), -1) @ value)


class Attending(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.query, self.value, self.key, self.attention = *(torch.nn.Linear(8, 8) for _ in range(3)), Attention()

    def forward(self, x):
        return self.attention(self.query(x), self.value(x), self.key(x))


def test_a_program_with_reordered_module_arguments(tmp_path):
    """torch.export orders a module's inputs by their first use; the recorded values come from the live model."""
    model, x = Attending().eval(), torch.randn(2, 5, 8)
    values = whence.record_values(model, (x,))
    program = torch.export.export(model, (x,))
    whence.export(model, (x,), tmp_path / "m.onnx")
    int8(tmp_path / "m.onnx", tmp_path / "q.onnx")
    whence.annotate(tmp_path / "q.onnx", source=tmp_path / "m.onnx")
    for reference in (model, program):
        report = whence.accuracy(tmp_path / "q.onnx", values, model=reference)
        assert report.first is None and report.of("attention").made < 0.1, str(report)


def test_running_isolated_modules_does_not_change_the_model(encoder, export_changed, tmp_path):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return self.second(torch.relu(self.first(x)))

    torch.manual_seed(0)
    model, x = Counting().eval(), torch.randn(3, 4)
    values = whence.record_values(model, (x,))
    other = Counting().eval()
    other.load_state_dict({**model.state_dict(), "second.bias": model.second.bias + 1})
    with torch.no_grad():
        whence.export(other, (x,), tmp_path / "other.onnx")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    report = whence.accuracy(tmp_path / "other.onnx", values, model=model)
    assert report.first.module == "second" and report.first.made > 0.1
    after = model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_a_model_that_does_not_match_the_values_is_refused(encoder, export_changed, tmp_path, run_main):
    def change(model):
        model.layers[0].up.bias += 1

    path = export_changed(change)
    assert_fails("E0104", lambda: measure(encoder, path, model=torch.nn.Linear(3, 3)))
    assert_fails("E0101", lambda: measure(encoder, path, model=42))
    other = Encoder()
    with torch.no_grad():
        change(other)
    assert_fails("E0206", lambda: measure(encoder, path, model=other))
    (tmp_path / "no.pt").write_bytes(b"nothing")
    run_main("accuracy", encoder / "encoder.onnx", "--values", encoder / "encoder.values.safetensors", "--model",
             tmp_path / "no.pt", code=3)


# ---- runtimes and rounds ------------------------------------------------------------------------------------------


def test_running_in_rounds_gives_equal_results(encoder):
    complete = measure(encoder, encoder / "encoder.onnx")
    in_rounds = measure(encoder, encoder / "encoder.onnx", memory=100_000)
    assert in_rounds.modules == complete.modules
    assert any(note.startswith("values were computed in ") for note in in_rounds.notes)
    assert not any("rounds" in note for note in complete.notes)


@pytest.mark.parametrize("runtime, named", [("reference", "reference evaluator"), ("openvino", "OpenVINO 20")])
def test_other_runtimes(encoder, export_changed, runtime, named):
    report = measure(encoder, export_changed(swap("layers.0.up"), ("layers.0.up", swap)), runtime=runtime)
    assert report.first.module == "layers.0.up" and named in report.settings
    assert measure(encoder, export_changed(lambda model: None, "unchanged"), runtime=runtime).first is None


def dump_values(path) -> dict:
    """Returns all values of a file, as another runtime would dump them."""
    model = onnx.load(path)
    outputs = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for node in model.graph.node for name in node.output
                              if name not in outputs)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"ids": example()[0].numpy()}), strict=True))


def test_values_dumped_by_another_runtime(encoder, export_changed, tmp_path):
    path = export_changed(swap("layers.1.up"), ("layers.1.up", swap))
    values = dump_values(path)
    numpy.savez(tmp_path / "dump.npz", **{name.replace("/", "_"): array for name, array in values.items()})
    (tmp_path / "folder").mkdir()
    for name, array in values.items():
        numpy.save(tmp_path / "folder" / (name.replace("/", "_").strip("_") + ".npy"), array)
    for dump in ("dump.npz", "folder"):
        report = measure(encoder, path, outputs=tmp_path / dump)
        assert report.first.module == "layers.1.up" and dump in report.settings


def test_external_weights_are_read(encoder, tmp_path):
    model = onnx.load(encoder / "encoder.onnx")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    assert measure(encoder, tmp_path / "m.onnx").clean
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.data", "m.onnx"]


def test_all_runs_are_compared(encoder, export_changed, tmp_path):
    values = whence.record_values(Encoder(), example(), more=[example(1, 7)])
    report = whence.accuracy(export_changed(swap("head"), ("head", swap)), values)
    assert report.first.module == "head" and any("2 recorded runs" in note for note in report.notes)


# ---- limits and the command line ----------------------------------------------------------------------------------


def run(*arguments):
    from whence.command.arguments import run_guarded
    from whence.numerics.command_line import main

    return run_guarded([str(argument) for argument in arguments], main)


def test_json_follows_its_schema(encoder, export_changed, capsys):
    path = export_changed(swap("layers.0.attention.key"), ("layers.0.attention.key", swap))
    for extra in ([], ["--max-error", "1e-3"]):
        code = run(path, "--values", encoder / "encoder.values.safetensors", "--sidecar", encoder / "encoder.whence.json",
                   "--json", *extra)
        document = json.loads(capsys.readouterr().out)
        SCHEMA.validate(document)
        assert document["first"]["module"] == "layers.0.attention.key"
        assert code == (1 if extra else 0) and bool(document["findings"]) == bool(extra)


def test_sarif_has_findings_with_their_source_lines(encoder, export_changed, capsys, monkeypatch):
    monkeypatch.chdir(command.ROOT)
    path = export_changed(swap("layers.0.attention.key"), ("layers.0.attention.key", swap))
    assert run(path, "--values", encoder / "encoder.values.safetensors", "--max-error", "1e-2@layers.0.attention.*",
               "--format", "sarif") == 1
    document = json.loads(capsys.readouterr().out)
    results = document["runs"][0]["results"]
    over_limit = [result for result in results if result["ruleId"] == "A101"]
    assert "layers.0.attention.key" in [
        result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] for result in over_limit]
    location = results[-1]["locations"][0]["physicalLocation"]
    assert results[-1]["ruleId"] == "A102" and location["artifactLocation"]["uri"] == "tests/numbers/numbers_models.py"
    assert location["region"]["startLine"] > 1 and document["version"] == "2.1.0"


def test_several_formats_in_one_run(encoder, export_changed, capsys, tmp_path):
    path = export_changed(swap("layers.0.attention.key"), ("layers.0.attention.key", swap))
    values = encoder / "encoder.values.safetensors"
    assert run(path, "--values", values, "--format", "sarif", "-o", tmp_path / "a.sarif", "--format", "json", "-o", tmp_path / "a.json",
               "--format", "text") == 0
    assert capsys.readouterr().out.startswith(path.name)
    assert json.loads((tmp_path / "a.sarif").read_text())["version"] == "2.1.0"
    SCHEMA.validate(json.loads((tmp_path / "a.json").read_text()))
    for options in (["--format", "json", "--format", "text"], ["-o", "a", "-o", "b"], ["-o", path], ["-o", values]):
        assert run(path, "--values", values, *options) == 2


def test_node_data_for_model_explorer(encoder, export_changed, tmp_path, run_main):
    """Model Explorer's node data is keyed by the ids of the graph and its nodes, which are their names in ONNX."""
    path = export_changed(swap("layers.1.down"), ("layers.1.down", swap))
    run_main("accuracy", path, "--values", encoder / "encoder.values.safetensors", "--model-explorer",
             tmp_path / "data.json")
    graph = onnx.load(path).graph
    (name, data), = json.loads((tmp_path / "data.json").read_text()).items()
    assert name == graph.name and set(data["results"]) == {node.name for node in graph.node}
    report = measure(encoder, path)
    for node in graph.node:
        at = (origin(node)["module"], int(origin(node).get("call", "0")))
        if at in {(row.module, row.call) for row in report.modules}:
            assert data["results"][node.name]["value"] == pytest.approx(report.of(*at).relative)
    run_main("accuracy", path, "--values", encoder / "encoder.values.safetensors", "--model-explorer", path, code=2)


def test_limits_apply_to_modules(encoder, export_changed):
    path = export_changed(swap("layers.1.down"), ("layers.1.down", swap))
    assert not measure(encoder, path, max_error=["1e-3@layers.0", "1e-3@embedding"]).findings
    findings = measure(encoder, path, max_error=["1e-3@layers.1.down", "9@head"]).findings
    assert [finding["module"] for finding in findings] == ["layers.1.down"]
    # The last matching limit applies.
    assert not measure(encoder, path, max_error=["1e-3", "1e9"]).findings


def test_the_tree_shows_every_module_below_its_parent(encoder, export_changed, capsys):
    path = export_changed(swap("layers.1.down"), ("layers.1.down", swap))
    run(path, "--values", encoder / "encoder.values.safetensors")
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split("   0.")[0].rstrip() for line in lines]
    assert any(line.startswith("  layers.0 ") for line in lines) and any(line.startswith("    attention ") for line in lines)
    assert any(line.startswith("  scale call 1 ") for line in lines)
    assert sum("first" in line for line in lines if line.startswith("    down")) == 1, rows


def test_the_html_page_lists_every_module_and_marks_the_first(encoder, export_changed, tmp_path, run_main):
    path = export_changed(swap("layers.1.down"), ("layers.1.down", swap))
    values = encoder / "encoder.values.safetensors"
    command.run("accuracy", path, "--values", values, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    report = measure(encoder, path)
    assert page.count("<circle ") == 23 and page.count("<tr") == 1 + len(report.modules)
    assert page.count("class=first") == 1 and "first module that differs: layers.1.down" in page
    assert not re.search(r'(src|href)=|url\(|<script', page)
    run_main("accuracy", path, "--values", values, "--html", path, code=2)
    run_main("accuracy", path, "--values", values, "--html", tmp_path / "no" / "page.html", code=5)


# ---- bad input ----------------------------------------------------------------------------------------------------


def assert_fails(code, call):
    with pytest.raises(whence.WhenceError) as raised:
        call()
    assert raised.value.code == code and raised.value.remedy, raised.value
    return str(raised.value)


def test_values_of_another_model_are_refused(encoder, tmp_path):
    class Other(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.something = torch.nn.Linear(3, 3)

        def forward(self, ids):
            return self.something(ids.float()[:, :3])

    values = whence.record_values(Other(), example())
    assert_fails("E0206", lambda: whence.accuracy(encoder / "encoder.onnx", values))


def test_inputs_that_do_not_match_are_refused(encoder, tmp_path):
    class TwoInputs(Encoder):
        def forward(self, first, second):
            return super().forward(first + second)

    values = whence.record_values(TwoInputs(), (example()[0] // 2, example()[0] // 2))
    assert_fails("E0104", lambda: whence.accuracy(encoder / "encoder.onnx", values))
    model = onnx.load(encoder / "encoder.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 99
    onnx.save(model, tmp_path / "m.onnx")
    assert "99" in assert_fails("E0104", lambda: measure(encoder, tmp_path / "m.onnx"))


def test_a_file_without_annotations_is_refused(encoder, tmp_path):
    model = onnx.load(encoder / "encoder.onnx")
    for node in model.graph.node:
        del node.metadata_props[:]
    onnx.save(model, tmp_path / "m.onnx")
    assert_fails("E0203", lambda: measure(encoder, tmp_path / "m.onnx"))


def test_invalid_runtimes_providers_and_limits_are_refused(encoder):
    assert_fails("E0101", lambda: measure(encoder, encoder / "encoder.onnx", runtime="abacus"))
    assert_fails("E0101", lambda: measure(encoder, encoder / "encoder.onnx", provider="NoExecutionProvider"))
    assert_fails("E0101", lambda: measure(encoder, encoder / "encoder.onnx", max_error="1e-3"))
    assert_fails("E0101", lambda: measure(encoder, encoder / "encoder.onnx", max_error=["much"]))


@pytest.mark.parametrize("content", [b"", b"not safetensors", b"\x08\0\0\0\0\0\0\0{}      ", b"\xff" * 64])
def test_files_without_values_are_refused(encoder, tmp_path, content):
    path = tmp_path / "v.safetensors"
    path.write_bytes(content)
    with pytest.raises(whence.WhenceError) as raised:
        whence.accuracy(encoder / "encoder.onnx", path)
    assert raised.value.code in ("E0201", "E0202", "E0203") and raised.value.remedy


def test_damaged_values_are_refused_or_readable(encoder, tmp_path):
    """Truncations and changed header bytes lead to an error with a code, or to readable values."""
    content = (encoder / "encoder.values.safetensors").read_bytes()
    header = int.from_bytes(content[:8], "little")
    path = tmp_path / "v.safetensors"
    for size in (4, 8, 100, header, header + 8, len(content) - 1):
        path.write_bytes(content[:size])
        assert read_or_error_code(path) == "E0202"
    random = numpy.random.default_rng(1)
    codes = set()
    for _ in range(300):
        changed = bytearray(content)
        for at in random.integers(8, 8 + header, size=2):
            changed[at] = random.integers(32, 127)
        path.write_bytes(changed)
        codes.add(read_or_error_code(path))
    assert codes & {"E0203", "E0204"} and codes <= {"E0202", "E0203", "E0204", "E0205", "read"}


METADATA = [("version", 2, "E0205"), ("version", True, "E0204"), ("version", -5, "E0204"), ("runs", {}, "E0204"),
            ("runs", None, "E0204"), ("dims", [float("inf")], "E0204"), ("dims", [-1], "E0204"), ("form", "half", "E0204")]


@pytest.mark.parametrize("name, value, code", METADATA, ids=[f"{name} {value}" for name, value, _ in METADATA])
def test_values_with_invalid_metadata_are_refused(encoder, tmp_path, name, value, code):
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(encoder / "encoder.values.safetensors", framework="pt") as file:
        tensors, document = {key: file.get_tensor(key) for key in file.keys()}, json.loads(file.metadata()["whence"])
    entry = document if name in document else next(iter(document["runs"][0]["inputs"].values()))
    assert name in entry
    entry[name] = value
    save_file(tensors, tmp_path / "v.safetensors", {"whence": json.dumps(document)})
    assert read_or_error_code(tmp_path / "v.safetensors") == code


def read_or_error_code(path) -> str:
    from whence.values import value_file

    try:
        values = value_file.read(path)
        for run in values.runs:
            of_calls = (tensor for call in run.calls for tensor in (*call.given, *call.results))
            for tensor in (*run.inputs.values(), *of_calls):
                values.whole(tensor) if tensor.form == "whole" else values.sketch(tensor)
    except whence.WhenceError as failure:
        assert failure.remedy
        return failure.code
    return "read"


def test_values_without_a_run_are_refused(encoder):
    assert_fails("E0204", lambda: whence.accuracy(encoder / "encoder.onnx", in_memory([], {})))


def test_unreadable_dumps_are_refused(encoder, tmp_path):
    (tmp_path / "d.npz").write_bytes(b"PK\x03\x04 no")
    (tmp_path / "d.json").write_text("[]")
    assert_fails("E0203", lambda: measure(encoder, encoder / "encoder.onnx", outputs=tmp_path / "d.npz"))
    assert_fails("E0203", lambda: measure(encoder, encoder / "encoder.onnx", outputs=tmp_path / "d.json"))
    assert_fails("E0102", lambda: measure(encoder, encoder / "encoder.onnx", outputs=tmp_path / "no.npz"))


@pytest.mark.parametrize(("arguments", "code"), [
    (["{model}"], 2), (["{model}", "--values", "{nothing}"], 2), (["{nothing}", "--values", "{values}"], 2),
    (["{model}", "--values", "{model}"], 3), (["{model}", "--values", "{values}", "--memory", "0"], 2),
    (["{model}", "--values", "{values}", "--tolerance", "-1"], 2), (["{values}", "--values", "{values}"], 3),
    (["{model}", "--values", "{values}", "--sidecar", "{values}"], 3), (["{model}", "--val", "{values}"], 2)])
def test_invalid_command_lines_are_refused(encoder, tmp_path, capsys, arguments, code):
    paths = {"model": encoder / "encoder.onnx", "values": encoder / "encoder.values.safetensors",
             "nothing": tmp_path / "nothing"}
    assert run(*(argument.format(**paths) for argument in arguments)) == code
    assert "; try: " in capsys.readouterr().err
