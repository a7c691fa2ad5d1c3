"""Writes through views of a tensor that is read later, in traces and in undecomposed torch.export archives."""

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import command

VIEWS = {
    "narrow to the end": lambda y: y.narrow(0, -2, 2).mul_(3),
    "hsplit": lambda y: torch.hsplit(y, 2)[1].add_(1),
    "vsplit": lambda y: torch.vsplit(y, 3)[1].add_(1),
    "dsplit": lambda y: torch.dsplit(y[None], 2)[1].add_(1),
    "swapdims": lambda y: y.swapdims(0, 1)[0].add_(1),
    "movedim": lambda y: y[None].movedim((0, 1), (2, 0))[1].add_(1),
    "adjoint": lambda y: y.adjoint()[0].add_(1),
    "as_complex": lambda y: torch.view_as_complex(y.view(3, 2, 2)).mul_(2),
    "as_real": lambda y: torch.view_as_real(torch.view_as_complex(y.view(3, 2, 2)))[0].add_(1),
    "reshape": lambda y: y.reshape(-1)[1:3].add_(1),
    "ravel": lambda y: y.ravel()[0:2].add_(1),
    "reshape_as": lambda y: y.reshape_as(torch.zeros(4, 3))[1].mul_(3),
    "broadcast": lambda y: torch.broadcast_tensors(y, y[:1])[0].add_(1),
    "expand_as": lambda y: y.expand_as(y)[0].add_(1),
    "expand": lambda y: y.expand(1, -1, -1)[0].add_(1),
    "windows": lambda y: y.unfold(1, 2, 2).mul_(3),
    "windows with gaps": lambda y: y.unfold(-2, 1, 2)[0].mul_(3),
    "transposed_diagonal": lambda y: y.t().diagonal(1).fill_(5.0),
}
REFUSED = {"bits": (lambda y: y.view(torch.int32)[0].zero_(), "aten::view.dtype"),
           "unfold": (lambda y: y.unfold(1, 2, 1).mul_(3), "aten::unfold")}


class WriteThenRead(torch.nn.Module):
    def __init__(self, write):
        super().__init__()
        self.write = write

    def forward(self, x):
        y = x.clone()
        self.write(y)
        return y * 1


