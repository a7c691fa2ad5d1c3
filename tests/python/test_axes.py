"""dynamic_axes and dynamic_shapes work as in PyTorch. If PyTorch only warns, whence raises an error with a fix."""


import onnx
import pytest
import torch
import whence

from results import assert_same_results

pytestmark = pytest.mark.usefixtures("quiet")

NATIVE = ["native", "native-export"]
Dim = torch.export.Dim
RANGES = "pkg.torch.export.ExportedProgram.range_constraints"


class Net(torch.nn.Module):
    def forward(self, x, pair, table):
        return x * 2, pair[0] + pair[1][0], torch.cat([table["k"], table["k"]])


def arguments(rows=3, other=5):
    return (torch.randn(rows, 4), (torch.randn(rows, 4), [torch.randn(rows, 4)]), {"k": torch.randn(other, 2)})


def export_by_pytorch(shapes):
    """Exports with torch.onnx.export. `table` is a keyword, because it treats a dict at the end of args as keywords."""
    *args, table = arguments()
    by_name = shapes if isinstance(shapes, dict) else dict(zip(("x", "pair", "table"), shapes, strict=True))
    return torch.onnx.export(Net(), tuple(args), kwargs={"table": table}, dynamic_shapes=by_name, dynamo=True,
                             verbose=False)


