"""The Python package with every backend, on a model with keyword arguments whose result is a dataclass."""

import ast
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import command

sys.path.insert(0, str(command.ROOT / "python"))
os.environ.setdefault("WHENCE", str(command.BINARY))

import whence  # noqa: E402
from models import zoo  # noqa: E402
from sidecar import Sidecar  # noqa: E402

pytestmark = pytest.mark.usefixtures("quiet")


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


@pytest.mark.parametrize("backend", ["native", "native-export", "torch-dynamo", "torch-torchscript"])
def test_export(backend, tmp_path):
    model, example = Net().eval(), torch.randn(3, 4)
    report = whence.export(model, (example,), tmp_path / "m.onnx", backend, kwargs=ARGUMENTS,
                           dynamic_axes={"x": {0: "n"}})
    assert report.validation.coverage.percent == 100 and report.validation.clean
    modules = {row["module"] for row in Sidecar(report.sidecar).operations()}
    assert modules | {"blocks.0", "blocks.1"} == PATHS
    assert "forward" not in model.__dict__  # the model is unchanged

    import onnxruntime

    session = onnxruntime.InferenceSession(report.path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    values = dict(zip(names, (example.numpy(), ARGUMENTS["scale"].numpy()), strict=True))
    expected = model(example, **ARGUMENTS)
    for got, expected_output in zip(session.run(None, values), (expected.hidden, expected.pooled), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), expected_output, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["native", "torch-torchscript"])
def test_export_of_a_scripted_module(backend, tmp_path):
    report = whence.export(torch.jit.script(Block().eval()), torch.randn(3, 4), tmp_path / "m.onnx", backend)
    assert report.validation.coverage.percent == 100


def test_three_captures_agree(tmp_path):
    """Compares an export, torch.jit.trace, and PyTorch's own names in _trace_module_map."""
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

    pytorch_nodes = list(nodes(traced.inlined_graph))
    for name in ("trace", "m"):
        rows = [(row["target"], row["module"]) for row in Sidecar(tmp_path / f"{name}.whence.json").operations()]
        assert [row for row in rows if row[0].startswith("aten::")] == pytorch_nodes, name


def exporter_scopes(path) -> dict[str, str]:
    """Returns the module path of each node, as written by PyTorch's exporter."""
    import onnx

    scopes = {}
    for node in onnx.load(path).graph.node:
        text = {entry.key: entry.value for entry in node.metadata_props}.get("pkg.torch.onnx.name_scopes")
        if text:
            scopes[node.name] = ast.literal_eval(text)[-2]
    return scopes


def test_dynamo_export_is_recorded_from_the_exported_program(tmp_path):
    entry = zoo.MODELS["bert_tiny"]
    model, file = entry.model(), tmp_path / "m.onnx"
    with whence.record(tmp_path / "m.whence.json") as recording:
        torch.onnx.export(model, (), str(file), kwargs=entry.inputs(entry.first), dynamo=True, verbose=False)
    assert [file["file"] for file in recording.files] == [str(tmp_path / "m.whence.json")] and recording.complete
    assert torch.onnx.export.__module__.startswith("torch") and not hasattr(torch.onnx.export, "__wrapped__")
    sources = {row["target"] for row in Sidecar(tmp_path / "m.whence.json").operations()}
    assert "aten::linear" in sources  # operators of torch.export, before any decomposition by a trace

    expected = exporter_scopes(file)
    whence.annotate(file, tmp_path / "m.whence.json")
    import onnx

    actual = {}
    for node in onnx.load(file).graph.node:
        data = {prop.key: prop.value for prop in node.metadata_props}
        actual[data.get("pkg.whence.original_name", node.name)] = data["pkg.whence.module"]
    assert len(expected) > 50 and actual == expected


