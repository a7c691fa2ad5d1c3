"""Records and exports torch::nn modules from C++: results, module paths at each optimisation level, and refusals."""

import re
import subprocess
import sys
import textwrap

import numpy
import onnx
import onnxruntime
import pytest
import torch
from sidecar import Sidecar

import command
from constraints import constraints_of
from native import built as programs

# Stack frames show only the class of these modules: several modules of one class, derived classes, no layers.
CLASS_ONLY = ("derived", "own_layers", "layerless", "tree", "pairs", "half_scoped")
CASES = ("blocks", "sequence", "containers", "shared", "recurrent", "norms", "translator", "sizes", "speech", "hidden",
         "looped", *CLASS_ONLY)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return programs.built(tmp_path_factory)


def operations(folder, case) -> list[dict]:
    sidecar = Sidecar(folder / f"{case}.whence.json")
    inferred, enclosing = set(sidecar.raw.get("inferred", [])), set(sidecar.raw.get("enclosing", []))
    return [{**row, "inferred": index in inferred, "enclosing": index in enclosing}
            for index, row in enumerate(sidecar.operations())]


def load(path):
    return torch.load(path).numpy()


# ---- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", programs.VARIANTS)
@pytest.mark.parametrize("case", CASES)
def test_results_equal_libtorch_at_two_sizes(built, variant, case):
    folder = built / variant
    session = onnxruntime.InferenceSession(str(folder / f"{case}.onnx"), providers=["CPUExecutionProvider"])
    for size in ("0", "1"):
        inputs = {node.name: load(folder / f"{case}.{size}.input{i}.pt") for i, node in enumerate(session.get_inputs())}
        outputs = session.run(None, inputs)
        for i, output in enumerate(outputs):
            expected = load(folder / f"{case}.{size}.output{i}.pt")
            assert output.shape == expected.shape
            numpy.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


def test_sample_equals_libtorch_and_validates(built):
    folder = built / "exported"
    checked = subprocess.run([sys.executable, command.ROOT / "samples" / "cpp" / "check.py", folder],
                             capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("largest difference") == 6
    for model in ("resnet", "text_encoder", "tagger"):
        report = command.run_json("validate", folder / f"{model}.onnx", "--sidecar", folder / f"{model}.whence.json")
        assert report["coverage"]["unattributed"] == 0 and report["coverage"]["covered"] > 0


def test_recorded_values_locate_a_wrong_layer(built, tmp_path):
    """As in docs/cpp.md: values recorded from the archive of a C++ model locate a wrong layer in the file."""
    folder, values = built / "exported", tmp_path / "values.safetensors"
    command.run("record", folder / "resnet.pt", "--inputs", folder / "resnet.0.input.pt", "--inputs",
                folder / "resnet.1.input.pt", "--values", values, "-o", tmp_path / "archive.whence.json")
    measure = ("--values", values, "--sidecar", folder / "resnet.whence.json")
    correct_report = command.run_json("accuracy", folder / "resnet.onnx", *measure)
    assert correct_report["first"] is None and correct_report["observable"] > 10
    model = onnx.load(folder / "resnet.onnx")
    [weight] = [tensor for tensor in model.graph.initializer if tensor.name == "layer2.0.conv2.weight"]
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 1.5, weight.name))
    onnx.save(model, tmp_path / "wrong.onnx")
    wrong_report = command.run_json("accuracy", tmp_path / "wrong.onnx", *measure, "--model", folder / "resnet.pt")
    assert "layer2.0.conv2" in wrong_report["first"]["suspects"] and wrong_report["first"]["made"] > 0.01
    assert all(module.startswith("layer2.0") for module in wrong_report["first"]["suspects"])


def test_module_keeps_its_training_mode(built):
    for variant in programs.VARIANTS:
        assert all(programs.results(built, variant)[case]["mode_kept"] for case in CASES)


# ---- modules ---------------------------------------------------------------------------------------------------------


UNSCOPED = ("debug", "release", "fast", "stripped")