def dims(values):
    return [[dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values]


NESTED = {
    "by position": ({0: "n"}, ({0: "n"}, [{0: "n"}]), {"k": {0: "m", 1: None}}),
    "by name": {"x": {0: "n"}, "pair": ({0: "n"}, ({0: "n"},)), "table": {"k": ("m", None)}},
    "lists of axes": [["n", None], [["n", None], [["n", None]]], {"k": ["m", None]}],
}


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("shapes", NESTED.values(), ids=NESTED)
def test_dynamic_shapes_nested_like_the_arguments(backend, shapes):
    """Size names equal those of torch.onnx.export with the same dynamic_shapes."""
    program = whence.export(Net(), arguments(), backend=backend, dynamic_shapes=shapes)
    graph = program.model_proto.graph
    assert dims(graph.input) == [["n", 4]] * 3 + [["m", 2]]
    assert dims(graph.output)[:2] == [["n", 4]] * 2
    if shapes is NESTED["by position"]:
        reference = export_by_pytorch(shapes)
        assert dims(graph.input) == dims(reference.model_proto.graph.input)
    other = arguments(7, 2)
    torch.testing.assert_close(program(*other), Net()(*other), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", NATIVE)
def test_omitted_shapes_are_fixed(backend):
    program = whence.export(Net(), arguments(), backend=backend, dynamic_shapes={"table": {"k": {0: "m"}}})
    assert dims(program.model_proto.graph.input) == [[3, 4]] * 3 + [["m", 2]]


@pytest.mark.parametrize("backend", NATIVE)
def test_dims_and_hints_as_shapes(backend):
    rows = Dim("rows", min=2, max=64)
    shapes = ({0: rows}, ({0: rows}, [{0: rows}]), {"k": {0: Dim.DYNAMIC, 1: Dim.STATIC}})
    program = whence.export(Net(), arguments(), backend=backend, dynamic_shapes=shapes)
    got = dims(program.model_proto.graph.input)
    assert got[:3] == [["rows", 4]] * 3 and isinstance(got[3][0], str) and got[3][1] == 2
    other = arguments(9, 1)
    torch.testing.assert_close(program(*other), Net()(*other), rtol=1e-4, atol=1e-5)
    if backend == "native-export":
        reference = export_by_pytorch(shapes)
        assert got[:3] == dims(reference.model_proto.graph.input)[:3]  # PyTorch names an unnamed size with a number


def test_ranges_equal_those_of_pytorch():
    rows, columns = Dim("rows", min=2, max=64), Dim("columns", max=100)

    class Two(torch.nn.Module):
        def forward(self, x, y):
            return x @ y

    example, shapes = (torch.randn(3, 4), torch.randn(4, 5)), ({0: rows}, {1: columns})
    exported = whence.export(Two(), example, backend="native-export", dynamic_shapes=shapes)
    reference = torch.onnx.export(Two(), example, dynamic_shapes=shapes, dynamo=True, verbose=False)
    assert dims(exported.model_proto.graph.input) == dims(reference.model_proto.graph.input)
    ranges = {entry.key: entry.value for entry in exported.model_proto.graph.metadata_props}[RANGES]
    symbols = {str(symbol): str(bounds) for symbol, bounds in reference.exported_program.range_constraints.items()}
    assert len(symbols) == 2
    for name, bounds in zip(("rows", "columns"), ("VR[2, 64]", "VR[0, 100]"), strict=True):
        assert f"{name}: {bounds}" in ranges and bounds in symbols.values()
    assert not any(symbol in ranges for symbol in symbols)


@pytest.mark.parametrize("backend", NATIVE)
def test_lists_of_axes_get_the_names_of_pytorch(backend, tmp_path):
    class Plain(torch.nn.Module):
        def forward(self, x, y):
            return x + 1, y.sum(1)

    example = (torch.randn(3, 4), torch.randn(2, 3, 4))
    axes = {"x": [0], "y": {0: "batch", 1: "time"}, "out": [0]}
    names = {"input_names": ["x", "y"], "output_names": ["out", "summed"]}
    torch.onnx.export(Plain(), example, tmp_path / "torch.onnx", dynamo=False, dynamic_axes=dict(axes), **names)
    program = whence.export(Plain(), example, tmp_path / "ours.onnx", backend, dynamic_axes=axes, **names)
    exported, reference = (onnx.load(tmp_path / name).graph for name in ("ours.onnx", "torch.onnx"))
    assert dims(exported.input) == dims(reference.input) == [["x_dynamic_axes_1", 4], ["batch", "time", 4]]
    assert dims(exported.output)[1] == ["batch", 4]
    other = (torch.randn(6, 4), torch.randn(5, 2, 4))
    torch.testing.assert_close(program(*other), Plain()(*other), rtol=1e-4, atol=1e-5)


def test_axes_refer_to_input_names_as_in_pytorch():
    class Plain(torch.nn.Module):
        def forward(self, x, y):
            return x + 1, y * 2

    example = (torch.randn(3, 4), torch.randn(2, 4))
    program = whence.export(Plain(), example, input_names=["y", "x"], dynamic_axes={"y": {0: "n"}})
    assert [(value.name, dims([value])[0]) for value in program.model_proto.graph.input] == [
        ("y", ["n", 4]), ("x", [2, 4])]


def test_axes_of_a_nested_input_use_its_flat_name():
    program = whence.export(Net(), arguments(), dynamic_axes={"table_k": {0: "m"}})
    assert dims(program.model_proto.graph.input)[3] == ["m", 2]


@pytest.mark.parametrize("backend", NATIVE)
def test_wrong_output_axis_gives_a_warning(backend):
    example = (torch.randn(3, 4),)
    with pytest.warns(whence.WhenceWarning, match="axis 1 of the output 'out' is 4"):
        whence.export(torch.nn.ReLU(), example, backend=backend, output_names=["out"],
                      dynamic_axes={"input": {0: "n"}, "out": {0: "n", 1: "other"}})


WRONG_AXES = [
    ({"nope": {0: "n"}}, "nope", "its tensors are: x"),
    ({"x": {2: "n"}}, "no axis 2", "from 0 to 1"),
    ({"x": {-1: "n"}}, "no axis -1", "use axis 1"),
    ({"x": [0, 0]}, "axis 0 is specified twice", "once"),
    ({"x": ["0"]}, "'0' is not an integer", "[0]"),
    ({"x": {0: "a,b"}}, "'a,b'", "commas"),
    ({"x": "n"}, "is a str", "[0]"),
]


@pytest.mark.parametrize("axes, fragment, fix", WRONG_AXES, ids=[row[1] for row in WRONG_AXES])
def test_invalid_axes_raise_an_error_with_a_fix(axes, fragment, fix):
    class One(torch.nn.Module):
        def forward(self, x):
            return x + 1

    with pytest.raises(whence.WhenceError) as raised:
        whence.export(One(), torch.randn(3, 4), dynamic_axes=axes)
    assert raised.value.code == "E0104" and fragment in str(raised.value) and fix in raised.value.remedy


WRONG_SHAPES = [
    ({"z": {0: "n"}}, "'z'", "x, pair, table"),
    (({0: "n"}, ({0: "n"},), None), "'pair' has 1 entries", "nest it"),
    (({0: "n"}, None, {"other": {0: "n"}}), "names 'other'", "k"),
    (({0: "n"}, {0: "n"}, None), "'pair' is a dict", "nest it"),
    ((None, None, None, None), "4 entries", "x, pair, table"),
    (({2: "n"}, None, None), "no axis 2", "from 0 to 1"),
    (({-2: "n"}, None, None), "no axis -2", "use axis 0"),
    ((["n"], None, None), "has 1 sizes", "None for a fixed one"),
    (({0: 8}, None, None), "at 8, but the example has 3", "example of that size"),
    ("n", "is a str", "dict by argument"),
]


@pytest.mark.parametrize("shapes, fragment, fix", WRONG_SHAPES, ids=[row[1] for row in WRONG_SHAPES])
def test_shapes_that_are_not_nested_like_the_arguments(shapes, fragment, fix):
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(Net(), arguments(), dynamic_shapes=shapes)
    assert raised.value.code == "E0104" and fragment in str(raised.value) and fix in raised.value.remedy


def test_fixed_number_cannot_be_dynamic():
    class Adds(torch.nn.Module):
        def forward(self, x, n):
            return x + n

    with pytest.raises(whence.WhenceError, match="'n' is a int") as raised:
        whence.export(Adds(), (torch.randn(3), 2), dynamic_shapes=({0: "n"}, Dim.DYNAMIC))
    assert raised.value.code == "E0104" and "tensor" in raised.value.remedy
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(Adds(), (torch.randn(3), 2), dynamic_shapes=({0: "n"}, None), dynamic_axes={"x": [0]})
    assert raised.value.code == "E0101"


@pytest.mark.parametrize("backend", NATIVE)
def test_names_of_inputs_and_outputs(backend):
    args = arguments()
    for many, fragment in ((list("abcde"), "5 names"), (["a", "a"], "'a' twice"), (["a,b"], "commas")):
        with pytest.raises(whence.WhenceError, match=fragment) as raised:
            whence.export(Net(), args, backend=backend, input_names=many)
        assert raised.value.code in ("E0101", "E0104") and raised.value.remedy
    with pytest.raises(whence.WhenceError, match="4.*output|output.*4"):
        whence.export(Net(), args, backend=backend, output_names=list("abcd"))
    graph = whence.export(Net(), args, backend=backend, input_names=["first"], output_names=["out"]).model_proto.graph
    assert [value.name for value in graph.input] == ["first", "pair_0", "pair_1_0", "table_k"]
    assert graph.output[0].name == "out" and len({value.name for value in graph.output}) == 3


def test_equal_sizes_get_one_name():
    class Adds(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    example = (torch.randn(3, 4), torch.randn(3, 4))
    reference = torch.onnx.export(Adds(), example, dynamic_shapes=({0: "a"}, {0: "b"}), dynamo=True, verbose=False)
    with pytest.warns(whence.WhenceWarning, match="E0104.*the size 'a'"):
        program = whence.export(Adds(), example, backend="native-export", dynamic_shapes=({0: "a"}, {0: "b"}))
    assert dims(program.model_proto.graph.input) == dims(reference.model_proto.graph.input) == [["a", 4], ["a", 4]]


class DerivedSize(torch.nn.Module):
    def forward(self, x, y):
        return x + y.reshape(x.shape[0], 2, -1).sum(1)


@pytest.mark.parametrize("backend", NATIVE)
def test_size_derived_from_another(backend):
    batch = Dim("batch", min=2, max=64)
    program = whence.export(DerivedSize(), (torch.randn(3, 2), torch.randn(6, 2)), backend=backend,
                            dynamic_shapes={"x": {0: batch}, "y": {0: 2 * batch}})
    assert dims(program.model_proto.graph.input) == [["batch", 2], ["2*batch", 2]]
    x, y = torch.randn(5, 2), torch.randn(10, 2)
    torch.testing.assert_close(program(x, y)[0], DerivedSize()(x, y))


@pytest.mark.parametrize("backend", NATIVE)
def test_shapes_collection(backend):
    x, y = torch.randn(3, 2), torch.randn(6, 2)
    shapes = torch.export.ShapesCollection()
    batch = Dim("batch", min=2, max=64)
    shapes[x], shapes[y] = (batch, None), (2 * batch, None)
    program = whence.export(DerivedSize(), (x, y), backend=backend, dynamic_shapes=shapes)
    assert dims(program.model_proto.graph.input) == [["batch", 2], ["2*batch", 2]]


class Keywords(torch.nn.Module):
    def forward(self, a, **others):
        return a + others["q"]


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("shapes", [{"a": {0: "n"}, "others": {"q": {0: "n"}}}, {"a": {0: "n"}, "q": {0: "n"}}])
def test_shapes_of_keywords_are_nested_or_top_level(backend, shapes):
    program = whence.export(Keywords(), (torch.ones(2, 3),), kwargs={"q": torch.ones(2, 3)}, dynamic_shapes=shapes,
                            backend=backend)
    assert dims(program.model_proto.graph.input)[1][1] == 3
    x = torch.rand(5, 3)
    torch.testing.assert_close(program(x, q=x)[0], x * 2)


@pytest.mark.parametrize("backend", NATIVE)
def test_auto_leaves_axes_static_that_the_model_fixes(backend):
    model = torch.nn.Linear(3, 4)
    program = whence.export(model, (torch.ones(2, 3),), dynamic_shapes=((Dim.AUTO, Dim.AUTO),), backend=backend)
    (rows, columns), = dims(program.model_proto.graph.input)
    assert isinstance(rows, str) and columns == 3
    torch.testing.assert_close(program(torch.ones(7, 3))[0], model(torch.ones(7, 3)).detach())


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("rows", [(4, 1), (1, 4)])
def test_auto_fixes_the_broadcast_axis(backend, rows):
    class Product(torch.nn.Module):
        def forward(self, x, y):
            return x * y

    example = torch.rand(rows[0], 5), torch.rand(rows[1], 5)
    program = whence.export(Product(), example, dynamic_shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}},
                            backend=backend)
    inputs = dims(program.model_proto.graph.input)
    assert [isinstance(size[0], str) for size in inputs] == [count > 1 for count in rows]
    x, y = (torch.rand(7 if count > 1 else 1, 5) for count in rows)
    torch.testing.assert_close(program(x, y)[0], x * y)


@pytest.mark.parametrize("backend", NATIVE)
def test_arguments_marked_as_dynamic(backend):
    x = torch.ones(2, 3)
    torch._dynamo.mark_dynamic(x, 0)
    program = whence.export(torch.nn.ReLU(), (x,), backend=backend)
    torch.testing.assert_close(program(torch.ones(2, 3))[0], torch.ones(2, 3))


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("name", ["0", "batch size", "batch-size", "2*batch"])
def test_size_names_may_be_any_text(backend, name):
    """As in torch.onnx.export."""
    class Doubles(torch.nn.Module):
        def forward(self, x):
            return x * 2

    program = whence.export(Doubles(), torch.randn(3, 4), backend=backend, dynamic_axes={"x": {0: name}})
    assert dims(program.model_proto.graph.input) == dims(program.model_proto.graph.output) == [[name, 4]]
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x)[0], x * 2)


