"""Composite operators without a converter, which PyTorch decomposes, in .pt and .pt2 archives."""

import onnx
import pytest
import torch

import command
from export.test_exported_programs import assert_same


class Call(torch.nn.Module):
    """Calls one function on its inputs, so that the function's nodes belong to a submodule."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Net(torch.nn.Module):
    def __init__(self, function, arity):
        super().__init__()
        self.call = Call(function)
        if arity == 1:
            self.forward = lambda x: self.call(x)
        elif arity == 2:
            self.forward = lambda x, y: self.call(x, y)
        else:
            self.forward = lambda x, y, z: self.call(x, y, z)


F = torch.nn.functional
SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0])
CASES = {
    "cosine_embedding_loss": (lambda x, y: F.cosine_embedding_loss(x, y, SIGNS, margin=0.2), 2),
    "hinge_embedding_loss": (lambda x, y: F.hinge_embedding_loss(x, torch.sign(y) + 0.0 * y, margin=0.7), 2),
    "margin_ranking_loss": (lambda x, y: F.margin_ranking_loss(x, y, SIGNS[:, None], margin=0.1), 2),
    "triplet_margin_loss": (lambda x, y, z: F.triplet_margin_loss(x, y, z, margin=1.5), 3),
    "poisson_nll_loss": (lambda x, y: F.poisson_nll_loss(x, y.abs(), full=False), 2),
    "kron": (torch.kron, 2),
    "trapezoid": (lambda x: torch.trapezoid(x, dx=0.5), 1),
    "cumulative_trapezoid": (lambda x: torch.cumulative_trapezoid(x, dx=0.5), 1),
    "rot90": (lambda x: torch.rot90(x, 1, [0, 1]) * 2, 1),
    "column_stack": (lambda x, y: torch.column_stack([x, y]), 2),
    "swapaxes": (lambda x: torch.swapaxes(x, 0, 1) + 1, 1),
    "chain_matmul": (lambda x, y: torch.linalg.multi_dot([x, y.T, x]), 2),
}


def inputs_of(arity: int, sizes=(4, 6)) -> dict:
    torch.manual_seed(3)
    return {name: torch.randn(sizes) for name in "xyz"[:arity]}


def keys(path, key: str) -> set:
    return {entry.value for node in onnx.load(path).graph.node for entry in node.metadata_props if entry.key == key}


@pytest.mark.parametrize("kind", ["pt2", "pt"])
@pytest.mark.parametrize("name", CASES)
def test_results_equal_pytorch(tmp_path, name, kind):
    function, arity = CASES[name]
    model, inputs = Net(function, arity).eval(), inputs_of(arity)
    if kind == "pt2":
        torch.export.save(torch.export.export(model, tuple(inputs.values()), strict=False), tmp_path / "m.pt2")
    else:
        torch.jit.trace(model, tuple(inputs.values())).save(str(tmp_path / "m.pt"))
        torch.save(inputs, tmp_path / "inputs.pt")
    options = ["--inputs", tmp_path / "inputs.pt"] if kind == "pt" else []
    command.run("export", tmp_path / f"m.{kind}", "-o", tmp_path / "m.onnx", "--annotate", *options)
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    assert_same(tmp_path / "m.onnx", model, inputs)
    assert "call" in keys(tmp_path / "m.onnx", "pkg.whence.module")


ROWS = torch.export.Dim("rows", min=2, max=64)
DYNAMIC = {
    "trapezoid": CASES["trapezoid"],
    "triplet_margin_loss": CASES["triplet_margin_loss"],
    "column_stack": CASES["column_stack"],
    "hinge_embedding_loss": CASES["hinge_embedding_loss"],
    "poisson_nll_loss": CASES["poisson_nll_loss"],
    "swapaxes": CASES["swapaxes"],
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_a_dynamic_axis_stays_dynamic(tmp_path, name):
    function, arity = DYNAMIC[name]
    model, inputs = Net(function, arity).eval(), inputs_of(arity)
    program = torch.export.export(model, tuple(inputs.values()), strict=False,
                                  dynamic_shapes=tuple({0: ROWS} for _ in inputs))
    torch.export.save(program, tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    for rows in (4, 9):
        assert_same(tmp_path / "m.onnx", model, inputs_of(arity, (rows, 6)))


def export_trace(folder, function, *options, code=0):
    """Exports a trace of the function; returns the standard error."""
    torch.jit.trace(Net(function, 1), (torch.randn(4, 6),)).save(str(folder / "m.pt"))
    return command.run("export", folder / "m.pt", "-o", folder / "m.onnx", "--input", "x=float32[4,6]", *options,
                       code=code).stderr


def test_decomposed_operators_have_dynamic_sizes(tmp_path):
    """kron reshapes to the sizes of its arguments and to products of them."""
    export_trace(tmp_path, lambda x: torch.kron(x, x), "--dynamic", "x:0=rows")
    for rows in (4, 7):
        assert_same(tmp_path / "m.onnx", Net(lambda x: torch.kron(x, x), 1), inputs_of(1, (rows, 6)))


def export_program(folder, function, arity):
    program = torch.export.export(Net(function, arity), tuple(inputs_of(arity).values()), strict=False)
    torch.export.save(program, folder / "m.pt2")
    return folder / "m.pt2"


def test_decomposition_without_libtorch_is_refused(tmp_path):
    path = export_program(tmp_path, *CASES["hinge_embedding_loss"])
    stderr = command.run("export", path, "-o", tmp_path / "m.onnx", code=4, env={"WHENCE_RECORDER": "/nowhere"}).stderr
    assert "E0307" in stderr and "aten::hinge_embedding_loss" in stderr and "--converters FILE" in stderr
    assert not (tmp_path / "m.onnx").exists()


def test_operators_with_converters_need_no_libtorch(tmp_path):
    """If every operator has a converter, the recorder is not loaded."""
    path = export_program(tmp_path, lambda x: torch.relu(x) * 2, 1)
    command.run("export", path, "-o", tmp_path / "m.onnx", env={"WHENCE_RECORDER": "/nowhere"})


def test_an_operator_that_depends_on_data_is_refused(tmp_path):
    stderr = export_trace(tmp_path, lambda x: torch.nn.functional.ctc_loss(
        x[:, None].log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2])), code=4)
    assert "E030" in stderr and "aten::ctc_loss" in stderr


def test_an_operator_is_reported_once(tmp_path):
    """An operator that cannot be decomposed is not also reported as lacking a converter."""
    stderr = export_trace(tmp_path, lambda x: x.T * torch.kaiser_window(x.shape[0]), "--dynamic", "x:0=rows", code=4)
    assert stderr.count("aten::kaiser_window") == 1 and "E0302" in stderr and "E0301" not in stderr


def test_a_sparse_tensor_is_refused(tmp_path):
    """PyTorch would crash if whence did not check the layout of results."""
    stderr = export_trace(tmp_path, lambda x: torch.sparse.mm(x.to_sparse(), x.T), code=4)
    assert "E0303" in stderr and "sparse" in stderr


def test_no_decomposition_is_suggested_for_data_dependent_operators(tmp_path):
    """Another decomposition would also depend on data, and add assertions."""
    stderr = command.run("export", export_program(tmp_path, lambda x: torch.linalg.lu_factor(x @ x.T)[0], 1), "-o",
                         tmp_path / "m.onnx", code=4).stderr
    assert "E0303" in stderr and "aten::linalg_lu_factor" in stderr and "run_decompositions" not in stderr
    assert "--converters FILE" in stderr


def test_a_nested_tensor_is_refused(tmp_path):
    """PyTorch's fast path of attention leaves nested tensors in a trace; their sizes cannot be recorded."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder, padding = torch.nn.TransformerEncoder(layer, 2).eval(), torch.tensor([[False, False, True], [False] * 3])
    model = Net(lambda x: encoder(x, src_key_padding_mask=padding), 1).eval()
    model.encoder = encoder
    with torch.no_grad():
        torch.jit.trace(model, (torch.randn(2, 3, 8),), check_trace=False).save(str(tmp_path / "m.pt"))
    stderr = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", "x=float32[2,3,8]",
                         code=4).stderr
    assert all(text in stderr for text in ("E0303", "nested tensor", "transformer.py", "set_fastpath_enabled"))


