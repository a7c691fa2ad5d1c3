"""Dynamic sizes of torch.export archives: their names, bounds, derived sizes and arithmetic."""

import math

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import command
from export.test_exported_programs import assert_same
from results import assert_same_results
from sidecar import Sidecar

BATCH, TIME = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("time", min=8, max=1024)


class Sizes(torch.nn.Module):
    """Uses every form of arithmetic that torch.export leaves in a program."""

    def forward(self, x, y):
        batch, time = x.shape
        return (x.reshape(batch * time), x * batch**2 + time / 2, torch.cat([x, y], 0), x.repeat(2, 1),
                x.new_ones(time * 3 - batch), x.new_ones(torch.sym_min(batch, time)),
                x.new_zeros(torch.sym_max(batch, time)), x.new_ones(time // 2 + 7), x.new_ones(time % 3 + 2),
                x * (batch > 5), x * torch.sym_sqrt(time), x * torch.sym_float(batch), x * (batch == 2 * time),
                x.new_ones(math.trunc(time * 1.5)))


def inputs_of(batch: int, time: int) -> dict:
    torch.manual_seed(0)
    return {"x": torch.randn(batch, time), "y": torch.randn(2 * batch, time)}


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "decomposed"])
def archive(request, tmp_path_factory):
    program = torch.export.export(Sizes(), (), inputs_of(4, 10), strict=False,
                                  dynamic_shapes={"x": {0: BATCH, 1: TIME}, "y": {0: 2 * BATCH, 1: TIME}},
                                  prefer_deferred_runtime_asserts_over_guards=True)
    path = tmp_path_factory.mktemp("shapes") / "m.pt2"
    torch.export.save(program.run_decompositions() if request.param else program, path)
    return path


