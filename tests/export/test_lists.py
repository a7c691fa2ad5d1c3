"""Lists in scripted control flow that depends on data: grown, read, changed and returned, as ONNX sequences."""

from collections import OrderedDict
from typing import Dict, List, Tuple

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import command
from scripted import assert_equal, export


class Collect(nn.Module):
    """One result an iteration, stacked."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, x, n):
        results: List[torch.Tensor] = []
        h = torch.zeros(4)
        for t in range(int(n)):
            h = torch.tanh(self.cell(x[t] + h))
            results.append(h)
        return torch.stack(results), results[-1], len(results)


class While(nn.Module):
    """A condition that is computed in the loop; joined along an axis that exists."""

    def forward(self, x, n):
        rows = [x]
        while rows[-1].sum() < n:
            rows.append(rows[-1] * 2)
        return torch.cat(rows, dim=1)


class InBranch(nn.Module):
    """An element that is there or not."""

    def forward(self, x, n):
        parts = [x]
        if int(n) > 2:
            parts.append(x * 2)
        else:
            x = x + 1
        return torch.cat(parts, 0) + x[0]


class InEitherBranch(nn.Module):
    """One element beside a list whose length depends on data."""

    def forward(self, x, n):
        rows = [x[0]]
        if int(n) > 1:
            if int(n) > 2:
                rows.append(x[1])
            rows.append(x[2])
        return torch.stack(rows)


class InBranchOfLoop(nn.Module):
    def forward(self, x, n):
        kept: List[torch.Tensor] = [x[0]]
        for t in range(int(n)):
            if x[t].sum() > 0.5:
                kept.append(x[t])
                kept.append(-x[t])
        return torch.stack(kept, dim=-1)


class LstmState(nn.Module):
    """A tuple that is carried."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 3)

    def forward(self, x, n):
        state = (torch.zeros(1, 3), torch.zeros(1, 3))
        for t in range(int(n)):
            state = self.cell(x[t : t + 1], state)
        return state


