"""torch.onnx.export(dynamo=False) records only the last part of a module's name; whence.record records all of it.

The reference is the archive of torch.jit.trace, whose scopes have the complete names."""

import os
import sys
import warnings

import onnx
import pytest
import torch

import command
from live_python.live import recorded_operations

sys.path.insert(0, str(command.ROOT / "python"))
os.environ.setdefault("WHENCE", str(command.BINARY))

import whence  # noqa: E402

nn = torch.nn


class Shift(nn.Module):
    """Has no tensors that would identify it."""

    def forward(self, x):
        return torch.tanh(x) + 1


class CalledByMethod(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = Shift()

    def encode(self, x):
        return self.shift(x)


class SameNameTwice(nn.Module):
    """`a.shift`, called by a method, and `shift`, a child of the caller."""

    def __init__(self):
        super().__init__()
        self.a, self.shift = CalledByMethod(), Shift()

    def forward(self, x):
        return self.shift(self.a.encode(x)) * 2


class OneName(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = CalledByMethod()

    def forward(self, x):
        return self.a.encode(x) * 2


class CallsOfAHook(nn.Module):
    """A hook of `outer` calls `b.shift` before the scope of `outer` is open."""

    def __init__(self):
        super().__init__()
        self.outer, self.b = nn.Sequential(Shift()), CalledByMethod()
        self.outer.register_forward_pre_hook(lambda module, args: (self.b.shift(args[0]),))

    def forward(self, x):
        return self.outer(x) * 2


class CallThatFails(nn.Module):
    """A call that raised also has a scope, but no operation."""

    def __init__(self):
        super().__init__()
        self.fails, self.a, self.shift = nn.Bilinear(1, 1, 1), CalledByMethod(), Shift()

    def forward(self, x):
        try:
            return self.fails(x)
        except TypeError:
            return self.shift(self.a.encode(x))


@pytest.mark.parametrize("case", [SameNameTwice, OneName, CallsOfAHook, CallThatFails])
def test_methods_that_call_modules(case, tmp_path):
    model, x = case().eval(), torch.randn(2, 4)
    before = torch.nn.Module._slow_forward
    with warnings.catch_warnings(), whence.record(tmp_path / "live.whence.json") as recording:
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=False, opset_version=17)
    assert recording.complete and torch.nn.Module._slow_forward is before
    torch.jit.trace(model, x, check_trace=False).save(tmp_path / "m.pt")
    command.run("record", tmp_path / "m.pt", "-o", tmp_path / "archive.whence.json")
    recorded = recorded_operations(tmp_path / "live.whence.json")
    assert recorded == recorded_operations(tmp_path / "archive.whence.json")
    assert any(path == ("b.shift" if case is CallsOfAHook else "a.shift") for _, path, _, _ in recorded)


def test_recording_does_not_change_the_file(tmp_path):
    model, x = SameNameTwice().eval(), torch.randn(2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), tmp_path / "plain.onnx", dynamo=False, opset_version=17)
        with whence.record(tmp_path / "m.whence.json"):
            torch.onnx.export(model, (x,), tmp_path / "recorded.onnx", dynamo=False, opset_version=17)
    assert (tmp_path / "recorded.onnx").read_bytes() == (tmp_path / "plain.onnx").read_bytes()
    onnx.checker.check_model(tmp_path / "recorded.onnx")


def test_recording_does_not_replace_a_model(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"a model")
    with pytest.raises(whence.WhenceError, match="E0101") as raised:
        with whence.record(tmp_path / "model.onnx"):
            raise AssertionError("the block does not run")
    assert "sidecar" in str(raised.value) and (tmp_path / "model.onnx").read_bytes() == b"a model"
