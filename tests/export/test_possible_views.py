"""Reshapes that share memory only at some sizes, and loops in which a variable aliases memory that the loop writes to.
The file is correct at every size, or the export is refused because two names in use may share memory and the strides
of the reshaped tensor are unknown."""

import numpy as np
import onnxruntime
import pytest
import torch

import command
from function_module import FunctionModule

DYNAMIC = torch.export.Dim.DYNAMIC
SIZES = ((4, 6), (1, 6), (4, 1), (1, 1), (2, 3), (7, 9))


def export_model(kind, model, x, folder, dynamic=True, code=0):
    """Exports the model with an example x [rows, columns, 3]; returns the completed command."""
    path = folder / ("m.pt2" if kind == "exported" else "m.pt")
    axes = {0: DYNAMIC, 1: DYNAMIC} if dynamic else None
    if kind == "exported":
        torch.export.save(torch.export.export(model, (x,), dynamic_shapes=(axes,) if dynamic else None), path)
    else:
        (torch.jit.trace(model, (x,), check_trace=False) if kind == "traced" else torch.jit.script(model)).save(str(path))
    torch.save((x,), folder / "inputs.pt")
    options = [] if kind == "exported" else ["--inputs", folder / "inputs.pt"]
    if dynamic and kind != "exported":
        options += ["--dynamic", "x:0=rows,1=columns"]
    return command.run("export", path, "-o", folder / "m.onnx", *options, code=code)


def check_numbers(model, folder, sizes=SIZES):
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    for size in sizes:
        x = torch.randn(*size, 3, generator=torch.Generator().manual_seed(size[0]))
        for actual, expected in zip(session.run(None, {"x": x.numpy()}), model(x.clone()), strict=True):
            np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5, err_msg=str(size))


def view_of_rows(x):
    a = x.clone()
    b = a.reshape(a.shape[0], -1)
    b += 1
    c = a.flatten()
    a *= 2
    return a, b * 1, c * 1


def shape_of_base(x):
    a = x.clone()
    b = a.transpose(0, 1).contiguous()
    b += 1
    return b, torch.ones_like(a), a.new_zeros(a.shape[1:])


@pytest.mark.parametrize("function", [view_of_rows, shape_of_base])
@pytest.mark.parametrize("kind", ["traced", "exported"])
def test_writes_through_views_are_correct_at_every_size(kind, function, tmp_path):
    model = FunctionModule(function)
    export_model(kind, model, torch.zeros(4, 6, 3), tmp_path)
    check_numbers(model, tmp_path,
                  SIZES if kind == "traced" else [size for size in SIZES if 1 not in size])


def written_copy(x):
    a = x.clone()
    b = a.transpose(0, 1).reshape(-1, 3)
    b += 1
    return a, b


def written_both(x):
    a = x * 2
    b = a.permute(1, 2, 0).reshape(-1, a.shape[0])
    b[0] = 7
    a[0] += 1
    b *= 2
    return a, b


@pytest.mark.parametrize(("kind", "rows"), [("traced", 4), ("traced", 1), ("exported", 4)])
@pytest.mark.parametrize("function", [written_copy, written_both])
def test_a_possible_view_and_its_base_are_correct(kind, rows, function, tmp_path):
    """The reshape is a copy, except for 1 row or 1 column, where it is a view."""
    export_model(kind, FunctionModule(function), torch.zeros(rows, 6, 3), tmp_path)
    check_numbers(FunctionModule(function), tmp_path)
    export_model(kind, FunctionModule(function), torch.zeros(rows, 6, 3), tmp_path, dynamic=False)
    check_numbers(FunctionModule(function), tmp_path, [(rows, 6)])


def written_parts(x):
    q, k, v = x.clone().transpose(0, 1).unbind(-1)
    q, k = q.contiguous(), k.contiguous()
    q *= 3
    k += 1
    return q, k, v * 1


