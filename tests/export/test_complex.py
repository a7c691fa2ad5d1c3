"""Complex tensors as pairs of real numbers: arithmetic, rearrangement, constants, and unsupported operators."""

import onnxruntime
import pytest
import torch

import command

real, complex_of = torch.view_as_real, torch.view_as_complex


class Model(torch.nn.Module):
    def __init__(self, function, rotations=None):
        super().__init__()
        self.function = function
        self.register_buffer("rotations", rotations)

    def forward(self, x, y):
        return self.function(x, y) if self.rotations is None else self.function(x, self.rotations)


def compare(model, tmp_path, archive):
    x, y = torch.randn(2, 3, 4, 2), torch.randn(2, 3, 4, 2)
    archive_path, inputs = tmp_path / f"m.{archive}", tmp_path / "inputs.pt"
    options = []
    if archive == "pt":
        torch.jit.save(torch.jit.trace(model, (x, y), check_trace=False), archive_path)
        torch.save((x, y), inputs)
        options = ["--inputs", inputs, "--dynamic", "x:0=b", "--dynamic", "y:0=b"]
    else:
        b = {0: torch.export.Dim("b")}
        program = torch.export.export(model, (x, y), dynamic_shapes={"x": b, "y": b}, strict=False)
        torch.export.save(program, archive_path)
    command.run("export", archive_path, "-o", tmp_path / "m.onnx", *options)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    for rows in (2, 5):
        x, y = torch.randn(rows, 3, 4, 2), torch.randn(rows, 3, 4, 2)
        feed = {value.name: {"x": x, "y": y}[value.name].numpy() for value in session.get_inputs()}
        torch.testing.assert_close(torch.from_numpy(session.run(None, feed)[0]), model(x, y), rtol=1e-4, atol=1e-4)


def low_frequencies(z, w):
    """Keeps the low frequencies of a spectrum and sets the others to zero, as Fourier layers do."""
    spectrum = torch.zeros(z.shape[0], 3, 4, dtype=torch.complex64)
    spectrum[:, :2, 1:] = z[:, :2, 1:] * w[:, :2, 1:]
    spectrum[:, 2] = w[:, 2]
    return spectrum


FUNCTIONS = {
    "product": lambda x, y: real(complex_of(x) * complex_of(y)),
    "quotient": lambda x, y: real(complex_of(x) / (complex_of(y) * complex_of(y).conj() + 1)),
    "numbers": lambda x, y: real((complex_of(x) * (2 + 3j) + 1j - complex_of(y) * 0.5) / 4),
    "from a number": lambda x, y: real((1 - complex_of(x)) * (2j - complex_of(y))
                                       + torch.rsub(complex_of(x), complex_of(y))),
    "with real": lambda x, y: real(complex_of(x) * y[..., 0] + y[..., 1]),
    "parts": lambda x, y: complex_of(x).real + complex_of(y).imag + complex_of(x).abs() + complex_of(y).angle(),
    "polar": lambda x, y: real(torch.polar(x.abs()[..., 0], y[..., 1]) + torch.complex(x[..., 1], y[..., 0])),
    "moves": lambda x, y: real(complex_of(x).transpose(1, -1)[:, 1:].flatten(1, -1).unsqueeze(-1)),
    "order": lambda x, y: real(torch.cat([complex_of(x), complex_of(y)], -1).permute(2, 0, 1).select(0, -1)),
    "sums": lambda x, y: real(complex_of(x).sum(-1) - complex_of(y).mean((1, 2)).unsqueeze(-1)),
    "matrices": lambda x, y: real(complex_of(x) @ complex_of(y).transpose(-2, -1)),
    "used as real too": lambda x, y: real(complex_of(x) * 2) + x,
    "sum of all": lambda x, y: real(complex_of(x).sum() * complex_of(y)),
    "roots": lambda x, y: real(complex_of(x).sqrt() + complex_of(y).reciprocal() * complex_of(x).sgn()),
    "logarithm": lambda x, y: real(complex_of(x).log()),
    "padding": lambda x, y: real(torch.nn.functional.pad(complex_of(x), (1, 2, 0, 1))),
    "written": lambda x, y: real(low_frequencies(complex_of(x), complex_of(y))),
    "written real": lambda x, y: real(low_frequencies(complex_of(x), y[..., 0])),
    "filled": lambda x, y: real(torch.full_like(complex_of(x), 2 - 1j) * complex_of(y)
                                + torch.ones_like(complex_of(x))),
    "contracted": lambda x, y: real(torch.einsum("bij,bkj->bik", complex_of(x), complex_of(y))),
    "contracted with real": lambda x, y: real(torch.einsum("bij,bij->bj", complex_of(x), y[..., 0] + 0j)),
    "exponent": lambda x, y: real(torch.exp(complex_of(x)) + complex_of(y) ** 2),
}


@pytest.mark.parametrize("archive", ["pt", "pt2"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_results_equal_pytorch(name, archive, tmp_path):
    compare(Model(FUNCTIONS[name]), tmp_path, archive)


@pytest.mark.parametrize("archive", ["pt", "pt2"])
def test_rotary_embedding_with_a_complex_buffer(archive, tmp_path):
    """As in Llama's original code, the rotations are a complex buffer."""
    rotations = torch.polar(torch.ones(3, 4), torch.randn(3, 4))
    compare(Model(lambda x, t: real(complex_of(x) * t).flatten(2), rotations), tmp_path, archive)


@pytest.mark.parametrize("function, words", [
    (lambda x, y: real(torch.linalg.inv(complex_of(x[:, :, :3]))), "linalg_inv"),
    (lambda x, y: real(complex_of(x).roll(1)), "works on all axes"),
])
def test_an_unsupported_complex_operator_is_refused_by_name(function, words, tmp_path):
    x = torch.randn(2, 3, 4, 2)
    torch.export.save(torch.export.export(Model(function), (x, x), strict=False), tmp_path / "m.pt2")
    stderr = command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", code=4).stderr
    assert words in stderr and "test_complex.py" in stderr and "view_as_real" in stderr, stderr


@pytest.mark.parametrize("archive", ["pt", "pt2"])
def test_complex_inputs_and_outputs_are_pairs_in_the_file(archive, tmp_path):
    class Rotation(torch.nn.Module):
        def forward(self, z, x):
            return z * 1j + x, z.abs()

    z, x = torch.randn(2, 3, dtype=torch.complex64), torch.randn(2, 3)
    archive_path, inputs, options = tmp_path / f"m.{archive}", tmp_path / "inputs.pt", []
    if archive == "pt":
        torch.jit.save(torch.jit.trace(Rotation(), (z, x), check_trace=False), archive_path)
        torch.save((z, x), inputs)
        options = ["--inputs", inputs]
    else:
        torch.export.save(torch.export.export(Rotation(), (z, x)), archive_path)
    command.run("export", archive_path, "-o", tmp_path / "m.onnx", *options)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    results = session.run(None, {"z": real(z).numpy(), "x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(results[0]), real(z * 1j + x))
    torch.testing.assert_close(torch.from_numpy(results[1]), z.abs())