def with_expected_rows(built, variant, case):
    """Returns (row, expected row) of each operation; expected rows have a ModuleScope in each forward."""
    reference, actual = operations(built / "scoped", case), operations(built / variant, case)
    assert [row["target"] for row in actual] == [row["target"] for row in reference]
    return list(zip(actual, reference, strict=True))


def call_of(row):
    return row["module"], row["call"]


@pytest.mark.parametrize("variant", UNSCOPED)
@pytest.mark.parametrize("case", [case for case in CASES if case not in ("half_scoped", "hidden")])
def test_no_operation_has_a_wrong_module(built, variant, case):
    for row, expected in with_expected_rows(built, variant, case):
        if expected["inferred"] or expected["enclosing"]:  # a size that whence inserted
            assert row["inferred"] or row["enclosing"], row
        elif row["enclosing"]:
            ancestor = row["module"]
            assert ancestor in ("", expected["module"]) or expected["module"].startswith(ancestor + "."), row
        elif case == "looped" and variant in ("fast", "stripped"):  # no frame shows where a call in a loop begins
            assert row["module"] == expected["module"] and (row["inferred"] or row["call"] == expected["call"]), row
        else:
            assert call_of(row) == call_of(expected), row


@pytest.mark.parametrize("case", [case for case in CASES if case != "half_scoped"])
def test_modules_inferred_from_the_stack_are_never_exact(built, case):
    layers = {row["path"] for row in Sidecar(built / "debug" / f"{case}.whence.json").table("modules")
              if row["type"].startswith("torch.nn.")}
    users = {row["path"] for row in Sidecar(built / "debug" / f"{case}.whence.json").table("modules")} - layers - {""}
    for row in operations(built / "debug", case):
        assert not users or row["inferred"] or row["enclosing"] or row["module"] in layers, row


@pytest.mark.parametrize("case, enclosing", [("blocks", 0), ("own_layers", 0), ("tree", 0), ("pairs", 4),
                                             ("layerless", 6)])
def test_debug_information_identifies_most_modules(built, case, enclosing):
    """`layerless` has two indistinguishable gates; in `pairs`, other code may call a method of the base class."""
    assert sum(row["enclosing"] for row in operations(built / "debug", case)) <= enclosing


@pytest.mark.parametrize("case", ["blocks", "sequence", "derived", "looped", "layerless", "tree", "pairs"])
def test_stripped_program_identifies_only_layers(built, case):
    """Other operations get the enclosing module, because the address of a function does not reveal a class."""
    layers = {row["path"] for row in Sidecar(built / "stripped" / f"{case}.whence.json").table("modules")
              if row["type"].startswith("torch.nn.")}
    rows = operations(built / "stripped", case)
    assert any(row["enclosing"] for row in rows)
    assert not [row for row in rows if not row["enclosing"] and row["module"] not in layers]


def test_unregistered_object_is_not_mistaken_for_a_registered_module(built):
    """Both run the same code; operations of the unregistered object belong to its owner."""
    for variant in programs.VARIANTS:
        for row in operations(built / variant, "hidden"):
            assert row["module"] in ("", "linear") or row["inferred"] or row["enclosing"], (variant, row)


def test_code_without_a_scope_is_not_exact(built):
    """A scope in a base class or in another function does not cover the code outside."""
    for variant in programs.VARIANTS:
        rows = {row["target"]: row for row in operations(built / variant, "half_scoped")}
        assert call_of(rows["aten::tanh"]) in {("with_scope", 0), ("without_scope", 0)}
        for target in ("aten::sin", "aten::exp"):
            assert rows[target]["inferred"] or rows[target]["enclosing"], (variant, target)


