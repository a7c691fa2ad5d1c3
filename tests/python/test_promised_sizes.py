"""A promised axis is right at every size or refused; a wished one is right, or fixed and that is said, and never does
worse than a promise. Each file is compared with the model at sizes that it was not made with."""
import warnings

import pytest
import torch
import whence

from command import run


def lengths(program, name="x"):
    return program.dynamic_axes.get(name, {})


def assert_right(program, model, *calls):
    for call in calls:
        torch.testing.assert_close(program(*call)[0], model(*call), rtol=1e-4, atol=1e-5)


class Half(torch.nn.Module):
    """A constant of the trace, which sizes in one bucket of two share."""

    def forward(self, x):
        y = torch.nn.functional.max_pool1d(x, 2)
        return y.reshape(y.shape[0], int(y.shape[2]), 4) + 1


class EveryThird(torch.nn.Module):
    def forward(self, x):
        y = x[:, ::3]
        return (y + torch.arange(y.shape[1])) / float(y.shape[1])


class Scaled(torch.nn.Module):
    """torch.export fixes the axis if it may, and keeps it where it must."""

    def forward(self, x):
        return x * (1.0 / float(x.shape[1]) ** 0.5)


class FirstOf(torch.nn.Module):
    def forward(self, x, count):
        return x[:, :count.item()] * 2


class Sign(torch.nn.Module):
    """Its condition depends on data: no backend keeps it."""

    def forward(self, x, scale):
        return x * 2 if float(scale) > 0 else x * 3


def export_trace(model, x, tmp_path, axis):
    torch.jit.trace(model, x).save(tmp_path / "m.pt")
    shape = ",".join(map(str, x.shape))
    return lambda code: run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", f"x=float32[{shape}]",
                                   "--dynamic", f"x:{axis}", code=code)


@pytest.mark.parametrize("length", [9, 16])
def test_a_constant_that_a_stride_hides_is_refused(tmp_path, length):
    export = export_trace(Half(), torch.randn(2, 4, length), tmp_path, "2=t")
    assert "E0304" in export(code=4).stderr
    assert not (tmp_path / "m.onnx").exists()


def test_a_limit_below_the_example_is_none_of_that(tmp_path):
    """A table that ends at the example's size: it runs at smaller ones alone."""
    class Table(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(12, 4))

        def forward(self, x):
            return x + self.table[:x.shape[1]]

    export_trace(Table().eval(), torch.randn(2, 12, 4), tmp_path, "1=t")(code=0)


@pytest.mark.parametrize("model", [EveryThird(), Half()])
def test_a_promise_is_right_or_refused(model):
    x = torch.randn(2, 9) if isinstance(model, EveryThird) else torch.randn(2, 4, 16)
    axis = x.dim() - 1
    try:
        program = whence.export(model, x, dynamic_shapes={"x": {0: "b", axis: "t"}})
    except whence.WhenceError as failure:
        assert failure.code == "E0304"
    else:
        assert_right(program, model, *[(torch.randn(3, *x.shape[1:-1], size),) for size in (4, 12, 30)])


@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_a_wish_does_no_worse_than_a_promise(backend):
    x = torch.randn(2, 9)
    promise = whence.export(Scaled(), x, dynamic_shapes={"x": {0: "b", 1: "t"}}, backend=backend)
    wish = whence.export(Scaled(), x, dynamic_axes={"x": {0: "b", 1: "t"}}, backend=backend)
    assert lengths(promise) == lengths(wish) == {0: "b", 1: "t"}
    assert_right(wish, Scaled(), (torch.randn(1, 4),), (torch.randn(5, 30),))


@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_a_wish_is_right_or_fixed_and_that_is_said(backend):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = whence.export(EveryThird(), torch.randn(2, 9), dynamic_axes={"x": {0: "b", 1: "t"}}, backend=backend)
    assert 0 in lengths(program)
    if 1 in lengths(program):
        assert_right(program, EveryThird(), (torch.randn(1, 4),), (torch.randn(2, 30),))
    else:
        assert any("E0304" in str(each.message) and "axis 1 of 'x'" in str(each.message) for each in caught)
    assert_right(program, EveryThird(), (torch.randn(5, 9),))


