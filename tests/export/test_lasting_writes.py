"""Writes to tensors that outlive a call take effect within the run and cause a warning (E0308), however the model
stores the tensor."""

import warnings
from typing import Dict, List

import onnxruntime
import pytest
import torch
from torch import nn

import command

SEEN = torch.zeros(4)


def write_index(tensor, x):
    tensor[torch.tensor([0, 3])] = x[:2]


def write_slice(tensor, x):
    tensor[1:3] = x[1:3]


WRITES = {
    "add": lambda tensor, x: tensor.add_(x),
    "slice": write_slice,
    "index": write_index,
    "copy": lambda tensor, x: tensor.copy_(x * 2),
    "index_copy": lambda tensor, x: tensor.index_copy_(0, torch.tensor([2]), x[:1]),
    "scatter": lambda tensor, x: tensor.scatter_(0, torch.tensor([1, 2]), x),
    "out": lambda tensor, x: torch.add(tensor, x, out=tensor),
    "view": lambda tensor, x: tensor.view(2, 2)[1].mul_(3).sub_(x[2:]),
}


class Holder(nn.Module):
    """Stores a tensor in one of several ways, and writes to it."""

    def __init__(self, storage="attribute", write=WRITES["add"]):
        super().__init__()
        self.storage, self.write = storage, write
        self.attribute, self.several, self.named = torch.zeros(4), [torch.zeros(4)], {"seen": torch.zeros(4)}
        self.register_buffer("buffer", torch.zeros(4))
        self.parameter = nn.Parameter(torch.zeros(4), requires_grad=False)

    def forward(self, x):
        others = {"list": self.several[0], "dict": self.named["seen"], "global": SEEN}
        tensor = others[self.storage] if self.storage in others else getattr(self, self.storage)
        self.write(tensor, x)
        return tensor + 1