def test_trace_and_two_exported_programs_in_one_recording(tmp_path):
    x = torch.randn(2, 4)
    with whence.record(tmp_path / "m.whence.json") as recording:
        zoo.trace_module(Block().eval(), {"x": x})
        first = torch.export.export(Block().eval(), (x,))
        torch.onnx.export(first, f=str(tmp_path / "first.onnx"), dynamo=True, verbose=False)  # already recorded
        torch.export.export(torch.nn.Sequential(Block(), torch.nn.ReLU()).eval(), (x,))
    assert [Path(file["file"]).name for file in recording.files] == [
        "m.whence.json", "m.2.whence.json", "m.3.whence.json"]
    modules = [{row["module"] for row in Sidecar(file["file"]).operations()} for file in recording.files]
    assert modules[0] == modules[1] == {"", "norm", "linear"} and modules[2] == {"0", "0.norm", "0.linear", "1"}


def test_failing_torch_export_raises_its_own_exception(tmp_path):
    class Refuses(torch.nn.Module):
        def forward(self, x):
            raise ValueError("not this model")

    with pytest.raises(Exception, match="not this model"):
        with whence.record(tmp_path / "m.whence.json"):
            torch.export.export(Refuses(), (torch.randn(2),))
    assert not hasattr(torch.export.export, "__wrapped__") and not (tmp_path / "m.whence.json").exists()


def test_compare_and_html(tmp_path):
    model, example = Net().eval(), torch.randn(3, 4)
    torch.onnx.export(model.blocks[0], (example,), str(tmp_path / "plain.onnx"), dynamo=False)
    report = whence.export(model.blocks[0], example, tmp_path / "m.onnx", "torch-torchscript")
    comparison = whence.compare(tmp_path / "plain.onnx", report.path)
    baseline, enhanced = comparison.baseline, comparison.enhanced
    assert baseline["unattributed"] == baseline["nodes"] and enhanced["unattributed"] == 0 < enhanced["matched"]
    assert enhanced["full_hierarchies"] == enhanced["nodes"]
    assert baseline["bytes"] < enhanced["bytes"] and "full hierarchies" in str(comparison)
    page = report.validation.to_html(tmp_path / "report.html").read_text()
    assert "norm" in page and "http" not in page


def test_trace_that_raises_leaves_a_partial_record(tmp_path):
    class Bad(Block):
        def forward(self, x):
            super().forward(x)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        with whence.record(tmp_path / "m.whence.json") as recording:
            zoo.trace_module(Bad().eval(), {"x": torch.randn(2, 4)})
    assert recording.files and not recording.complete


@pytest.mark.parametrize("backend", ["native", "native-export", "torch-dynamo", "torch-torchscript"])
def test_dynamic_axes(backend, tmp_path):
    import onnx

    x = torch.randn(3, 4)
    report = whence.export(Block().eval(), x, tmp_path / "m.onnx", backend, dynamic_axes={"x": [0]})
    dims = onnx.load(report.path).graph.input[0].type.tensor_type.shape.dim
    assert dims[0].dim_param and dims[1].dim_value == 4
    assert dims[0].dim_param == "x_dynamic_axes_1"
    for axes, fragment in (({"nope": {0: "n"}}, "nope"), ({"x": {2: "n"}}, "rank is 2"), ({"x": {-1: "n"}}, "axis -1")):
        with pytest.raises(whence.WhenceError, match=fragment) as raised:
            whence.export(Block().eval(), x, tmp_path / "n.onnx", backend, dynamic_axes=axes)
        assert raised.value.code == "E0104" and raised.value.remedy and not (tmp_path / "n.onnx").exists()