def dims(values) -> list:
    return [[dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values]


def test_arithmetic_equals_pytorch(archive, tmp_path):
    command.run("export", archive, "-o", tmp_path / "m.onnx")
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    for sizes in [(4, 10), (7, 11), (20, 9)]:
        assert_same(tmp_path / "m.onnx", Sizes(), inputs_of(*sizes))


def test_symbols_are_named_by_the_archive_or_by_the_user(archive, tmp_path):
    """An archive does not contain the names of Dim objects; a derived size is named by its expression."""
    program = torch.export.load(archive)
    assert not any(name in str(program.range_constraints) for name in ("batch", "time"))
    batch, time = (str(size) for size in program.graph_signature and next(
        node for node in program.graph.nodes if node.name == "x").meta["val"].shape)
    command.run("export", archive, "-o", tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert dims(graph.input) == [[batch, time], [f"2*{batch}", time]]
    command.run("export", archive, "-o", tmp_path / "n.onnx", "--dynamic", "x:0=batch,1=time")
    graph = onnx.load(tmp_path / "n.onnx").graph
    assert dims(graph.input) == [["batch", "time"], ["2*batch", "time"]]
    assert dims(graph.output)[0] in (["batch*time"], ["time*batch"])
    assert dims(graph.output)[2] == ["3*batch", "time"]
    assert dims(graph.output)[7] == ["(time//2) + 7"]


def test_range_constraints_are_preserved(archive, tmp_path):
    command.run("record", archive, "-o", tmp_path / "m.json")
    symbols = {row["name"]: (row["min"], row["max"]) for row in Sidecar(tmp_path / "m.json").table("symbols")
               if row["min"] is not None}
    ranges = {str(symbol): (int(bounds.lower), int(bounds.upper))
              for symbol, bounds in torch.export.load(archive).range_constraints.items()}
    assert symbols == ranges and set(symbols.values()) == {(2, 64), (8, 1024), (4, 128)}


RANGES = "pkg.torch.export.ExportedProgram.range_constraints"


def ranges_in(path) -> dict[str, str]:
    """Reads the ranges of a file, such as {"batch": "VR[2, 64]"}."""
    ranges = {entry.key: entry.value for entry in onnx.load(path).graph.metadata_props}[RANGES]
    return dict(entry.split(": ") for entry in ranges.strip("{}").replace("], ", "]\n").splitlines())


def test_ranges_use_the_names_of_sizes(archive, tmp_path):
    """PyTorch's exporter keeps its own symbols in this key even if dynamic_shapes names the dimensions."""
    pytorch_ranges = {str(symbol): str(bounds)
                      for symbol, bounds in torch.export.load(archive).range_constraints.items()}
    command.run("export", archive, "-o", tmp_path / "plain.onnx")
    assert ranges_in(tmp_path / "plain.onnx") == pytorch_ranges
    command.run("export", archive, "-o", tmp_path / "named.onnx", "--dynamic", "x:0=batch,1=time")
    named = ranges_in(tmp_path / "named.onnx")
    assert named == {"batch": "VR[2, 64]", "time": "VR[8, 1024]", "2*batch": "VR[4, 128]"}
    assert sorted(named.values()) == sorted(pytorch_ranges.values())
    graph = onnx.load(tmp_path / "named.onnx").graph
    assert {dim for shape in dims(graph.input) for dim in shape} == set(named)


class Independent(torch.nn.Module):
    def forward(self, x, y):
        return x + 1, y * 2


@pytest.mark.parametrize("bounds", [((2, 64), (4, 100)), ((4, 100), (2, 64))], ids=["lower first", "higher first"])
def test_two_sizes_with_one_name_get_the_common_range(bounds, tmp_path):
    shapes = tuple({0: torch.export.Dim(name, min=low, max=high)}
                   for name, (low, high) in zip("ab", bounds, strict=True))
    program = torch.export.export(Independent(), (torch.randn(5, 3), torch.randn(6, 3)), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--dynamic", "x:0=n", "--dynamic", "y:0=n")
    assert dims(onnx.load(tmp_path / "m.onnx").graph.input) == [["n", 3], ["n", 3]]
    assert ranges_in(tmp_path / "m.onnx") == {"n": "VR[4, 64]"}


def test_equal_sizes_get_the_first_of_two_names(tmp_path):
    class Sum(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    inputs = (torch.randn(5, 3), torch.randn(5, 3))
    program = torch.export.export(Sum(), inputs, dynamic_shapes=({0: BATCH}, {0: BATCH}))
    torch.export.save(program, tmp_path / "m.pt2")
    result = command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--dynamic", "x:0=a",
                       "--dynamic", "y:0=b")
    assert "always equals the size 'a'" in result.stdout + result.stderr
    reference = torch.onnx.export(Sum(), inputs, dynamic_shapes=({0: "a"}, {0: "b"}), dynamo=True, verbose=False)
    assert dims(onnx.load(tmp_path / "m.onnx").graph.input) == dims(reference.model_proto.graph.input)


class Halved(torch.nn.Module):
    """The size after a strided layer, (n - 1) // 2 + 1, is at least 1 if n is not 0."""

    def forward(self, x):
        return x.new_ones((x.shape[0] - 1) // 2 + 1) * x.sum(), x * ((x.shape[0] - 20) // 7)


def test_floor_division_of_a_nonnegative_size_is_a_plain_div(tmp_path):
    n = torch.export.Dim("n", min=3, max=99)
    program = torch.export.export(Halved(), (torch.randn(9),), dynamic_shapes=({0: n},))
    torch.export.save(program, tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    for size in (9, 16, 30):
        assert_same(tmp_path / "m.onnx", Halved(), {"x": torch.randn(size)})
    operators = [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node]
    assert operators.count("Div") == 2 and operators.count("Mod") == 1  # n - 20 may be negative


class DataCheck(torch.nn.Module):
    """Checks data, as transformers does for images in a text; torch.export writes the condition as a number."""

    def forward(self, x, y):
        torch._check((x.sum() > 0).item())
        factor = torch.sym_ite((y.sum() > 0).item(), 3, 5)
        return x * 2, x * factor


def test_sym_ite_equals_pytorch(tmp_path):
    x = torch.rand(3) + 1
    torch.export.save(torch.export.export(DataCheck(), (x, x.clone())), tmp_path / "m.pt2")
    assert "torch.sym_ite" in (tmp_path / "m.pt2").read_bytes().decode("latin-1")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    for y in (x, -x):
        assert_same(tmp_path / "m.onnx", DataCheck(), {"x": x, "y": y})


def test_the_shape_of_a_view_comes_from_its_arguments(tmp_path):
    """torch.export records [n, 2] for both views, because n is 1 in the example."""
    class Flat(torch.nn.Module):
        def forward(self, x):
            return x.view(-1, 2).view(1, -1)

    program = torch.export.export(Flat(), (torch.ones(2),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    assert dims(onnx.load(tmp_path / "m.onnx").graph.output)[0][0] == 1
    for size in (2, 6):
        assert_same(tmp_path / "m.onnx", Flat(), {"x": torch.randn(size)})


class IntegerInput(torch.nn.Module):
    def forward(self, x, n):
        return x * n, x.new_zeros(n), x[: n - 1]


def test_a_dynamic_integer_is_an_input(tmp_path):
    program = torch.export.export(IntegerInput(), (torch.randn(4, 2), 3),
                                  dynamic_shapes=(None, torch.export.Dim.DYNAMIC(min=2, max=4)))
    torch.export.save(program, tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    x = torch.randn(4, 2)
    for n in (2, 3, 4):
        assert_same_results(session.run(None, {"x": x.numpy(), "n": np.array(n)}), IntegerInput()(x, n), (1e-6, 0))


def test_an_expression_cannot_name_an_independent_size(tmp_path):
    program = torch.export.export(torch.nn.ReLU(), (torch.randn(4, 2),),
                                  dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, tmp_path / "m.pt2")
    result = command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--dynamic", "input:0=2*b", code=2)
    assert "E0104" in result.stderr and "axis 0 of 'input'" in result.stderr
