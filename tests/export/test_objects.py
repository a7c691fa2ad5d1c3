"""Instances of TorchScript classes in data-dependent branches and loops: attributes may change, but a name must keep
its instance. Also scripts that test the identity or the memory layout of tensors."""

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


def test_changed_attributes_of_one_object_are_exported(tmp_path):
    path, _ = export(OneObject, tmp_path)
    for n in (0, 1, 3, 4):
        assert_equal(path, OneObject(), torch.rand(6, 4), torch.tensor(n))


class NewInstance(nn.Module):
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


@pytest.mark.parametrize("model", [NewInstance, Exchanged, Chosen], ids=lambda model: model.__name__)
def test_names_that_change_their_object_are_refused(tmp_path, model):
    path, stderr = export(model, tmp_path, code=4)
    assert "E0303" in stderr and "object" in stderr and "attributes of one object" in stderr and not path.exists()


class MayHoldRow(nn.Module):
    """The attribute aliases `row`, which is written to afterwards, only if the loop runs."""

    def forward(self, x, n):
        row = (x * 2)[0]
        state = State(x[1])
        for t in range(int(n)):
            state.h = row
        row.mul_(0.5)
        return state.h


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_writes_to_a_tensor_that_an_object_may_hold(tmp_path, trips):
    path, _ = export(MayHoldRow, tmp_path)
    assert_equal(path, MayHoldRow(), torch.rand(6, 4), torch.tensor(trips))


class Identity(nn.Module):
    def forward(self, x, n):
        z = x * 2
        y = z.add_(1)
        if y is z and x is not z:
            return y * 2
        return y * 3


def test_an_in_place_operator_returns_its_argument(tmp_path):
    path, _ = export(Identity, tmp_path)
    assert_equal(path, Identity(), torch.rand(6, 4), torch.tensor(1))


class MayBeInput(nn.Module):
    def forward(self, x, n):
        z = x
        if int(n) > 2:
            z = x * 2
        if z is x:
            return z * 3
        return z


def test_data_dependent_identity_is_refused(tmp_path):
    path, stderr = export(MayBeInput, tmp_path, code=4)
    assert "E0303" in stderr and "'is'" in stderr and not path.exists()


class ReadsContiguity(nn.Module):
    def forward(self, x, n):
        y = x.transpose(0, 1)
        if y.is_contiguous():
            return y * 2
        return y + n


def test_a_memory_layout_that_depends_on_sizes_is_reported(tmp_path):
    path, stderr = export(ReadsContiguity, tmp_path, "--dynamic", "x:0=rows")
    assert "E0304" in stderr and "is_contiguous" in stderr
    assert_equal(path, ReadsContiguity(), torch.rand(5, 4), torch.tensor(1))
