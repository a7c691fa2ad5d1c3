"""Lists and dicts whose aliases depend on data-dependent branches and loops: results equal PyTorch's, or the export is
refused."""

import importlib.util
from typing import Dict, List, Optional

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import command
import list_programs
from scripted import assert_equal, export

SIZES = (0, 1, 2, 3)


class OptionalList(nn.Module):
    def forward(self, x, n):
        rows = [x]
        other: Optional[List[Tensor]] = rows
        if bool(n > 1):
            other = None
        if other is not None:
            other.append(x)
        return len(rows)


class OptionalDict(nn.Module):
    def forward(self, x, n):
        table = {"a": x}
        other: Optional[Dict[str, Tensor]] = None
        if bool(n > 1):
            other = table
        if other is not None:
            other["a"] = x + 1
        return table["a"]


class InTuple(nn.Module):
    def forward(self, x, n):
        rows = [x]
        both = (rows, 0)
        if bool(n > 1):
            both = (rows, 1)
        both[0].append(x)
        return len(rows)


class PassedThroughHelper(nn.Module):
    """A helper returns its list argument; the loop changes the list only through the returned name."""

    def push(self, rows: List[Tensor], row: Tensor):
        rows.append(row)
        return rows

    def forward(self, x, n):
        rows = self.push([x[0]], x[1])
        for t in range(int(n)):
            rows = self.push(rows, x[t])
        return torch.stack(rows)


class Exchanged(nn.Module):
    def forward(self, x, n):
        a, b = [x, x + 1], [x * 2]
        for t in range(int(n)):
            a[0] = a[0] + b[0]
            b[0] = b[0] * 2
        if bool(n > 2):
            a[1] = b[0]
        return a[0], a[1], b[0]


class InOneBranch(nn.Module):
    """A branch assigns a new list to the name, and no other name reads the old list."""

    def forward(self, x, n):
        rows = [x[0]]
        if bool(n > 1):
            rows = [x[1], x[2]]
        rows.append(x[3])
        return torch.stack(rows)


class ListInDict(nn.Module):
    """A branch appends to a list and stores the list in a dict."""

    def forward(self, x, n):
        rows = [x[0]]
        table = {"a": [x[1]], "b": rows}
        if bool(n > 1):
            rows.append(x[2])
            table["a"] = rows
        else:
            table["b"] = [x[5]]
        return torch.stack(rows), torch.stack(table["a"]), torch.stack(table["b"])


class ResetToNone(nn.Module):
    """One loop assigns a list to an Optional, another loop resets it to None."""

    def forward(self, x, n):
        rows = [x[0]]
        other = torch.jit.annotate(Optional[List[Tensor]], None)
        for t in range(int(n)):
            other = [x[t], x[0]]
        for t in range(int(n) - 2):
            other = torch.jit.annotate(Optional[List[Tensor]], None)
        if other is not None:
            rows = rows + other
        return torch.stack(rows)


EXPORTED = [OptionalList, OptionalDict, InTuple, PassedThroughHelper, Exchanged, InOneBranch, ListInDict, ResetToNone]


@pytest.mark.parametrize("model", EXPORTED, ids=lambda model: model.__name__)
def test_containers_with_known_aliases_are_exported(tmp_path, model):
    path, _ = export(model, tmp_path)
    torch.manual_seed(1)
    for n in SIZES:
        assert_equal(path, model(), torch.rand(6, 4), torch.tensor(n))


class InTupleOfAnother(nn.Module):
    def forward(self, x, n):
        rows = [x]
        both = (rows, 0)
        if bool(n > 1):
            both = ([x, x], 1)
        both[0].append(x)
        return len(rows)


class NewDict(nn.Module):
    def forward(self, x, n):
        table = {"a": [x[0]]}
        rows = table["a"]
        for t in range(int(n)):
            table["a"].append(x[t])
            table = {"a": table["a"]}
        return torch.stack(rows)


class GrownThenNamed(nn.Module):
    def forward(self, x, n):
        rows = [x[0]]
        other = rows
        for t in range(int(n)):
            rows.append(x[t])
            other = rows
        rows.append(x[5])
        return torch.stack(other)


class NamedByLoop(nn.Module):
    def forward(self, x, n):
        rows = [x[0]]
        other = [x[1]]
        for t in range(int(n)):
            other = rows
        rows.append(x[5])
        return torch.stack(other)


class CarriedTuple(nn.Module):
    def forward(self, x, n):
        rows = [x[0]]
        both = (rows, 0)
        for t in range(int(n)):
            both[0].append(x[t])
            both = (both[0], t)
        return len(rows), both[1]


class ListOfLists(nn.Module):
    def forward(self, x, n):
        rows = [x[0]]
        table = [rows, [x[1]]]
        for t in range(int(n)):
            table[0].append(x[t])
            table[1] = table[0]
        return torch.stack(rows), torch.stack(table[1])


