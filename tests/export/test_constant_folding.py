"""Expressions of constants are folded at export: one node remains, and its result equals PyTorch's."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import command

INTS = torch.tensor([[-7, 3, 0], [5, -2, 9]])
FLOATS = torch.tensor([[-1.7, 0.3, 2.5], [0.9, -0.4, 3.5]])
SMALL = FLOATS.abs() / 4
SQUARE = torch.arange(9.0).reshape(3, 3) / 7

# name -> expression of buffers; each result broadcasts with [2, 3]
COMPUTED = {
    "add": lambda: FLOATS + 0.1,
    "sub": lambda: FLOATS - FLOATS[0],
    "mul": lambda: FLOATS * 1.37,
    "div": lambda: FLOATS / 3,
    "div_integers": lambda: INTS.div(2, rounding_mode="trunc"),
    "remainder": lambda: INTS % 4,
    "remainder_negative": lambda: INTS % -4,
    "pow": lambda: SMALL ** 2.5,
    "sqrt": lambda: SMALL.sqrt(),
    "rsqrt": lambda: (SMALL + 1).rsqrt(),
    "exp": lambda: FLOATS.exp(),
    "log": lambda: SMALL.log(),
    "sigmoid": lambda: FLOATS.sigmoid(),
    "tanh": lambda: FLOATS.tanh(),
    "erf": lambda: FLOATS.erf(),
    "trigonometry": lambda: FLOATS.sin() + FLOATS.cos() + SMALL.asin() + FLOATS.atan(),
    "rounding": lambda: FLOATS.round() + FLOATS.floor() + FLOATS.ceil(),
    "sign": lambda: FLOATS.sign() + INTS.sign(),
    "clamp": lambda: FLOATS.clamp(-0.5, 1.0),
    "maximum": lambda: torch.maximum(FLOATS, SMALL),
    "compare": lambda: (FLOATS > 0.3) & (INTS <= 5) | (INTS == 9),
    "where": lambda: torch.where(INTS > 0, FLOATS, -1.0),
    "masked_fill": lambda: FLOATS.masked_fill(INTS < 0, -1e30),
    "half": lambda: (FLOATS.half() + 0.1) * 3,
    "bfloat16": lambda: (FLOATS.bfloat16() + 0.1) / 3,
    "double": lambda: FLOATS.double() / 3,
    "int32_wraps": lambda: INTS.int() * 2**30 * 3,
    "cast": lambda: FLOATS.to(torch.int32),
    "sum": lambda: FLOATS.sum(0),
    "mean": lambda: FLOATS.mean(1, keepdim=True),
    "amax": lambda: FLOATS.amax((0, 1)) + INTS.amin(0),
    "prod": lambda: INTS.prod(0),
    "norm": lambda: FLOATS.norm(dim=0),
    "variance": lambda: FLOATS.var(1, keepdim=True),
    "cumsum": lambda: FLOATS.cumsum(1) + INTS.cumsum(0),
    "matmul": lambda: FLOATS @ SQUARE,
    "batched_matmul": lambda: (FLOATS.reshape(2, 1, 3) @ SQUARE).reshape(2, 3),
    "vectors": lambda: (SQUARE @ SQUARE[0]) * torch.vdot(SQUARE[1], SQUARE[2]) + FLOATS[0] @ SQUARE,
    "addmm": lambda: torch.addmm(FLOATS[0], FLOATS, SQUARE.T, beta=0.5, alpha=2.0),
    "linear": lambda: torch.nn.functional.linear(FLOATS, SQUARE, FLOATS[1]),
    "softmax": lambda: FLOATS.softmax(1) + FLOATS.softmax(0) - SQUARE.log_softmax(-1)[1:],
    "pad": lambda: torch.nn.functional.pad(FLOATS[:1], (1, 0, 0, 1), value=2.5)[:, :3],
    "nearest": lambda: torch.nn.functional.interpolate(SQUARE[None, None], (2, 3))[0, 0],
    "nearest_larger": lambda: torch.nn.functional.interpolate(SQUARE[None, None], (5, 7))[0, 0, 1:3, 2:5],
    "cat": lambda: torch.cat([FLOATS[:1], FLOATS[1:] * 2]),
    "slice": lambda: SQUARE[1:, ::2].sum(),
    "flip": lambda: FLOATS.flip(1),
    "repeat": lambda: FLOATS[:1, :1].repeat(2, 3),
    "expand": lambda: FLOATS[:, :1].expand(2, 3) * 2,
    "triangle": lambda: SQUARE.tril(-1)[1:] + SQUARE.triu(1)[1:],
    "index": lambda: FLOATS[:, torch.tensor([2, 0, 1])],
    "gather": lambda: FLOATS.gather(1, torch.tensor([[2, 0, 0], [1, 1, 2]])),
    "gather_nd": lambda: FLOATS[torch.tensor([[1], [0]]), torch.tensor([[2, 0, 1]])],
    "scatter_nd": lambda: FLOATS.index_put((torch.tensor([1, 0]), torch.tensor([2, -3])), torch.tensor([7.5, 8.5])),
    "clamp_integers": lambda: INTS.clamp(-1, 4),
    "arange": lambda: torch.arange(0, 3) * 0.5 + torch.arange(0.0, 1.5, 0.5),
    "full": lambda: torch.full((2, 3), 4.5) / 2,
}


class ConstantExpression(torch.nn.Module):
    """Adds a constant expression of buffers to x; torch.export leaves the expression in the program."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name
        for key in ("INTS", "FLOATS", "SMALL", "SQUARE"):
            self.register_buffer(key, globals()[key])

    def forward(self, x):
        function = COMPUTED[self.name]
        # The lambda reads globals; replace them with the buffers.
        expression = type(function)(function.__code__, {"torch": torch, **dict(self.named_buffers())})
        return x + expression().to(torch.float32)