class StateByLayer(nn.Module):
    """A list that keeps its length, changed by index."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(4, 4), nn.GRUCell(4, 4)])

    def forward(self, x, n):
        states = [torch.zeros(1, 4), torch.ones(1, 4)]
        for t in range(int(n)):
            below = x[t : t + 1]
            for i, cell in enumerate(self.cells):
                states[i] = cell(below, states[i])
                below = states[i]
        return states[0], states[1]


class ByKey(nn.Module):
    """A dict whose keys stay."""

    def forward(self, x, n):
        found: Dict[str, torch.Tensor] = {"sum": torch.zeros(4), "last": x[0]}
        for t in range(int(n)):
            found["sum"] = found["sum"] + x[t]
            if x[t].sum() > 0.5:
                found["last"] = x[t]
        return found


class Methods(nn.Module):
    """What lists can do, on one whose length is not known."""

    def forward(self, x, n):
        items: List[torch.Tensor] = []
        for t in range(int(n)):
            items.append(x[t])
        items.insert(0, x[0] * 10)
        items.insert(-1, x[0] * 20)
        items.insert(len(items), x[0] * 30)
        last = items.pop()
        first = items.pop(0)
        items[0] = last - first
        items[-1] = first
        items[-2] = items[-2] * 3
        items.extend([x[1], x[2]])
        items += [x[3]]
        copied = items.copy()
        del items[1]
        joined = copied + [last]
        return torch.stack(items), torch.stack(joined), len(copied)


class Iterate(nn.Module):
    """A loop over what another loop collected."""

    def forward(self, x, n):
        rows: List[torch.Tensor] = []
        for t in range(int(n)):
            rows.append(x[t])
        total = torch.zeros(4)
        for i, row in enumerate(rows):
            total = total + row * (i + 1)
        return total


class Reassigned(nn.Module):
    """A new list an iteration, under the old name."""

    def forward(self, x, n):
        rows = [x[0]]
        for t in range(int(n)):
            rows = [x[t] * 2] + [rows[0]] if t == 0 else rows + [x[t]]
        return torch.stack(rows)


class Nested(nn.Module):
    """Two loops that fill one list, and one that each round empties."""

    def forward(self, x, n):
        rows: List[torch.Tensor] = []
        for t in range(int(n)):
            inner: List[torch.Tensor] = []
            for s in range(t + 1):
                rows.append(x[s])
                inner.append(x[s] + 1)
            rows.append(torch.stack(inner).sum(0))
        return torch.stack(rows)


class Doubling(nn.Module):
    """Elements of another size each iteration: nothing in the body may hold the size of the first."""

    def forward(self, x, n):
        rows = [x.flatten()]
        grown = x.flatten()
        for _ in range(int(n)):
            rows.append(torch.cat([rows[-1], rows[-1]]).reshape(-1, 2).t().flatten())
            grown = torch.cat([grown, grown]).reshape(2, -1).t().reshape(-1)
        return rows[-1], torch.cat(rows), grown


class Numbers(nn.Module):
    def forward(self, x, n):
        counts: List[int] = []
        for t in range(int(n)):
            counts.append(t * 2)
        return x[counts[-1] // 2], len(counts)


class Returned(nn.Module):
    """The list itself is the result."""

    def forward(self, x, n) -> List[torch.Tensor]:
        rows: List[torch.Tensor] = []
        for t in range(int(n)):
            rows.append(x[: t + 1])
        return rows


class Unpacked(nn.Module):
    def forward(self, x, n):
        rows = [x[0], x[1]]
        if int(n) > 2:
            rows = [x[2], x[3]]
        else:
            rows.append(x[0])
            rows.pop(0)
        a, b = rows
        return a - b


class Emptied(nn.Module):
    """Cleared in a branch; filled again by what comes later."""

    def forward(self, x, n):
        rows = [x[0], x[1]]
        for t in range(int(n)):
            if t == 2:
                rows.clear()
            rows.append(x[t])
        return torch.stack(rows)


class InOtherMethods(nn.Module):
    """Filled by a method that did not make it, and by a submodule."""

    def __init__(self):
        super().__init__()
        self.filler = Filler()

    def fill(self, rows: List[torch.Tensor], x):
        rows.append(x)

    def forward(self, x, n):
        rows: List[torch.Tensor] = []
        for t in range(int(n)):
            self.fill(rows, x[t])
            if t % 2 == 0:
                self.filler(rows, x[t])
        return torch.stack(rows)


class Filler(nn.Module):
    def forward(self, rows: List[torch.Tensor], x) -> None:
        rows.append(x + 1)


class ListsInLists(nn.Module):
    def forward(self, x, n):
        layers = [[x[0]], [x[1], x[2]]]
        named: Dict[str, List[torch.Tensor]] = {"a": [], "b": [x[0]]}
        for t in range(int(n)):
            for layer in layers:
                layer.append(layer[-1] + x[t])
            named["a"].append(x[t])
        return torch.stack(layers[0]), torch.stack(layers[1]), torch.stack(named["a"]), named["b"][0]


class TurnedAndJoined(nn.Module):
    """What ONNX has no operator for: a list reversed, two lists joined, a list without its ends."""

    def forward(self, x, n):
        rows: List[torch.Tensor] = []
        for t in range(int(n)):
            rows.append(x[t])
        turned = rows.copy()
        turned.reverse()
        joined = rows + turned
        rows.extend(turned)
        front = [x[5]] + rows
        front += joined
        return torch.stack(turned), torch.stack(joined), torch.stack(rows), torch.stack(front[1:-1])


MODELS = [InOtherMethods, ListsInLists, TurnedAndJoined, Collect, While, InBranch, InEitherBranch, InBranchOfLoop,
          LstmState, StateByLayer, ByKey, Methods, Iterate, Reassigned, Nested, Doubling, Numbers, Returned, Unpacked,
          Emptied]


@pytest.mark.parametrize("model", MODELS)
def test_lists_equal_pytorch_at_other_lengths(model, tmp_path):
    path, _ = export(model, tmp_path)
    onnx.checker.check_model(str(path), full_check=True)
    torch.manual_seed(0)
    scripted = torch.jit.script(model().eval())
    torch.manual_seed(1)
    for n in (3, 1, 2, 5):
        assert_equal(path, scripted, torch.rand(6, 4), torch.tensor(n))


@pytest.mark.parametrize("opset", [13, 14, 21])
def test_lists_in_other_opsets(opset, tmp_path):
    path, _ = export(Collect, tmp_path, "--opset", opset)
    torch.manual_seed(0)
    scripted = torch.jit.script(Collect().eval())
    assert_equal(path, scripted, torch.rand(6, 4), torch.tensor(4))


def test_a_list_handed_on_needs_identity_of_sequences(tmp_path):
    path, said = export(InBranchOfLoop, tmp_path, "--opset", 13, code=4)
    assert "opset 14" in said and not path.exists()


class Parts(nn.Module):
    """Lists with as many elements as a dynamic size has it."""

    def forward(self, x, n):
        rows = x.unbind(0)
        pairs = x.split(2, dim=0)
        total = torch.zeros(4)
        for row in rows:
            total = total + torch.tanh(row)
        return total, len(rows), rows[int(n)], pairs[-1], torch.cat(x.chunk(3, dim=0), dim=0)


def test_parts_of_a_dynamic_axis_are_lists(tmp_path):
    path, _ = export(Parts, tmp_path, "--dynamic", "x:0=rows")
    for rows in (6, 5, 9):
        assert_equal(path, torch.jit.script(Parts()), torch.rand(rows, 4), torch.tensor(2))


class StaysEmpty(nn.Module):
    def forward(self, x, n):
        rows: List[torch.Tensor] = []
        numbers: List[int] = []
        for t in range(x.size(0)):
            if len(rows) > 2:
                rows.append(x[t])
        return x * 2, rows, numbers


def test_a_list_that_stays_empty_is_an_empty_sequence(tmp_path):
    path, _ = export(StaysEmpty, tmp_path)
    onnx.checker.check_model(str(path), full_check=True)
    assert_equal(path, torch.jit.script(StaysEmpty()), torch.rand(6, 4), torch.tensor(2))


class KeepsIndices(nn.Module):
    """A list of integers that begins in one side of a branch, while the other leaves it empty."""

    def forward(self, x, n):
        kept: List[int] = []
        for t in range(x.size(0)):
            if x[t].sum() > 2:
                kept.append(t)
        return torch.tensor(kept), torch.tensor([float(each) for each in kept]).sum(), len(kept)


def test_a_list_of_integers_that_branches_fill(tmp_path):
    path, _ = export(KeepsIndices, tmp_path)
    onnx.checker.check_model(str(path), full_check=True)
    for seed in 1, 2:
        torch.manual_seed(seed)
        assert_equal(path, torch.jit.script(KeepsIndices()), torch.rand(6, 4), torch.tensor(2))


class ReturnsNothing(nn.Module):
    def forward(self, x, n):
        return None


def test_a_model_that_returns_no_tensor_is_refused(tmp_path):
    path, said = export(ReturnsNothing, tmp_path, code=4)
    assert "E0303" in said and "returns no tensor" in said and not path.exists()


def test_list_operations_say_where_they_come_from(tmp_path):
    path, _ = export(Collect, tmp_path, "--annotate")
    report = command.run_json("validate", path)
    assert report["clean"] and report["coverage"]["exact"] == report["coverage"]["nodes"]
    loop = next(node for node in onnx.load(path).graph.node if node.op_type == "Loop")
    body = {node.op_type for node in loop.attribute[0].g.node}
    assert "SequenceInsert" in body


class Pairs(nn.Module):
    def forward(self, x, n):
        pairs: List[Tuple[torch.Tensor, torch.Tensor]] = []
        for t in range(int(n)):
            pairs.append((x[t], x[t]))
        return pairs[0][0]


class Mixed(nn.Module):
    def forward(self, x, n):
        rows = [x[0]]
        for t in range(int(n)):
            rows.append(torch.ones(4, dtype=torch.int64))
        return rows[0]


class WrittenInto(nn.Module):
    """An element changes after it was put into the list, in PyTorch in the list as well."""

    def forward(self, x, n):
        rows: List[torch.Tensor] = []
        for t in range(int(n)):
            row = x[t] + 0
            rows.append(row)
            row.add_(1)
        return torch.stack(rows)


class NewKeys(nn.Module):
    def forward(self, x, n):
        found: Dict[int, torch.Tensor] = {0: x[0]}
        for t in range(int(n)):
            found[t + 1] = x[t]
        return found[0]


class CutByData(nn.Module):
    def forward(self, x, n):
        rows = [x[0], x[1], x[2]]
        return torch.stack(rows[: int(n)])


REFUSED = [(CutByData, "sliced at an index that depends on the input"),
           (Pairs, "something other than tensors and numbers"),
           (Mixed, "float32 and of int64"), (WrittenInto, "in place"), (NewKeys, "key")]


@pytest.mark.parametrize("model, words", REFUSED)
def test_what_sequences_cannot_hold_is_refused(model, words, tmp_path):
    path, said = export(model, tmp_path, code=4)
    assert words in said, said
    assert "help:" in said or "remedy" in said or "try" in said, said
    assert not path.exists()


class Cuts(nn.Module):
    """Lists of numbers, cut as Python cuts them: backwards, beyond their ends, by any step."""

    def forward(self, x):
        sizes = list(x.shape)
        numbers = [1, 2, 3, 4, 5]
        parts = [numbers[::-1], numbers[1::2], numbers[-2::-2], numbers[10:1:-1], numbers[3:-9:-1], numbers[:2:3],
                 numbers[2:1], numbers[4:0:-9], numbers[-9:9], numbers[::9223372036854775807]]
        total = torch.zeros(0, dtype=torch.int64)
        for part in parts:
            total = torch.cat([total, torch.tensor(part, dtype=torch.int64), torch.tensor([0])])
        return x.reshape(sizes[::-1]), total


def test_lists_are_cut_as_python_cuts_them(tmp_path):
    x = torch.rand(2, 3)
    archive, path = tmp_path / "m.pt", tmp_path / "m.onnx"
    torch.jit.script(Cuts()).save(str(archive))
    command.run("export", archive, "-o", path, "--input", "x=float32[2,3]")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for got, want in zip(session.run(None, {"x": x.numpy()}), Cuts()(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), want)


class DictMethods(nn.Module):
    def forward(self, x, n):
        table = {"a": x, "b": x * 2}
        other = table.copy()
        other["a"] = x * 3
        table.update({"b": x * 4, "c": x * 5})
        taken = table.pop("b") + table.setdefault("a", x * 6) + table.setdefault("d", x * 7)
        rest = {"e": x}
        rest.clear()
        return table, other, taken, len(table), len(rest)


class BuiltDicts(nn.Module):
    """Dicts that are called for, empty, of another dict or of pairs, as torchvision's models build their results."""

    def forward(self, x, n):
        results: Dict[str, torch.Tensor] = OrderedDict()
        results["out"] = x * n
        results["aux"] = x + 1
        copied = dict(results)
        copied["aux"] = x - 1
        names, values = list(results.keys()), list(results.values())
        paired = OrderedDict([(names[0], values[1]), (names[1], values[0]), (names[0], x / 2)])
        return results, copied, paired


def test_methods_of_dicts(tmp_path):
    path, _ = export(DictMethods, tmp_path)
    assert_equal(path, DictMethods(), torch.rand(6, 4), torch.tensor(2))


def test_dicts_that_are_called_for(tmp_path):
    path, _ = export(BuiltDicts, tmp_path)
    assert [output.name for output in onnx.load(path).graph.output][:2] == ["out", "aux"]
    assert_equal(path, BuiltDicts(), torch.rand(6, 4), torch.tensor(2))