def test_an_input_whose_value_a_trace_reads_is_kept_by_another_backend(recwarn):
    program = whence.export(FirstOf(), (torch.randn(2, 9), torch.tensor(4)))
    assert program.backend == "native-export" and not any("E0309" in str(each.message) for each in recwarn)
    assert_right(program, FirstOf(), (torch.randn(2, 9), torch.tensor(2)), (torch.randn(2, 9), torch.tensor(7)))


def test_an_input_that_no_backend_keeps_is_reported():
    with pytest.warns(whence.WhenceWarning, match="E0309"):
        program = whence.export(Sign(), (torch.randn(2, 9), torch.tensor(4.0)))
    assert program.backend == "native"


def test_a_range_that_the_model_has_is_said_without_the_archive_that_whence_made(recwarn):
    class Limited(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] <= 5 else x

    program = whence.export(Limited(), torch.randn(4, 3), dynamic_shapes={"x": {0: "rows"}}, backend="native-export")
    told = [str(each.message) for each in recwarn if "E0304" in str(each.message)]
    assert any("rows <= 5" in each for each in told) and not any(".pt2" in each for each in told)
    assert_right(program, Limited(), (torch.randn(1, 3),), (torch.randn(5, 3),))


def test_bounds_of_the_callers_own_are_honoured():
    """Sizes beyond a Dim's bounds say nothing of the file."""
    class Table(torch.nn.Module):
        def forward(self, x):
            return x + torch.arange(20)[:x.shape[1]] if x.shape[1] <= 20 else x

    program = whence.export(Table(), torch.randn(2, 9), dynamic_shapes={"x": {1: torch.export.Dim("t", min=2, max=20)}})
    assert_right(program, Table(), (torch.randn(2, 2),), (torch.randn(2, 20),))


class Decides(torch.nn.Module):
    def __init__(self, condition):
        super().__init__()
        self.condition = condition

    def forward(self, x):
        return x * 2 if self.condition(x[:, 1:]) else x + 1


CONDITIONS = {
    "a length that no trial would have": lambda y: y.shape[1] > 70,
    "a product": lambda y: 2 * y.shape[1] + 1 > 97,
    "a part, below": lambda y: y.shape[1] // 2 >= 40,
    "a multiple": lambda y: y.shape[1] % 7 == 0,
    "one number": lambda y: y.shape[1] == 33,
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
@pytest.mark.parametrize("example", [torch.ones, torch.randn], ids=["ones", "randn"])
def test_no_side_of_a_condition_on_sizes_is_lost_without_a_word(condition, example, tmp_path):
    """Of ones, x * 2 is x + 1: a trial on the example's elements shows nothing."""
    model, said = Decides(condition).eval(), []
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            program = whence.export(model, (example(3, 6),), tmp_path / "m.onnx",
                                    dynamic_shapes={"x": {1: torch.export.Dim("n")}})
    except whence.WhenceError as refused:
        assert refused.code == "E0304"
        return
    wrong = [n for n in (2, 5, 8, 9, 33, 34, 35, 48, 49, 50, 51, 71, 72, 80, 81, 82, 120)
             if not torch.allclose(program(x := torch.randn(3, n))[0], model(x))]
    assert not wrong or any("E0304" in str(each.message) for each in said), wrong


class WritesToACopy(torch.nn.Module):
    """The first copy is a view where an axis is 1 long; the second one is refused as a whole. Where both are 1 long,
    PyTorch does not run."""

    def forward(self, x):
        y = x * 1.0
        y.t().contiguous().add_(1.0)
        repeated = y.unsqueeze(1).expand(-1, 2, -1).reshape(-1)
        repeated += 1.0
        return y


@pytest.mark.parametrize("axes", [{"dynamic_shapes": {"x": {0: "n", 1: "m"}}}, {"dynamic_axes": {"x": {0: "n", 1: "m"}}}])
def test_parts_that_share_memory_at_other_sizes_only_are_no_way_out(axes):
    model = WritesToACopy().eval()
    try:
        program = whence.export(model, torch.randn(3, 6), **axes)
    except whence.WhenceError as failure:
        assert failure.code == "E0303"
        return
    sizes = [(3, 6), *([(1, 6), (3, 1)] if lengths(program) else [])]
    assert_right(program, model, *[(torch.randn(size),) for size in sizes])
