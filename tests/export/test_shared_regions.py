"""Archives of models whose modules share a region: results equal PyTorch's, and each call has the origin of its own
module, never that of the first call."""

import onnx
import pytest
import torch

import command
from export import shared_regions
from export.test_exported_programs import assert_same

FORMS = ("strict", "strict, decomposed", "not strict", "not strict, decomposed")
# PyTorch 2.13 cannot save a region that uses a size, unless the program is decomposed, and cannot export a region in a
# branch with dynamic sizes.
CANNOT_BE_SAVED = {("sized", "strict")}
CANNOT_BE_DYNAMIC = {"in_branches"}


@pytest.fixture(autouse=True)
def no_compiled_code():
    torch._dynamo.reset()


def program_of(name: str, form: str, dynamic: bool) -> torch.export.ExportedProgram:
    inputs = shared_regions.inputs_of(name, 5, seed=1)
    shapes = {key: {0: torch.export.Dim.DYNAMIC} for key in inputs} if dynamic else None
    model = shared_regions.model_of(name)
    program = torch.export.export(model, (), inputs, strict=not form.startswith("not"), dynamic_shapes=shapes)
    return program.run_decompositions() if "decomposed" in form else program


def export_model(folder, name: str, form: str, dynamic: bool = False, *options):
    torch.export.save(program_of(name, form, dynamic), folder / "m.pt2")
    command.run("export", folder / "m.pt2", "-o", folder / "m.onnx", "--annotate", *options)
    onnx.checker.check_model(folder / "m.onnx", full_check=True)
    return folder / "m.onnx"


