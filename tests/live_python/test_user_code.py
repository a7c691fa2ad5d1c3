"""Records typical user code live: operations, modules, calls and lines equal those of `whence record` for the archive
of the same trace."""

import json
import warnings
from pathlib import Path

import pytest
import torch

import command
from live_python.live import recorded_operations, recording
from sidecar import Sidecar

nn = torch.nn


class IndexAssignment(nn.Module):
    """PyTorch disables the tracer while it prepares these assignments."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        y = self.first(x)
        y[:, 0] = 0
        y[0] = x[1]
        y[:, 1:] = x[:, 1:]
        y[..., 0:2] += 1
        y = self.second(y)
        y[y > 0] = 0
        return torch.relu(y)


class Sometimes(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x if self.calls % 2 else torch.tanh(x)


class CallsWithoutOperations(nn.Module):
    """Calls of `sometimes` count even if they only return their input."""

    def __init__(self):
        super().__init__()
        self.sometimes, self.linear = Sometimes(), nn.Linear(4, 4)

    def forward(self, x):
        self.sometimes.calls = 0
        x = self.sometimes(self.sometimes(x))
        return self.sometimes(self.sometimes(self.linear(x)))


class NameWithColons(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("p::q", nn.Linear(4, 4))
        self.out = nn.Linear(4, 4)

    def forward(self, x):
        return self.out(getattr(self, "p::q")(x).relu())


class SharedWithLeaf(nn.Module):
    """Has a block with two names and a child without tensors."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
        self.all = nn.ModuleList([self.first, nn.Linear(4, 4)])

    def forward(self, x):
        for module in self.all:
            x = module(x) + 1
        return self.first(x)


CASES = (IndexAssignment, CallsWithoutOperations, NameWithColons, SharedWithLeaf)


@pytest.mark.parametrize("case", CASES)
def test_live_recording_equals_the_archive(case, tmp_path):
    with recording(tmp_path / "live.json") as report:
        traced = torch.jit.trace(case().eval(), torch.randn(2, 4), check_trace=False)
    assert report["files"][0]["complete"] and not report["diagnostics"]
    traced.save(str(tmp_path / "m.pt"))
    command.run("record", tmp_path / "m.pt", "-o", tmp_path / "archive.json")
    assert recorded_operations(tmp_path / "live.json") == recorded_operations(tmp_path / "archive.json")

    def modules(name):
        return [(row["path"], row["aliases"]) for row in Sidecar(tmp_path / name).table("modules")]
    assert modules("live.json") == modules("archive.json")


def test_user_operators_run_once(tmp_path):
    calls = []
    library = torch.library.Library("whence_test_once", "DEF")
    library.define("tick(int n) -> Tensor")
    library.impl("tick", lambda n: (calls.append(n), torch.tensor(float(n)))[1], "CompositeExplicitAutograd")

    class Ticks(nn.Module):
        def forward(self, x):
            return x + torch.ops.whence_test_once.tick(5)

    with recording(tmp_path / "m.json"):
        torch.jit.trace(Ticks(), torch.ones(2), check_trace=False)
    assert calls == [5]
    assert "whence_test_once::tick" in [row["target"] for row in Sidecar(tmp_path / "m.json").operations()]


def test_status_inside_a_forward_does_not_hang(tmp_path):
    class CallsStatus(nn.Module):
        def forward(self, x):
            torch.ops.whence.status()
            return x + 1

    with recording(tmp_path / "m.json") as report:
        with pytest.raises(RuntimeError, match="unsupported output type"):  # raised by PyTorch's tracer
            torch.jit.trace(CallsStatus(), torch.ones(2), check_trace=False)
        torch.jit.trace(nn.Linear(2, 2), torch.ones(2), check_trace=False)
    assert [file["complete"] for file in report["files"]] == [True]


@pytest.mark.parametrize("second", [(0, (2, 4)), (1, (2, 4)), (0, (3, 4))], ids=["same", "other weights", "other shape"])
def test_two_traces_in_one_recording(tmp_path, second):
    """Each trace has its own file, unless both files would be equal."""
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval() for _ in range(2)]
    with recording(tmp_path / "m.json") as report, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(models[0], (torch.randn(2, 4),), str(tmp_path / "0.onnx"), dynamo=False)
        torch.onnx.export(models[second[0]], (torch.randn(second[1]),), str(tmp_path / "1.onnx"), dynamo=False)
    files = [file["file"] for file in report["files"]]
    assert len(files) == (1 if second == (0, (2, 4)) else 2)
    for i, file in ((0, files[0]), (1, files[-1])):
        report = command.run_json("annotate", tmp_path / f"{i}.onnx", "--sidecar", file, "-o", tmp_path / "a.onnx")
        assert report["matched"] == report["nodes"], json.dumps(report)


class LoopsOverValue(nn.Module):
    def forward(self, x):
        for _ in range(int(x.sum())):  # this line
            x = x + 1
        return x


class BranchesOnValue(nn.Module):
    def forward(self, x):
        return x + 1 if x.max() > 0 else x - 1  # this line


class BranchesOnEquality(nn.Module):
    def forward(self, x):
        return x + 1 if torch.equal(x, x * 1) else x - 1  # this line


class UsesSizesAndConstants(nn.Module):
    def forward(self, x):
        if x.shape[0] > 1 and bool(torch.ones(1) > 0):
            x = x + int(x.shape[1])
        return x.reshape(int(x.size(0)), -1)


@pytest.mark.parametrize("case", [LoopsOverValue, BranchesOnValue, BranchesOnEquality])
def test_values_used_by_python_are_reported_with_line(case, tmp_path):
    lines = Path(__file__).read_text().splitlines()
    start = lines.index(f"class {case.__name__}(nn.Module):")
    line = next(i for i in range(start, len(lines)) if "# this line" in lines[i]) + 1
    with recording(tmp_path / "m.json") as report:
        torch.jit.trace(case(), torch.ones(2, 2), check_trace=False)
    assert [(diagnostic["code"], diagnostic["where"]["source"]) for diagnostic in report["diagnostics"]] == [
        ("E0309", f"test_user_code.py:{line} forward")]


def test_sizes_and_constants_are_not_values(tmp_path):
    with recording(tmp_path / "m.json") as report:
        torch.jit.trace(UsesSizesAndConstants(), torch.ones(2, 2), check_trace=False)
    assert report["diagnostics"] == [] and report["files"][0]["complete"]