@pytest.mark.parametrize("backend", ["native", "native-export", "torch-dynamo", "torch-torchscript"])
def test_options_have_the_same_effect_with_every_backend(backend, tmp_path):
    import onnx

    model, x = Block().eval(), torch.randn(3, 4)
    report = whence.export(model, x, tmp_path / "m.onnx", backend, input_names=["tokens"], output_names=["states"],
                           keep_initializers_as_inputs=True)
    graph = onnx.load(report.path).graph
    assert graph.input[0].name == "tokens" and graph.output[0].name == "states" and len(graph.input) > 4
    assert whence.verify(report.path, model, x).ok
    if backend != "torch-dynamo":  # torch-dynamo lacks this option
        without_weights = whence.export(model, x, tmp_path / "bare.onnx", backend, export_params=False)
        inputs = [value.name for value in onnx.load(without_weights.path).graph.input]
        assert {"linear.weight", "linear.bias", "norm.weight", "norm.bias"} <= set(inputs)


class Lacking(torch.nn.Module):
    """whence has no converter for matrix_exp."""

    def forward(self, x):
        return torch.linalg.matrix_exp(x)


def test_chain_of_backends_reports_the_backend_used(tmp_path):
    model, x = Branches().eval(), torch.ones(3, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = whence.export(model, x, tmp_path / "m.onnx", ["torch-dynamo", "native"])
    assert report.backend == "native" and [name for name, _ in report.fell_back] == ["torch-dynamo"]
    assert any("torch-dynamo failed" in str(warning.message) for warning in caught)
    assert whence.verify(report.path, model, x).ok
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(Lacking(), x, tmp_path / "n.onnx", ["native"])
    assert raised.value.code == "E0301" and not (tmp_path / "n.onnx").exists()
    for wrong in ([], ["nobody"]):
        with pytest.raises(whence.WhenceError) as raised:
            whence.export(model, x, tmp_path / "n.onnx", wrong)
        assert raised.value.code == "E0101"


class Branches(torch.nn.Module):
    """Branches on data: a trace contains only one branch, and torch.export refuses the model."""

    def forward(self, x):
        return x + 1 if bool(x.sum() > 0) else x - 1


@pytest.mark.parametrize("backend", ["native", "native-export", "torch-dynamo", "torch-torchscript"])
def test_mode_of_the_model(backend, tmp_path):
    import onnx

    model, x = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).train(), torch.randn(3, 4)
    model[0].eval()  # mixed modes
    report = whence.export(model, x, tmp_path / "m.onnx", backend)
    assert model.training and not model[0].training and model[1].training
    with torch.no_grad():
        assert whence.verify(report.path, torch.nn.Sequential(model[0]), x).ok  # dropout is inactive
    report = whence.export(model, x, tmp_path / "t.onnx", backend, training="preserve")
    assert "Dropout" in [node.op_type for node in onnx.load(report.path).graph.node]
    assert model.training and not model[0].training
    with pytest.raises(Exception):
        whence.export(model, torch.randn(3, 5), tmp_path / "m.onnx", backend)
    assert model.training and not model[0].training


