"""Tests each row of the table in docs/coming-from-torch-onnx.md; rows without a test and tests without a row fail. Each
test compares the effect of the option in the command and in the package with torch.onnx.export or with the model."""

import inspect
import re
import warnings
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import onnxscript
import pytest
import torch
import whence
from onnxscript import opset18 as op

import command

TESTS: dict[str, Callable] = {}
X = torch.randn(3, 4)


def row(first_cell: str):
    def register(test: Callable) -> Callable:
        TESTS[first_cell] = test
        return test
    return register


def table() -> list[list[str]]:
    text = (command.ROOT / "docs" / "coming-from-torch-onnx.md").read_text()
    block = text.split("| torch.onnx | whence export |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()[2:]]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.norm = torch.nn.LayerNorm(4)
        self.linear = torch.nn.Linear(4, 300)

    def forward(self, x):
        return self.linear(self.norm(x)), x + 1


class Archives:
    """One module as archives of both front ends for the command, and in memory for PyTorch's exporter."""

    def __init__(self, folder, module=None, x=X):
        self.folder, self.module, self.x = folder, module or Net().eval(), x
        torch.jit.trace(self.module, x, check_trace=False).save(str(folder / "m.pt"))
        torch.export.save(torch.export.export(self.module, (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},)),
                          folder / "m.pt2")

    def export(self, *options, code=0):
        """Exports the archive of each front end and returns the files."""
        paths = []
        for suffix in ("pt", "pt2"):
            path = self.folder / f"{suffix}.onnx"
            command.run("export", self.folder / f"m.{suffix}", "-o", path, *options, code=code)
            paths += [path] if code == 0 else []
        return paths

    def check(self, path, x=None, more=None):
        x = self.x if x is None else x
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        got = session.run(None, {session.get_inputs()[0].name: x.numpy(), **(more or {})})
        expected = self.module(x)
        for actual, reference in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_allclose(actual, reference.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.fixture
def archives(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield Archives(tmp_path)


def export_by_pytorch(archives, **options):
    path = archives.folder / "torch.onnx"
    torch.onnx.export(archives.module, (archives.x,), path, dynamo=False, **options)
    return onnx.load(path)


def names(values):
    return [value.name for value in values]


@row("`args`, `kwargs`")
def arguments(archives):
    torch.save({"x": archives.x}, archives.folder / "inputs.pt")
    for options in (("--inputs", archives.folder / "inputs.pt"), ("--input", "x=float32[3,4]")):
        command.run("export", archives.folder / "m.pt", "-o", archives.folder / "i.onnx", *options)
        archives.check(archives.folder / "i.onnx")

    class Takes(torch.nn.Module):
        def forward(self, pair, *, scale=None, n=2):
            return pair["a"][0] * n + scale

    program = whence.export(Takes(), ({"a": [X]},), kwargs={"scale": X}, verify=True)
    assert program.verification.ok
    with pytest.raises(whence.WhenceError, match="fixed"):
        program({"a": [X]}, scale=X, n=3)


@row("`f`, `ONNXProgram`")
def in_memory(archives):
    for backend in ("native", "native-export", "torch-dynamo", "torch-torchscript"):
        program = whence.export(archives.module, X, backend=backend)
        torch.testing.assert_close(program(X), archives.module(X), rtol=1e-4, atol=1e-5)
        program.save(archives.folder / "saved.onnx")
        archives.check(archives.folder / "saved.onnx")
    torch_names = {name for name in dir(torch.onnx.ONNXProgram) if not name.startswith("_")}
    assert torch_names <= set(dir(program)) and {"save", "compute_values", "model_proto"} <= torch_names


@row("`input_names`, `output_names`")
def names_of_values(archives):
    expected = export_by_pytorch(archives, input_names=["a"], output_names=["b", "c"]).graph
    for path in archives.export("--input-names", "a", "--output-names", "b,c"):
        graph = onnx.load(path).graph
        assert (names(graph.input), names(graph.output)) == (names(expected.input), names(expected.output))
    archives.export("--input-names", "a,b", code=2)
    archives.export("--output-names", "a,b,c", code=2)
    assert names(onnx.load(archives.export("--output-names", "b")[0]).graph.output)[0] == "b"


@row("`dynamic_axes`, `dynamic_shapes`")
def axes(archives):
    expected = export_by_pytorch(archives, input_names=["x"], dynamic_axes={"x": [0]}).graph.input
    for path in archives.export("--dynamic", "x:0"):
        assert [value.type for value in onnx.load(path).graph.input] == [value.type for value in expected]
        archives.check(path, torch.randn(7, 4))
    for backend in ("native", "native-export"):
        program = whence.export(archives.module, X, backend=backend, dynamic_shapes={"x": {0: "batch"}})
        assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
        archives.check(program.path, torch.randn(7, 4))


@row("`opset_version`")
def opset(archives):
    for version in (13, 18, 28):
        for path in archives.export("--opset", version):
            assert {opset.domain: opset.version for opset in onnx.load(path).opset_import}[""] == version
    assert "an opset from 13 to 28" in command.run("export", archives.folder / "m.pt", "-o", "n.onnx", "--opset", 29,
                                            code=2).stderr
    with pytest.raises(whence.WhenceError, match="29"):
        whence.export(archives.module, X, opset_version=29)


@row("`external_data`")
def external_data(archives):
    for path in archives.export("--external-data"):
        assert path.with_name(path.name + ".data").exists()
        archives.check(path)
    path = whence.export(archives.module, X, archives.folder / "p.onnx", external_data=True).path
    assert path.with_name("p.onnx.data").exists()
    with pytest.raises(whence.WhenceError, match="E0101.*native backends"):
        whence.export(archives.module, X, archives.folder / "d.onnx", external_data={"threshold": 1},
                      backend="torch-dynamo")
    assert not list(archives.folder.glob("d.onnx*"))


@row("`export_params=False`")
def without_weights(archives):
    expected = export_by_pytorch(archives, export_params=False, do_constant_folding=False).graph
    parameters = {name: parameter.detach().numpy() for name, parameter in archives.module.named_parameters()}
    for path in archives.export("--weights-as-inputs"):
        weights = names(onnx.load(path).graph.input)[1:]
        assert set(weights) == set(parameters) and set(names(expected.input)[1:]) <= set(parameters)
        archives.check(path, more=parameters)
    graph = whence.export(archives.module, X, export_params=False).model_proto.graph
    assert set(names(graph.input)[1:]) == set(parameters)


@row("`keep_initializers_as_inputs`")
def initializers_as_inputs(archives):
    assert len(export_by_pytorch(archives, keep_initializers_as_inputs=True).graph.input) > 1
    for path in archives.export("--keep-initializers-as-inputs"):
        graph = onnx.load(path).graph
        assert set(names(graph.initializer)) == set(names(graph.input)[1:])
        archives.check(path)
    graph = whence.export(archives.module, X, keep_initializers_as_inputs=True).model_proto.graph
    assert len(graph.input) > 1


def stored_types(model):
    return {tensor.name: (tensor.data_type, list(tensor.dims)) for tensor in model.graph.initializer}


class Scaled(torch.nn.Module):
    """Multiplies by a product of two weights, and has a convolution that folding merges with a norm."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 3, 1)
        self.norm = torch.nn.BatchNorm2d(3)
        self.register_buffer("scale", torch.rand(3, 1, 1))
        self.register_buffer("bound", torch.rand(3, 5, 5))

    def forward(self, x):
        return self.norm(self.layer(x)).transpose(2, 3).transpose(2, 3) * (self.scale * self.bound)


@row("`do_constant_folding=False`")
def unfolded(archives):
    x = torch.randn(2, 3, 5, 5)
    scaled = Archives(archives.folder, Scaled().eval(), x)
    weights = {name: list(tensor.shape) for name, tensor in scaled.module.state_dict().items() if tensor.dim()}
    for path in scaled.export("--no-fold"):
        model = onnx.load(path)
        assert sorted(shape for _, shape in stored_types(model).values() if shape != [1]) == sorted(weights.values())
        assert sorted(node.op_type for node in model.graph.node) == ["BatchNormalization", "Conv", "Mul", "Mul"]
        scaled.check(path)
    for options in ({}, {"backend": "native-export"}):
        model = whence.export(scaled.module, x, do_constant_folding=False, **options).model_proto
        assert len(model.graph.node) == 4
    assert len(whence.export(scaled.module, x).model_proto.graph.node) == 2


@row("`optimize=False`")
def unoptimised(archives):
    optimised = archives.export()
    counts = [len(onnx.load(path).graph.node) for path in optimised]
    for path, count in zip(archives.export("--no-optimize"), counts, strict=True):
        assert len(onnx.load(path).graph.node) >= count
        archives.check(path)

    class Twice(torch.nn.Module):
        def forward(self, x):
            return x.transpose(0, 1).transpose(0, 1) * 2

    nodes = [len(whence.export(Twice(), X, **options).model_proto.graph.node) for options in ({}, {"optimize": False})]
    assert nodes[0] < nodes[1]
    for path in Archives(archives.folder, Scaled().eval(), torch.randn(2, 3, 5, 5)).export("--no-optimize"):
        assert [node.op_type for node in onnx.load(path).graph.node].count("Mul") == 2


@row("a model of bfloat16, which ONNX Runtime on the CPU refuses")
def computed_in_float32(archives):
    def runs(model):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    x = torch.randn(2, 4).bfloat16()
    bfloat16 = Archives(archives.folder, torch.nn.Linear(4, 3).bfloat16().eval(), x)
    bfloat16_models = [onnx.load(path) for path in bfloat16.export("--keep-bfloat16")]
    for path in bfloat16.export():
        runs(onnx.load(path))
    with pytest.warns(whence.WhenceWarning, match="keep_bfloat16=True"):
        runs(whence.export(bfloat16.module, x).model_proto)
    for model in (*bfloat16_models, whence.export(bfloat16.module, x, keep_bfloat16=True).model_proto):
        with pytest.raises(Exception, match="Could not find an implementation"):
            runs(model)


class Lacking(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.matrix_exp(x) + 1


@row("`operator_export_type`")
def without_a_converter(archives):
    lacking = Archives(archives.folder, Lacking(), torch.randn(3, 3))
    lacking.export(code=4)
    for path in lacking.export("--on-unsupported", "domain"):
        assert "whence.aten" in [node.domain for node in onnx.load(path).graph.node]
    kind = torch.onnx.OperatorExportTypes.ONNX_ATEN_FALLBACK
    program = whence.export(Lacking(), lacking.x, operator_export_type=kind)
    assert "whence.aten" in [node.domain for node in program.model_proto.graph.node]


@row("`custom_opsets`")
def custom_opsets(archives):
    lacking = Archives(archives.folder, Lacking(), torch.randn(3, 3))
    for path in lacking.export("--custom-opset", "aten=2"):
        model = onnx.load(path)
        assert [node.op_type for node in model.graph.node if node.domain == "aten"] == ["linalg_matrix_exp"]
        assert {opset.domain: opset.version for opset in model.opset_import} == {"": 20, "aten": 2}
    for wrong in ("aten", "aten=0", "=1", "aten=1x", "ai.onnx=18"):
        lacking.export("--custom-opset", wrong, code=2)
    program = whence.export(Lacking(), lacking.x, custom_opsets={"aten": 2})
    assert "aten" in [node.domain for node in program.model_proto.graph.node]


@row("`custom_translation_table`, `register_custom_op_symbolic`")
def translations(archives):
    mine = onnxscript.values.Opset("mine", 1)

    @onnxscript.script(mine)
    def linalg_matrix_exp(x):
        return op.Tanh(x)

    lacking = Archives(archives.folder, Lacking(), torch.randn(3, 3))
    function = linalg_matrix_exp.to_function_proto()
    function.domain = "whence.aten"
    model = onnx.ModelProto(ir_version=10, functions=[function])
    (archives.folder / "functions.onnx").write_bytes(model.SerializeToString())
    expected = torch.tanh(lacking.x) + 1
    for path in lacking.export("--converters", archives.folder / "functions.onnx"):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (got,) = session.run(None, {"x": lacking.x.numpy()})
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-5)
    whence.register_custom_op("aten::linalg_matrix_exp", linalg_matrix_exp, 18)
    try:
        torch.testing.assert_close(whence.export(Lacking(), lacking.x)(lacking.x)[0], expected, rtol=1e-4, atol=1e-5)
    finally:
        whence.unregister_custom_op("aten::linalg_matrix_exp", 18)
    table = {"aten::linalg_matrix_exp": linalg_matrix_exp}
    program = whence.export(Lacking(), lacking.x, custom_translation_table=table)
    torch.testing.assert_close(program(lacking.x)[0], expected, rtol=1e-4, atol=1e-5)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Doubles(torch.nn.Module):
    def forward(self, x):
        return Doubled.apply(x) + 1


@row("`autograd_inlining`")
def functions_of_autograd(archives):
    for backend in ("native", "native-export"):
        torch.testing.assert_close(whence.export(Doubles(), X, backend=backend)(X)[0], X * 2 + 1)
    program = whence.export(Doubles(), X, backend="native-export", autograd_inlining=False,
                            custom_opsets={"whence_autograd": 1})
    assert "Doubled" in [node.op_type for node in program.model_proto.graph.node]


@row("`report`, `profile`, `verbose`")
def reports(archives):
    archives.export("--report", archives.folder / "r.md")
    assert "`linear`" in (archives.folder / "r.md").read_text()
    output = command.run("export", archives.folder / "m.pt2", "-o", archives.folder / "n.onnx", "--profile").stdout
    assert " s  convert" in output
    program = whence.export(archives.module, X, report=True, artifacts_dir=archives.folder / "made", profile=True)
    assert len(list((archives.folder / "made").glob("onnx_export_*_success.md"))) == 1 and program.seconds["export"] > 0


@row("`artifacts_dir`, `dump_exported_program`")
def artifacts(archives):
    for backend, suffix in (("native", "pt"), ("native-export", "pt2")):
        whence.export(archives.module, X, backend=backend, dump_exported_program=True, artifacts_dir=archives.folder)
        assert len(list(archives.folder.glob(f"onnx_export_*.{suffix}"))) == 1


@row("`verify`")
def verified(archives):
    program = whence.export(archives.module, X, verify=True)
    assert program.verification.ok and whence.verify(program.path, archives.module, X).ok


@row("`dynamo`, `fallback`")
def routes(archives):
    for path in archives.export():
        archives.check(path)
    for dynamo, backend in ((True, "native-export"), (False, "native")):
        assert whence.export(archives.module, X, dynamo=dynamo).backend == backend
    program = whence.export(Lacking(), torch.randn(3, 3), backend=["native-export", "native"],
                            operator_export_type="ONNX_ATEN_FALLBACK")
    assert program.backend == "native-export" and program.fell_back == ()
    with pytest.warns(whence.WhenceWarning, match="native failed"), pytest.raises(whence.WhenceError):
        whence.export(Lacking(), torch.randn(3, 3), backend=["native", "native-export"])


@row("`training`, `select_model_mode_for_export`")
def modes(archives):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).train()
    for training, dropped in (("eval", False), ("train", True), ("preserve", True),
                              (torch.onnx.TrainingMode.TRAINING, True), (torch.onnx.TrainingMode.EVAL, False)):
        nodes = [node.op_type for node in whence.export(model, X, training=training).model_proto.graph.node]
        assert ("Dropout" in nodes) == dropped and model.training
    with whence.select_model_mode_for_export(model, "eval"):
        assert not model.training
    with pytest.warns(whence.WhenceWarning, match="training mode"):
        whence.export(model, X)


class ChecksFlag(torch.nn.Module):
    def forward(self, x):
        return x * 2 if torch.onnx.is_in_onnx_export() else x * 3


@row("`is_in_onnx_export`, Apex O2")
def flags(archives):
    for backend in ("native", "native-export"):
        torch.testing.assert_close(whence.export(ChecksFlag(), X, backend=backend)(X)[0], X * 2)
    assert not whence.is_in_onnx_export()


@row("`unconvertible_ops`")
def unconvertible(archives):
    lacking = Archives(archives.folder, Lacking(), torch.randn(3, 3))
    _, expected = torch.onnx.utils.unconvertible_ops(Lacking(), (lacking.x,), opset_version=18)
    assert [str(name) for name in whence.unconvertible_ops(Lacking(), lacking.x)] == expected
    for suffix in ("pt", "pt2"):
        (missing,) = command.run_json("ops", "--missing", archives.folder / f"m.{suffix}", code=4)["missing"]
        assert missing["message"].startswith(expected[0]) and missing["count"] == 1


@row("metadata of nodes")
def metadata(archives):
    for path in archives.export("--annotate"):
        nodes = onnx.load(path).graph.node
        assert all({"namespace", "pkg.whence.module"} <= {entry.key for entry in node.metadata_props} for node in nodes)
        gemm = next(node.name for node in nodes if node.op_type in ("Gemm", "MatMul"))
        assert "torch.nn" in command.run("explain", path, gemm).stdout


@row("`export_modules_as_functions`")
def modules_as_functions(archives):
    flat = whence.export(archives.module, X)
    for option in (True, {torch.nn.Linear}):
        program = whence.export(archives.module, X, export_modules_as_functions=option, verify=True)
        file = onnx.load(program.path)
        assert {function.name for function in program.functions.functions} == {
            function.name for function in file.functions}
        assert "Linear" in {node.op_type for container in [file.graph, *file.functions] for node in container.node}
        assert program.verification.ok
        assert [node.op_type for node in onnx.load(whence.inline(program.path)).graph.node] == [
            node.op_type for node in onnx.load(flat.path).graph.node]

    # Dropout leaves no node outside of training; PyTorch omits it too.
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(), torch.nn.Linear(4, 2)).eval()
    program = whence.export(model, X, export_modules_as_functions={torch.nn.Linear, torch.nn.Dropout})
    assert {function.name.split("_")[0] for function in program.functions.functions} == {"Linear"}
    assert whence.export(model, X, export_modules_as_functions={torch.nn.Dropout}).functions is None
    fused = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).eval()
    with pytest.warns(whence.WhenceWarning, match="no function for Conv2d.*fused"):
        whence.export(fused, torch.randn(1, 3, 8, 8), export_modules_as_functions={torch.nn.Conv2d})
    unoptimized = whence.export(fused, torch.randn(1, 3, 8, 8), export_modules_as_functions={torch.nn.Conv2d},
                                optimize=False)
    assert [function.name for function in unoptimized.model_proto.functions] == ["Conv2d"]
    with pytest.raises(whence.WhenceError, match="no class of the file matches 'GRU'"):
        whence.export(model, X, export_modules_as_functions={torch.nn.GRU})


class Halves(torch.nn.Module):
    def forward(self, x):
        return x * (x.size(1) / 3), torch.tensor(7) / torch.tensor(3)


@row("`torch.set_default_dtype`")
def default_dtype(archives):
    """A scripted 7 / 3 has the default dtype of the process, which the archive does not store."""
    archive = archives.folder / "halves.pt"
    torch.jit.script(Halves()).save(str(archive))
    torch.save((X,), archives.folder / "halves_inputs.pt")
    for dtype in torch.float32, torch.float64:
        torch.set_default_dtype(dtype)
        try:
            expected = Halves()(X)
            by_python = whence.export(torch.jit.script(Halves()), (X,))(X)
        finally:
            torch.set_default_dtype(torch.float32)
        path = archives.folder / "halves.onnx"
        command.run("export", archive, "-o", path, "--inputs", archives.folder / "halves_inputs.pt",
                    "--default-dtype", str(dtype).removeprefix("torch."))
        by_command = onnxruntime.InferenceSession(path).run(None, {"x": X.numpy()})
        for reference, python_result, command_result in zip(expected, by_python, by_command, strict=True):
            torch.testing.assert_close(python_result, reference)
            torch.testing.assert_close(torch.as_tensor(command_result), reference)
    message = command.run("export", archive, "-o", path, "--default-dtype", "int64", code=2).stderr
    assert "E0101" in message and "float64" in message
    message = command.run("export", archives.folder / "m.pt2", "-o", path, "--default-dtype", "float64", code=2).stderr
    assert "E0101" in message and "has its own dtypes" in message


@pytest.mark.parametrize("cells", table(), ids=lambda cells: cells[0].replace("`", ""))
def test_row(cells, archives):
    TESTS[cells[0]](archives)


def test_options_in_the_table_exist():
    assert {cells[0] for cells in table()} == set(TESTS) and len(TESTS) > 20
    help_text = command.run("export", "--help").stdout
    parameters = set(inspect.signature(whence.export).parameters)
    torch_parameters = set(inspect.signature(torch.onnx.export).parameters)
    for cells in table():
        assert all(option in help_text for option in re.findall(r"--[a-z-]+", cells[1]) if option != "--missing")
    documented = {word for cells in table() for word in re.findall(r"`(\w+)(?:=\w+)?`", cells[0])}
    assert torch_parameters - {"model"} <= documented and torch_parameters <= parameters
