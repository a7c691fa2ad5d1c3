"""Data-dependent scripted control flow: early returns, break, continue, Optional variables."""

from typing import Dict, List, Optional, Tuple

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from results import assert_same_results
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
    """The variable is a tensor before the loop and None after some iterations."""

    def forward(self, x, n):
        row: Optional[torch.Tensor] = x[5]
        missing = 0
        for t in range(int(n)):
            previous = row
            if previous is None:
                missing += 1
            if x[t].sum() > 2:
                row = None
            else:
                row = x[t] * 2
        return (row if row is not None else x[0] - 1), missing


class FromMethod(nn.Module):
    @torch.jit.export
    def find(self, x, n: int) -> Optional[Tuple[torch.Tensor, torch.Tensor]]:
        for t in range(n):
            if x[t].sum() > 2:
                return x[t], x[t].sum()
        return None

    def forward(self, x, n):
        row_and_sum = self.find(x, int(n))
        if row_and_sum is None:
            return x[0], x[1].sum()
        return row_and_sum[0] * 2, row_and_sum[1]


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
    """PyTorch cannot compute the branch for the example inputs."""

    def forward(self, x, n):
        h = x * 1
        if int(n) > 3:
            h += x[: 2 * int(n) - 9] + 1
        return h


class IndexedByData(nn.Module):
    def forward(self, x, n):
        rows = [x[0], x[1], x[2], x[3], x[4], x[5]]
        selected = rows[int(n)]
        rows[int(n)] = x[0] * 5
        popped = rows.pop(int(n))
        sizes = [4, 3, 2, 5, 1, 7]
        return selected, popped, torch.stack(rows), sizes[int(n)]


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


class MixedList(nn.Module):
    def forward(self, x, n):
        rows = [x[0], torch.ones(4, dtype=torch.int64)]
        return rows[int(n)]


class OtherKeys(nn.Module):
    def forward(self, x, n):
        table: Dict[int, torch.Tensor] = {}
        if int(n) > 2:
            table[1] = x
        else:
            table[2] = x * 2
        return x * 3 if 1 in table else -x


class OneKeyMore(nn.Module):
    def forward(self, x, n):
        table = {"a": x}
        if int(n) > 2:
            table["z"] = x * 5
        return table["a"]


class OtherOrder(nn.Module):
    def forward(self, x, n):
        if int(n) > 2:
            table = {"a": x, "b": x + 1}
        else:
            table = {"b": x * 7, "a": x * 9}
        return list(table.values())[0]


class OtherKeysInLoop(nn.Module):
    def forward(self, x, n):
        table = {1: x}
        for t in range(int(n)):
            table = {2: x * t}
        return table[2] if 2 in table else -x


class NarrowerInExample(nn.Module):
    """The result is an integer for the example, n = 3, and a float for n <= 2."""

    def forward(self, x, n):
        if int(n) > 2:
            y = n
        else:
            y = x[0, 0]
        return y * 2


KEYS = "which keys a dict has, or their order, depends on data at"
REFUSED = [(MixedList, "float32 and of int64"), (OtherKeys, KEYS), (OneKeyMore, KEYS), (OtherOrder, KEYS),
           (OtherKeysInLoop, KEYS),
           (NarrowerInExample, "produce tensors of float32 and of int64")]


@pytest.mark.parametrize("model, words", REFUSED)
def test_values_without_an_onnx_form_are_refused(model, words, tmp_path):
    path, stderr = export(model, tmp_path, code=4)
    assert words in stderr, stderr
    assert not path.exists()


class WiderInExample(nn.Module):
    def forward(self, x, n):
        if int(n) > 2:
            y = x[0, 0]
        else:
            y = n
        return y * 2


def test_a_dtype_that_depends_on_data_is_widened_with_a_warning(tmp_path):
    path, stderr = export(WiderInExample, tmp_path)
    assert "int64 and of float32: in the file both are the latter" in stderr
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = torch.rand(6, 4)
    for n in (3, 1, 2):
        result, = session.run(None, {"x": x.numpy(), "n": torch.tensor(n).numpy()})
        assert result.dtype == "float32" and result == WiderInExample()(x, torch.tensor(n)).float().numpy()


class MayReturnNone(nn.Module):
    def forward(self, x, n) -> Optional[torch.Tensor]:
        if int(n) > 2:
            return x + n
        return None


class NoneFromALoop(nn.Module):
    def forward(self, x, n) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        last: Optional[torch.Tensor] = None
        for t in range(int(n)):
            last = x[t] if x[t].sum() > 2 else None
        return x, last


class NestedNone(nn.Module):
    def forward(self, x, n) -> Tuple[Optional[Tuple[torch.Tensor, torch.Tensor]], Dict[str, Optional[int]]]:
        pair: Optional[Tuple[torch.Tensor, torch.Tensor]] = None
        count: Optional[int] = None
        if int(n) > 2:
            pair = (x + 1, x[0])
            if x.sum() > 12:
                count = 7
        return pair, {"count": count}