def export_model(model: torch.nn.Module, inputs: tuple, folder, *options) -> onnx.ModelProto:
    torch.export.save(torch.export.export(model, inputs, strict=False), folder / "m.pt2")
    command.run("export", folder / "m.pt2", "-o", folder / "m.onnx", *options)
    return onnx.load(folder / "m.onnx")


def assert_same(folder, model: torch.nn.Module, inputs: tuple) -> None:
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    feeds = {value.name: tensor.numpy() for value, tensor in zip(session.get_inputs(), inputs, strict=True)}
    expected = model(*inputs).detach().numpy()
    np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", COMPUTED)
def test_only_the_addition_remains(name, tmp_path):
    model, inputs = ConstantExpression(name), (torch.zeros(2, 3),)
    assert [node.op_type for node in export_model(model, inputs, tmp_path).graph.node] == ["Add"]
    assert_same(tmp_path, model, inputs)


def test_weight_norm_is_folded_into_the_weight(tmp_path):
    """The file contains the normalised weight, named after its parameter, instead of the two original parameters."""
    model, inputs = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(300, 200)), (torch.randn(2, 300),)
    graph = export_model(model, inputs, tmp_path).graph
    assert [node.op_type for node in graph.node] == ["Gemm"]
    assert [(tensor.name, list(tensor.dims)) for tensor in graph.initializer] == [
        ("bias", [200]), ("parametrizations.weight.original1.folded", [200, 300])]
    assert_same(tmp_path, model, inputs)


def test_spectral_norm_is_folded_into_the_weight(tmp_path):
    """Spectral norm reads the weight twice: directly, and as a matrix for its largest singular value."""
    layer = torch.nn.Conv2d(3, 8, 3).eval()
    model, inputs = torch.nn.utils.parametrizations.spectral_norm(layer).eval(), (torch.randn(2, 3, 5, 5),)
    graph = export_model(model, inputs, tmp_path).graph
    assert [node.op_type for node in graph.node] == ["Conv"]
    assert [(tensor.name, list(tensor.dims)) for tensor in graph.initializer] == [
        ("bias", [8]), ("parametrizations.weight.original.folded", [8, 3, 3, 3])]
    assert_same(tmp_path, model, inputs)


class FullRotation(torch.nn.Module):
    """Rotary embedding of all features: the remaining slice has no elements."""

    def forward(self, x):
        rotated, rest = x[..., :6], x[..., 6:]
        return torch.cat([rotated * 2, rest], -1)


def test_concat_drops_empty_inputs(tmp_path):
    model, inputs = FullRotation(), (torch.randn(2, 6),)
    assert [node.op_type for node in export_model(model, inputs, tmp_path).graph.node] == ["Mul"]
    assert_same(tmp_path, model, inputs)


class SameSizeResize(torch.nn.Module):
    """Resizes to the size of the input."""

    def forward(self, x):
        return torch.nn.functional.interpolate(x, (4, 4), mode="bilinear", align_corners=True).relu()


def test_a_resize_to_the_same_size_is_removed(tmp_path):
    model, inputs = SameSizeResize(), (torch.randn(1, 2, 4, 4),)
    assert [node.op_type for node in export_model(model, inputs, tmp_path).graph.node] == ["Relu"]
    assert_same(tmp_path, model, inputs)


class SharedWeight(torch.nn.Module):
    """Uses a large weight both unchanged and scaled."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(256, 256))

    def forward(self, x):
        return x @ self.weight + x @ (self.weight * 0.3)


def test_a_large_weight_is_not_stored_twice(tmp_path):
    graph = export_model(SharedWeight(), (torch.randn(2, 256),), tmp_path).graph
    assert sorted(node.op_type for node in graph.node) == ["Add", "MatMul", "MatMul", "Mul"]
    assert_same(tmp_path, SharedWeight().eval(), (torch.zeros(2, 256),))


class LargeFull(torch.nn.Module):
    """Expands one number to a large table."""

    def forward(self, x):
        return x + torch.full((1024, 1024), 2.0)


def test_a_large_table_of_one_number_is_computed_at_run_time(tmp_path):
    model = export_model(LargeFull(), (torch.randn(1, 1024),), tmp_path)
    assert len(model.SerializeToString()) < 4096
    assert_same(tmp_path, LargeFull(), (torch.randn(1, 1024),))


def test_nothing_is_folded_without_optimization(tmp_path):
    model, inputs = ConstantExpression("mul"), (torch.zeros(2, 3),)
    assert "Mul" in [node.op_type for node in export_model(model, inputs, tmp_path, "--no-optimize").graph.node]
    assert_same(tmp_path, model, inputs)


class TensorAttribute(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.tensor([1.5, 2.5])

    def forward(self, x):
        return x * self.scale


def test_a_tensor_attribute_keeps_its_name(tmp_path):
    graph = export_model(TensorAttribute(), (torch.zeros(2),), tmp_path).graph
    assert [tensor.name for tensor in graph.initializer] == ["scale"]