def save(model, route, folder):
    """Saves the model; returns the archive's command-line arguments and its program."""
    x = torch.rand(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if route == "pt2":
            torch.export.save(torch.export.export(model, (x,)), folder / "m.pt2")
            return [folder / "m.pt2"], torch.export.load(folder / "m.pt2").module()
        archive = torch.jit.script(model) if route == "script" else torch.jit.trace(model, (x,), check_trace=False)
        archive.save(str(folder / "m.pt"))
        return [folder / "m.pt", "--input", "x=float32[4]"], torch.jit.load(folder / "m.pt")


def export_and_compare(model, route, folder):
    """Exports, compares two runs on new data with one call in PyTorch, and returns the standard error."""
    arguments, program = save(model, route, folder)
    stderr = command.run("export", *arguments, "-o", folder / "m.onnx").stderr
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    x = torch.randn(4)
    with torch.no_grad():
        expected = program(x.clone())
    for _ in range(2):  # each run starts from the stored values
        torch.testing.assert_close(torch.as_tensor(session.run(None, {"x": x.numpy()})[0]), expected)
    return stderr


@pytest.mark.parametrize("route", ["trace", "pt2"])
@pytest.mark.parametrize("write", WRITES)
def test_every_operator_that_writes_is_reported(write, route, tmp_path):
    stderr = export_and_compare(Holder(write=WRITES[write]), route, tmp_path)
    assert stderr.count("E0308") == 1
    dropped = route == "trace" and write in ("slice", "view")  # LibTorch loads the archive without the write
    assert ("LibTorch drops" if dropped else "test_lasting_writes.py") in stderr


@pytest.mark.parametrize("route", ["trace", "pt2"])
@pytest.mark.parametrize("storage", ["attribute", "list", "dict", "global", "buffer", "parameter"])
def test_a_write_is_reported_however_the_tensor_is_stored(storage, route, tmp_path):
    stderr = export_and_compare(Holder(storage), route, tmp_path)
    assert stderr.count("E0308") == 1
    named = storage in ("buffer", "parameter") or (storage == "attribute" and route == "pt2")
    assert f"writes to '{storage}'" in stderr if named else "not a parameter or buffer" in stderr


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.once, self.often = torch.zeros(4), torch.zeros(4)

    def forward(self, x):
        if bool(x.sum() > 0):
            self.once.add_(x)
        for i in range(int(x.argmax()) + 1):
            if i % 2 == 0:
                self.often[i % 4].add_(1)
        return self.once + self.often


def test_writes_in_branches_and_loops_are_reported(tmp_path):
    stderr = export_and_compare(Scripted(), "script", tmp_path)
    assert stderr.count("E0308") == 2 and "'once'" in stderr and "'often'" in stderr


class Containers(nn.Module):
    """Changes lists and dicts that are attributes; in PyTorch, the next call reads the changes."""

    rows: List[torch.Tensor]
    table: Dict[str, List[torch.Tensor]]
    counts: Dict[str, int]

    def __init__(self):
        super().__init__()
        self.rows, self.table, self.counts = [torch.zeros(4)], {"k": [torch.zeros(4)]}, {"n": 0}

    def forward(self, x):
        self.rows[0] = self.rows[0] + x
        self.counts["n"] += 1
        if bool(x.sum() > 0):
            self.table["k"].append(x)
        own = [x]
        own.append(x)
        return self.rows[0] * self.counts["n"] + len(self.table["k"]) + len(own)


def test_changes_of_lists_and_dicts_that_outlive_the_call_are_reported(tmp_path):
    stderr = export_and_compare(Containers(), "script", tmp_path)
    assert stderr.count("E0308") == 3
    for name in ("rows", "table", "counts"):
        assert f"in its attribute '{name}'" in stderr


class Local(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = torch.arange(4.0)

    def forward(self, x):
        own = self.start.clone()
        own.add_(x)
        fresh = torch.tensor([1.0, 2.0, 3.0, 4.0])
        fresh[1:] *= x[1:]
        return own + fresh


def test_writes_to_local_tensors_are_not_reported(tmp_path):
    assert export_and_compare(Local(), "pt2", tmp_path) == ""


OVERLAPS = {
    "shifted": lambda y: y[:, 1:].copy_(y[:, :-1]),
    "index": lambda y: y.index_put_((torch.tensor([0, 1, 2])[:, None], torch.tensor([1, 3])), y[:, :2]),
    "broadcast": lambda y: y.sub_(y[:, :1]),
    "transposed": lambda y: y[:, :3].copy_(y[:, :3].t()),
    "out": lambda y: torch.mul(y[:, :-1], 2, out=y[:, 1:]),
}
DISJOINT = {
    "halves": lambda y: y[:, :2].copy_(y[:, 2:]),
    "itself": lambda y: y.mul_(y),
    "rows": lambda y: y[0].copy_(y[2]),
    "a copy": lambda y: y[:, 1:].copy_(y[:, :-1].clone()),
    "an index": lambda y: y.index_put_((torch.tensor([0, 1]),), y[torch.tensor([1, 2])]),
}


class Overlapping(nn.Module):
    def __init__(self, write):
        super().__init__()
        self.write = write

    def forward(self, x):
        y = x * torch.ones(3, 4)
        self.write(y)
        return y


@pytest.mark.parametrize("route", ["trace", "pt2"])
@pytest.mark.parametrize("name", OVERLAPS)
def test_a_write_that_reads_its_own_memory_is_reported(name, route, tmp_path):
    arguments, _ = save(Overlapping(OVERLAPS[name]), route, tmp_path)
    stderr = command.run("export", *arguments, "-o", tmp_path / "m.onnx").stderr
    assert stderr.count("E0303") == 1 and "reads memory that it also writes to" in stderr and ".clone()" in stderr


@pytest.mark.parametrize("name", DISJOINT)
def test_a_write_that_reads_other_memory_is_not_reported(name, tmp_path):
    assert export_and_compare(Overlapping(DISJOINT[name]), "pt2", tmp_path) == ""


def test_a_write_to_part_of_an_expanded_tensor_is_refused(tmp_path):
    class Expanded(nn.Module):
        def forward(self, x):
            rows = (x * 2).expand(3, 4)
            rows[0] = 1.0  # all rows share memory
            return rows * 1

    arguments, _ = save(Expanded(), "pt2", tmp_path)
    refusal = command.run("export", *arguments, "-o", tmp_path / "m.onnx", code=4).stderr
    assert "E0303" in refusal and "aten::expand" in refusal
