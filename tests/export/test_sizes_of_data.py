"""Sizes that loops, branches and slices compute from data: the file must not contain the sizes of the example. Aliases
that depend on data are refused."""

import importlib.util
import textwrap

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F

import command

HEADER = ("import torch\nimport torch.nn.functional as F\nfrom typing import Dict, List, Tuple\nfrom torch import Tensor\n\n\n"
          "class Scripted(torch.nn.Module):\n    def forward(self, x: Tensor, k: Tensor):\n")
GROW = "for i in range(int(k)): x = torch.cat([x, x[:1]])\n"
EXPORTED = {
    "sizes": GROW + "return x.sum(0) * x.size(0), torch.arange(x.size(0)), x.new_full((x.size(0),), 2.0)",
    "moves": GROW + "return x.sort(0)[0], x[1:-1], x.roll(1, 0), x.view(-1), torch.diagonal(x @ x.t())",
    "reshapes": GROW + "return x.reshape(x.size(0) * 2, 2), x.view(x.size(0), 2, 2), x.flatten()",
    "iterated": GROW + "total = x.sum() * 0\nfor row in x: total = total + row.sum()\nreturn total",
    "expand": "return x[: int(k) + 1].unsqueeze(1).expand(-1, 2, -1)",
    "branch": "if int(k) > 1: y = x[:2]\nelse: y = x\nreturn y.view(-1), y * 2",
    "mask": "y = x[x[:, 0] > 0]\nif int(k) > 0: y = y * 2\nreturn y.view(-1)",
    "range": ("for i in range(1, int(k)): x = x + i\nfor i in range(0, int(k), 2): x = x * 2 + i\n"
              "for i in range(int(k), 0, -2): x = x + i * 3\nfor i in range(2, 6, int(k) + 1): x = x - i\nreturn x"),
    "at most two": "y = x[x[:, 0] > 0][:2]\nreturn y.view(-1), y.unsqueeze(1).expand(-1, 3, -1).flatten(0, 1)",
    "at most as many rows": "y = x[torch.where(x[:, 0] > 0)[0][:2]]\nreturn torch.topk(x[:, 0], min(2, y.shape[0]))[0]",
    # these sizes equal a fixed size in the example
    "padded": "y = F.pad(x[: int(k)], [0, 0, 0, 1])\nreturn y.view(-1), y.unsqueeze(0).flatten(0, 1)",
    "mask of the last axis": "y = x.view(1, 3, 4)[:, :, x[0] > 0]\nreturn torch.zeros(y.shape[2]), y.flatten()",
    "mask of two axes": "y = x.view(1, 3, 4)[:, x > 0]\nreturn torch.zeros(y.shape[1])",
    "where": "rows, columns = torch.where(x > 0)\nreturn torch.ones(rows.shape[0]), columns.view(columns.shape[0], 1)",
    "one_hot": "y = F.one_hot(k.view(1))\nreturn torch.zeros(y.shape[1]), y",
    "tensor_split": "y = x.tensor_split([int(k) // 2])[1]\nreturn torch.zeros(y.shape[0]), y * 2",
    "split": "parts = torch.split(x[: int(k) // 2 + 1], 1)\nreturn len(parts), torch.cat([part * 2 for part in parts])",
    "suppression": ("order = x[:, 0].argsort(descending=True)\nkeep: List[int] = []\nwhile order.numel() > 0:\n"
                    "    best = int(order[0])\n    keep.append(best)\n    rest = order[1:]\n"
                    "    far = (x[rest] - x[best]).abs().sum(1) > 3\n    order = rest[torch.where(far)[0]]\n"
                    "return torch.tensor(keep)"),
    # only the number of rows depends on data: loops over fixed axes are unrolled, because data cannot index lists
    "inferred axis": ("y = x[x[:, 0] > 0]\nsides: List[Tuple[int, int]] = [(1, 2), (3, 4)]\n"
                      "total = x.sum() * 0\n"
                      "for part, side in zip(y.reshape(y.shape[0], -1, 2).transpose(0, 1), sides):\n"
                      "    total = total + part.sum() * side[0] - side[1]\nreturn total"),
    "an index of rows": ("y = x[x[:, 0] > 0]\nsides: List[Tuple[int, int]] = [(1 + int(k), 2)]\n"
                         "total = x.sum() * 0\nplaces = torch.arange(y.shape[0])[None]\n"
                         "for part, side in zip(y[places], sides):\n"
                         "    total = total + part.sum() * side[0] - side[1]\nreturn total"),
    "list replaced": ("rows: List[Tensor] = [x]\nif int(k) > 2: rows = []\nrows.append(x * 2)\n"
                          "return torch.stack(rows)"),
    # writes to a view that depends on data
    "branch makes a view": "h = x.clone()\nif int(k) > 1: v = h[0]\nelse: v = h[1]\nv.zero_()\nreturn h, v",
}
REFUSED = {
    "list has two names": "a: List[Tensor] = [x]\nb = a\nfor i in range(int(k)): b += [x]\nreturn len(a)",
    "list is one of two": ("a: List[Tensor] = [x]\nb: List[Tensor] = [x * 2]\nc = a\nif int(k) > 2: c = b\n"
                           "for i in range(int(k)): c.append(x + i)\nreturn len(a), len(b), len(c)"),
    "dict is one of two": ('a = {"p": x}\nb = {"p": x * 2}\nc = a\nif int(k) > 2: c = b\nc["p"] = x * 100\n'
                           'return a["p"], b["p"]'),
    "length of a list": "return x * len([0] * int(k))",
    "dtype changes": "for i in range(int(k)): x = (x > 0) if i == 0 else x\nreturn x",
}


