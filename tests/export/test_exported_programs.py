"""torch.export archives (.pt2): results equal PyTorch's, modules equal the trace's, and broken archives are refused."""

import json
import warnings
import zipfile
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch

import command
import file_cache
from models import zoo
from results import assert_same_results

KINDS = ("plain", "decomposed", "dynamic")
# torch.export cannot make an axis dynamic at size 1 or at the maximum length, so dynamic archives use the second sizes.
MODELS = ("bert_tiny", "distilbert", "gpt2", "vit", "mobilenet_v2", "unet", "lstm_tagger", "shared_block")
NOT_DYNAMIC = {"lstm_tagger"}  # torch.export fixes the length of a packed sequence


def exported_program(name: str, kind: str) -> torch.export.ExportedProgram:
    if kind != "dynamic":
        return zoo.program(name).run_decompositions() if kind == "decomposed" else zoo.program(name)
    entry = zoo.MODELS[name]
    inputs = entry.inputs(entry.second)
    shapes = {key: {axis: torch.export.Dim.AUTO for axis in entry.dynamic.get(key, {})} or None for key in inputs}
    return torch.export.export(entry.model(), (), dict(inputs), dynamic_shapes=shapes, strict=False)


@pytest.fixture(scope="module")
def folder():
    return file_cache.folder("exported_programs", Path(__file__), *zoo.SOURCES)


def archive(folder, name: str, kind: str):
    return file_cache.cached(folder / f"{name}.{kind}.pt2", lambda path: torch.export.save(exported_program(name, kind), path))


def tensors(result) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    values = result.values() if hasattr(result, "values") else result
    return [tensor for value in values for tensor in tensors(value)]