@pytest.mark.parametrize("variant", programs.VARIANTS)
def test_layers_have_exact_paths(built, variant):
    def paths(case):
        return [row["module"] for row in operations(built / variant, case) if not (row["inferred"] or row["enclosing"])]

    blocks = [path for path in paths("blocks") if path.endswith("linear")]
    # In a stripped program, two calls of a module look like a loop in one call, so their operations are inferred.
    twice = () if variant == "stripped" else ("twice", "twice")
    assert blocks == [f"{block}.linear" for block in ("stages.0", "stages.1", "stages.2", "list.0", "list.1", *twice)
                      for _ in ("t", "addmm")]
    assert {"sequence.first", "sequence.act", "sequence.fun", "dict.up", "dict.down", "any"} <= set(paths("containers"))
    assert {"lstm", "gru"} <= set(paths("recurrent"))
    assert {"pad", "conv", "instance", "batch", "pool", "up"} == set(paths("norms")) - {""}
    layer = "transformer.decoder.layers.0."
    assert {layer + name for name in ("self_attn", "multihead_attn", "linear1", "norm3")} <= set(paths("translator"))


def test_repeated_and_shared_modules(built):
    calls = [row["call"] for row in operations(built / "release", "blocks") if row["module"] == "twice"]
    assert set(calls) == {0, 1} and calls == sorted(calls)
    shared = operations(built / "release", "shared")
    assert {row["call"] for row in shared if row["module"] == "first"} == {0, 1, 2}
    assert "second" not in {row["module"] for row in shared}
    modules = {row["path"]: row for row in Sidecar(built / "release" / "shared.whence.json").table("modules")}
    assert modules["first"]["aliases"] == ["second"] and modules["first"]["type"] == "torch.nn.Linear"
    assert modules[""]["type"] == "zoo.SharedImpl"
    parameters = [row["name"] for row in Sidecar(built / "release" / "shared.whence.json").table("parameters")]
    assert {"embed.weight", "first.weight", "first.bias"} <= set(parameters)


def call_paths(folder, case) -> list[list]:
    """Returns the path of (module, call number) from the root to each operation."""
    sidecar = Sidecar(folder / f"{case}.whence.json")
    modules, scopes = sidecar.table("modules"), sidecar.table("scopes")

    def path_to(scope):
        entry = scopes[scope]
        parents = path_to(entry["parent"]) if entry["parent"] >= 0 else []
        return [*parents, (modules[entry["module"]]["path"], entry["call"])]

    return [path_to(row["scope"]) for row in sidecar.operations()]


@pytest.mark.parametrize("variant", UNSCOPED)
def test_loop_in_a_call_is_not_reported_as_exact_calls(built, variant):
    """Covers loops that call a helper, iterate over layers, or call a module."""
    reference, actual = call_paths(built / "scoped", "looped"), call_paths(built / variant, "looped")
    rows = operations(built / variant, "looped")
    assert {path[1] for path in reference if path[1:]} == {("refine", 0), ("stacked", 0), ("again", 0), ("again", 1),
                                                      ("again", 2)}
    for row, path, expected in zip(rows, actual, reference, strict=True):
        assert row["inferred"] or row["enclosing"] or path == expected, row
    if variant == "debug":
        assert {path[1] for path in actual if path[1:]} == {path[1] for path in reference if path[1:]}


def test_inserted_sizes_are_not_exact_and_have_a_source_line(built):
    """`sizes` computes with x.size(0) as a number; whence infers the operations on sizes from several traces."""
    for variant in ("debug", "scoped"):
        assert programs.results(built, variant)["sizes"]["dynamic"] > 0
        inserted = [row for row in operations(built / variant, "sizes")
                    if row["target"] in ("aten::size", "aten::floordiv", "prim::NumToTensor")
                    or row["target"] in ("aten::mul", "aten::add") and row["overload"] == "int"]
        assert {"aten::size", "aten::floordiv"} <= {row["target"] for row in inserted}
        for row in inserted:
            assert row["inferred"] or row["enclosing"], row
            assert variant != "debug" or row["frames"], row
    for node in onnx.load(built / "scoped" / "sizes.onnx").graph.node:
        keys = {entry.key: entry.value for entry in node.metadata_props}
        assert node.op_type != "Shape" or keys["pkg.whence.confidence"] != "exact"


