"""Lists in data-dependent scripted control flow as ONNX sequences: appending, reading, changing and returning."""

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
    """Collects one result per iteration and stacks them."""

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
    """The loop computes its condition; the rows are concatenated along an existing axis."""

    def forward(self, x, n):
        rows = [x]
        while rows[-1].sum() < n:
            rows.append(rows[-1] * 2)
        return torch.cat(rows, dim=1)


class InBranch(nn.Module):
    """Appends an element in one branch only."""

    def forward(self, x, n):
        parts = [x]
        if int(n) > 2:
            parts.append(x * 2)
        else:
            x = x + 1
        return torch.cat(parts, 0) + x[0]


class InEitherBranch(nn.Module):
    """Appends to a list in nested branches, so that its length depends on data."""

    def forward(self, x, n):
        rows = [x[0]]
        if int(n) > 1:
            if int(n) > 2:
                rows.append(x[1])
            rows.append(x[2])
        return torch.stack(rows)


class InBranchOfLoop(nn.Module):
    def forward(self, x, n):
        rows: List[torch.Tensor] = [x[0]]
        for t in range(int(n)):
            if x[t].sum() > 0.5:
                rows.append(x[t])
                rows.append(-x[t])
        return torch.stack(rows, dim=-1)


class LstmState(nn.Module):
    """Carries a tuple through the loop."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 3)

    def forward(self, x, n):
        state = (torch.zeros(1, 3), torch.zeros(1, 3))
        for t in range(int(n)):
            state = self.cell(x[t : t + 1], state)
        return state


class StateByLayer(nn.Module):
    """Changes a list of constant length by index."""

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
    """Changes the values of a dict with constant keys."""

    def forward(self, x, n):
        found: Dict[str, torch.Tensor] = {"sum": torch.zeros(4), "last": x[0]}
        for t in range(int(n)):
            found["sum"] = found["sum"] + x[t]
            if x[t].sum() > 0.5:
                found["last"] = x[t]
        return found


class Methods(nn.Module):
    """Calls the methods of lists on a list of unknown length."""

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
    """Iterates over the rows that another loop collected."""

    def forward(self, x, n):
        rows: List[torch.Tensor] = []
        for t in range(int(n)):
            rows.append(x[t])
        total = torch.zeros(4)
        for i, row in enumerate(rows):
            total = total + row * (i + 1)
        return total


class Reassigned(nn.Module):
    """Assigns a new list in each iteration to the same name."""

    def forward(self, x, n):
        rows = [x[0]]
        for t in range(int(n)):
            rows = [x[t] * 2] + [rows[0]] if t == 0 else rows + [x[t]]
        return torch.stack(rows)


class Nested(nn.Module):
    """Two nested loops fill one list; another list starts empty in each iteration."""

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
    """Each iteration appends a larger element, so the loop body must not fix the element size."""

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
    """Returns the list itself."""

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
    """Clears the list in a branch and fills it again later."""

    def forward(self, x, n):
        rows = [x[0], x[1]]
        for t in range(int(n)):
            if t == 2:
                rows.clear()
            rows.append(x[t])
        return torch.stack(rows)


class InOtherMethods(nn.Module):
    """A method and a submodule fill a list that they did not create."""

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


class ReversedAndJoined(nn.Module):
    """Reverses, joins and slices lists; ONNX has no operators for that."""

    def forward(self, x, n):
        rows: List[torch.Tensor] = []
        for t in range(int(n)):
            rows.append(x[t])
        backward = rows.copy()
        backward.reverse()
        joined = rows + backward
        rows.extend(backward)
        front = [x[5]] + rows
        front += joined
        return torch.stack(backward), torch.stack(joined), torch.stack(rows), torch.stack(front[1:-1])


MODELS = [InOtherMethods, ListsInLists, ReversedAndJoined, Collect, While, InBranch, InEitherBranch, InBranchOfLoop,
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
def test_lists_in_other_opsets_equal_pytorch(opset, tmp_path):
    path, _ = export(Collect, tmp_path, "--opset", opset)
    torch.manual_seed(0)
    scripted = torch.jit.script(Collect().eval())
    assert_equal(path, scripted, torch.rand(6, 4), torch.tensor(4))


def test_passing_a_list_through_a_branch_needs_opset_14(tmp_path):
    path, stderr = export(InBranchOfLoop, tmp_path, "--opset", 13, code=4)
    assert "opset 14" in stderr and not path.exists()


class Parts(nn.Module):
    """Lists with one element per index of a dynamic axis."""

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


class CollectsIndices(nn.Module):
    """Appends integers to an empty list in one branch only."""

    def forward(self, x, n):
        indices: List[int] = []
        for t in range(x.size(0)):
            if x[t].sum() > 2:
                indices.append(t)
        return torch.tensor(indices), torch.tensor([float(index) for index in indices]).sum(), len(indices)


def test_a_list_of_integers_filled_in_a_branch_equals_pytorch(tmp_path):
    path, _ = export(CollectsIndices, tmp_path)
    onnx.checker.check_model(str(path), full_check=True)
    for seed in 1, 2:
        torch.manual_seed(seed)
        assert_equal(path, torch.jit.script(CollectsIndices()), torch.rand(6, 4), torch.tensor(2))


class ReturnsNothing(nn.Module):
    def forward(self, x, n):
        return None


def test_a_model_that_returns_no_tensor_is_refused(tmp_path):
    path, stderr = export(ReturnsNothing, tmp_path, code=4)
    assert "E0303" in stderr and "returns no tensor" in stderr and not path.exists()


def test_nodes_of_lists_have_their_origin(tmp_path):
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
    """Writes in place to a tensor after appending it, which also changes the list in PyTorch."""

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


class SlicedByData(nn.Module):
    def forward(self, x, n):
        rows = [x[0], x[1], x[2]]
        return torch.stack(rows[: int(n)])


REFUSED = [(SlicedByData, "sliced at an index that depends on the input"),
           (Pairs, "something other than tensors and numbers"),
           (Mixed, "float32 and of int64"), (WrittenInto, "in place"), (NewKeys, "key")]


@pytest.mark.parametrize("model, words", REFUSED)
def test_unsupported_lists_are_refused(model, words, tmp_path):
    path, stderr = export(model, tmp_path, code=4)
    assert words in stderr, stderr
    assert "help:" in stderr or "remedy" in stderr or "try" in stderr, stderr
    assert not path.exists()


class Slices(nn.Module):
    """Slices lists of numbers backwards, beyond their ends and by any step."""

    def forward(self, x):
        sizes = list(x.shape)
        numbers = [1, 2, 3, 4, 5]
        parts = [numbers[::-1], numbers[1::2], numbers[-2::-2], numbers[10:1:-1], numbers[3:-9:-1], numbers[:2:3],
                 numbers[2:1], numbers[4:0:-9], numbers[-9:9], numbers[::9223372036854775807]]
        total = torch.zeros(0, dtype=torch.int64)
        for part in parts:
            total = torch.cat([total, torch.tensor(part, dtype=torch.int64), torch.tensor([0])])
        return x.reshape(sizes[::-1]), total


def test_lists_are_sliced_as_in_python(tmp_path):
    x = torch.rand(2, 3)
    archive, path = tmp_path / "m.pt", tmp_path / "m.onnx"
    torch.jit.script(Slices()).save(str(archive))
    command.run("export", archive, "-o", path, "--input", "x=float32[2,3]")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for actual, expected in zip(session.run(None, {"x": x.numpy()}), Slices()(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(actual), expected)


class DictMethods(nn.Module):
    def forward(self, x, n):
        table = {"a": x, "b": x * 2}
        other = table.copy()
        other["a"] = x * 3
        table.update({"b": x * 4, "c": x * 5})
        total = table.pop("b") + table.setdefault("a", x * 6) + table.setdefault("d", x * 7)
        rest = {"e": x}
        rest.clear()
        return table, other, total, len(table), len(rest)


class BuiltDicts(nn.Module):
    """Constructs empty dicts, and dicts from another dict or from pairs, as torchvision's models do for results."""

    def forward(self, x, n):
        results: Dict[str, torch.Tensor] = OrderedDict()
        results["out"] = x * n
        results["aux"] = x + 1
        copied = dict(results)
        copied["aux"] = x - 1
        names, values = list(results.keys()), list(results.values())
        paired = OrderedDict([(names[0], values[1]), (names[1], values[0]), (names[0], x / 2)])
        return results, copied, paired


def test_methods_of_dicts_equal_pytorch(tmp_path):
    path, _ = export(DictMethods, tmp_path)
    assert_equal(path, DictMethods(), torch.rand(6, 4), torch.tensor(2))


def test_constructors_of_dicts_equal_pytorch(tmp_path):
    path, _ = export(BuiltDicts, tmp_path)
    assert [output.name for output in onnx.load(path).graph.output][:2] == ["out", "aux"]
    assert_equal(path, BuiltDicts(), torch.rand(6, 4), torch.tensor(2))