def test_all_missing_converters_are_reported_in_one_run(tmp_path):
    path = export_program(
        tmp_path, lambda x: (torch.linalg.eigvalsh(x @ x.T), torch.linalg.qr(x)[0], torch.kron(x, x)), 1)
    stderr = command.run("export", path, "-o", tmp_path / "m.onnx", code=4).stderr
    assert "aten::linalg_eigvalsh" in stderr and "aten::linalg_qr" in stderr and "aten::kron" not in stderr


class Shifted(torch.nn.Module):
    def forward(self, x):
        return torch.fft.fftshift(x, dim=1), torch.fft.ifftshift(x, dim=1), torch.fft.fftshift(x)


@pytest.mark.parametrize("example", [(4, 8), (3, 5), (5, 8)])
def test_half_a_dynamic_size_is_not_confused_with_an_equal_size(example, tmp_path):
    torch.jit.trace(Shifted(), torch.randn(example), check_trace=False).save(str(tmp_path / "m.pt"))
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", f"x=float32[{example[0]},{example[1]}]",
                "--dynamic", "x:0=n,1=m")
    for sizes in [example, (1, 1), (2, 7), (9, 4)]:
        assert_same(tmp_path / "m.onnx", Shifted(), {"x": torch.randn(sizes)})


def test_a_composite_that_slices_or_pads_by_size_is_refused(tmp_path):
    """irfft with n=7 reads four elements of an axis: it slices a longer axis and pads a shorter one."""
    model = Net(lambda x: torch.fft.irfft(x + 0j, n=7), 1)
    torch.jit.trace(model, torch.randn(4, 6), check_trace=False).save(str(tmp_path / "m.pt"))
    arguments = ["export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", "x=float32[4,6]"]
    command.run(*arguments)
    result = command.run(*arguments, "--overwrite", "--dynamic", "x:1=m", code=4)
    assert "fft_irfft" in result.stderr
