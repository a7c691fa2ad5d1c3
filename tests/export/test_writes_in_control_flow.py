"""Data-dependent scripted branches and loops that write to outer tensors and to attributes."""

from typing import List, Optional

import onnx
import pytest
import torch
from torch import nn

from scripted import assert_equal, export


class RowByRow(nn.Module):
    def forward(self, x, n):
        out = torch.zeros(6, 4)
        for t in range(int(n)):
            out[t] = x[t] * 2
        return out


class UntilLargeEnough(nn.Module):
    """The condition reads the written tensor; a view created before the loop shows the writes."""

    def forward(self, x, n):
        h = x.clone()
        row = h[1]
        while h.sum() < n * 10:
            h.add_(1)
        return h, row, x


class AugmentedAssignment(nn.Module):
    """`h += y` writes in place, so it changes the row of `x` as well."""

    def forward(self, x, n):
        x = x * 1
        h = x[0]
        for t in range(int(n)):
            h += x[t + 1]
        return h, x


class InBranch(nn.Module):
    def forward(self, x, n):
        h = x.clone()
        column = h[:, 1]
        if int(n) > 2:
            h.mul_(2)
            column[0] = 5
        h[0, 0] = 7
        return h, column


class InBothBranches(nn.Module):
    def forward(self, x, n):
        h = x.clone()
        if int(n) > 2:
            y = h.add_(1)
        else:
            y = h
        y.mul_(3)
        return h


class InBranchOfLoop(nn.Module):
    def forward(self, x, n):
        out = torch.zeros(6, 4)
        flat = out.view(-1)
        for t in range(int(n)):
            if x[t].sum() > 2:
                out[t] += x[t]
            else:
                flat[4 * t] = 5
            out[5, 0] += 1
        return out, flat


class LoopInLoop(nn.Module):
    def forward(self, x, n):
        table = torch.zeros(6, 6)
        for i in range(int(n)):
            for j in range(i + 1):
                table[i, j] = x[i].dot(x[j])
        return table, table.t()


class ByMaskAndIndex(nn.Module):
    def forward(self, x, n):
        out = x.clone()
        rows = torch.arange(6).flip(0)
        for t in range(int(n)):
            out[rows[t]] = x[t] + t
            out[out > 2] = -1.0
            out[t:, 3:] -= 0.5
        return out


class Reassigned(nn.Module):
    """Each iteration writes to a new tensor."""

    def forward(self, x, n):
        h = x
        for t in range(int(n)):
            h = h * 0.5
            h[t] = 1.0
        return h, x


class WrittenThenReassigned(nn.Module):
    """The first iteration writes to a tensor that nothing else reads."""

    def forward(self, x, n):
        h = x + 1
        for t in range(int(n)):
            h[t] = 1.0
            h = h * 0.5
        return h, x


class InOtherMethod(nn.Module):
    @torch.jit.export
    def fill(self, out, t: int, row) -> None:
        out[t] = row

    def forward(self, x, n):
        out = torch.zeros(6, 4)
        for t in range(int(n)):
            self.fill(out, t, x[t])
        return out


class Buffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x, n):
        for t in range(int(n)):
            self.count += x[t]
        return self.count * 2


class ConditionOfNumbers(nn.Module):
    """The condition is constant in the first iteration and depends on data later."""

    def forward(self, x, n):
        h = x.clone()
        going = True
        while going:
            h += 1
            going = bool(h.sum() < n * 20)
        return h


class AttributeInLoop(nn.Module):
    state: torch.Tensor

    def __init__(self):
        super().__init__()
        self.state = torch.zeros(4)
        self.steps = 0

    def step(self, row) -> None:
        self.state = torch.tanh(self.state + row)
        self.steps += 1

    def forward(self, x, n):
        self.state = torch.zeros(4)
        self.steps = 0
        for t in range(int(n)):
            self.step(x[t])
        return self.state, self.steps


class AttributeInBranch(nn.Module):
    state: torch.Tensor

    def __init__(self):
        super().__init__()
        self.state = torch.zeros(4)

    def forward(self, x, n):
        self.state = x[0]
        if int(n) > 2:
            self.state = x[1] + self.state
        return self.state * 2