@pytest.mark.parametrize("name", ["a,b", "a:b", "'a", " a", ""])
def test_invalid_size_names_are_refused(name):
    with pytest.raises(whence.WhenceError, match="cannot be the name of a size") as raised:
        whence.export(torch.nn.ReLU(), torch.randn(3, 4), dynamic_axes={"input": {0: name}})
    assert raised.value.code == "E0104"


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("backend", NATIVE)
def test_axes_of_size_0_and_1_can_be_dynamic(backend, size):
    """torch.export fixes axes of size 0 or 1; torch.onnx.export does not."""
    class Stacks(torch.nn.Module):
        def forward(self, x):
            return torch.cat([x, x * x.size(0)], 1)

    program = whence.export(Stacks(), torch.randn(size, 4), backend=backend, dynamic_axes={"x": {0: "n"}})
    assert dims(program.model_proto.graph.input) == [["n", 4]]
    for rows in 0, 1, 6:
        x = torch.randn(rows, 4)
        torch.testing.assert_close(program(x)[0], Stacks()(x))


def test_bounds_set_by_the_model_are_reported_and_kept():
    class Bounded(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] >= 6 else x

    with pytest.warns(whence.WhenceWarning, match="min=6"):
        program = whence.export(Bounded(), torch.randn(16), backend="native-export", dynamic_shapes=({0: Dim("n")},))
    ranges = {entry.key: entry.value for entry in program.model_proto.graph.metadata_props}[RANGES]
    assert "VR[6" in ranges
    x = torch.randn(9)
    torch.testing.assert_close(program(x)[0], x * 2)