def compile_script(body, folder):
    source = folder / "scripted.py"
    source.write_text(HEADER + textwrap.indent(body, " " * 8) + "\n")
    spec = importlib.util.spec_from_file_location("scripted", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return torch.jit.script(module.Scripted().eval())


def rows(seed):
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))


def export(model, example, folder, code=0):
    model.save(str(folder / "m.pt"))
    np.savez(folder / "inputs.npz", x=rows(1).numpy(), k=np.array(example))
    result = command.run("export", folder / "m.pt", "-o", folder / "m.onnx", "--inputs", folder / "inputs.npz",
                         code=code)
    return folder / "m.onnx", result.stderr


@pytest.mark.parametrize("example", [0, 3])
@pytest.mark.parametrize("name", EXPORTED)
def test_no_size_of_the_example_is_in_the_file(name, example, tmp_path):
    model = compile_script(EXPORTED[name], tmp_path)
    path, _ = export(model, example, tmp_path)
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for k in (0, 1, 2, 4):
        inputs = {"x": rows(k + 2), "k": torch.tensor(k)}
        expected = model(inputs["x"].clone(), inputs["k"])
        results = session.run(None, {value.name: inputs[value.name].numpy() for value in session.get_inputs()})
        for actual, reference in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
            reference = torch.as_tensor(reference)
            assert actual.shape == tuple(reference.shape) and actual.dtype == reference.numpy().dtype
            np.testing.assert_allclose(actual, reference.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", REFUSED)
def test_aliases_that_depend_on_data_are_refused(name, tmp_path):
    path, stderr = export(compile_script(REFUSED[name], tmp_path), 1, tmp_path, code=4)
    assert "E0303" in stderr and "forward" in stderr and not path.exists()


class ByMask(torch.nn.Module):
    def forward(self, x, mask):
        return x[mask].expand(4, 3) + 0, torch.zeros(4, 3).copy_(x[mask])


class ByRepeats(torch.nn.Module):
    """Repeats by a size, which a trace contains as a tensor of repeats."""

    def forward(self, x, y):
        wide = torch.repeat_interleave(x, y.shape[0], 0)
        return wide.view(wide.shape[0], 2, 2).sum(-1), torch.zeros(wide.shape[0]) + 1


@pytest.mark.parametrize("dynamic", [[], ["--dynamic", "x:0=n", "--dynamic", "y:0=m"]], ids=["static", "dynamic"])
def test_repeats_by_a_size_have_a_known_size(dynamic, tmp_path):
    example = (rows(1), torch.randn(2, 5))
    torch.jit.trace(ByRepeats(), example).save(str(tmp_path / "m.pt"))
    torch.save(example, tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt", *dynamic)
    used = {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}
    assert not used & ({"CumSum", "ReduceProd"} if dynamic else {"CumSum", "Shape", "Expand"})
    x, y = (torch.randn(4, 4), torch.randn(3, 5)) if dynamic else (rows(5), torch.randn(2, 5))
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    feed = {value.name: {"x": x, "y": y}[value.name].numpy() for value in session.get_inputs()}
    for actual, expected in zip(session.run(None, feed), ByRepeats()(x, y), strict=True):
        np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5)


class AsOther(torch.nn.Module):
    def forward(self, x, mask):
        return x[mask].expand_as(x), torch.broadcast_tensors(x[mask], x)[0]


class ByBranch(torch.nn.Module):
    def forward(self, x, mask):
        if bool(mask.all()):
            y = x
        else:
            y = x[:1]
        return y.expand(4, 3) * 2


@pytest.mark.parametrize("example", [[True] * 4, [True, False, False, False]])
@pytest.mark.parametrize("model", [ByMask, AsOther, ByBranch])
def test_an_axis_of_data_dependent_size_1_is_broadcast(model, example, tmp_path):
    x = torch.randn(4, 3)
    torch.jit.script(model()).save(str(tmp_path / "m.pt"))
    torch.save((x, torch.tensor(example)), tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for mask in (torch.tensor([True] * 4), torch.tensor([False, False, True, False])):
        expected = model()(x, mask)
        results = session.run(None, {"x": x.numpy(), "mask": mask.numpy()})
        for actual, reference in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_array_equal(actual, reference.numpy())


def test_chunks_of_a_data_dependent_axis_are_complete_or_refused(tmp_path):
    class Halves(torch.nn.Module):
        def forward(self, x, mask):
            return x[mask].chunk(2)[0]

    for mask, code in (([True] * 4, 0), ([True, False, False, False], 4)):
        inputs = (torch.randn(4, 3), torch.tensor(mask))
        torch.jit.trace(Halves(), inputs, check_trace=False).save(str(tmp_path / "m.pt"))
        torch.save(inputs, tmp_path / "inputs.pt")
        stderr = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                             code=code).stderr
        assert code == 0 or "fewer pieces than 2" in stderr


class ShorterSide(torch.nn.Module):
    """Scales the shorter side of an image to a fixed length, as detectors do; either side may be the shorter one."""

    def forward(self, x):
        sides = torch.tensor(x.shape)[-2:]
        scale = torch.min(24.0 / sides.min().to(torch.float32), 60.0 / sides.max().to(torch.float32))
        return F.interpolate(x, scale_factor=scale.item(), mode="bilinear", recompute_scale_factor=True,
                             align_corners=False)


@pytest.mark.parametrize("example", [(17, 23), (40, 30), (20, 20)])
def test_either_of_two_sizes_may_be_larger(example, tmp_path):
    model = torch.jit.script(ShorterSide())
    model.save(str(tmp_path / "m.pt"))
    np.savez(tmp_path / "inputs.npz", x=np.zeros((1, 2, *example), np.float32))
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.npz",
                "--dynamic", "x:2=h,3=w")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    assert session.get_outputs()[0].shape[:2] == [1, 2]
    assert not any(isinstance(size, int) for size in session.get_outputs()[0].shape[2:])
    for height, width in [(17, 23), (23, 17), (12, 12), (20, 90), (90, 20), (13, 50)]:
        x = torch.randn(1, 2, height, width, generator=torch.Generator().manual_seed(height))
        np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], model(x).numpy(), rtol=1e-4, atol=1e-4)