def test_explain_states_how_the_module_was_determined(built):
    path = built / "debug" / "blocks.onnx"
    for node in onnx.load(path).graph.node:
        keys = {entry.key: entry.value for entry in node.metadata_props}
        reason = command.run_json("explain", path, node.name)["reason"]
        if keys["pkg.whence.rule"] != "stamp":
            continue
        phrase = {"exact": "of this module", "inferred": "not recorded but inferred",
                  "ancestor": "this one or one below"}[keys["pkg.whence.confidence"]]
        assert phrase in reason, (keys, reason)
        assert ("whence::ModuleScope" in reason) == (keys["pkg.whence.confidence"] != "exact"), (keys, reason)


def test_inferred_operations_are_marked_and_counted(built):
    report = programs.results(built, "release")["blocks"]
    assert report["inferred"] > 0
    model = onnx.load(built / "release" / "blocks.onnx")
    confidence = [{entry.key: entry.value for entry in node.metadata_props}["pkg.whence.confidence"]
                  for node in model.graph.node]
    validated = command.run_json("validate", built / "release" / "blocks.onnx")
    assert confidence.count("inferred") == validated["coverage"]["inferred"] == report["inferred"]
    assert programs.results(built, "scoped")["blocks"]["inferred"] == 0


def test_debug_information_yields_source_lines(built):
    sources = {frame["file"].rsplit("/", 1)[-1]
               for row in operations(built / "debug", "blocks") for frame in row["frames"]}
    assert sources == {"modules.h"}
    lines = [row["frames"][0] for row in operations(built / "debug", "blocks") if row["target"] == "aten::tanh"]
    text = (command.ROOT / "tests" / "native" / "modules.h").read_text().splitlines()
    assert all("torch::tanh(x)" in text[frame["line"] - 1] for frame in lines)
    assert all(frame["function"] == "zoo::BlockImpl::forward" for frame in lines)


def test_model_in_a_shared_library(built):
    folder = built / "with_library"
    assert (folder / "output").read_text() == "5 5\n"
    assert [row["module"] for row in operations(folder, "library")] == ["in", "in", "", "out", "out"]
    # Python and the command can read the archive.
    result = torch.jit.load(folder / "library.pt")(torch.ones(3, 4))
    assert result.shape == (3, 2)
    command.run("export", folder / "library.pt", "-o", folder / "library.onnx", "--input", "x=float32[3,4]")


def test_recording_in_a_python_process_keeps_source_lines(built, tmp_path):
    """After recording C++ in a Python process, Python's traces have the same source lines as before."""
    script = tmp_path / "both.py"
    script.write_text(textwrap.dedent("""
        import ctypes, sys, torch

        class Net(torch.nn.Module):
            def forward(self, x):
                return torch.relu(x) + 1  # line 5

        def stacks():
            traced = torch.jit.trace(Net(), torch.ones(2))
            return [node.sourceRange() for node in traced.inlined_graph.nodes() if node.kind().startswith("aten")]

        found = []
        for records in (False, True):  # a loop, so that both calls have one line
            if records:
                assert ctypes.CDLL(sys.argv[1]).record_library(sys.argv[2].encode()) == 0
            found.append(stacks())
        before, after = found
        assert before == after and len(before) == 2 and "both.py(5)" in before[0].split("forward")[0], found
    """).lstrip())
    library = programs.PROGRAMS / "libin_python.so"
    output = programs.run(sys.executable, script, library, tmp_path,
                          env={**programs.without_whence_variables(), "LD_PRELOAD": str(library)})
    assert output == "5 5\n"
    assert [row["module"] for row in operations(tmp_path, "library")] == ["in", "in", "", "out", "out"]


def test_every_forward_of_libtorch_is_intercepted():
    library = next(path for path in torch.__path__) + "/lib/libtorch_cpu.so"
    method = re.compile(r"\b(_ZN5torch2nn\w*Impl\w*(?:7forward|20forward_with_indices|25forward_with_packed_input|"
                        r"16_check_input_dim)E\w+)")
    exported = set(method.findall(subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True,
                                                 text=True, check=True).stdout))
    layers = next((programs.BUILD / "CMakeFiles" / "whence_layers.dir").rglob("layers.cpp.o"))
    intercepted = set(method.findall(subprocess.run(["nm", "--defined-only", layers], capture_output=True, text=True,
                                                    check=True).stdout))
    assert len(exported) > 100
    assert exported <= intercepted