class AttributeOfOther(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = AttributeInLoop()

    def forward(self, x, n):
        self.inner.state = x[5]
        for t in range(int(n)):
            self.inner.step(x[t])
            if x[t].sum() > 2:
                self.inner.state = self.inner.state * 2
        return self.inner.state


class ListAttribute(nn.Module):
    rows: List[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.rows: List[torch.Tensor] = []

    def keep(self, row) -> None:
        self.rows.append(row)

    def forward(self, x, n):
        self.rows = []
        self.keep(x[5])
        for t in range(int(n)):
            self.keep(x[t])
            if x[t].sum() > 2:
                self.keep(x[t] * 2)
        return torch.stack(self.rows)


MODELS = [RowByRow, UntilLargeEnough, AugmentedAssignment, InBranch, InBothBranches, InBranchOfLoop, LoopInLoop,
          ByMaskAndIndex, Reassigned, WrittenThenReassigned, InOtherMethod, Buffer, ConditionOfNumbers,
          AttributeInLoop, AttributeInBranch, AttributeOfOther, ListAttribute]


@pytest.mark.parametrize("model", MODELS)
def test_writes_equal_pytorch_at_other_lengths(model, tmp_path):
    path, _ = export(model, tmp_path)
    onnx.checker.check_model(str(path), full_check=True)
    torch.manual_seed(1)
    for n in (3, 1, 2, 5, 0):
        torch.manual_seed(0)
        scripted = torch.jit.script(model().eval())  # a fresh copy, without writes
        assert_equal(path, scripted, torch.rand(6, 4), torch.tensor(n))


def test_appending_to_a_list_attribute_changes_the_attribute(tmp_path):
    """Appends to a list attribute, without data-dependent control flow."""

    class Model(nn.Module):
        rows: List[torch.Tensor]

        def __init__(self):
            super().__init__()
            self.rows = [torch.ones(4)]

        def forward(self, x, n):
            self.rows.append(x[0])
            return self.rows[1] + len(self.rows)

    path, stderr = export(Model, tmp_path)
    assert_equal(path, torch.jit.script(Model()), torch.rand(6, 4), torch.tensor(1))


class Reshaped(nn.Module):
    def forward(self, x, n):
        h = x.clone()
        for t in range(int(n)):
            h.unsqueeze_(0)
        return h


class OtherMemory(nn.Module):
    def forward(self, x, n):
        h = x.clone()
        if int(n) > 1:
            h.set_(x)
        return h


def test_set_makes_one_tensor_an_alias_of_another(tmp_path):
    class Set(nn.Module):
        def forward(self, x, n):
            h, other = torch.ones(2), x * 2
            before = h.view(1, 2)
            same = h.set_(other)
            other[n] = 5.0
            same.add_(1)
            return h, other, same, before

    path, stderr = export(Set, tmp_path)
    assert_equal(path, torch.jit.script(Set()), torch.rand(6, 4), torch.tensor(2))


class AliasInFirstIteration(nn.Module):
    """Only the first iteration changes x."""

    def forward(self, x, n):
        x = x * 1
        h = x
        for t in range(int(n)):
            h.add_(1)
            h = h * 2
        return h, x


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_writes_of_the_first_iteration_only_equal_pytorch(tmp_path, trips):
    path, _ = export(AliasInFirstIteration, tmp_path)
    assert_equal(path, torch.jit.script(AliasInFirstIteration()), torch.rand(6, 4), torch.tensor(trips))


class ReshapedAndRead(nn.Module):
    """Reads the size of an axis that the refused operation would create."""

    def forward(self, x, n):
        h = x.clone()
        if int(n) > 1:
            h.unsqueeze_(2)
            h = h + h.shape[2]
        return h


REFUSED = [(Reshaped, "the shape of"), (OtherMemory, "the shape of"), (ReshapedAndRead, "the shape of")]


@pytest.mark.parametrize("model, words", REFUSED)
def test_writes_without_an_onnx_form_are_refused(model, words, tmp_path):
    path, stderr = export(model, tmp_path, code=4)
    assert words in stderr, stderr
    assert not path.exists()