class EqualSizes(torch.nn.Module):
    """Tests whether two sizes are equal, and computes with them."""

    def forward(self, x, y):
        if x.shape[0] == y.shape[0]:
            z = x * y
            return z.sum(0) / z.shape[0]
        return x.sum(0) + y.sum(0)


def assert_equal_at(sizes, model, example, tmp_path):
    """Exports a script with inputs [a, 3] and [b, 3], and compares it with PyTorch at the sizes (a, b)."""
    torch.jit.script(model).save(str(tmp_path / "m.pt"))
    np.savez(tmp_path / "inputs.npz", x=np.zeros((example[0], 3), np.float32), y=np.zeros((example[1], 3), np.float32))
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.npz",
                "--dynamic", "x:0=a,y:0=b")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for pair in sizes:
        x, y = (torch.randn(size, 3, generator=torch.Generator().manual_seed(size)) for size in pair)
        actual = session.run(None, {"x": x.numpy(), "y": y.numpy()})[0]
        np.testing.assert_allclose(actual, model(x, y).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("example", [(4, 6), (4, 4)])
def test_a_branch_for_equal_sizes_contains_no_size_of_the_example(example, tmp_path):
    assert_equal_at([(4, 6), (6, 4), (1, 1), (4, 4), (7, 7), (20, 20)], EqualSizes(), example, tmp_path)


class OneRow(torch.nn.Module):
    """A branch for size 1 squeezes that axis and computes with the size of another axis."""

    def forward(self, x):
        if x.size(0) == 1:
            y = x.squeeze(0)
            return torch.cat([y, torch.zeros(2, 3)]).reshape(-1, 3).cumsum(0) * y.size(0), y.view(1, 3, x.size(1))
        return x[0], x[:1].transpose(1, 2)


@pytest.mark.parametrize("example", [(4, 6), (1, 6)])
def test_an_axis_squeezed_under_a_condition_is_not_reported(example, tmp_path):
    model = torch.jit.script(OneRow())
    model.save(str(tmp_path / "m.pt"))
    torch.save((torch.zeros(*example, 3),), tmp_path / "inputs.pt")
    result = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                         "--dynamic", "x:0=n,1=m")
    assert "squeeze" not in result.stderr
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for sizes in [(4, 6), (1, 6), (1, 1), (1, 9), (3, 1)]:
        x = torch.randn(*sizes, 3, generator=torch.Generator().manual_seed(sizes[1]))
        for actual, expected in zip(session.run(None, {"x": x.numpy()}), model(x), strict=True):
            np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5, atol=1e-5)