# ---- state and sizes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", programs.VARIANTS)
def test_buffer_written_by_forward(built, variant):
    """Exporting and recording both warn about the write and restore the buffer."""
    for case in ("counting", "counted"):
        notes = programs.results(built, variant)[case]["notes"]
        assert [note["code"] for note in notes] == ["E0308"] and "count" in notes[0]["message"]
    assert programs.results(built, variant)["counted"]["count"] == 0
    session = onnxruntime.InferenceSession(str(built / variant / "counting.onnx"), providers=["CPUExecutionProvider"])
    result = session.run(None, {"x": load(built / variant / "counting.0.input0.pt")})[0]
    numpy.testing.assert_allclose(result, load(built / variant / "counting.0.output0.pt"), rtol=1e-4, atol=1e-4)


def test_report_contains_the_traced_sizes(built):
    assert programs.results(built, "debug")["blocks"]["largest"] > 1000


def test_size_0_is_excluded_because_it_was_not_traced(built):
    assert constraints_of(built / "release" / "blocks.onnx") == ["batch >= 1"]


def test_sources_without_lines_show_the_function(built):
    model = onnx.load(built / "release" / "blocks.onnx")
    sources = {entry.value for node in model.graph.node for entry in node.metadata_props
               if entry.key == "pkg.whence.source"}
    assert sources and not any(source.startswith(":") for source in sources)
    explained = command.run("explain", built / "release" / "blocks.onnx", "--sidecar",
                            built / "release" / "blocks.whence.json", model.graph.node[0].name)
    assert "BlockImpl::forward" in str(explained) or "BlocksImpl::forward" in str(explained)
    assert ":0" not in str(explained)


# ---- options of the export ---------------------------------------------------------------------------------------

def option(built, name: str) -> onnx.ModelProto:
    """Loads the file exported with an option and compares its results for the example with LibTorch."""
    path = built / "release" / f"option_{name}.onnx"
    model = onnx.load(path)
    feeds = {"x": load(built / "release" / f"option_{name}.0.input0.pt")}
    if name == "weights_as_inputs":
        unoptimized = onnx.load(built / "release" / "option_no_optimize.onnx")  # the same module
        weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in unoptimized.graph.initializer}
        feeds |= {value.name: weights[value.name] for value in model.graph.input if value.name != "x"}
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = load(built / "release" / f"option_{name}.0.output0.pt")
    numpy.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-4, atol=1e-4)
    return model


def test_option_optimize(built):
    assert len(option(built, "no_optimize").graph.node) > len(onnx.load(built / "release" / "blocks.onnx").graph.node)


def test_option_weights_as_inputs(built):
    graph = option(built, "weights_as_inputs").graph
    assert len(graph.input) > 1 and not any("weight" in tensor.name for tensor in graph.initializer)


def test_option_keep_initializers_as_inputs(built):
    graph = option(built, "keep_initializers").graph
    assert {tensor.name for tensor in graph.initializer} < {value.name for value in graph.input}


def test_option_external_data(built):
    option(built, "external_data")
    files = {path.name for path in (built / "release").glob("option_external_data.onnx.*")}
    assert files and all(".weight" in name for name in files)


def test_option_functions(built):
    model = option(built, "functions")
    assert "BlockImpl" in {function.name for function in model.functions}
    assert "BlockImpl" in {node.op_type for node in model.graph.node}


def test_option_report(built):
    option(built, "report")
    assert (built / "release" / "report.md").read_text().startswith("# ")


# ---- refusals --------------------------------------------------------------------------------------------------------