class ExchangedNames(nn.Module):
    def forward(self, x, n):
        a = [x, x + 1]
        b = a
        for t in range(int(n)):
            a[0] = a[0] + b[1]
            a, b = b, a
        return a[0], b[0]


class PassedThroughMethod(nn.Module):
    def push(self, rows: List[Tensor], row: Tensor):
        rows.append(row)
        return rows

    def forward(self, x, n):
        rows = [x[0]]
        other = self.push(rows, x[1])
        for t in range(int(n)):
            other = self.push(other, x[t])
            rows.append(x[t])
        return torch.stack(other)


class SetInLoop(nn.Module):
    def forward(self, x, n):
        rows = [x[0]]
        other = torch.jit.annotate(Optional[List[Tensor]], None)
        for t in range(int(n)):
            other = rows
        if other is not None:
            other.append(x[5])
        return torch.stack(rows)


class ShiftedInLoop(nn.Module):
    """After two iterations `first` aliases `rows`, through `second`."""

    def forward(self, x, n):
        rows = [x[0]]
        first, second = [x[1]], rows
        for t in range(int(n)):
            first, second = second, [x[t]]
        first.append(x[5])
        return torch.stack(rows)


class LateInBody(nn.Module):
    """A branch at the end of an iteration changes an alias, and the next iteration appends through it."""

    def forward(self, x, n):
        a, b = [x[0]], [x[1]]
        for t in range(int(n)):
            b.append(x[t])
            if bool(x[t].sum() > 2):
                b = a
        return torch.stack(a)


class HeldByCaller(nn.Module):
    """The caller keeps its name for a list that a branch in the method may replace."""

    def either(self, rows: List[Tensor], other: List[Tensor], n: Tensor):
        if bool(n > 1):
            rows = other
        rows.append(other[0])
        return rows

    def forward(self, x, n):
        rows = [x[0]]
        result = self.either(rows, [x[1]], n)
        return torch.stack(rows), torch.stack(result)


REFUSED = [InTupleOfAnother, NewDict, GrownThenNamed, NamedByLoop, CarriedTuple, ListOfLists,
           ExchangedNames, PassedThroughMethod, SetInLoop, ShiftedInLoop, LateInBody, HeldByCaller]


@pytest.mark.parametrize("model", REFUSED, ids=lambda model: model.__name__)
def test_changes_of_possible_aliases_are_refused(tmp_path, model):
    path, stderr = export(model, tmp_path, code=4)
    assert "E0303" in stderr and "another name" in stderr and "change a copy" in stderr and not path.exists()


class WrittenElement(nn.Module):
    """A loop that the example never enters assigns a list with aliases of another list's tensors."""

    def forward(self, x, n):
        rows, other = [x * 1, x * 2], [x * 3, x * 4]
        for t in range(int(n) - 3):
            other = [rows[1], rows[0]]
        rows[1].mul_(2)
        return other[0]


@pytest.mark.parametrize("trips", [2, 4, 5])
def test_writes_to_aliases_from_a_loop_that_the_example_skips(tmp_path, trips):
    path, _ = export(WrittenElement, tmp_path)
    assert_equal(path, WrittenElement(), torch.rand(6, 4), torch.tensor(trips))


TRIPS = [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 0), (2, 0, 1, 3), (3, 2, 0, 1), (0, 2, 1, 1)]


def export_program(seed, writes, tmp_path):
    """Returns the PyTorch model and its ONNX Runtime session, which is None if the export is refused."""
    source = tmp_path / f"lists_{seed}.py"
    source.write_text(list_programs.program(seed, writes))
    spec = importlib.util.spec_from_file_location(source.stem, source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.jit.script(module.Lists()).save(str(tmp_path / "m.pt"))
    np.savez(tmp_path / "inputs.npz", x=torch.rand(6, 2).numpy(), n=np.array(TRIPS[seed % len(TRIPS)]))
    result = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.npz",
                         "--overwrite", code=None)
    if result.returncode:
        assert result.returncode == 4 and result.stderr.startswith("E0303"), (seed, result.stderr)
        return module.Lists(), None
    return module.Lists(), onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("writes", [False, True], ids=["lists", "lists and tensors"])
def test_random_programs_equal_pytorch(tmp_path, writes):
    torch.manual_seed(0)
    exports = 0
    for seed in range(12):
        model, session = export_program(seed, writes, tmp_path)
        if session is None:
            continue
        exports += 1
        names = [value.name for value in session.get_inputs()]
        for trips in TRIPS:
            x, n = torch.rand(6, 2), torch.tensor(trips)
            feed = {"x": x.numpy(), "n": n.numpy()}
            for actual, expected in zip(session.run(None, {name: feed[name] for name in names}), model(x, n),
                                        strict=True):
                np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5, err_msg=f"seed {seed}, trips {trips}")
    assert exports >= 3