class PartsOfLong(torch.nn.Module):
    """Splits long inputs only; the number of parts depends on the size of the axis."""

    def forward(self, x):
        total = x.sum() * 0
        if x.size(0) > 20:
            for part in x.split(7):
                total = total * 2 + part.sum()
        return total


def test_a_split_under_a_condition_has_a_dynamic_number_of_parts(tmp_path):
    model = torch.jit.script(PartsOfLong())
    model.save(str(tmp_path / "m.pt"))
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", "x=float32[4,3]",
                "--dynamic", "x:0=n")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for rows in (1, 4, 21, 30, 43, 107):
        x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
        np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], model(x).numpy(), rtol=1e-4, atol=1e-3)


class ConstantSlices(torch.nn.Module):
    """Slices with constant bounds; on a shorter axis, the slices and all sizes derived from them are smaller."""

    def forward(self, x):
        first, last = x[:3], x[-2:]
        y, z = x.clone(), x.clone()
        y[-2:] = 0
        z[1:4] = x.mean(0)
        return (torch.zeros_like(first) + 1, torch.ones(last.shape), first.sum(0) / first.shape[0], last.reshape(-1),
                first.cumsum(0) / torch.arange(1, first.shape[0] + 1)[:, None], first.roll(1, 0),
                F.layer_norm(first.T, (first.shape[0],)), last.var(0, unbiased=False),
                x[0].expand(last.shape[0], 5) * 1, torch.linspace(0, 1, first.shape[0]), y, z)


