"""The Python package against a model with keyword arguments and a dataclass for a result, by every backend."""

import os
import sys
import warnings
from dataclasses import dataclass

import pytest
import torch

import command

sys.path.insert(0, str(command.ROOT / "python"))
os.environ.setdefault("WHENCE", str(command.BINARY))

import whence  # noqa: E402
from models import zoo  # noqa: E402
from sidecar import Sidecar  # noqa: E402


@dataclass
class Result:
    hidden: torch.Tensor
    pooled: torch.Tensor | None = None


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return x + self.linear(self.norm(x))


class Net(torch.nn.Module):
    """x: float32[n, 4]; scale: float32[4] or None; pool: bool -> Result"""

    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x, *, scale=None, pool=False):
        for block in self.blocks:
            x = block(x)
        x = x if scale is None else x * scale
        return Result(x, x.mean(0) if pool else None)


ARGUMENTS = {"scale": torch.rand(4), "pool": True}
PATHS = {"", "blocks.0", "blocks.0.norm", "blocks.0.linear", "blocks.1", "blocks.1.norm", "blocks.1.linear"}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("backend", ["native", "torch-dynamo", "torch-torchscript"])
def test_export(backend, tmp_path):
    model, example = Net().eval(), torch.randn(3, 4)
    report = whence.export(model, (example,), tmp_path / "m.onnx", backend, kwargs=ARGUMENTS,
                           dynamic_axes={"x": {0: "n"}})
    assert report.validation.coverage.percent == 100 and report.validation.clean
    modules = {row["module"] for row in Sidecar(report.sidecar).operations()}
    assert modules | {"blocks.0", "blocks.1"} == PATHS
    assert "forward" not in model.__dict__  # the model is as it was

    import onnxruntime

    session = onnxruntime.InferenceSession(report.path, providers=["CPUExecutionProvider"])
    values = dict(zip((each.name for each in session.get_inputs()), (example.numpy(), ARGUMENTS["scale"].numpy())))
    expected = model(example, **ARGUMENTS)
    for got, wanted in zip(session.run(None, values), (expected.hidden, expected.pooled), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["native", "torch-torchscript"])
def test_export_of_a_scripted_module(backend, tmp_path):
    report = whence.export(torch.jit.script(Block().eval()), torch.randn(3, 4), tmp_path / "m.onnx", backend)
    assert report.validation.coverage.percent == 100


def test_three_captures_agree(tmp_path):
    """The export call, torch.jit.trace, and the names that PyTorch itself keeps in _trace_module_map."""
    entry = zoo.MODELS["distilbert"]
    model, inputs = entry.model(), entry.inputs(entry.first)
    with whence.record(tmp_path / "trace.whence.json") as recording:
        traced = zoo.trace_module(model, inputs)
    assert recording.complete
    whence.export(model, (), tmp_path / "m.onnx", "torch-torchscript", kwargs=inputs)

    def nodes(graph):
        for node in graph.nodes():
            if node.kind().startswith("aten::"):
                yield node.kind(), node.scopeName().rpartition("/")[2].removeprefix("__module").removeprefix(".")

    kept_by_torch = list(nodes(traced.inlined_graph))
    for name in ("trace", "m"):
        rows = [(row["target"], row["module"]) for row in Sidecar(tmp_path / f"{name}.whence.json").operations()]
        assert [row for row in rows if row[0].startswith("aten::")] == kept_by_torch, name


def test_compare_and_html(tmp_path):
    model, example = Net().eval(), torch.randn(3, 4)
    torch.onnx.export(model.blocks[0], (example,), str(tmp_path / "plain.onnx"), dynamo=False)
    report = whence.export(model.blocks[0], example, tmp_path / "m.onnx", "torch-torchscript")
    comparison = whence.compare(tmp_path / "plain.onnx", report.path)
    assert comparison.baseline.metadata == 0 < comparison.enhanced.metadata
    assert comparison.enhanced.full_path == comparison.enhanced.nodes
    assert comparison.baseline.bytes < comparison.enhanced.bytes and "full path" in str(comparison)
    page = report.validation.to_html(tmp_path / "report.html").read_text()
    assert "norm" in page and "http" not in page


def test_a_graph_that_raises_leaves_a_record(tmp_path):
    class Bad(Block):
        def forward(self, x):
            super().forward(x)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        with whence.record(tmp_path / "m.whence.json") as recording:
            zoo.trace_module(Bad().eval(), {"x": torch.randn(2, 4)})
    assert recording.files and not recording.complete


def test_errors_carry_codes(tmp_path):
    with pytest.raises(whence.WhenceError) as raised:
        whence.validate(tmp_path / "missing.onnx")
    assert raised.value.code == "E0102" and raised.value.remedy
    with pytest.raises(whence.WhenceError) as raised:
        with whence.record(tmp_path / "none" / "m.whence.json"):
            pass
    assert raised.value.code == "E0401"
    with pytest.raises(whence.WhenceError) as raised:
        with whence.record(tmp_path / "m.whence.json"):
            with whence.record(tmp_path / "n.whence.json"):
                pass
    assert raised.value.code == "E0106"
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(Net(), (), tmp_path / "m.onnx")
    assert raised.value.code == "E0104"
    (tmp_path / "text.onnx").write_text("not a model at all, but text")
    with pytest.raises(whence.WhenceError):
        whence.compare(tmp_path / "text.onnx", tmp_path / "text.onnx")


def test_a_plugin_for_another_torch_is_refused(monkeypatch, tmp_path):
    (tmp_path / "torch_version.txt").write_text("2.5.1\n")
    monkeypatch.setattr(whence.plugin, "FOLDER", tmp_path)
    with pytest.raises(whence.WhenceError) as raised:
        with whence.record(tmp_path / "m.whence.json"):
            pass
    assert raised.value.code == "E0307"
    assert "2.5.1" in str(raised.value) and torch.__version__.partition("+")[0] in str(raised.value)