def leaves(result, form):
    """Flattens a result with the structure of `form`; a missing tuple yields one None per leaf."""
    if isinstance(form, tuple):
        return [leaf for i, part in enumerate(form) for leaf in leaves(result if result is None else result[i], part)]
    return [result]


@pytest.mark.parametrize("model, form", [(MayReturnNone, 0), (NoneFromALoop, (0, 0)), (NestedNone, ((0, 0), 0))])
def test_optional_results_equal_pytorch(model, form, tmp_path):
    path, _ = export(model, tmp_path)
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    is_none = set()
    for n in range(6):
        x = torch.rand(6, 4)
        result = torch.jit.script(model())(x, torch.tensor(n))
        if model is NestedNone:
            result = (result[0], result[1]["count"])
        expected = leaves(result, form)
        actual = session.run(None, {"x": x.numpy(), "n": torch.tensor(n).numpy()})
        assert [result is None for result in actual] == [result is None for result in expected]
        is_none |= {result is None for result in expected}
        assert_same_results(*([result for result in results if result is not None] for results in (actual, expected)))
    assert is_none == {True, False}


def test_an_optional_result_comes_from_the_branch_itself(tmp_path):
    """As in PyTorch's export, the If returns optional values; no second If tests a flag."""
    graph = onnx.load(export(MayReturnNone, tmp_path)[0]).graph
    branch, = [node for node in graph.node if node.op_type == "If"]
    assert [len(attribute.g.output) for attribute in branch.attribute] == [1, 1]
    for type_ in [graph.output[0].type, *(attribute.g.output[0].type for attribute in branch.attribute)]:
        assert type_.optional_type.elem_type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_an_optional_result_needs_opset_15(tmp_path):
    _, stderr = export(MayReturnNone, tmp_path, "--opset", "14", code=4)
    assert "E0302" in stderr and "--opset 15" in stderr
    export(MayReturnNone, tmp_path, "--opset", "15")


class LoopOverNoClasses(nn.Module):
    """Suppresses boxes class by class, as torchvision does, in an image without boxes."""

    def forward(self, x, n):
        found = torch.zeros_like(x[:, 0])
        for value in torch.unique(x[int(n) + 3 :]):
            found[torch.where(x[:, 0] == value)[0]] = 1.0
        return found


class EmptyOfOtherRank(nn.Module):
    """Decodes boxes as torchvision does: they get an axis unless there are none."""

    def forward(self, x, n):
        selected = x[: int(n)]
        boxes = selected * 2
        if selected.shape[0] > 0:
            boxes = boxes.reshape(selected.shape[0], -1, 2)
        return boxes[..., 1:].reshape(-1)


class OtherRank(nn.Module):
    def forward(self, x, n):
        y = x[int(n):]
        if int(n) > 2:
            y = y.unsqueeze(1)
        return y.transpose(0, 1)


class ResultOfOtherRank(nn.Module):
    def forward(self, x, n):
        if int(n) > 2:
            return x * 2
        return x.sum()


def test_a_tensor_whose_rank_depends_on_data_gets_the_examples_rank(tmp_path):
    """The file is correct at the example's rank; at another rank, it accepts only empty tensors."""
    path, stderr = export(OtherRank, tmp_path)
    assert "E0303" in stderr and "of 3 and 2 axes" in stderr
    assert_equal(path, OtherRank(), torch.rand(6, 4), torch.tensor(4))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    with pytest.raises(Exception, match="(?i)reshape"):
        session.run(None, {"x": torch.rand(6, 4).numpy(), "n": torch.tensor(1).numpy()})


def test_a_list_in_a_loop_that_the_example_never_enters_is_refused(tmp_path):
    _, stderr = export(LoopOverNoClasses, tmp_path, code=4)
    assert "E0302" in stderr and "the example inputs never reach it" in stderr and "try: " in stderr


def test_an_empty_tensor_may_have_another_rank(tmp_path):
    path, _ = export(EmptyOfOtherRank, tmp_path)
    for n in (5, 1, 0):
        assert_equal(path, EmptyOfOtherRank(), torch.rand(6, 4), torch.tensor(n))


def test_a_result_whose_rank_depends_on_data_gets_the_examples_rank(tmp_path):
    path, stderr = export(ResultOfOtherRank, tmp_path)
    assert "the rank of the result" in stderr and "depends on data" in stderr
    onnx.checker.check_model(str(path), full_check=True)
    dims = onnx.load(path).graph.output[0].type.tensor_type.shape.dim
    assert [(dim.HasField("dim_value"), dim.dim_param) for dim in dims] == [(False, "")] * 2
    for n in (1, 3):
        assert_equal(path, ResultOfOtherRank(), torch.rand(6, 4), torch.tensor(n))