def test_size_that_the_model_fixes_is_an_error():
    class Adds(torch.nn.Module):
        def forward(self, x):
            return x + torch.ones(3)

    with pytest.raises(Exception, match="specialized"):
        whence.export(Adds(), torch.randn(3), backend="native-export", dynamic_shapes=({0: Dim("n")},))


class Squeezes(torch.nn.Module):
    def forward(self, x):
        return x.squeeze(0)


class BranchesOnOne(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.size(0) == 1 else x * 3


@pytest.mark.parametrize("model", [Squeezes(), BranchesOnOne()])
def test_size_of_1_that_selects_another_branch_is_refused(model):
    with pytest.raises(whence.WhenceError, match="0 or 1 in the example") as raised:
        whence.export(model, torch.randn(1, 3), backend="native-export", dynamic_shapes={"x": {0: "n"}})
    assert raised.value.code == "E0304"


class SetsThree(torch.nn.Module):
    """Axis 2 must be 3; the other axes are free."""

    def forward(self, x):
        x = x.clone()
        x[:, x.size(0):] = torch.tensor([1, 2, 3])
        return x


class Recurrent(torch.nn.Module):
    """The weights determine the number of features; the scripted model raises an error at any other number."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 2)

    def forward(self, x):
        return self.lstm(x)[0]


class Chunks(torch.nn.Module):
    """Splits axis 1 into as many chunks as axis 2 has elements, minus one: two chunks in the example."""

    def forward(self, x):
        return torch.chunk(x * 2, x.size(2) - 1, dim=1)


def unchanged(model):
    return model


@pytest.mark.parametrize("model, make, backend, rows", [
    (SetsThree(), unchanged, "native", "a"), (SetsThree(), unchanged, "native-export", "a"),
    (SetsThree(), torch.jit.script, "native", "a"),
    (Recurrent(), unchanged, "native", "a"), (Recurrent(), torch.jit.script, "native", "a"),
    (Recurrent(), unchanged, "native-export", 2),  # torch.export unrolls the steps of the first axis
    (Chunks(), unchanged, "native", "a"), (Chunks(), unchanged, "native-export", "a"),
])
def test_dynamic_axes_are_optional(model, make, backend, rows):
    """An axis that the model fixes is fixed in the file, with a warning; torch.onnx.export fixes it without one."""
    with pytest.warns(whence.WhenceWarning, match=r"E0304.*fixes .*axis 2 of 'x'"):
        program = whence.export(make(model.eval()), torch.randn(2, 5, 3), backend=backend,
                                dynamic_axes={"x": {0: "a", 1: "b", 2: "c"}})
    assert dims(program.model_proto.graph.input) == [[rows, "b", 3]]
    x = torch.randn(4 if rows == "a" else rows, 7, 3)
    expected = model(x)
    assert_same_results(program(x), expected if isinstance(expected, tuple) else (expected,))


class Halves(torch.nn.Module):
    def forward(self, x):
        return x[:int(x.shape[0] * 0.5)]


class Roots(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.pad(x, (int(x.shape[0] ** 0.5), 0))


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("model", [Halves(), Roots()])
def test_sizes_that_torch_export_makes_constant_are_refused(model, backend):
    """With Dim.AUTO, which a plain name implies, torch.export turns int(size * 0.5) into a constant."""
    with pytest.raises(whence.WhenceError, match="E0304.*axis 0 of 'x' at") as raised:
        whence.export(model, torch.randn(4, 3), backend=backend, dynamic_shapes={"x": {0: "n"}})
    assert raised.value.code == "E0304"
    with pytest.warns(whence.WhenceWarning, match="E0304"):  # optional axis: the file is correct at the example's size
        program = whence.export(model, torch.randn(4, 3), backend=backend, dynamic_axes={"x": [0]})
    x = torch.randn(4, 3)
    torch.testing.assert_close(program(x)[0], model(x))


@pytest.mark.parametrize("backend", NATIVE)
def test_dynamic_shapes_are_required(backend):
    with pytest.raises(Exception, match="E0304|specialized"):
        whence.export(Recurrent(), torch.randn(2, 5, 3), backend=backend, dynamic_shapes={"x": {2: "c"}})


def test_optional_axes_that_share_a_name(tmp_path):
    """Axes with the same name are fixed together; axes with another name stay dynamic."""
    class Net(torch.nn.Module):
        def forward(self, x, y):
            return (x + y) @ torch.ones(3, 2)

    with pytest.warns(whence.WhenceWarning, match="fixes axis 1 of 'x', axis 1 of 'y':"):
        program = whence.export(Net(), (torch.randn(2, 3), torch.randn(2, 3)),
                                dynamic_axes={"x": {0: "n", 1: "k"}, "y": {0: "n", 1: "k"}})
    assert dims(program.model_proto.graph.input) == [["n", 3], ["n", 3]]


def test_optional_axis_of_size_1_is_fixed():
    with pytest.warns(whence.WhenceWarning, match="fixes axis 0 of 'x'"):
        program = whence.export(Squeezes(), torch.randn(1, 3), backend="native-export", dynamic_axes={"x": {0: "n"}})
    assert dims(program.model_proto.graph.input) == [[1, 3]]


def test_shapes_collection_for_nested_arguments():
    class Nested(torch.nn.Module):
        def forward(self, x, d):
            return x @ d["w"] + d["l"][0]

    x, d = torch.randn(3, 4), {"w": torch.randn(4, 5), "l": [torch.randn(5)]}
    shapes = torch.export.ShapesCollection()
    shapes[x] = {0: torch.export.Dim("batch")}
    for backend in ("native", "native-export"):
        graph = whence.export(Nested(), (x, d), backend=backend, dynamic_shapes=shapes).model_proto.graph
        assert [dim.dim_param or dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim] == ["batch", 4]


def test_example_outside_its_range_is_refused():
    for backend in ("native", "native-export"):
        with pytest.raises(whence.WhenceError, match="4 to 8") as refused:
            whence.export(torch.nn.ReLU(), (torch.randn(2, 3),), backend=backend,
                          dynamic_shapes=({0: torch.export.Dim("batch", min=4, max=8)},))
        assert refused.value.code == "E0104"
    with pytest.raises(whence.WhenceError, match="dynamic_axes is a list"):
        whence.export(torch.nn.ReLU(), (torch.randn(2, 3),), dynamic_axes=["x"])


@pytest.mark.parametrize("dims, scripted", [((), False), ((1,), False), (((0, -1),), False), ((1,), True)])
def test_axes_are_squeezed_only_if_their_size_is_1(dims, scripted):
    class Squeezed(torch.nn.Module):
        def forward(self, x):
            return torch.squeeze(x + 1, *dims)

    class ByNumber(torch.nn.Module):
        def forward(self, x):
            return torch.squeeze(x + 1, 1)

    model = torch.jit.script(ByNumber()) if scripted else Squeezed().eval()
    program = whence.export(model, (torch.ones(2, 1, 4),), dynamic_axes={"x": {0: "a", 1: "b", 2: "c"}})
    onnx.checker.check_model(program.model_proto, full_check=True)
    for shape in ((2, 1, 4), (2, 3, 1), (1, 2, 4), (1, 1, 1), (5, 1, 1)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x)[0], model(x))


def test_squeezing_an_axis_of_another_size_keeps_the_rank():
    class Squeezed(torch.nn.Module):
        def forward(self, x):
            y = x.squeeze(0)
            return y.transpose(0, 1), y

    program = whence.export(Squeezed(), (torch.ones(2, 3),), dynamic_axes={"x": {0: "n"}})
    assert {node.op_type for node in program.model_proto.graph.node} == {"Transpose", "Identity"}
    torch.testing.assert_close(program(torch.ones(4, 3))[0], torch.ones(3, 4))
