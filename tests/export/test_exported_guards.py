"""`guards_code` of a .pt2: each dynamic axis is correct at every size, or is fixed or limited to a range with a
warning. If --dynamic names an axis that the archive fixes, the export is refused."""

import onnx
import onnxruntime
import pytest
import torch

import command
from constraints import constraints_of

AUTO = torch.export.Dim.AUTO


class Apply(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def save_archive(tmp_path, function, *tensors):
    """Saves an archive in which every axis is dynamic unless torch.export fixes it."""
    shapes = (tuple({axis: AUTO for axis in range(tensor.dim())} for tensor in tensors),)
    program = torch.export.export(Apply(function), tensors, dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "m.pt2")
    return tmp_path / "m.pt2"


def lengths(path):
    return [[dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in onnx.load(path).graph.input]


def half_window(x):
    y = x[:, ::3]
    return y + torch.linspace(0, 1, y.shape[1])


def root(x):
    return x.reshape(x.shape[0], int(x.shape[1] ** 0.5), -1) * 2


def even(x):
    return x * 2 if x.shape[1] % 2 == 0 else x


FIXING = {"a window that the example fills": (half_window, (2, 9)), "a root": (root, (3, 16)), "parity": (even, (3, 8))}


@pytest.mark.parametrize("function, shape", FIXING.values(), ids=FIXING)
def test_an_equality_fixes_the_axis(tmp_path, function, shape):
    archive = save_archive(tmp_path, function, torch.randn(shape))
    warning = command.run("export", archive, "-o", tmp_path / "m.onnx").stderr
    assert "E0304" in warning and "axis 1 of" in warning
    (length,) = lengths(tmp_path / "m.onnx")
    assert length[1] == shape[1] and isinstance(length[0], str)
    refusal = command.run("export", archive, "-o", tmp_path / "n.onnx", "--dynamic", "tensors_0:1=n", code=4).stderr
    assert "E0304" in refusal and not (tmp_path / "n.onnx").exists()
    command.run("export", archive, "-o", tmp_path / "n.onnx", "--dynamic", "tensors_0:0=b")
    assert lengths(tmp_path / "n.onnx") == [["b", shape[1]]]


def smaller(x):
    return x * 2 if x.shape[0] <= 5 else x


def other_than_seven(x):
    return x if x.shape[0] == 7 else x * 2


def shorter(x, y):
    return x * 2 + y.sum() if x.shape[0] < y.shape[0] else x


RANGES = {"a limit": (smaller, [(4, 3)], "<= 5"), "one size": (other_than_seven, [(4, 3)], "!= 7"),
          "one shorter than the other": (shorter, [(4, 3), (9, 3)], "<")}


@pytest.mark.parametrize("function, shapes, condition", RANGES.values(), ids=RANGES)
def test_an_inequality_becomes_a_stated_constraint(tmp_path, function, shapes, condition):
    archive = save_archive(tmp_path, function, *map(torch.randn, shapes))
    warning = command.run("export", archive, "-o", tmp_path / "m.onnx", "--dynamic", "tensors_0:0=rows").stderr
    assert "E0304" in warning and "rows" in warning and condition in warning
    assert lengths(tmp_path / "m.onnx")[0][0] == "rows"
    command.run("record", archive, "-o", tmp_path / "m.json")
    assert '"constraints": ["' in (tmp_path / "m.json").read_text()
    assert any(condition in constraint and "rows" in constraint for constraint in constraints_of(tmp_path / "m.onnx"))


def without_two(x):
    return x[2:].new_zeros(x[2:].shape[0])


def without_one(x):
    return x[1:].new_zeros(x[1:].shape[0])


def every_other_of_three(x):
    x[:, :3:2] -= 2
    return x + torch.arange(x.shape[1] // 2).sum()


MINIMA = {"of x[2:]": (without_two, "n >= 4"), "of x[1:]": (without_one, "n >= 3"),
          "of a slice": (every_other_of_three, "m >= 4")}


@pytest.mark.parametrize("function, stated", MINIMA.values(), ids=MINIMA)
def test_minimum_sizes_assumed_by_an_archive_are_stated(tmp_path, function, stated):
    archive = save_archive(tmp_path, function, torch.randn(6, 8))
    command.run("export", archive, "-o", tmp_path / "m.onnx", "--dynamic", "tensors_0:0=n,1=m")
    assert constraints_of(tmp_path / "m.onnx") == [stated]


def convolved(x):
    return torch.nn.functional.max_pool1d(torch.nn.functional.conv1d(x, torch.ones(2, 3, 4), stride=2), 2)


def reshaped(x):
    return x.reshape(-1, 6) + 1


def joined(x, y):
    return torch.cat([x, y], 1) * x.shape[1]


def pooled(x):
    return torch.nn.functional.max_pool1d(x[:, :, ::2], 2)  # torch.export fixes the pooled axis


SILENT = {"a convolution": (convolved, [(2, 3, 20)], [(5, 3, 31)]), "a reshape": (reshaped, [(4, 12)], [(7, 18)]),
          "two inputs": (joined, [(2, 3), (2, 5)], [(4, 9), (4, 2)]),
          "one size for both": (torch.add, [(3, 5), (3, 5)], [(6, 2), (6, 2)]),
          "an operator that runs at any size": (pooled, [(2, 3, 18)], [(4, 3, 50)])}


@pytest.mark.parametrize("function, shapes, others", SILENT.values(), ids=SILENT)
def test_preconditions_of_operators_are_not_constraints(tmp_path, function, shapes, others):
    """A guard does not limit the file if the operators could not run at the excluded sizes."""
    archive = save_archive(tmp_path, function, *map(torch.randn, shapes))
    assert "E0304" not in command.run("export", archive, "-o", tmp_path / "m.onnx").stderr
    assert all(isinstance(length[0], str) for length in lengths(tmp_path / "m.onnx"))
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    tensors = [torch.randn(shape) for shape in others]
    feed = {value.name: tensor.numpy() for value, tensor in zip(session.get_inputs(), tensors, strict=True)}
    torch.testing.assert_close(torch.from_numpy(session.run(None, feed)[0]), function(*tensors))


def test_an_axis_may_be_named_like_a_data_dependent_size(tmp_path):
    """torch.export names data-dependent sizes u0, u1; an axis that the user names u1 is still an axis."""
    archive = save_archive(
        tmp_path, lambda x: (x + x.new_zeros(x.shape[0], 1)).expand(x.shape[0], 3), torch.randn(4, 1))
    torch.jit.trace(Apply(lambda x: x[:, :1].expand(x.shape[0], 3) + x), torch.randn(4, 3)).save(tmp_path / "m.pt")
    for source, words in ((archive, ("--dynamic", "tensors_0:0={}")),
                          (tmp_path / "m.pt", ("--input", "x=float32[4,3]", "--dynamic", "x:0={}"))):
        graphs = []
        for name in "u1", "v1":
            command.run("export", source, "-o", tmp_path / f"{name}.onnx", "--overwrite",
                        *(word.format(name) for word in words))
            graph = onnx.load(tmp_path / f"{name}.onnx").graph
            graphs.append([(node.op_type, list(node.input), list(node.output)) for node in graph.node])
            assert lengths(tmp_path / f"{name}.onnx")[0][0] == name
        assert graphs[0] == graphs[1]


def joined_and_viewed(x, y):
    """torch.export adds a guard that the joined sizes fit the view."""
    z = torch.cat([x, y], 1)
    return z.view(x.shape[0], z.shape[1], 2, 2).transpose(1, 2).reshape(x.shape[0], -1)


def last_rows(x, y):
    z = x.clone()
    z[-y.shape[0]:] = y
    return torch.cat([z[-y.shape[0]:], y])


@pytest.mark.parametrize("function, shapes", [(joined_and_viewed, [(2, 3, 4), (2, 5, 4)]), (last_rows, [(6, 4), (3, 4)])])
def test_stated_constraints_are_unique_and_not_trivial(tmp_path, function, shapes):
    command.run("export", save_archive(tmp_path, function, *map(torch.randn, shapes)), "-o", tmp_path / "m.onnx")
    constraints = constraints_of(tmp_path / "m.onnx")
    assert len(constraints) == len(set(constraints))
    tautologies = [constraint for constraint in constraints
                   if " == " in constraint and len(set(constraint.split(" == "))) == 1]
    assert not tautologies, constraints


def one_window(y):
    """torch.export fixes sizes that are 1 in the example, so the reshape has a constant number of rows."""
    windows = y.unfold(0, 2, 2)
    return (windows - windows + 0.5).reshape(windows.shape[0], -1)


def test_a_derived_size_that_the_archive_fixes_to_1_is_stated(tmp_path):
    command.run("export", save_archive(tmp_path, one_window, torch.randn(3)), "-o", tmp_path / "m.onnx")
    ((length,),) = lengths(tmp_path / "m.onnx")
    assert f"({length}//2) == 1" in constraints_of(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for size in 2, 3:
        y = torch.randn(size)
        assert session.run(None, {session.get_inputs()[0].name: y.numpy()})[0].tolist() == one_window(y).tolist()
