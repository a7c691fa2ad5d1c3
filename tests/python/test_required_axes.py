"""A required axis is correct at every size, or the export fails. An optional axis is correct, or fixed with a warning;
it is dynamic whenever a required one would be. Files are compared with the model at sizes other than the example's."""
import warnings

import pytest
import torch
import whence

from command import run


def dynamic_axes_of(program, name="x"):
    return program.dynamic_axes.get(name, {})


def assert_correct(program, model, *calls):
    for call in calls:
        torch.testing.assert_close(program(*call)[0], model(*call), rtol=1e-4, atol=1e-5)


class Half(torch.nn.Module):
    """Its constant is equal for two adjacent sizes, because of the stride of 2."""

    def forward(self, x):
        y = torch.nn.functional.max_pool1d(x, 2)
        return y.reshape(y.shape[0], int(y.shape[2]), 4) + 1


class EveryThird(torch.nn.Module):
    def forward(self, x):
        y = x[:, ::3]
        return (y + torch.arange(y.shape[1])) / float(y.shape[1])


class Scaled(torch.nn.Module):
    """torch.export fixes an optional axis and keeps a required one dynamic."""

    def forward(self, x):
        return x * (1.0 / float(x.shape[1]) ** 0.5)


class FirstOf(torch.nn.Module):
    def forward(self, x, count):
        return x[:, :count.item()] * 2


class Sign(torch.nn.Module):
    """Branches on data, which no backend preserves."""

    def forward(self, x, scale):
        return x * 2 if float(scale) > 0 else x * 3


def export_trace(model, x, tmp_path, axis):
    torch.jit.trace(model, x).save(tmp_path / "m.pt")
    shape = ",".join(map(str, x.shape))
    return lambda code: run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", f"x=float32[{shape}]",
                                   "--dynamic", f"x:{axis}", code=code)


@pytest.mark.parametrize("length", [9, 16])
def test_constant_hidden_by_a_stride_is_refused(tmp_path, length):
    export = export_trace(Half(), torch.randn(2, 4, length), tmp_path, "2=t")
    assert "E0304" in export(code=4).stderr
    assert not (tmp_path / "m.onnx").exists()


def test_limit_at_the_examples_size_is_accepted(tmp_path):
    """The model runs only at sizes up to the example's, because its table ends there."""
    class Table(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(12, 4))

        def forward(self, x):
            return x + self.table[:x.shape[1]]

    export_trace(Table().eval(), torch.randn(2, 12, 4), tmp_path, "1=t")(code=0)


@pytest.mark.parametrize("model", [EveryThird(), Half()])
def test_required_axis_is_correct_or_refused(model):
    x = torch.randn(2, 9) if isinstance(model, EveryThird) else torch.randn(2, 4, 16)
    axis = x.dim() - 1
    try:
        program = whence.export(model, x, dynamic_shapes={"x": {0: "b", axis: "t"}})
    except whence.WhenceError as failure:
        assert failure.code == "E0304"
    else:
        assert_correct(program, model, *[(torch.randn(3, *x.shape[1:-1], size),) for size in (4, 12, 30)])


@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_optional_axis_is_dynamic_if_a_required_one_is(backend):
    x = torch.randn(2, 9)
    required = whence.export(Scaled(), x, dynamic_shapes={"x": {0: "b", 1: "t"}}, backend=backend)
    optional = whence.export(Scaled(), x, dynamic_axes={"x": {0: "b", 1: "t"}}, backend=backend)
    assert dynamic_axes_of(required) == dynamic_axes_of(optional) == {0: "b", 1: "t"}
    assert_correct(optional, Scaled(), (torch.randn(1, 4),), (torch.randn(5, 30),))


@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_optional_axis_is_correct_or_fixed(backend):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = whence.export(EveryThird(), torch.randn(2, 9), dynamic_axes={"x": {0: "b", 1: "t"}}, backend=backend)
    assert 0 in dynamic_axes_of(program)
    if 1 in dynamic_axes_of(program):
        assert_correct(program, EveryThird(), (torch.randn(1, 4),), (torch.randn(2, 30),))
    else:
        assert any("E0304" in str(warning.message) and "axis 1 of 'x'" in str(warning.message) for warning in caught)
    assert_correct(program, EveryThird(), (torch.randn(5, 9),))


