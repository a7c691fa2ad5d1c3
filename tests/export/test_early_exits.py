"""Scripted control flow on data that leaves early, or leaves a variable None: early returns, break, continue,
Optional variables."""

from typing import List, Optional, Tuple

import onnx
import pytest
import torch
from torch import nn

from scripted import assert_equal, export


class StartsAsNone(nn.Module):
    def forward(self, x, n):
        last: Optional[torch.Tensor] = None
        for t in range(int(n)):
            if last is None:
                last = x[t]
            else:
                last = last + x[t]
        return last if last is not None else x[5]


class InBranch(nn.Module):
    def forward(self, x, n):
        y: Optional[torch.Tensor] = None
        if int(n) > 2:
            y = x + 1
        if y is None:
            return x
        return y * 2


class BecomesNone(nn.Module):
    """Something before, None in some iterations."""

    def forward(self, x, n):
        held: Optional[torch.Tensor] = x[5]
        missing = 0
        for t in range(int(n)):
            found = held
            if found is None:
                missing += 1
            if x[t].sum() > 2:
                held = None
            else:
                held = x[t] * 2
        return (held if held is not None else x[0] - 1), missing


class FromMethod(nn.Module):
    @torch.jit.export
    def find(self, x, n: int) -> Optional[Tuple[torch.Tensor, torch.Tensor]]:
        for t in range(n):
            if x[t].sum() > 2:
                return x[t], x[t].sum()
        return None

    def forward(self, x, n):
        found = self.find(x, int(n))
        if found is None:
            return x[0], x[1].sum()
        return found[0] * 2, found[1]


class EarlyReturn(nn.Module):
    def forward(self, x, n):
        total = torch.zeros(4)
        for t in range(int(n)):
            total = total + x[t]
            if total.sum() > 4:
                return total, t
        return -total, -1


class ReturnInBranches(nn.Module):
    def forward(self, x, n):
        if int(n) > 1:
            if int(n) == 3:
                x = x + 4
            else:
                return x
        return x * 2


class BreakAndContinue(nn.Module):
    def forward(self, x, n):
        rows: List[torch.Tensor] = [x[5]]
        total = torch.zeros(4)
        for t in range(int(n)):
            if x[t][0] > 0.8:
                continue
            rows.append(x[t])
            if len(rows) > 3:
                break
            total += x[t]
        return torch.stack(rows), total


class BreakFromWhile(nn.Module):
    def forward(self, x, n):
        steps = 0
        while True:
            x = x * 1.5
            steps += 1
            if x.sum() > n * 20:
                break
        return x, steps


class ListsReturnedEarly(nn.Module):
    def forward(self, x, n):
        rows = [x[0], x[1]]
        if int(n) > 1:
            if int(n) == 3:
                x = x + 4
            else:
                rows.append(x[2])
                return rows
        return [x[3]]


class OtherSizes(nn.Module):
    """A branch that PyTorch cannot compute for the example."""

    def forward(self, x, n):
        h = x * 1
        if int(n) > 3:
            h += x[: 2 * int(n) - 9] + 1
        return h


class IndexedByData(nn.Module):
    def forward(self, x, n):
        rows = [x[0], x[1], x[2], x[3], x[4], x[5]]
        chosen = rows[int(n)]
        rows[int(n)] = x[0] * 5
        popped = rows.pop(int(n))
        sizes = [4, 3, 2, 5, 1, 7]
        return chosen, popped, torch.stack(rows), sizes[int(n)]


MODELS = [StartsAsNone, InBranch, BecomesNone, FromMethod, EarlyReturn, ReturnInBranches, BreakAndContinue,
          BreakFromWhile, ListsReturnedEarly, OtherSizes, IndexedByData]


@pytest.mark.parametrize("model", MODELS)
def test_results_equal_pytorch_at_other_lengths(model, tmp_path):
    path, _ = export(model, tmp_path)
    onnx.checker.check_model(str(path), full_check=True)
    scripted = torch.jit.script(model().eval())
    for seed in range(3):
        torch.manual_seed(seed)
        for n in (3, 1, 2, 5, 0):
            assert_equal(path, scripted, torch.rand(6, 4), torch.tensor(n))


class ReturnsNone(nn.Module):
    def forward(self, x, n) -> Optional[torch.Tensor]:
        y: Optional[torch.Tensor] = None
        if int(n) > 2:
            y = x + 1
        return y


class MixedList(nn.Module):
    def forward(self, x, n):
        rows = [x[0], torch.ones(4, dtype=torch.int64)]
        return rows[int(n)]


REFUSED = [(ReturnsNone, "None, as the data has it"), (MixedList, "float32 and of int64")]


@pytest.mark.parametrize("model, words", REFUSED)
def test_what_onnx_cannot_hold_is_refused(model, words, tmp_path):
    path, said = export(model, tmp_path, code=4)
    assert words in said, said
    assert not path.exists()
