"""In-place operators of traces and undecomposed torch.export archives: whence finds the functional form by name and
arguments, or by ATen's definition."""

import warnings

import onnx
import onnxruntime
import pytest
import torch

import command

F = torch.nn.functional
ONES = torch.ones(3, 4)
# The keys state how the functional form differs from the in-place name without the underscore.
FORMS = {
    "overload": lambda y: y.abs_().pow_(2),
    "overload_of_tensors": lambda y: y.abs_().pow_(ONES * 2).floor_divide_(ONES * 0.25),
    "overload_of_one_kind_of_number": lambda y: y.ldexp_(ONES * 3),
    "defaults": lambda y: y.bernoulli_().mul_(0),
    "arguments": lambda y: F.dropout(y, 1.0, True, inplace=True),
    "order": lambda y: y.bernoulli_(1.0),
    "other_name": lambda y: y[0].zero_(),
    "alias": lambda y: y.subtract_(ONES, alpha=0.5).multiply_(ONES * 3).divide_(2, rounding_mode="floor"),
    "alias_of_unary": lambda y: y.negative_().fix_(),
    "alias_of_comparison": lambda y: y.greater_(0.1),
    "alias_of_binary": lambda y: y.arctan2_(ONES),
    "alias_of_clamp": lambda y: y.clip_(-0.5, 0.5),
    "alias_of_a_view": lambda y: y.swapaxes_(0, 1)[0].add_(1),
    "other_alias_of_a_view": lambda y: y.swapdims_(0, 1).mul_(2),
    "alias_through_a_view": lambda y: y[1].subtract_(ONES[0]),
    "list": lambda y: torch._foreach_mul_([y[0], y[1]], 2.0),
    "lists": lambda y: torch._foreach_add_([y[0], y[2]], [y[1] * 1, ONES[0]]),
    "number": lambda y: y.abs_().xlogy_(2.0),
    "composite_in_training": lambda y: F.alpha_dropout(y, 0.0, True, inplace=True),
    "diagonal": lambda y: y.fill_diagonal_(5),
    "diagonal_of_a_view": lambda y: y.t().fill_diagonal_(5),
    "wrapped_diagonal": lambda y: y.t().fill_diagonal_(5, wrap=True),
    "diagonal_of_a_cube": lambda y: y[:, :3].expand(3, 3, 3).clone().fill_diagonal_(5),
}


class InPlace(torch.nn.Module):
    def __init__(self, write):
        super().__init__()
        self.write = write

    def forward(self, x):
        y = x.clone()
        result = self.write(y)
        return (y, result * 1) if isinstance(result, torch.Tensor) else (y, y)


def export_model(folder, write, route, x, axes=None):
    model = InPlace(write)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if route == "trace":
            torch.jit.trace(model, (x,), check_trace=False).save(str(folder / "m.pt"))
            arguments = [folder / "m.pt", "--input", f"x=float32[{','.join(map(str, x.shape))}]"]
        else:
            dynamic = ({axis: torch.export.Dim.DYNAMIC for axis in axes},) if axes else None
            torch.export.save(torch.export.export(model, (x,), dynamic_shapes=dynamic), folder / "m.pt2")
            arguments = [folder / "m.pt2"]
    command.run("export", *arguments, "-o", folder / "m.onnx")
    onnx.checker.check_model(folder / "m.onnx", full_check=True)
    return model


def assert_same(folder, model, x):
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    for actual, expected in zip(session.run(None, {"x": x.numpy()}), model(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(actual), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("route", ["trace", "pt2"])
@pytest.mark.parametrize("name", FORMS)
def test_results_equal_pytorch(name, route, tmp_path):
    x = torch.randn(3, 4)
    assert_same(tmp_path, export_model(tmp_path, FORMS[name], route, x), x)


def test_diagonal_of_dynamic_length_equals_pytorch(tmp_path):
    model = export_model(tmp_path, lambda y: y.fill_diagonal_(5), "pt2", torch.randn(6, 4), axes=[0])
    for rows in (6, 11, 5):
        assert_same(tmp_path, model, torch.randn(rows, 4))


class Aliased(torch.nn.Module):
    """An in-place operator returns its argument, so both names refer to a tensor whose shape may change."""

    def forward(self, x):
        y = x.clone().unsqueeze_(0)
        doubled = y.mul_(2)
        doubled.squeeze_(0)
        transposed = y.add_(1)
        transposed.t_()
        return y, transposed.relu_(), y.sum(0)


@pytest.mark.parametrize("scripted", [True, False], ids=["script", "pt2"])
def test_either_name_of_a_tensor_may_change_its_shape(scripted, tmp_path):
    model, x = Aliased(), torch.randn(3, 4)
    if scripted:
        torch.jit.script(model).save(str(tmp_path / "m.pt"))
        arguments = [tmp_path / "m.pt", "--input", "x=float32[3,4]"]
    else:
        torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
        arguments = [tmp_path / "m.pt2"]
    command.run("export", *arguments, "-o", tmp_path / "m.onnx")
    assert_same(tmp_path, model, x)