def test_input_read_by_python_uses_another_backend(recwarn):
    program = whence.export(FirstOf(), (torch.randn(2, 9), torch.tensor(4)))
    assert program.backend == "native-export" and not any("E0309" in str(warning.message) for warning in recwarn)
    assert_correct(program, FirstOf(), (torch.randn(2, 9), torch.tensor(2)), (torch.randn(2, 9), torch.tensor(7)))


def test_input_that_every_backend_makes_constant_is_reported():
    with pytest.warns(whence.WhenceWarning, match="E0309"):
        program = whence.export(Sign(), (torch.randn(2, 9), torch.tensor(4.0)))
    assert program.backend == "native"


def test_reported_range_does_not_mention_the_temporary_archive(recwarn):
    class Limited(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] <= 5 else x

    program = whence.export(Limited(), torch.randn(4, 3), dynamic_shapes={"x": {0: "rows"}}, backend="native-export")
    messages = [str(warning.message) for warning in recwarn if "E0304" in str(warning.message)]
    assert any("rows <= 5" in message for message in messages) and not any(".pt2" in message for message in messages)
    assert_correct(program, Limited(), (torch.randn(1, 3),), (torch.randn(5, 3),))


def test_bounds_set_by_the_caller_are_honoured():
    """The file may be wrong at sizes outside the bounds of a Dim."""
    class Table(torch.nn.Module):
        def forward(self, x):
            return x + torch.arange(20)[:x.shape[1]] if x.shape[1] <= 20 else x

    program = whence.export(Table(), torch.randn(2, 9), dynamic_shapes={"x": {1: torch.export.Dim("t", min=2, max=20)}})
    assert_correct(program, Table(), (torch.randn(2, 2),), (torch.randn(2, 20),))


class Decides(torch.nn.Module):
    def __init__(self, condition):
        super().__init__()
        self.condition = condition

    def forward(self, x):
        return x * 2 if self.condition(x[:, 1:]) else x + 1


CONDITIONS = {
    "a length beyond every trial": lambda y: y.shape[1] > 70,
    "a product": lambda y: 2 * y.shape[1] + 1 > 97,
    "half of the length": lambda y: y.shape[1] // 2 >= 40,
    "a multiple": lambda y: y.shape[1] % 7 == 0,
    "one number": lambda y: y.shape[1] == 33,
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
@pytest.mark.parametrize("example", [torch.ones, torch.randn], ids=["ones", "randn"])
def test_lost_branch_on_sizes_is_reported(condition, example, tmp_path):
    """For ones, x * 2 equals x + 1, so a trial with the example's elements detects nothing."""
    model, caught = Decides(condition).eval(), []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            program = whence.export(model, (example(3, 6),), tmp_path / "m.onnx",
                                    dynamic_shapes={"x": {1: torch.export.Dim("n")}})
    except whence.WhenceError as refused:
        assert refused.code == "E0304"
        return
    wrong = [n for n in (2, 5, 8, 9, 33, 34, 35, 48, 49, 50, 51, 71, 72, 80, 81, 82, 120)
             if not torch.allclose(program(x := torch.randn(3, n))[0], model(x))]
    assert not wrong or any("E0304" in str(warning.message) for warning in caught), wrong


class WritesToACopy(torch.nn.Module):
    """The first copy is a view if an axis has size 1. The second copy is always refused. If both axes have size 1,
    PyTorch raises an error."""

    def forward(self, x):
        y = x * 1.0
        y.t().contiguous().add_(1.0)
        repeated = y.unsqueeze(1).expand(-1, 2, -1).reshape(-1)
        repeated += 1.0
        return y


@pytest.mark.parametrize("axes", [{"dynamic_shapes": {"x": {0: "n", 1: "m"}}}, {"dynamic_axes": {"x": {0: "n", 1: "m"}}}])
def test_copy_that_is_a_view_at_some_sizes_is_refused(axes):
    model = WritesToACopy().eval()
    try:
        program = whence.export(model, torch.randn(3, 6), **axes)
    except whence.WhenceError as failure:
        assert failure.code == "E0303"
        return
    sizes = [(3, 6), *([(1, 6), (3, 1)] if dynamic_axes_of(program) else [])]
    assert_correct(program, model, *[(torch.randn(size),) for size in sizes])