REFUSED = {
    "throws_number": ("E0207", "not a std::exception", "linear"),
    "throws_dynamic": ("E0207", "shapes cannot be multiplied", "linear"),
    "unregistered": ("E0207", "Cannot insert a Tensor that requires grad", None),
    "limit": ("E0304", "the number", ""),
    "scaled": ("E0304", "torch::nn::UpsampleImpl computes the number 27 from a size", "larger"),
    "throws": ("E0207", "shapes cannot be multiplied", "linear"),
    "branch": ("E0303", "reads the value of a tensor", ""),
    "size_branch": ("E0304", "control flow depends on a dynamic size", None),
    "baked": ("E0304", "1.4142135623730951 from a size", ""),
    "fixed": ("E0304", "does not accept another size", ""),
    "threaded": ("E0310", "another thread", "linear"),
    "recursive": ("E0310", "being recorded already", ""),
    "too_many_inputs": ("E0104", "2 inputs were passed, forward takes 1", None),
    "no_such_input": ("E0104", "no argument 'image'", None),
    "undefined_input": ("E0104", "undefined tensor", None),
    "names": ("E0104", "2 input_names", None),
    "bad_name": ("E0103", "'a b'", None),
    "opset": ("E0101", "99", None),
    "operators": ("E0101", "--operators=newest", None),
    "functions": ("E0101", "--functions 'Block'", None),
    "converters": ("E0102", "no/such/file.onnx", None),
    "custom_opsets": ("E0101", "my.ops", None),
    "alignment": ("E0101", "3", None),
    "archive_is_output": ("E0101", "refused.onnx", None),
    **{f"of_archives_{option}": ("E0101", f"Options::{option} ", None)
       for option in ("dynamic", "inputs", "inputs_file", "default_dtype", "libraries")},
    "unwritable": ("E0401", "no/such/folder", None),
    "no_command": ("E0311", "/nonexistent/whence", None),
    "version": ("E0307", "LibTorch 1.13.0, whence with LibTorch " + torch.__version__.split("+")[0], None),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(built, case):
    code, message, module = REFUSED[case]
    error = programs.results(built, "debug")[case]["errors"][0]
    assert error["code"] == code and message in error["message"] and error["remedy"]
    assert module is None or error["where"]["module"] == module
    assert not (built / "debug" / "refused.onnx").exists()


def test_remedy_for_a_size_in_libtorchs_code(built):
    """The remedy suggests rewriting user code, but not LibTorch's code."""
    errors = {case: programs.results(built, "debug")[case]["errors"][0] for case in ("scaled", "limit")}
    assert "leave that axis out of dynamic_axes" in errors["scaled"]["remedy"] and "'larger'" in errors["scaled"]["remedy"]
    assert "torch::full_like" in errors["limit"]["remedy"] and "a module of your own" not in errors["limit"]["remedy"]


@pytest.mark.parametrize("length", [50, 77, 333, 1031, 2000])
def test_length_after_strided_convolutions_is_computed(built, length):
    """Runs at lengths that were not traced, including one with only a few steps."""
    session = onnxruntime.InferenceSession(str(built / "release" / "speech.onnx"), providers=["CPUExecutionProvider"])
    steps = ((length - 10) // 5 + 1 - 3) // 2 + 1
    [result] = session.run(None, {"x": numpy.random.randn(2, 1, length).astype(numpy.float32)})
    assert result.shape == (steps, 2, 16) and numpy.isfinite(result).all()


def test_program_without_whences_layers_is_refused(built):
    output = (built / "without_layers" / "output").read_text()
    assert output.startswith("E0303") and "link whence::recorder into the program" in output


@pytest.mark.parametrize("case, line", [("branch", "item<float>()"), ("size_branch", "linear(x)"), ("baked", "std::sqrt"),
                                        ("throws", "linear(x)")])
def test_refusals_name_the_line(built, case, line):
    source = programs.results(built, "debug")[case]["errors"][0]["where"]["source"]
    file, number = re.match(r"(\S+):(\d+) ", source).groups()
    assert file == "modules.h"
    assert line in (command.ROOT / "tests" / "native" / file).read_text().splitlines()[int(number) - 1]


def test_no_temporary_files_are_left(built):
    assert not list((built / "debug").glob(".whence-*")) and not list((built / "with_library").glob(".whence-*"))
