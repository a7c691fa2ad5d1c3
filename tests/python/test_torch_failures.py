"""An error of PyTorch during capture becomes a WhenceError with module, line and remedy, chained to the original."""

import inspect

import pytest
import torch
import whence
from torch.export import Dim

pytestmark = pytest.mark.usefixtures("quiet")
BACKENDS = ["native", "native-export", "torch-dynamo", "torch-torchscript"]


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        x = self.layer(x)
        if x.sum() > 0:  # a branch on data
            return x + 1
        return x - 1


class Outer(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Identity(), inner])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x * 2


class Adds(torch.nn.Module):
    def forward(self, x):
        return x + torch.ones(3)  # requires size 3


class Counts(torch.nn.Module):
    def forward(self, x):
        for _ in range(int(x.max())):  # the count depends on data
            x = x * 2
        return x


def line_of(owner: type, text: str) -> str:
    lines, first = inspect.getsourcelines(owner)
    number = first + next(index for index, line in enumerate(lines) if text in line)
    return f"test_torch_failures.py:{number} forward"


def failure_of(model, args, **options) -> whence.WhenceError:
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(model.eval(), args, **options)
    assert raised.value.remedy and len(str(raised.value)) < 1500
    return raised.value


@pytest.mark.parametrize("backend", ["native-export", "torch-dynamo"])
def test_branch_on_data(backend):
    failure = failure_of(Outer(Inner()), torch.randn(2, 4), backend=backend)
    where = failure.diagnostics[0].where
    assert failure.code == "E0303" and where["module"] == "blocks.1"
    assert where["source"] == line_of(Inner, "if x.sum()") and "torch.cond" in failure.remedy
    assert type(failure.__cause__).__module__.startswith("torch")


def test_loop_on_data():
    failure = failure_of(Outer(Counts()), torch.arange(3.0), backend="native-export")
    where = failure.diagnostics[0].where
    assert where["module"] == "blocks.1" and where["source"] == line_of(Counts, "for _ in") and failure.__cause__ is not None


@pytest.mark.parametrize("backend", ["torch-dynamo", "torch-torchscript"])
def test_operator_missing_from_pytorchs_exporter(backend):
    class Inverse(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvals(x)

    failure = failure_of(Outer(Inverse()), torch.eye(3), backend=backend)
    assert failure.code == "E0301" and "linalg_eig" in str(failure) and "custom_translation_table" in failure.remedy
    assert failure.__cause__ is not None


def test_module_names_that_torchscript_cannot_store():
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleDict({"class": torch.nn.Linear(4, 4)})

        def forward(self, x):
            return self.layers["class"](x)

    failure = failure_of(Named(), torch.ones(2, 4), backend="native")
    assert failure.code == "E0303" and "found 'class' here" in str(failure) and "torch.export.save" in failure.remedy


def test_required_axis_fixed_by_the_model():
    failure = failure_of(Adds(), torch.randn(3), backend="native-export", dynamic_shapes=({0: Dim("n")},))
    assert failure.code == "E0304" and "specialized" in str(failure) and "Dim.AUTO" in failure.remedy
    assert isinstance(failure.__cause__, torch._dynamo.exc.UserError)


@pytest.mark.parametrize("backend", BACKENDS)
def test_arguments_rejected_by_the_model(backend):
    failure = failure_of(Outer(torch.nn.Linear(4, 3)), torch.randn(2, 5), backend=backend)
    where = failure.diagnostics[0].where
    assert failure.code == "E0207" and "cannot be multiplied" in str(failure) and failure.__cause__ is not None
    assert where["module"] == "blocks.1" and where["source"] == line_of(Outer, "x = block(x)")
    assert "arguments that the model accepts" in failure.remedy


def test_captured_model_that_pytorch_cannot_run_gives_a_warning():
    """torch.export computes nothing, so it accepts float64 (NumPy's default dtype), which PyTorch rejects."""
    with pytest.warns(whence.WhenceWarning, match="E0207.*same dtype.*some arguments are float64") as caught:
        whence.export(torch.nn.Sequential(torch.nn.Linear(4, 3)).eval(), torch.randn(2, 4, dtype=torch.float64),
                      backend="native-export")
    assert [warning.filename for warning in caught if "E0207" in str(warning.message)] == [__file__]


@pytest.mark.parametrize("backend", BACKENDS)
def test_error_of_the_model_is_raised(backend):
    class UserError(RuntimeError):
        pass

    class Fails(torch.nn.Module):
        def forward(self, x):
            raise UserError("by the model")

    expected = (UserError,) if backend != "torch-dynamo" else (whence.WhenceError,)  # torch-dynamo wraps every error
    with pytest.raises(expected, match="by the model"):
        whence.export(Fails().eval(), torch.randn(2), backend=backend)


def test_backend_chain_continues_after_a_failure():
    program = whence.export(Outer(Inner()).eval(), torch.randn(2, 4), backend=["native-export", "torch-torchscript"])
    assert program.backend == "torch-torchscript"
    [(name, message)] = program.fell_back
    assert name == "native-export" and message.startswith("E0303")


@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_unconvertible_ops_reports_the_failure(backend):
    with pytest.raises(whence.WhenceError) as raised:
        whence.unconvertible_ops(Outer(torch.nn.Linear(4, 3)).eval(), torch.randn(2, 5), backend=backend)
    assert raised.value.code == "E0207" and raised.value.diagnostics[0].where["module"] == "blocks.1"
    assert isinstance(raised.value.__cause__, Exception)
