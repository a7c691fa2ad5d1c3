"""Sizes that loops, branches and cuts make of data: none of the example's may stand in the file. Aliases that only the
data decides are refused."""

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
SERVED = {
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
    "at most as many": "y = x[torch.where(x[:, 0] > 0)[0][:2]]\nreturn torch.topk(x[:, 0], min(2, y.shape[0]))[0]",
    # in the example these are as long as something that is fixed
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
    # what is fixed beside rows that data chose stays so: the loops are followed, since data cannot index their lists
    "inferred beside named rows": ("y = x[x[:, 0] > 0]\nsides: List[Tuple[int, int]] = [(1, 2), (3, 4)]\n"
                                   "total = x.sum() * 0\n"
                                   "for part, side in zip(y.reshape(y.shape[0], -1, 2).transpose(0, 1), sides):\n"
                                   "    total = total + part.sum() * side[0] - side[1]\nreturn total"),
    "an index of rows": ("y = x[x[:, 0] > 0]\nsides: List[Tuple[int, int]] = [(1 + int(k), 2)]\n"
                         "total = x.sum() * 0\nplaces = torch.arange(y.shape[0])[None]\n"
                         "for part, side in zip(y[places], sides):\n"
                         "    total = total + part.sum() * side[0] - side[1]\nreturn total"),
    "list started anew": ("rows: List[Tensor] = [x]\nif int(k) > 2: rows = []\nrows.append(x * 2)\n"
                          "return torch.stack(rows)"),
    # writes to what data chose
    "branch makes a view": "h = x.clone()\nif int(k) > 1: v = h[0]\nelse: v = h[1]\nv.zero_()\nreturn h, v",
}
REFUSED = {
    "list has two names": "a: List[Tensor] = [x]\nb = a\nfor i in range(int(k)): b += [x]\nreturn len(a)",
    "list is one of two": ("a: List[Tensor] = [x]\nb: List[Tensor] = [x * 2]\nc = a\nif int(k) > 2: c = b\n"
                           "for i in range(int(k)): c.append(x + i)\nreturn len(a), len(b), len(c)"),
    "dict is one of two": ('a = {"p": x}\nb = {"p": x * 2}\nc = a\nif int(k) > 2: c = b\nc["p"] = x * 100\n'
                           'return a["p"], b["p"]'),
    "list of so many": "return x * len([0] * int(k))",
    "dtype changes": "for i in range(int(k)): x = (x > 0) if i == 0 else x\nreturn x",
}


def scripted(body, folder):
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
    said = command.run("export", folder / "m.pt", "-o", folder / "m.onnx", "--inputs", folder / "inputs.npz", code=code)
    return folder / "m.onnx", said.stderr