def test_custom_translation_table(tmp_path):
    """Translates a user-defined operator, and one that whence could convert itself."""
    import onnx
    import onnxscript
    from onnxscript import opset18 as op

    library = torch.library.Library("whence_test_custom", "DEF")
    library.define("scaled(Tensor x, Tensor y, float factor, int unused=3) -> Tensor")
    library.impl("scaled", lambda x, y, factor, unused=3: (x - y) * factor, "CompositeExplicitAutograd")

    class Uses(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = torch.nn.GELU()

        def forward(self, x):
            return torch.ops.whence_test_custom.scaled(self.act(x), x, 2.5)

    user_opset = onnxscript.values.Opset("mine", 1)

    @onnxscript.script(user_opset)
    def scaled(x, y, factor: float):
        return op.Mul(op.Sub(x, y), op.Constant(value_float=factor))

    @onnxscript.script(user_opset)
    def gelu(x):
        return op.Mul(x, op.Sigmoid(op.Mul(x, op.Constant(value_float=1.702))))

    model, x = Uses().eval(), torch.randn(2, 3)
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(model, x, tmp_path / "m.onnx", "native-export")
    assert raised.value.code == "E0301"
    table = {torch.ops.whence_test_custom.scaled.default: scaled, "aten::gelu": gelu}
    report = whence.export(model, x, tmp_path / "m.onnx", "native-export", custom_translation_table=table)
    onnx.checker.check_model(str(report.path), full_check=True)
    file = onnx.load(report.path)
    assert [node.op_type for node in file.graph.node] == ["gelu", "scaled"] and len(file.functions) == 2
    import onnxruntime

    got = onnxruntime.InferenceSession(report.path, providers=["CPUExecutionProvider"]).run(None, {"x": x.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(got), (x * torch.sigmoid(1.702 * x) - x) * 2.5, rtol=1e-4, atol=1e-5)
    modules = {entry.key: entry.value for entry in file.graph.node[0].metadata_props}
    assert modules["pkg.whence.module"] == "act" and modules["pkg.whence.confidence"] == "exact"
    for wrong in ({"scaled": scaled}, {"mine::scaled": "scaled"}):
        with pytest.raises(whence.WhenceError) as raised:
            whence.export(model, x, tmp_path / "n.onnx", "native-export", custom_translation_table=wrong)
        assert raised.value.code == "E0104"


def test_report_of_the_native_backend(tmp_path):
    whence.export(Block().eval(), torch.randn(3, 4), tmp_path / "m.onnx", report=tmp_path / "r.md")
    assert "`linear`" in (tmp_path / "r.md").read_text()
    with pytest.raises(whence.WhenceError, match="native"):
        whence.export(Block().eval(), torch.randn(3, 4), tmp_path / "m.onnx", "torch-dynamo", report="r.md")


def test_verify_names_the_first_module_that_differs(tmp_path):
    import onnx
    from onnx import numpy_helper

    model, example = Net().eval(), torch.randn(3, 4)
    path = whence.export(model, (example,), tmp_path / "m.onnx", kwargs=ARGUMENTS).path
    good = whence.verify(path, model, (example,), kwargs=ARGUMENTS)
    assert good.ok and [output.name for output in good.outputs] == ["hidden", "pooled"] and "equal" in str(good)
    file = onnx.load(path)
    bias = next(tensor for tensor in file.graph.initializer if tensor.name == "blocks.1.linear.bias")
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + 1, bias.name))
    onnx.save(file, tmp_path / "wrong.onnx")
    bad = whence.verify(tmp_path / "wrong.onnx", model, (example,), kwargs=ARGUMENTS)
    assert not bad.ok and bad.first_module == "blocks.1.linear" and bad.modules_compared == 7
    assert "blocks.1.linear" in str(bad) and abs(bad.outputs[1].largest - float(1 * ARGUMENTS["scale"].max())) < 1e-4
    with pytest.raises(whence.WhenceError) as raised:
        whence.verify(path, Block(), example)
    assert raised.value.code == "E0104"


def test_export_with_an_incomplete_record_fails(tmp_path):
    import threading

    class TracedByTwoThreads(Block):
        """Is traced in two threads at once, which PyTorch cannot keep apart."""

        def forward(self, x):
            is_traced = torch.jit.is_tracing()
            if is_traced:
                barrier.wait(60)
            x = super().forward(x)
            if is_traced:
                barrier.wait(60)
            return x

    barrier = threading.Barrier(2)
    other = threading.Thread(target=lambda: zoo.trace_module(TracedByTwoThreads().eval(), {"x": torch.randn(2, 4)}))
    other.start()
    try:
        with pytest.raises(whence.WhenceError, match="two threads") as raised:
            whence.export(TracedByTwoThreads().eval(), torch.randn(3, 4), tmp_path / "m.onnx", "torch-torchscript")
    finally:
        barrier.abort()
        other.join()
    assert raised.value.code == "E0106"


def test_errors_have_codes(tmp_path):
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
    with pytest.raises(whence.WhenceError, match="not a torch.nn.Module") as raised:
        whence.export(lambda x: x, torch.ones(2), tmp_path / "m.onnx")
    assert raised.value.code == "E0104"
    (tmp_path / "text.onnx").write_text("not a model, but text")
    with pytest.raises(whence.WhenceError):
        whence.compare(tmp_path / "text.onnx", tmp_path / "text.onnx")


