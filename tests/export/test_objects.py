"""Instances of TorchScript classes in branches and loops on data: their attributes may change, not which one a name has.
Scripts that ask whether two tensors are one, or how one lies in memory."""

import pytest
import torch
from torch import Tensor, nn

from scripted import assert_equal, export


@torch.jit.script
class State:
    def __init__(self, h: Tensor):
        self.h = h


class OneObject(nn.Module):
    def forward(self, x, n):
        state = State(x[0])
        for t in range(int(n)):
            state.h = state.h + x[t]
        if bool(n > 2):
            state.h = state.h * 2
        return state.h


def test_attributes_of_one_object_are_exported(tmp_path):
    path, _ = export(OneObject, tmp_path)
    for n in (0, 1, 3, 4):
        assert_equal(path, OneObject(), torch.rand(6, 4), torch.tensor(n))


class MadeAnew(nn.Module):
    def forward(self, x, n):
        state = State(x[0])
        for t in range(int(n)):
            state = State(state.h + x[t])
        return state.h


class Exchanged(nn.Module):
    def forward(self, x, n):
        one, other = State(x[0]), State(x[1])
        for t in range(int(n)):
            one, other = other, one
        return one.h


class Chosen(nn.Module):
    def forward(self, x, n):
        if int(n) > 1:
            state = State(x[1])
        else:
            state = State(x[2])
        return state.h + 1


@pytest.mark.parametrize("model", [MadeAnew, Exchanged, Chosen], ids=lambda model: model.__name__)
def test_objects_that_take_each_others_place_are_refused(tmp_path, model):
    path, said = export(model, tmp_path, code=4)
    assert "E0303" in said and "object" in said and "attributes of one object" in said and not path.exists()


class PerhapsHolds(nn.Module):
    """The attribute is what is written afterwards, where the loop runs at all."""

    def forward(self, x, n):
        row = (x * 2)[0]
        state = State(x[1])
        for t in range(int(n)):
            state.h = row
        row.mul_(0.5)
        return state.h


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_what_an_object_may_hold_is_written(tmp_path, trips):
    path, _ = export(PerhapsHolds, tmp_path)
    assert_equal(path, PerhapsHolds(), torch.rand(6, 4), torch.tensor(trips))


class OneUnderTwoNames(nn.Module):
    def forward(self, x, n):
        z = x * 2
        y = z.add_(1)
        if y is z and x is not z:
            return y * 2
        return y * 3


def test_what_an_operation_in_place_returns_is_its_argument(tmp_path):
    path, _ = export(OneUnderTwoNames, tmp_path)
    assert_equal(path, OneUnderTwoNames(), torch.rand(6, 4), torch.tensor(1))


class PerhapsOne(nn.Module):
    def forward(self, x, n):
        z = x
        if int(n) > 2:
            z = x * 2
        if z is x:
            return z * 3
        return z


def test_whether_two_tensors_are_one_is_refused_where_data_decide(tmp_path):
    path, said = export(PerhapsOne, tmp_path, code=4)
    assert "E0303" in said and "'is'" in said and not path.exists()


class AsksForOrder(nn.Module):
    def forward(self, x, n):
        y = x.transpose(0, 1)
        if y.is_contiguous():
            return y * 2
        return y + n


def test_an_order_in_memory_that_depends_on_sizes_is_told(tmp_path):
    path, said = export(AsksForOrder, tmp_path, "--dynamic", "x:0=rows")
    assert "E0304" in said and "is_contiguous" in said
    assert_equal(path, AsksForOrder(), torch.rand(5, 4), torch.tensor(1))