def nodes_within(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes_within(attribute.g)


def keys_of(node) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


def origins(path) -> list[tuple[str, str, str, str]]:
    rows = []
    for node in nodes_within(onnx.load(path).graph):
        keys = keys_of(node)
        rows.append((node.op_type, *(keys[f"pkg.whence.{key}"] for key in ("module", "call", "confidence"))))
    return rows


CASES = [(name, form) for name in shared_regions.MODELS for form in FORMS if (name, form) not in CANNOT_BE_SAVED]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_results_equal_pytorch_at_other_inputs(tmp_path, name, form):
    path = export_model(tmp_path, name, form)
    for seed in (2, 3, 4):
        assert_same(path, shared_regions.model_of(name), shared_regions.inputs_of(name, 5, seed))


@pytest.mark.parametrize(("name", "form"), [case for case in CASES if case[0] not in CANNOT_BE_DYNAMIC])
def test_results_equal_pytorch_at_other_sizes(tmp_path, name, form):
    path = export_model(tmp_path, name, form, dynamic=True)
    for length in (2, 9):
        assert_same(path, shared_regions.model_of(name), shared_regions.inputs_of(name, length, seed=length))


def encloses(module: str, path: str) -> bool:
    return not module or path == module or path.startswith(module + ".")


@pytest.mark.parametrize(("name", "form"), [case for case in CASES if case[0] != "tied"])
def test_a_node_never_names_a_module_that_its_parameters_contradict(tmp_path, name, form):
    """The modules of parameters are known from their names in the file; `ancestor` promises a module around them."""
    readers = 0
    for node in nodes_within(onnx.load(export_model(tmp_path, name, form)).graph):
        keys = keys_of(node)
        owners = {value.rpartition(".")[0] for value in node.input if value.count(".") and not value.startswith("/")}
        owners = {owner.removesuffix(".weight") for owner in owners}  # transposed weights
        for owner in owners:
            readers += 1
            module = keys["pkg.whence.module"]
            if keys["pkg.whence.confidence"] == "ancestor":
                assert encloses(module, owner)
            else:
                assert encloses(module, owner) and (module == owner or len(owners) > 1)
    assert readers or name == "without_parameters"


def block(path: str, call: int, confidence: str) -> list[tuple[str, str, str, str]]:
    at = [("LayerNormalization", path + ".norm"), ("Gemm", path + ".fc"), ("Relu", path), ("Add", path)]
    return [(operator, module, str(call), confidence) for operator, module in at]


@pytest.mark.parametrize("form", ["strict", "strict, decomposed"])
def test_each_call_has_its_own_module(tmp_path, form):
    assert origins(export_model(tmp_path, "layers", form)) == [
        *block("layers.0", 0, "exact"), *block("layers.1", 0, "inferred"), *block("layers.2", 0, "inferred"),
        ("Gemm", "layers.3", "0", "exact")]


def test_each_call_of_one_module_has_its_own_number(tmp_path):
    assert origins(export_model(tmp_path, "repeated", "strict")) == [
        *block("block", 0, "exact"), *block("block", 1, "inferred"), *block("other", 0, "inferred"),
        *block("block", 2, "inferred")]


def test_regions_in_regions_have_the_modules_of_their_calls(tmp_path):
    expected = []
    for i in range(3):
        for part in ("first", "second"):
            word = "exact" if (i, part) == (0, "first") else "inferred"
            expected += [("Gemm", f"layers.{i}.{part}.fc", "0", word), ("Gelu", f"layers.{i}.{part}.act", "0", word)]
        expected += [(operator, f"layers.{i}", "0", "inferred" if i else "exact") for operator in ("Mul", "Add")]
    assert origins(export_model(tmp_path, "nested", "strict")) == expected


def test_calls_in_one_module_have_the_modules_of_their_parameters(tmp_path):
    """Nothing shows which activation the second call has."""
    assert origins(export_model(tmp_path, "function", "strict")) == [
        ("Gemm", "a", "0", "exact"), ("Relu", "acts.0", "0", "exact"), ("Mul", "", "0", "exact"),
        ("Gemm", "b", "0", "inferred"), ("Relu", "", "0", "ancestor"), ("Mul", "", "0", "inferred")]


def test_branches_in_a_region_have_the_modules_of_the_call(tmp_path):
    rows = [row for row in origins(export_model(tmp_path, "branches_inside", "strict")) if row[0] in ("Gemm", "Tanh")]
    assert rows == [("Gemm", "layers.0.fc", "0", "exact"), ("Gemm", "layers.0.gate", "0", "exact"),
                    ("Tanh", "layers.0", "0", "exact"), ("Gemm", "layers.1.fc", "0", "inferred"),
                    ("Gemm", "layers.1.gate", "0", "inferred"), ("Tanh", "layers.1", "0", "inferred")]


def test_weights_shared_by_two_calls_leave_the_module_open(tmp_path):
    rows = origins(export_model(tmp_path, "tied", "strict"))
    assert rows[8:] == [("LayerNormalization", "layers.2.norm", "0", "inferred"), ("Gemm", "layers.2", "0", "ancestor"),
                        ("Relu", "layers.2", "0", "inferred"), ("Add", "layers.2", "0", "inferred")]


def test_a_region_inlined_by_pytorch_has_the_modules_that_parameters_show(tmp_path):
    """Without strict, PyTorch inlines a region that calls no other, but drops the calls of modules inside."""
    path = export_model(tmp_path, "layers", "not strict")
    expected = []
    for layer in ("layers.0", "layers.1", "layers.2"):
        expected += [("LayerNormalization", layer + ".norm", "0", "inferred"), ("Gemm", layer + ".fc", "0", "inferred"),
                     ("Relu", layer, "0", "ancestor"), ("Add", layer, "0", "ancestor")]
    assert origins(path) == [*expected, ("Gemm", "layers.3", "0", "exact")]


def test_modules_with_one_region_become_one_function(tmp_path):
    path = export_model(tmp_path, "layers", "strict", False, "--functions", "types=Block")
    model = onnx.load(path)
    calls = [node for node in model.graph.node if node.domain == model.functions[0].domain]
    assert [keys_of(node)["pkg.whence.module"] for node in calls] == ["layers.0", "layers.1", "layers.2"]
    assert len({node.op_type for node in calls}) == len(model.functions) == 1
    assert_same(path, shared_regions.model_of("layers"), shared_regions.inputs_of("layers", 5, seed=7))