def assert_same(path, model, inputs) -> None:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = {value.name for value in session.get_inputs()}
    results = session.run(None, {key: tensor.numpy() for key, tensor in inputs.items() if key in names})
    with torch.no_grad():
        expected = tensors(model(**inputs))
    assert_same_results(results, expected, (1e-4, 1e-5), scaled=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_results_equal_pytorch(folder, tmp_path, name, kind):
    if kind == "dynamic" and name in NOT_DYNAMIC:
        pytest.skip("torch.export fixes the length of a packed sequence")
    entry = zoo.MODELS[name]
    command.run("export", archive(folder, name, kind), "-o", tmp_path / "m.onnx", "--annotate")
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    sizes = [entry.first, entry.second] if kind == "dynamic" else [entry.first]
    for size in sizes:
        assert_same(tmp_path / "m.onnx", entry.model(), entry.inputs(size))


def modules(path) -> set:
    nodes = onnx.load(path, load_external_data=False).graph.node
    return {entry.value for node in nodes for entry in node.metadata_props if entry.key == "pkg.whence.module"
            and node.op_type not in {"Constant", "Reshape", "Transpose", "Expand", "Unsqueeze"}}


@pytest.mark.parametrize("name", MODELS)
def test_modules_equal_those_of_the_trace(folder, tmp_path, name):
    command.run("export", archive(folder, name, "plain"), "-o", tmp_path / "pt2.onnx", "--annotate")
    command.run("export", zoo.trace(name), "-o", tmp_path / "trace.onnx", "--annotate",
                "--inputs", zoo.inputs_file(name))
    assert modules(tmp_path / "pt2.onnx") == modules(tmp_path / "trace.onnx")


def test_recording_needs_no_libtorch(folder, tmp_path):
    """The archive's sidecar annotates the file of PyTorch's exporter."""
    path = archive(folder, "unet", "plain")
    command.run("record", path, "-o", tmp_path / "m.json", env={"WHENCE_RECORDER": "/nowhere"})
    assert json.loads((tmp_path / "m.json").read_text())["source"]["kind"] == "torch.export"
    torch.onnx.export(torch.export.load(path), dynamo=True, f=tmp_path / "m.onnx", optimize=True)
    report = command.run_json("annotate", tmp_path / "m.onnx", "--sidecar", tmp_path / "m.json",
                              "-o", tmp_path / "a.onnx")
    assert report["matched"] >= 0.98 * report["nodes"]


def test_dynamic_renames_a_symbol_of_the_archive(folder, tmp_path):
    path = archive(folder, "unet", "dynamic")
    command.run("export", path, "-o", tmp_path / "m.onnx", "--dynamic", "x:0=images")
    assert onnx.load(tmp_path / "m.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_param == "images"
    stderr = command.run("export", path, "-o", tmp_path / "n.onnx", "--dynamic", "x:1=channels", code=4).stderr
    assert "E0304" in stderr and "dynamic_shapes" in stderr and not (tmp_path / "n.onnx").exists()


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        with torch.no_grad():
            y = self.linear(x) + 1
        self.calls.add_(1)
        (z,) = torch.cond(x.sum() > 0, lambda a: (a + 1,), lambda a: (a - float("inf"),), (y,))
        values, indices = z.max(1)
        return {"values": values, "rest": (indices, y.split([1, 3], 1))}


@pytest.mark.parametrize("sign", [1, -1])
def test_contexts_conditions_and_state_equal_pytorch(tmp_path, sign):
    model, x = Branches().eval(), torch.full((2, 4), 0.5)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    stderr = command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--annotate").stderr
    assert "E0308" in stderr and "'calls'" in stderr
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert [node.op_type for node in graph.node if node.op_type == "If"] == ["If"]
    assert graph.output[0].name == "values"
    assert "linear" in modules(tmp_path / "m.onnx")
    assert_same(tmp_path / "m.onnx", model, {"x": sign * x})


class FractionalRanges(torch.nn.Module):
    """arange(0.1, 1.1, 1.0) has one element in float64 arithmetic and would have two in float32."""

    def forward(self, x):
        return x + torch.arange(0.1, 1.1, 1.0), torch.arange(2.0, -1.0, -0.75)


def test_lengths_of_ranges_equal_pytorch(tmp_path):
    x = torch.randn(2, 1)
    torch.export.save(torch.export.export(FractionalRanges(), (x,)), tmp_path / "range.pt2")
    command.run("export", tmp_path / "range.pt2", "-o", tmp_path / "range.onnx")
    assert_same(tmp_path / "range.onnx", FractionalRanges(), {"x": x})


def rewrite(path, target, change) -> None:
    """Copies an archive with its program's JSON changed."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("models/model.json"):
                document = json.loads(content)
                change(document)
                content = json.dumps(document)
            new.writestr(name, content)


def set_version(major):
    return lambda document: document["schema_version"].update(major=major)


def remove_tensor(document):
    del document["graph_module"]["graph"]["tensor_values"]["conv2d"]


def rename_operator(document):
    document["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.acme.convolve.default"


@pytest.mark.parametrize("change, code, words", [
    (set_version(9), 3, ["E0205", "newer whence"]), (set_version(7), 4, ["E0303", "export it again"]),
    (remove_tensor, 3, ["E0204", "conv2d"]), (rename_operator, 4, ["E0301", "acme::convolve"]),
])
def test_unreadable_programs_are_refused(folder, tmp_path, change, code, words):
    rewrite(archive(folder, "unet", "plain"), tmp_path / "m.pt2", change)
    (tmp_path / "out.onnx").write_text("before")
    error = command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "out.onnx", code=code).stderr
    assert all(word in error for word in words) and "try:" in error
    assert (tmp_path / "out.onnx").read_text() == "before"


def compress(old, target) -> None:
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in source.namelist():
            new.writestr(name, source.read(name))


def add_member(name: str):
    def make(old, target) -> None:
        target.write_bytes(old.read_bytes())
        with zipfile.ZipFile(target, "a", zipfile.ZIP_STORED) as new, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the duplicate name
            new.writestr(name, b"x")
    return make


def truncate(old, target) -> None:
    target.write_bytes(old.read_bytes()[:-400])


def shorten_weight(old, target) -> None:
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in source.namelist():
            content = source.read(name)
            new.writestr(name, content[:-4] if name.endswith("weight_0") else content)


@pytest.mark.parametrize("make, code, words", [
    (compress, 4, ["E0303", "compressed"]), (add_member("../evil"), 6, ["E0502"]),
    (add_member("unet.plain/data/weights/weight_0"), 3, ["E0204", "twice"]),
    (truncate, 3, ["E020"]), (shorten_weight, 3, ["E0204", "shorter"]),
])
def test_broken_archives_are_refused(folder, tmp_path, make, code, words):
    source = archive(folder, "unet", "plain")
    make(source, tmp_path / "m.pt2")
    stderr = command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "out.onnx", code=code).stderr
    assert all(word in stderr for word in words) and not (tmp_path / "out.onnx").exists()


class Strided(torch.nn.Module):
    """The sizes of the norms are expressions of the sizes of x, because the convolution is strided."""

    def __init__(self):
        super().__init__()
        self.constant = torch.arange(8.0).reshape(8, 1, 1)
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.GroupNorm(4, 8),
                                          torch.nn.InstanceNorm2d(8))

    def forward(self, x):
        return self.layers(x) + self.constant


@pytest.mark.parametrize("kind", ["plain", "decomposed"])
def test_norms_over_derived_sizes_equal_pytorch(tmp_path, kind):
    torch.manual_seed(0)
    model, auto = Strided().eval(), torch.export.Dim.AUTO
    program = torch.export.export(model, (torch.randn(2, 3, 16, 20),), dynamic_shapes=({0: auto, 2: auto, 3: auto},))
    torch.export.save(program if kind == "plain" else program.run_decompositions(), tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    for shape in [(2, 3, 16, 20), (3, 3, 21, 14)]:
        assert_same(tmp_path / "m.onnx", model, {"x": torch.randn(shape)})
    signature = {entry.key: entry.value for entry in onnx.load(tmp_path / "m.onnx").graph.metadata_props}[
        "pkg.torch.export.ExportedProgram.graph_signature"]
    kinds = {kind for line in str(program.graph_signature).splitlines() for kind in line.split()
             if kind == "CONSTANT_TENSOR"}
    assert kinds == {"CONSTANT_TENSOR"} and "CONSTANT_TENSOR" in signature and "TENSOR_CONSTANT" not in signature


@pytest.mark.parametrize("option", [("--inputs", "nowhere.npz"), ("--input", "x=float32[1]")])
def test_example_inputs_for_a_pt2_archive_are_an_error(folder, tmp_path, option):
    path = archive(folder, MODELS[0], KINDS[0])
    result = command.run("export", path, "-o", tmp_path / "m.onnx", *option, code=2)
    assert result.stderr.startswith("E0101") and "leave out" in result.stderr
    assert not (tmp_path / "m.onnx").exists()
