"""while_loop and scan of torch.export archives: results equal PyTorch's, and nodes in bodies get their modules."""

import onnx
import pytest
import torch
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan

import command
from export.test_exported_programs import assert_same

LINEAR = torch.nn.Linear


class Repeat(torch.nn.Module):
    """The trip count depends on data; the body reads a module's weights and an input."""

    def __init__(self):
        super().__init__()
        self.step = LINEAR(3, 3)

    def forward(self, n, x, y):
        def proceed(i, carried):
            return i < n

        def body(i, carried):
            return i + 1, torch.tanh(self.step(carried)) + y

        return torch.while_loop(proceed, body, (torch.zeros((), dtype=torch.int64), x))


class Newton(torch.nn.Module):
    """A loop in a branch, with a condition on the carried value."""

    def forward(self, x):
        def halve(value):
            return torch.while_loop(lambda v: v.abs().max() > 1, lambda v: (v / 2,), (value,))

        return torch.cond(x.sum() > 0, halve, lambda value: (value - 1,), (x,))


class Recurrent(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.cell = LINEAR(3, 3)
        self.options = options

    def forward(self, state, xs):
        def combine(carried, x):
            new_state = torch.relu(self.cell(carried) + x)
            return new_state, new_state * 2

        return scan(combine, state, xs, **self.options)


class SeveralValues(torch.nn.Module):
    """Two carried, two scanned and two stacked values; one stacked value equals the carried input."""

    def forward(self, state, xs):
        def combine(carried, x):
            total, last = carried
            return (total + x[0] * x[1], x[0].clone()), (total * 1.0, x[1] + 1)

        (total, last), (before, after) = scan(combine, (state, state + 1), (xs, xs * 3))
        return total, last, before, after


@pytest.fixture(autouse=True)
def no_compiled_code():
    torch._dynamo.reset()


def export_model(folder, model, inputs: dict, decomposed: bool, **options):
    program = torch.export.export(model.eval(), (), inputs, **options)
    torch.export.save(program.run_decompositions() if decomposed else program, folder / "m.pt2")
    command.run("export", folder / "m.pt2", "-o", folder / "m.onnx", "--annotate")
    onnx.checker.check_model(folder / "m.onnx", full_check=True)
    return folder / "m.onnx"


@pytest.mark.parametrize("decomposed", [False, True])
def test_while_loop_trip_count_equals_pytorch(tmp_path, decomposed):
    model, inputs = Repeat(), {"x": torch.randn(2, 3), "y": torch.randn(2, 3)}
    path = export_model(tmp_path, model, {"n": torch.tensor(3), **inputs}, decomposed)
    for times in (0, 1, 5):
        assert_same(path, model, {"n": torch.tensor(times), **inputs})


@pytest.mark.parametrize("scale", [9.0, 0.1, -5.0])
def test_while_loop_in_a_branch_equals_pytorch(tmp_path, scale):
    x = torch.rand(4) + 0.1
    path = export_model(tmp_path, Newton(), {"x": x}, False)
    assert_same(path, Newton(), {"x": x * scale})


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"dim": 1}, {"dim": 1, "reverse": True}])
def test_scan_equals_pytorch(tmp_path, options, decomposed):
    inputs = {"state": torch.randn(4, 3), "xs": torch.randn(4, 4, 3)}
    model = Recurrent(**options)
    assert_same(export_model(tmp_path, model, inputs, decomposed), model, inputs)


def test_scan_with_several_values_equals_pytorch(tmp_path):
    inputs = {"state": torch.randn(2, 3), "xs": torch.randn(5, 2, 3)}
    assert_same(export_model(tmp_path, SeveralValues(), inputs, False), SeveralValues(), inputs)