def archive(write, route, folder, module=WriteThenRead):
    model, x = module(write), torch.randn(3, 4)
    path = folder / ("m.pt" if route == "trace" else "m.pt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if route == "trace":
            torch.jit.trace(model, (x,), check_trace=False).save(str(path))
            return model, [path, "--input", "x=float32[3,4]"]
        torch.export.save(torch.export.export(model, (x,)), path)
    return model, [path]


@pytest.mark.parametrize("route", ["trace", "pt2"])
@pytest.mark.parametrize("name", VIEWS)
def test_the_base_contains_the_written_values(name, route, tmp_path):
    model, arguments = archive(VIEWS[name], route, tmp_path)
    command.run("export", *arguments, "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    x = torch.randn(3, 4)
    assert not torch.equal(model(x), x)
    torch.testing.assert_close(torch.as_tensor(session.run(None, {"x": x.numpy()})[0]), model(x), rtol=1e-5, atol=1e-6)


def test_writes_through_a_reshape_of_dynamic_size(tmp_path):
    class Flat(torch.nn.Module):
        def forward(self, x):
            y = x * 1
            y.reshape(-1)[::3].zero_()
            return y

    x = torch.randn(3, 4)
    torch.export.save(torch.export.export(Flat(), (x,), dynamic_shapes=({0: torch.export.Dim("n")},)),
                      tmp_path / "m.pt2")
    torch.jit.trace(Flat(), (x,), check_trace=False).save(str(tmp_path / "m.pt"))
    for arguments in (["m.pt2"], ["m.pt", "--input", "x=float32[3,4]", "--dynamic", "x:0=n"]):
        command.run("export", tmp_path / arguments[0], *arguments[1:], "-o", tmp_path / "m.onnx")
        session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
        for n in (3, 5, 1):
            x = torch.randn(n, 4)
            torch.testing.assert_close(torch.as_tensor(session.run(None, {"x": x.numpy()})[0]), Flat()(x))


@pytest.mark.parametrize("route", ["trace", "pt2"])
def test_writes_to_parts_of_a_dynamic_axis(route, tmp_path):
    class Parts(torch.nn.Module):
        def forward(self, x):
            y = x * 1
            first, second = y.split([2, y.shape[1] - 2], 1)
            second.mul_(3)
            y[1:].tensor_split(2, 1)[1].add_(first[1:].sum())
            return y

    x = torch.randn(3, 8)
    if route == "pt2":
        torch.export.save(torch.export.export(Parts(), (x,), dynamic_shapes=({1: torch.export.Dim.DYNAMIC},)),
                          tmp_path / "m")
    else:
        torch.jit.trace(Parts(), (x,), check_trace=False).save(str(tmp_path / "m"))
    arguments = [] if route == "pt2" else ["--input", "x=float32[3,8]", "--dynamic", "x:1=n"]
    command.run("export", tmp_path / "m", *arguments, "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for n in (8, 4, 5, 11):
        x = torch.randn(3, n)
        torch.testing.assert_close(torch.as_tensor(session.run(None, {"x": x.numpy()})[0]), Parts()(x))


def test_a_write_through_atleast_3d(tmp_path):
    model, arguments = archive(lambda y: torch.atleast_3d(y)[0].add_(1), "pt2", tmp_path)
    command.run("export", *arguments, "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.as_tensor(session.run(None, {"x": x.numpy()})[0]), model(x))


SHARED = {  # views that no schema marks as such
    "einsum": lambda y: torch.einsum("ij->ji", y),
    "einsum with a space": lambda y: torch.einsum("ij ->ji", y),
    "diagonal by einsum": lambda y: torch.einsum("ii->i", y[:, :3]),
    "broadcast": lambda y: torch.broadcast_tensors(y, y[:1])[0],
    "meshgrid": lambda y: torch.meshgrid(y[0], y[:, 0], indexing="ij")[0],
}


class ReadsBoth(torch.nn.Module):
    def __init__(self, view):
        super().__init__()
        self.view = view

    def forward(self, x):
        y = x.clone()
        view = self.view(y)
        y.mul_(3)
        return y, view + 1


@pytest.mark.parametrize("route", ["trace", "pt2"])
@pytest.mark.parametrize("name", SHARED)
def test_a_view_that_no_schema_marks_shows_the_write(name, route, tmp_path):
    model, arguments = archive(SHARED[name], route, tmp_path, ReadsBoth)
    command.run("export", *arguments, "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    x = torch.randn(3, 4)
    for actual, expected in zip(session.run(None, {"x": x.numpy()}), model(x), strict=True):
        torch.testing.assert_close(torch.as_tensor(actual), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_a_write_without_an_onnx_form_is_refused(name, tmp_path):
    write, operator = REFUSED[name]
    _, arguments = archive(write, "pt2", tmp_path)
    stderr = command.run("export", *arguments, "-o", tmp_path / "m.onnx", code=4).stderr
    assert "E0303" in stderr and operator in stderr


def test_a_write_to_a_list_of_tensors_needs_libtorch(tmp_path):
    """PyTorch decomposes the operator; without LibTorch, it has no converter."""
    model, arguments = archive(lambda y: torch._foreach_add_([y], 1.0), "pt2", tmp_path)
    command.run("export", *arguments, "-o", tmp_path / "m.onnx")
    x = torch.randn(3, 4)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), model(x))
    stderr = command.run("export", *arguments, "-o", tmp_path / "m.onnx", code=4,
                         env={"WHENCE_RECORDER": "/nowhere"}).stderr
    assert "aten::_foreach_add.Scalar" in stderr


@torch.library.custom_op("whence_test_writes::doubled", mutates_args={"x"})
def doubled(x: torch.Tensor) -> None:
    x.mul_(2)


def test_an_operator_that_only_writes_is_not_dropped(tmp_path):
    _, arguments = archive(torch.ops.whence_test_writes.doubled, "pt2", tmp_path)
    for option in ([], ["--custom-opset", "whence_test_writes=1"], ["--on-unsupported", "domain"]):
        stderr = command.run("export", *arguments, "-o", tmp_path / "m.onnx", *option, code=4).stderr
        assert "E0303" in stderr and "whence_test_writes::doubled" in stderr and "returns nothing" in stderr


@pytest.mark.parametrize("call", ["x1.type_as(torch.ones([1]))", "x1.cpu()", "x1.to(torch.ones([1]))",
                                  "torch.positive(x1)", "torch.dropout(x1, 0.5, False)"])
def test_a_script_writes_through_operators_that_return_their_argument(call, tmp_path):
    module = type("Writes", (torch.jit.ScriptModule,), {})()
    module.define(f"def forward(self, x):\n  x1 = x * 1.0\n  y = {call}\n  y.add_(1.0)\n  return x1 * 2, y\n")
    module.save(str(tmp_path / "m.pt"))
    command.run("export", tmp_path / "m.pt", "--input", "x=float32[3,4]", "-o", tmp_path / "m.onnx")
    x = torch.randn(3, 4)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for actual, expected in zip(session.run(None, {"x": x.numpy()}), module(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(actual), expected)


def test_a_script_writes_to_a_copy_of_another_dtype(tmp_path):
    module = type("Writes", (torch.jit.ScriptModule,), {})()
    module.define("def forward(self, x):\n  y = x.type_as(torch.ones([1], dtype=torch.float64))\n  y.add_(1.0)\n"
                  "  return x * 2, y\n")
    module.save(str(tmp_path / "m.pt"))
    command.run("export", tmp_path / "m.pt", "--input", "x=float32[3,4]", "-o", tmp_path / "m.onnx")
    x = torch.randn(3, 4)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for actual, expected in zip(session.run(None, {"x": x.numpy()}), module(x.clone()), strict=True):
        torch.testing.assert_close(torch.from_numpy(actual), expected)


BOUNDS = [None, 0, 1, 3, -1, -3]


class Ranges(torch.nn.Module):
    """Writes to ranges with constant bounds, some of them empty, such as `-7:0` in unshifted windows of Swin."""

    def forward(self, x):
        rows = []
        for start in BOUNDS:
            for end in BOUNDS:
                for step in (1, 2):
                    y = x.clone()
                    y[start:end:step] = 5.0
                    z = x.clone()
                    z[:, start:end] = 7.0
                    rows.append(torch.cat([y, z], 1))
        return torch.stack(rows)


class ComputedRanges(torch.nn.Module):
    """Writes to ranges with computed bounds, counted from the front or from the end."""

    def forward(self, x):
        y, z, rows = x.clone(), x.clone(), x.shape[0]
        y[rows - 3:rows // 2] = 5.0
        z[:, rows // 2:3] = 7.0
        z[:, -2:rows - 3] = 9.0
        y[:, rows - 3] = 2.0
        z[rows - 3::2] = 4.0
        y[1 - rows:rows - 1:3] = 8.0
        return y, z


def trace(model):
    return torch.jit.trace(model, torch.zeros(4, 5))


@pytest.mark.parametrize("model, make", [(Ranges(), trace), (ComputedRanges(), trace),
                                         (ComputedRanges(), torch.jit.script)],
                         ids=["constant", "computed", "computed in a script"])
def test_a_written_range_may_be_empty_or_out_of_bounds(model, make, tmp_path):
    make(model).save(str(tmp_path / "m.pt"))
    torch.save((torch.zeros(4, 5),), tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                "--dynamic", "x:0=a,1=b")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for sizes in [(4, 5), (1, 2), (2, 1), (3, 3), (6, 8), (9, 7)]:
        x = torch.randn(sizes, generator=torch.Generator().manual_seed(sizes[0]))
        results = model(x)
        results = results if isinstance(results, tuple) else (results,)
        for actual, expected in zip(session.run(None, {"x": x.numpy()}), results, strict=True):
            np.testing.assert_array_equal(actual, expected.numpy())


class AddsToParts(torch.nn.Module):
    def forward(self, x):
        y = x.clone()
        y[-2:] += 3
        y[0, 1:] *= x[1, 1:]
        return y


@pytest.mark.parametrize("dynamic", [(), ("--dynamic", "x:0=n")], ids=["static", "dynamic"])
def test_an_augmented_assignment_to_a_slice_is_one_write(dynamic, tmp_path):
    """Python executes `y[1:] += 1` as two writes: the in-place sum, and the assignment of the slice to itself."""
    torch.jit.trace(AddsToParts(), torch.zeros(4, 5)).save(str(tmp_path / "m.pt"))
    torch.save((torch.zeros(4, 5),), tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt", *dynamic)
    joins = [node for node in onnx.load(tmp_path / "m.onnx").graph.node if node.op_type in ("Concat", "ScatterND")]
    assert len(joins) == 3  # one for the last rows; one for the columns and one for their row
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for rows in (4, 2, 9) if dynamic else (4,):
        x = torch.randn(rows, 5, generator=torch.Generator().manual_seed(rows))
        np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], AddsToParts()(x).numpy(), rtol=1e-6)


class WritesToComputedRanges(torch.nn.Module):
    """Writes through `narrow` with a computed start, length or both."""

    def forward(self, x, y):
        rows = y.shape[0]
        a, b, c = x.clone(), x.clone(), x.clone()
        a.narrow(0, 2, rows).copy_(y)
        b.narrow(0, x.shape[0] - rows, rows).add_(y)
        b.narrow(0, rows - x.shape[0], 1).t().mul_(3)
        for i in range(2):
            c.narrow(0, i * rows, rows)[:, i] = 7.0
        return a, b, c


@pytest.mark.parametrize("make", [lambda model, inputs: torch.jit.trace(model, inputs),
                                  lambda model, _: torch.jit.script(model)], ids=["traced", "scripted"])
def test_writes_to_ranges_of_computed_length_equal_pytorch(make, tmp_path):
    example = torch.zeros(9, 3), torch.zeros(4, 3)
    make(WritesToComputedRanges(), example).save(str(tmp_path / "m.pt"))
    torch.save(example, tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                "--dynamic", "x:0=a,y:0=b")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for a, b in [(9, 4), (5, 1), (12, 6), (8, 3)]:
        x, y = (torch.randn(size, 3, generator=torch.Generator().manual_seed(size)) for size in (a, b))
        results = WritesToComputedRanges()(x, y)
        for actual, expected in zip(session.run(None, {"x": x.numpy(), "y": y.numpy()}), results, strict=True):
            np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-6, err_msg=f"{a} rows, {b} written")


class WritesToCopies(torch.nn.Module):
    """Reshapes of non-contiguous tensors copy, so writes to the results do not change the arguments."""

    def forward(self, x):
        a = torch.relu(x.transpose(1, 2))
        b = a.flatten(1)
        b *= 2
        c = x.flatten(2).transpose(1, 2).reshape(-1, 3)
        torch.relu_(c)
        d = x.transpose(1, 2).contiguous()
        d += 1
        e = x.permute(2, 0, 1).clone()
        f = e.reshape(-1)
        e += 3
        g = x.clone().view(-1, 4)  # this reshape is a view
        h = x.clone()
        h.reshape(-1)[1:3] = 5
        return a * 1, b, c, d, x * 1, e, f * 1, g, h


def saved_as(kind, model, inputs, folder):
    path = folder / ("m.pt2" if kind == "exported" else "m.pt")
    if kind == "exported":
        torch.export.save(torch.export.export(model, inputs), path)
    else:
        (torch.jit.trace(model, inputs) if kind == "traced" else torch.jit.script(model)).save(str(path))
    return path


@pytest.mark.parametrize("kind", ["traced", "scripted", "exported"])
def test_a_write_to_a_copy_does_not_change_the_original(kind, tmp_path):
    model, x = WritesToCopies().eval(), torch.randn(2, 3, 4)
    archive = saved_as(kind, model, (x,), tmp_path)
    torch.save((torch.zeros(2, 3, 4),), tmp_path / "inputs.pt")
    inputs = () if kind == "exported" else ("--inputs", tmp_path / "inputs.pt")
    result = command.run("export", archive, "-o", tmp_path / "m.onnx", *inputs)
    assert "E0308" not in result.stderr  # the input is not written to
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for actual, expected in zip(session.run(None, {"x": x.numpy()}), model(x.clone()), strict=True):
        np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-6)