@pytest.mark.parametrize("name", ["naming", "Naming"])
def test_error_for_a_removed_name_states_the_replacement(name):
    with pytest.raises(AttributeError, match=rf"whence\.{name} was removed: validate\(model\)\.raw\['naming'\]"):
        getattr(whence, name)
    assert name not in whence.__all__


def test_plugin_for_another_torch_is_refused(monkeypatch, tmp_path):
    library = tmp_path / "libwhence_recorder.so"
    subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", '-DWHENCE_TORCH_VERSION="2.5.1"', f"-I{command.ROOT}", f"-I{command.ROOT / 'include'}",
                    command.ROOT / "recorder" / "entry" / "entry.cpp", command.BINARY.parents[1] / "libwhence_schema.a",
                    "-o", library], check=True)
    monkeypatch.setenv("WHENCE_RECORDER", str(library))
    for _ in range(2):  # the second time, the library that failed is already loaded
        with pytest.raises(whence.WhenceError) as raised:
            with whence.record(tmp_path / "m.whence.json"):
                pass
        assert raised.value.code == "E0307"
    running = torch.__version__.partition("+")[0]
    assert "built for PyTorch 2.5.1" in str(raised.value) and f"is {running}" in str(raised.value)
    assert f"TORCH_DIR={Path(torch.__file__).parent}" in raised.value.remedy


def test_scripted_function():
    @torch.jit.script
    def doubled(x, by: float):
        return x.to("cpu") * by

    program = whence.export(doubled, (torch.randn(3), 2.0), dynamic_axes={"x": [0]})
    x = torch.randn(5)
    torch.testing.assert_close(program(x, 2.0)[0], x * 2)


@pytest.mark.parametrize("prepare", [lambda model: model, torch.jit.script], ids=["traced", "scripted"])
def test_inputs_of_a_dtype_that_libtorch_cannot_load(prepare):
    class Widens(torch.nn.Module):
        def forward(self, x):
            return x.to(torch.float32) + 1

    x = torch.randn(3).to(torch.float8_e4m3fn)
    program = whence.export(prepare(Widens()), x, opset_version=19)
    torch.testing.assert_close(program(x)[0], Widens()(x))


@pytest.mark.parametrize("names", [None, ["x", "sum", "again"]])
@pytest.mark.parametrize("external", [False, True])
def test_torch_dynamo_returns_inputs_unchanged(names, external, tmp_path):
    import onnx
    import onnxruntime

    class Returns(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x, y):
            return x, self.layer(y) + x, x

    model, x, y = Returns().eval(), torch.randn(3, 4), torch.randn(3, 4)
    whence.export(model, (x, y), tmp_path / "m.onnx", "torch-dynamo", output_names=names, external_data=external)
    onnx.checker.check_model(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert [value.name for value in session.get_inputs()] == ["x", "y"]
    outputs = [value.name for value in session.get_outputs()]
    assert len(set(outputs)) == 3 and (names is None or outputs == names)
    got = session.run(None, {"x": x.numpy(), "y": y.numpy()})
    for value, expected in zip(got, model(x, y), strict=True):
        torch.testing.assert_close(torch.from_numpy(value), expected.detach())


def test_help_of_python_subcommands_needs_no_python_on_the_path(tmp_path):
    """As after an installation by pipx, when python3 is another Python without the package."""
    for words in (["help", "fleet"], ["fleet", "--help"]):
        result = subprocess.run([sys.executable, "-m", "whence", *words], capture_output=True, text=True,
                              env={**os.environ, "PATH": str(tmp_path), "WHENCE_PYTHON": str(tmp_path / "python3")})
        assert result.returncode == 0 and result.stdout.startswith("usage: whence fleet"), result.stdout + result.stderr