@pytest.mark.parametrize("example", [0, 3])
@pytest.mark.parametrize("name", SERVED)
def test_no_size_of_the_example_is_in_the_file(name, example, tmp_path):
    model = scripted(SERVED[name], tmp_path)
    path, _ = export(model, example, tmp_path)
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for k in (0, 1, 2, 4):
        given = {"x": rows(k + 2), "k": torch.tensor(k)}
        wanted = model(given["x"].clone(), given["k"])
        got = session.run(None, {each.name: given[each.name].numpy() for each in session.get_inputs()})
        for one, want in zip(got, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            want = torch.as_tensor(want)
            assert one.shape == tuple(want.shape) and one.dtype == want.numpy().dtype
            np.testing.assert_allclose(one, want.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", REFUSED)
def test_what_only_data_decides_is_refused(name, tmp_path):
    path, said = export(scripted(REFUSED[name], tmp_path), 1, tmp_path, code=4)
    assert "E0303" in said and "forward" in said and not path.exists()


class ByMask(torch.nn.Module):
    def forward(self, x, mask):
        return x[mask].expand(4, 3) + 0, torch.zeros(4, 3).copy_(x[mask])


class ByRepeats(torch.nn.Module):
    """A trace has the size as a tensor of repeats."""

    def forward(self, x, y):
        wide = torch.repeat_interleave(x, y.shape[0], 0)
        return wide.view(wide.shape[0], 2, 2).sum(-1), torch.zeros(wide.shape[0]) + 1


@pytest.mark.parametrize("dynamic", [[], ["--dynamic", "x:0=n", "--dynamic", "y:0=m"]], ids=["static", "dynamic"])
def test_repeats_that_are_a_size_leave_sizes_known(dynamic, tmp_path):
    example = (rows(1), torch.randn(2, 5))
    torch.jit.trace(ByRepeats(), example).save(str(tmp_path / "m.pt"))
    torch.save(example, tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt", *dynamic)
    used = {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}
    assert not used & ({"CumSum", "ReduceProd"} if dynamic else {"CumSum", "Shape", "Expand"})
    x, y = (torch.randn(4, 4), torch.randn(3, 5)) if dynamic else (rows(5), torch.randn(2, 5))
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    given = {each.name: {"x": x, "y": y}[each.name].numpy() for each in session.get_inputs()}
    for one, want in zip(session.run(None, given), ByRepeats()(x, y), strict=True):
        np.testing.assert_allclose(one, want.numpy(), rtol=1e-5)


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
def test_an_axis_that_data_makes_1_long_is_widened(model, example, tmp_path):
    x = torch.randn(4, 3)
    torch.jit.script(model()).save(str(tmp_path / "m.pt"))
    torch.save((x, torch.tensor(example)), tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for mask in (torch.tensor([True] * 4), torch.tensor([False, False, True, False])):
        wanted = model()(x, mask)
        got = session.run(None, {"x": x.numpy(), "mask": mask.numpy()})
        for one, want in zip(got, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            np.testing.assert_array_equal(one, want.numpy())


def test_a_chunk_of_an_axis_that_data_decide_is_as_many_as_asked_or_refused(tmp_path):
    class Halves(torch.nn.Module):
        def forward(self, x, mask):
            return x[mask].chunk(2)[0]

    for mask, code in (([True] * 4, 0), ([True, False, False, False], 4)):
        given = (torch.randn(4, 3), torch.tensor(mask))
        torch.jit.trace(Halves(), given, check_trace=False).save(str(tmp_path / "m.pt"))
        torch.save(given, tmp_path / "inputs.pt")
        said = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                           code=code).stderr
        assert code == 0 or "fewer pieces than 2" in said


class ShorterSide(torch.nn.Module):
    """Detectors bring the shorter side of an image to a length, so that either side may be the one of it."""

    def forward(self, x):
        sides = torch.tensor(x.shape)[-2:]
        scale = torch.min(24.0 / sides.min().to(torch.float32), 60.0 / sides.max().to(torch.float32))
        return F.interpolate(x, scale_factor=scale.item(), mode="bilinear", recompute_scale_factor=True, align_corners=False)


@pytest.mark.parametrize("example", [(17, 23), (40, 30), (20, 20)])
def test_either_of_two_sizes_may_be_the_greater(example, tmp_path):
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
    """A script asks whether two sizes are equal, and computes with them."""

    def forward(self, x, y):
        if x.shape[0] == y.shape[0]:
            z = x * y
            return z.sum(0) / z.shape[0]
        return x.sum(0) + y.sum(0)


def assert_equal_at(sizes, model, example, tmp_path):
    """Exports the script of a model of two tensors [a, 3] and [b, 3], and compares it at other a and b."""
    torch.jit.script(model).save(str(tmp_path / "m.pt"))
    np.savez(tmp_path / "inputs.npz", x=np.zeros((example[0], 3), np.float32), y=np.zeros((example[1], 3), np.float32))
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.npz",
                "--dynamic", "x:0=a,y:0=b")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for each in sizes:
        x, y = (torch.randn(size, 3, generator=torch.Generator().manual_seed(size)) for size in each)
        got = session.run(None, {"x": x.numpy(), "y": y.numpy()})[0]
        np.testing.assert_allclose(got, model(x, y).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("example", [(4, 6), (4, 4)])
def test_a_branch_for_equal_sizes_holds_none_of_them(example, tmp_path):
    assert_equal_at([(4, 6), (6, 4), (1, 1), (4, 4), (7, 7), (20, 20)], EqualSizes(), example, tmp_path)


class OneRow(torch.nn.Module):
    """Under the condition an axis is dropped, and a size of the other one is computed with: no run but that of sizes of 1
    meets it."""

    def forward(self, x):
        if x.size(0) == 1:
            y = x.squeeze(0)
            return torch.cat([y, torch.zeros(2, 3)]).reshape(-1, 3).cumsum(0) * y.size(0), y.view(1, 3, x.size(1))
        return x[0], x[:1].transpose(1, 2)


@pytest.mark.parametrize("example", [(4, 6), (1, 6)])
def test_an_axis_that_is_dropped_under_a_condition(example, tmp_path):
    model = torch.jit.script(OneRow())
    model.save(str(tmp_path / "m.pt"))
    torch.save((torch.zeros(*example, 3),), tmp_path / "inputs.pt")
    ran = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                      "--dynamic", "x:0=n,1=m")
    assert "squeeze keeps" not in ran.stderr
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for sizes in [(4, 6), (1, 6), (1, 1), (1, 9), (3, 1)]:
        x = torch.randn(*sizes, 3, generator=torch.Generator().manual_seed(sizes[1]))
        for got, want in zip(session.run(None, {"x": x.numpy()}), model(x), strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5)


class PartsOfLong(torch.nn.Module):
    """A list of as many parts as the size gives, under a condition that the longest runs alone meet."""

    def forward(self, x):
        total = x.sum() * 0
        if x.size(0) > 20:
            for part in x.split(7):
                total = total * 2 + part.sum()
        return total


def test_parts_under_a_condition_are_as_many_as_there_are(tmp_path):
    model = torch.jit.script(PartsOfLong())
    model.save(str(tmp_path / "m.pt"))
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", "x=float32[4,3]", "--dynamic", "x:0=n")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for rows in (1, 4, 21, 30, 43, 107):
        x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
        np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], model(x).numpy(), rtol=1e-4, atol=1e-3)


class NamedLengths(torch.nn.Module):
    """Ranges of lengths that the model names: of an axis that is shorter there is less, and every size of it follows."""

    def forward(self, x):
        first, last = x[:3], x[-2:]
        y, z = x.clone(), x.clone()
        y[-2:] = 0
        z[1:4] = x.mean(0)
        return (torch.zeros_like(first) + 1, torch.ones(last.shape), first.sum(0) / first.shape[0], last.reshape(-1),
                first.cumsum(0) / torch.arange(1, first.shape[0] + 1)[:, None], first.roll(1, 0),
                F.layer_norm(first.T, (first.shape[0],)), last.var(0, unbiased=False), x[0].expand(last.shape[0], 5) * 1,
                torch.linspace(0, 1, first.shape[0]), y, z)


def test_sizes_below_the_lengths_that_a_model_names(tmp_path):
    model = NamedLengths()
    torch.jit.trace(model, torch.randn(7, 5)).save(str(tmp_path / "m.pt"))
    torch.save((torch.randn(7, 5),), tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                "--dynamic", "x:0=n")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for rows in (1, 2, 3, 4, 7, 12):
        x = torch.randn(rows, 5, generator=torch.Generator().manual_seed(rows))
        for place, (got, want) in enumerate(zip(session.run(None, {"x": x.numpy()}), model(x), strict=True)):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5, err_msg=f"{rows} rows, result {place}")