@pytest.mark.parametrize("kind", ["traced", "exported"])
def test_writes_to_disjoint_parts_are_correct(kind, tmp_path):
    """As in attention that scales its queries in place; keys and values are other parts of the same tensor."""
    export_model(kind, FunctionModule(written_parts), torch.zeros(4, 6, 3), tmp_path)
    check_numbers(FunctionModule(written_parts), tmp_path,
                  SIZES if kind == "traced" else [size for size in SIZES if 1 not in size])


def in_other_order(x):
    a = x[None].permute(0, 3, 1, 2).clone()
    b = a.contiguous(memory_format=torch.channels_last)
    b += 1
    c = b.contiguous(memory_format=torch.channels_last)
    c *= 2
    return a, b, c


@pytest.mark.parametrize("kind", ["traced", "exported"])
def test_writes_through_memory_formats_are_correct(kind, tmp_path):
    export_model(kind, FunctionModule(in_other_order), torch.zeros(4, 6, 3), tmp_path, dynamic=False)
    check_numbers(FunctionModule(in_other_order), tmp_path, [(4, 6)])


def cast_to_other_order(x):
    a = x[None].permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)
    b = a.to(memory_format=torch.channels_last)
    b += 1
    return a, b


@pytest.mark.parametrize("kind", ["traced", "exported"])
def test_a_cast_to_another_memory_format_is_a_copy(kind, tmp_path):
    export_model(kind, FunctionModule(cast_to_other_order), torch.zeros(4, 6, 3), tmp_path)
    check_numbers(FunctionModule(cast_to_other_order), tmp_path)


def cast_of_one_channel(x):
    a = x[:, None] * 1
    b = a.to(memory_format=torch.channels_last)
    b += 1
    return a, b


@pytest.mark.parametrize("kind", ["traced", "exported"])
def test_a_cast_of_one_channel_is_a_copy(kind, tmp_path):
    """The strides match both memory formats; PyTorch treats the tensor as contiguous."""
    export_model(kind, FunctionModule(cast_of_one_channel), torch.zeros(4, 6, 3), tmp_path, dynamic=False)
    check_numbers(FunctionModule(cast_of_one_channel), tmp_path, [(4, 6)])


class ViewBySize(torch.nn.Module):
    def forward(self, x):
        a = x * 1
        b = a.permute(1, 0, 2) if x.size(0) > 3 else a
        c = b.reshape(-1, 3)
        c[0] = 9.0
        return a, c


class CopyOrView(torch.nn.Module):
    def forward(self, x):
        a = x * 1
        if bool(x.sum() > 0):
            b = a.transpose(0, 1).reshape(-1, 3)
        else:
            b = (a * 2).reshape(-1, 3)
        b[0] = 9.0
        return a, b


class WhileAliased(torch.nn.Module):
    def forward(self, x):
        a = x * 0
        b, c = a[0], a
        while bool(a.sum() < 100):
            b += 1
            c = c + a
        return a, b, c


class OneOfTwoOrders(torch.nn.Module):
    def forward(self, x):
        a = x * 1
        if bool(x.sum() > 0):
            b = a.transpose(0, 1).clone()
        else:
            b = torch.ones_like(a).transpose(0, 1)
        c = b.contiguous()
        c[0] = 9.0
        return b, c


@pytest.mark.parametrize("model", [ViewBySize, OneOfTwoOrders])
def test_scripts_with_unknown_aliases_are_refused(model, tmp_path):
    result = export_model("scripted", model(), torch.ones(4, 6, 3), tmp_path, code=4)
    assert "E0303" in result.stderr and "share memory" in result.stderr


class ReadsBeforeItWrites(torch.nn.Module):
    def forward(self, x):
        a = x * 1
        h = a
        for i in range(x.size(0)):
            h = h * 2
            a[i] = h[i]
        return a, h


@pytest.mark.parametrize("model", [ReadsBeforeItWrites, WhileAliased, CopyOrView])
def test_writes_in_branches_and_loops_are_correct(model, tmp_path):
    export_model("scripted", model(), torch.ones(4, 6, 3), tmp_path)
    check_numbers(model(), tmp_path)