def test_sizes_below_constant_slice_bounds_equal_pytorch(tmp_path):
    model = ConstantSlices()
    torch.jit.trace(model, torch.randn(7, 5)).save(str(tmp_path / "m.pt"))
    torch.save((torch.randn(7, 5),), tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                "--dynamic", "x:0=n")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for rows in (1, 2, 3, 4, 7, 12):
        x = torch.randn(rows, 5, generator=torch.Generator().manual_seed(rows))
        for index, (actual, expected) in enumerate(zip(session.run(None, {"x": x.numpy()}), model(x), strict=True)):
            np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-4, atol=1e-5,
                                       err_msg=f"{rows} rows, result {index}")


class GrowsFromOne(torch.nn.Module):
    """The second input has one row, or as many rows as the first."""

    def forward(self, x, y):
        return (y.expand(x.shape[0], -1) * 2, torch.broadcast_to(y, x.shape) + 1, *torch.broadcast_tensors(x, y),
                torch.cat([x, y.expand(x.shape[0], y.shape[1])], 1))


def test_a_dynamic_size_of_1_in_the_example_grows(tmp_path):
    example = torch.randn(3, 4), torch.randn(1, 4)
    torch.jit.trace(GrowsFromOne(), example).save(str(tmp_path / "m.pt"))
    torch.save(example, tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                "--dynamic", "x:0=a,y:0=c")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for a, c in [(3, 1), (5, 1), (4, 4), (1, 1)]:
        x, y = torch.randn(a, 4), torch.randn(c, 4)
        results = session.run(None, {"x": x.numpy(), "y": y.numpy()})
        for actual, expected in zip(results, GrowsFromOne()(x, y), strict=True):
            np.testing.assert_array_equal(actual, expected.numpy())


class Chunks(torch.nn.Module):
    """Chunks into at most four pieces: six rows give three."""

    def forward(self, x):
        total = x[0] * 0
        for piece in x.chunk(4, 0):
            total = total * 2 + piece.sum(0)
        return total, len(x.chunk(4, 0))


def test_chunks_of_a_dynamic_axis_in_a_script_equal_pytorch(tmp_path):
    torch.jit.script(Chunks()).save(str(tmp_path / "m.pt"))
    torch.save((torch.randn(8, 3),), tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                "--dynamic", "x:0=n")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for rows in (8, 6, 5, 3, 2, 1, 9):
        x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
        total, count = session.run(None, {"x": x.numpy()})
        expected, pieces = Chunks()(x)
        np.testing.assert_allclose(total, expected.numpy(), rtol=1e-5, atol=1e-6)
        assert count == pieces


class States(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3)

    def forward(self, x, h, c):
        return self.lstm(x, (h, c))[0]


@pytest.mark.parametrize("axes", ["h:1=other", "c:1=other", "c:0=layers", "x:1=other"])
def test_states_with_their_own_dynamic_sizes_are_refused(axes, tmp_path):
    """PyTorch does not check the sizes of the states and reads beyond their end."""
    example = torch.zeros(5, 2, 4), torch.zeros(1, 2, 3), torch.zeros(1, 2, 3)
    torch.jit.trace(States(), example).save(str(tmp_path / "m.pt"))
    torch.save(example, tmp_path / "inputs.pt")
    stderr = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                         "--dynamic", axes, code=4).stderr
    assert "E0304" in stderr and "the initial state" in stderr
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                "--dynamic", "x:0=length,1=batch", "--dynamic", "h:1=batch", "--dynamic", "c:1=batch")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    model = torch.jit.load(str(tmp_path / "m.pt"))
    for length, batch in [(5, 2), (1, 1), (9, 4)]:
        inputs = torch.randn(length, batch, 4), torch.randn(1, batch, 3), torch.randn(1, batch, 3)
        feeds = {name: tensor.numpy() for name, tensor in zip("xhc", inputs, strict=True)}
        np.testing.assert_allclose(session.run(None, feeds)[0], model(*inputs).detach().numpy(), rtol=1e-4, atol=1e-5)