class GrowsFromOne(torch.nn.Module):
    """The second input's rows are one, or as many as the first's."""

    def forward(self, x, y):
        return (y.expand(x.shape[0], -1) * 2, torch.broadcast_to(y, x.shape) + 1, *torch.broadcast_tensors(x, y),
                torch.cat([x, y.expand(x.shape[0], y.shape[1])], 1))


def test_a_dynamic_size_of_1_in_the_example_grows(tmp_path):
    given = torch.randn(3, 4), torch.randn(1, 4)
    torch.jit.trace(GrowsFromOne(), given).save(str(tmp_path / "m.pt"))
    torch.save(given, tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                "--dynamic", "x:0=a,y:0=c")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for a, c in [(3, 1), (5, 1), (4, 4), (1, 1)]:
        x, y = torch.randn(a, 4), torch.randn(c, 4)
        for got, want in zip(session.run(None, {"x": x.numpy(), "y": y.numpy()}), GrowsFromOne()(x, y), strict=True):
            np.testing.assert_array_equal(got, want.numpy())


class Chunks(torch.nn.Module):
    """As many pieces as there are: of six rows three, where four were asked for."""

    def forward(self, x):
        total = x[0] * 0
        for piece in x.chunk(4, 0):
            total = total * 2 + piece.sum(0)
        return total, len(x.chunk(4, 0))


def test_chunks_of_a_dynamic_axis_in_a_script(tmp_path):
    torch.jit.script(Chunks()).save(str(tmp_path / "m.pt"))
    torch.save((torch.randn(8, 3),), tmp_path / "inputs.pt")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                "--dynamic", "x:0=n")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for rows in (8, 6, 5, 3, 2, 1, 9):
        x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
        total, count = session.run(None, {"x": x.numpy()})
        want, pieces = Chunks()(x)
        np.testing.assert_allclose(total, want.numpy(), rtol=1e-5, atol=1e-6)
        assert count == pieces


class States(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3)

    def forward(self, x, h, c):
        return self.lstm(x, (h, c))[0]


@pytest.mark.parametrize("axes", ["h:1=other", "c:1=other", "c:0=layers", "x:1=other"])
def test_states_of_another_size_than_the_input(axes, tmp_path):
    """PyTorch does not compare them and reads beyond their end."""
    given = torch.zeros(5, 2, 4), torch.zeros(1, 2, 3), torch.zeros(1, 2, 3)
    torch.jit.trace(States(), given).save(str(tmp_path / "m.pt"))
    torch.save(given, tmp_path / "inputs.pt")
    said = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                       "--dynamic", axes, code=4).stderr
    assert "E0304" in said and "the initial state" in said
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.pt",
                "--dynamic", "x:0=length,1=batch", "--dynamic", "h:1=batch", "--dynamic", "c:1=batch")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    model = torch.jit.load(str(tmp_path / "m.pt"))
    for length, batch in [(5, 2), (1, 1), (9, 4)]:
        inputs = torch.randn(length, batch, 4), torch.randn(1, batch, 3), torch.randn(1, batch, 3)
        feeds = {name: each.numpy() for name, each in zip("xhc", inputs, strict=True)}
        np.testing.assert_allclose(session.run(None, feeds)[0], model(*inputs).detach().numpy(), rtol=1e-4, atol=1e-5)
