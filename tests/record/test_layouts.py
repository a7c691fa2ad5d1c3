"""Compares the rules for the memory layouts of views with PyTorch's strides and offsets.

A sidecar lists the tensors that have no rule, or a layout that contradicts the rules in runs at several sizes.
"""

import json
import random

import pytest
import torch

import command
from function_module import FunctionModule


def sidecar(function, x, folder, axes="x:0=rows,1=columns"):
    module = torch.jit.trace(FunctionModule(function), (x,), check_trace=False)
    module.save(str(folder / "m.pt"))
    torch.save((x,), folder / "inputs.pt")
    command.run("export", folder / "m.pt", "--inputs", folder / "inputs.pt", "--dynamic", axes, "-o", folder / "m.onnx",
                "--sidecar-out", folder / "m.whence.json")
    return json.loads((folder / "m.whence.json").read_text())


def places(document):
    """Returns pairs of the operator that created a value and the value's row in `places`."""
    operations = document["operations"]["rows"]
    operators = {output: document["strings"][row[0]].removeprefix("aten::") for row in operations for output in row[6]}
    return [(operators.get(row[0], "input"), row) for row in document["places"]]


def view_of(t, draw):
    """Returns a view of t by a randomly chosen operator."""
    axis, other = draw.randrange(t.dim()), draw.randrange(t.dim())
    last = draw.randrange(-2, 2)
    forms = [lambda: t.transpose(axis, other), lambda: t.unsqueeze(axis), lambda: t[..., ::2], lambda: t[1:],
             lambda: t.swapaxes(axis, other), lambda: t.movedim(axis, other), lambda: t[-2:], lambda: t[:, :-1],
             lambda: t.permute(*draw.sample(range(t.dim()), t.dim())), lambda: t.select(axis, last), lambda: t.mT,
             lambda: t.chunk(2, axis)[1], lambda: t.tensor_split(2, axis)[1], lambda: t.narrow(axis, 1, 2),
             lambda: t.diagonal(draw.choice((-1, 0, 1)), 0, 1), lambda: t.unfold(axis, 2, draw.choice((1, 2))),
             lambda: t.unsqueeze(axis).expand(*[-1] * axis, 3, *[-1] * (t.dim() - axis)), lambda: t[:2].squeeze(0),
             lambda: t.unflatten(-1, (1, -1)), lambda: t.detach(), lambda: t.reshape(*t.shape, 1), lambda: t.view_as(t),
             lambda: (t + 1).flatten(1), lambda: t[:2].split(1)[-1], lambda: t[:2].unbind(0)[-1], lambda: t.adjoint(),
             lambda: t.permute(*reversed(range(t.dim()))), lambda: t.swapdims(0, -1), lambda: torch.atleast_3d(t)]
    return draw.choice(forms)()


@pytest.mark.parametrize("seed", range(6))
def test_rules_equal_pytorch(seed, tmp_path):
    draw = random.Random(seed)
    chains = [[draw.random() for _ in range(draw.randrange(2, 6))] for _ in range(40)]

    def views(x):
        results = []
        for seeds in chains:
            t = x + len(results)
            for view_seed in seeds:
                if t.dim() < 2 or min(t.shape) < 3:
                    break
                t = view_of(t, random.Random(view_seed))
            results.append(t)
        return tuple(results)

    document = sidecar(views, torch.zeros(8, 10, 4), tmp_path)
    names = [document["strings"][row[0]] for row in document["operations"]["rows"]]
    assert len(names) > 100 and len(set(names)) > 15
    new = [row for name, row in places(document) if name == "add" and len(row) > 1 and row[0] == row[1]]
    assert [row for _, row in places(document) if row not in new] == []


def test_layout_that_contradicts_the_rules_is_listed(tmp_path):
    """The rules do not state that this einsum returns a view."""
    document = sidecar(lambda x: torch.einsum("abc->bca", x + 1), torch.zeros(4, 6, 3), tmp_path)
    (name, row), = places(document)
    assert name == "einsum" and len(row) == 1


@pytest.mark.parametrize("size", [(4, 6), (3, 9)])
def test_new_memory_in_another_order(size, tmp_path):
    """The result of an operator has the memory order of its argument."""
    function = lambda x: torch.relu(x.permute(2, 0, 1))  # noqa: E731
    document = sidecar(function, torch.zeros(4, 6, 3), tmp_path)
    (name, (value, memory, offset, strides)), = places(document)
    expected = function(torch.zeros(*size, 3))
    names = {f"s{i}": n for i, n in enumerate(size)} | {f"d{axis}": n for axis, n in enumerate(expected.shape)}
    assert name == "relu" and memory == value and offset == "0"
    assert [eval(text.replace("/", "//"), names) for text in strides] == list(expected.stride())