def operators(path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def test_a_scan_becomes_a_scan_node(tmp_path):
    inputs = {"state": torch.randn(4, 3), "xs": torch.randn(5, 4, 3)}
    assert operators(export_model(tmp_path, Recurrent(), inputs, False)) == ["Scan"]


class IterationNumber(torch.nn.Module):
    """Uses the iteration number for more than a slice of x."""

    def forward(self, x, k):
        total = x.sum(0) * 0
        for i in range(int(k)):
            total = total + x[i] * i
        return total


def test_a_loop_that_uses_the_iteration_number_stays_a_loop(tmp_path):
    inputs = {"x": torch.randn(5, 3), "k": torch.tensor(4)}
    torch.jit.script(IterationNumber()).save(tmp_path / "m.pt")
    torch.save(inputs, tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt")
    assert "Loop" in operators(tmp_path / "m.onnx") and "Scan" not in operators(tmp_path / "m.onnx")
    assert_same(tmp_path / "m.onnx", IterationNumber(), {"x": inputs["x"], "k": torch.tensor(2)})


class FirstRows(torch.nn.Module):
    """Loops over as many rows as there are columns."""

    def forward(self, x):
        total = x.sum(0) * 0
        for i in range(x.size(1)):
            total = total * 2 + x[i]
        return total


def test_a_loop_over_another_axis_equals_pytorch(tmp_path):
    torch.jit.script(FirstRows()).save(tmp_path / "m.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", "x=float32[5,3]",
                "--dynamic", "x:0=rows,1=columns")
    for rows, columns in ((5, 3), (4, 2)):
        assert_same(tmp_path / "m.onnx", FirstRows(), {"x": torch.randn(rows, columns)})


class OverRows(torch.nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for i in range(x.size(0)):
            total = total + torch.tanh(x[i])
        return total


def test_a_loop_over_a_possibly_empty_axis_stays_a_loop(tmp_path):
    """ONNX Runtime cannot run a Scan over an empty axis."""
    torch.jit.script(OverRows()).save(tmp_path / "m.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", "x=float32[5,3]",
                "--dynamic", "x:0=n")
    for rows in (4, 0):
        assert_same(tmp_path / "m.onnx", OverRows(), {"x": torch.randn(rows, 3)})


def test_scan_of_dynamic_length_equals_pytorch(tmp_path):
    model = Recurrent()
    length = torch.export.Dim("length", min=2, max=64)
    sizes = [{"state": torch.randn(4, 3), "xs": torch.randn(size, 4, 3)} for size in (5, 9)]
    path = export_model(tmp_path, model, sizes[0], False, dynamic_shapes={"state": None, "xs": {0: length}})
    for inputs in sizes:
        assert_same(path, model, inputs)


class Mapped(torch.nn.Module):
    """Maps two tensors, with a module's weights and another input, to two results."""

    def __init__(self):
        super().__init__()
        self.cell = LINEAR(3, 3)

    def forward(self, xs, ys, offset):
        return map_over(lambda pair, z: (torch.relu(self.cell(pair[0])) + z, pair[1].sum() * 2), (xs, ys), offset)


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_map_equals_pytorch(tmp_path, decomposed, dynamic):
    sizes = [{"xs": torch.randn(size, 2, 3), "ys": torch.randn(size, 4), "offset": torch.randn(3)} for size in (5, 1, 8)]
    length = torch.export.Dim("length", max=64)
    shapes = {"xs": {0: length}, "ys": {0: length}, "offset": None} if dynamic else None
    model = Mapped()
    path = export_model(tmp_path, model, sizes[0], decomposed, dynamic_shapes=shapes)
    for inputs in sizes if dynamic else sizes[:1]:
        assert_same(path, model, inputs)
    assert keys_in_bodies(path, "pkg.whence.module")["Relu"] == {""}


def keys_in_bodies(path, key: str) -> dict:
    """Maps each operator in the bodies of loops to the values of `key` on its nodes."""
    values: dict = {}

    def visit(graph, inside: bool) -> None:
        for node in graph.node:
            for entry in node.metadata_props:
                if inside and entry.key == key:
                    values.setdefault(node.op_type, set()).add(entry.value)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g, True)

    visit(onnx.load(path).graph, False)
    return values


def test_nodes_in_a_body_get_modules(tmp_path):
    """PyTorch records no modules in a body: nodes that read weights are inferred, others get the loop's module."""
    inputs = {"n": torch.tensor(3), "x": torch.randn(2, 3), "y": torch.randn(2, 3)}
    path = export_model(tmp_path, Repeat(), inputs, False)
    modules, confidence = (keys_in_bodies(path, f"pkg.whence.{key}") for key in ("module", "confidence"))
    product = "Gemm" if "Gemm" in modules else "MatMul"
    assert modules[product] == {"step"} and confidence[product] == {"inferred"}
    assert modules["Tanh"] == {""} and confidence["Tanh"] == {"ancestor"}
    sources = keys_in_bodies(path, "pkg.whence.source")
    assert all("test_exported_loops.py" in source for source in sources["Tanh"])
