"""Options of export that change the file but not the results, compared with PyTorch through ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import command


class Net(nn.Module):
    """x: float32[n, 3, 8, 8]"""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.norm = nn.LayerNorm(8)
        self.lstm = nn.LSTM(8, 12, batch_first=True)
        self.out = nn.Linear(12, 5)
        self.register_buffer("scale", torch.rand(8))
        self.features[1].running_mean.uniform_()

    def forward(self, x):
        x = self.norm(self.features(x)) * self.scale
        y, _ = self.lstm(x.mean(1))
        return self.out(y[:, -1])


class Flat(Net):
    """Like Net, without the recurrent layer."""

    def forward(self, x):
        x = self.norm(self.features(x)) * self.scale
        return self.out(x.mean((1, 2))[:, [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3]])


def exporter(archive, module, x):
    """Saves `module` as `archive`; returns a function that exports it with options and returns the file's path."""
    if archive.suffix == ".pt":
        torch.jit.trace(module, x, check_trace=False).save(str(archive))
    else:
        torch.export.save(torch.export.export(module, (x,)), archive)

    def export(*options, name="m.onnx", code=0):
        path = archive.parent / name.split(".")[0] / name
        path.parent.mkdir(exist_ok=True)
        command.run("export", archive, "-o", path, *options, code=code)
        if code == 0:
            onnx.checker.check_model(str(path), full_check=True)
        return path
    return export


@pytest.fixture(scope="module", params=["m.pt", "m.pt2"])
def archive(request, tmp_path_factory):
    return tmp_path_factory.mktemp("options") / request.param


@pytest.fixture(scope="module")
def net(archive):
    """Returns (module, input, function that exports)."""
    torch.manual_seed(0)
    module, x = Net().eval(), torch.randn(2, 3, 8, 8)
    return module, x, exporter(archive, module, x)


def check(path, module, x, extra_inputs=None):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    actual = session.run(None, {session.get_inputs()[0].name: x.numpy(), **(extra_inputs or {})})
    np.testing.assert_allclose(actual[0], module(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def weights(module) -> dict:
    return {name: tensor.detach().numpy() for name, tensor in [*module.named_parameters(), *module.named_buffers()]}


def test_no_optimize_keeps_more_nodes(net):
    module, x, export = net
    optimized, plain = export(name="a.onnx"), export("--no-optimize", name="b.onnx")
    check(plain, module, x)
    assert len(onnx.load(plain).graph.node) > len(onnx.load(optimized).graph.node)
    assert "BatchNormalization" in [node.op_type for node in onnx.load(plain).graph.node]


def test_initializers_may_also_be_inputs(net):
    module, x, export = net
    path = export("--keep-initializers-as-inputs", name="c.onnx")
    model = onnx.load(path)
    names = [value.name for value in model.graph.input]
    assert names == [names[0]] + [tensor.name for tensor in model.graph.initializer] and len(names) > 5
    check(path, module, x)
    # Other values may be fed at run time.
    changed = {"out.bias": weights(module)["out.bias"] + 1}
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    actual = session.run(None, {names[0]: x.numpy(), **changed})[0]
    np.testing.assert_allclose(actual, module(x).detach().numpy() + 1, rtol=1e-4, atol=1e-5)


def test_weights_may_be_inputs(net, archive, tmp_path):
    _, x, export = net
    export("--weights-as-inputs", name="d.onnx", code=4)  # recurrent layers need their weights as constants
    torch.manual_seed(0)
    module = Flat().eval()
    export = exporter(tmp_path / archive.name, module, x)
    path = export("--weights-as-inputs", name="d.onnx")
    model = onnx.load(path)
    names = {value.name for value in model.graph.input[1:]}
    values = weights(module)
    assert names == {name for name in values if not name.startswith("lstm.")} - {"features.1.num_batches_tracked"}
    assert not names & {tensor.name for tensor in model.graph.initializer}
    check(path, module, x, {name: values[name] for name in names})
    # Feed other weights, as after further training.
    torch.manual_seed(1)
    other = Flat().eval()
    check(path, other, x, {name: weights(other)[name] for name in names})


def external_of(path) -> dict:
    """Returns {initializer: (file, offset)}."""
    locations = {}
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries:
            locations[tensor.name] = entries["location"], int(entries["offset"])
    return locations


@pytest.mark.parametrize("annotate", [(), ("--annotate",)])
def test_external_data_layouts(net, annotate):
    module, x, export = net
    path = export("--external-data", *annotate, name="e.onnx")
    locations = external_of(path)
    assert {file for file, _ in locations.values()} == {"e.onnx.data"}
    assert all(offset % 4096 == 0 for _, offset in locations.values())
    check(path, module, x)
    packed = export("--external-data-threshold", "0", "--external-data-alignment", "1", *annotate, name="f.onnx")
    assert len(external_of(packed)) > len(locations)
    assert (packed.parent / "f.onnx.data").stat().st_size < (path.parent / "e.onnx.data").stat().st_size
    check(packed, module, x)
    several = export("--external-data-per-tensor", *annotate, name="g.onnx")
    files = [file for file, _ in external_of(several).values()]
    assert len(set(files)) == len(files) == len(locations) and all(file.startswith("g.onnx.") for file in files)
    assert all((several.parent / file).exists() for file in files)
    check(several, module, x)


@pytest.mark.parametrize("options", [("--external-data-alignment", "3"), ("--external-data-threshold", "-1"),
                                     ("--opset", "12"), ("--opset", "99")])
def test_bad_options_write_no_file(net, options):
    _, _, export = net
    assert not export(*options, name="h.onnx", code=2).exists()


def test_unnamed_dynamic_axes_get_the_names_of_pytorch(tmp_path):
    module, x = nn.Linear(4, 4).eval(), torch.randn(2, 3, 4)
    torch.jit.trace(module, x, check_trace=False).save(str(tmp_path / "m.pt"))
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", "input=float32[2,3,4]", "--dynamic",
                "input:0,1")
    dims = onnx.load(tmp_path / "m.onnx").graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims][:2] == ["input_dynamic_axes_1", "input_dynamic_axes_2"]
    check(tmp_path / "m.onnx", module, torch.randn(5, 2, 4))


class WithoutConverters(nn.Module):
    """Calls two operators without a converter, one of them twice."""

    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), NextAfter())

    def forward(self, x):
        return torch.linalg.matrix_exp(self.block(x)) + NextAfter()(x)


class NextAfter(nn.Module):
    def forward(self, x):
        return torch.nextafter(x, x)


def test_missing_converters_are_listed_together_and_reported(tmp_path):
    x = torch.randn(4, 4)
    torch.jit.trace(WithoutConverters().eval(), x, check_trace=False).save(str(tmp_path / "m.pt"))
    listed = command.run_json("ops", "--missing", tmp_path / "m.pt", code=4)["missing"]
    missing = {entry["message"]: (entry["count"], entry["where"]["module"]) for entry in listed}
    assert missing == {"aten::nextafter": (2, "block.1"), "aten::linalg_matrix_exp": (1, "")}
    report = tmp_path / "report.md"
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--report", report, code=4)
    assert not (tmp_path / "m.onnx").exists()
    text = report.read_text()
    assert "Nothing was written" in text and "*convert*" in text
    assert "| E0301 no\\_converter |".replace("\\", "") in text and "`block.1`" in text
    assert "| `aten::nextafter` | 2 | `block.1` | **missing** |" in text
    assert "| `aten::linear` | 1 | `block.0` | yes |" in text


def test_report_and_profile_of_an_export(net, tmp_path):
    _, _, export = net
    report = tmp_path / "report.md"
    path = export("--report", report, "--annotate", name="r.onnx")
    text = report.read_text()
    assert f"{len(onnx.load(path).graph.node)} nodes for" in text and "| write and annotate |" in text
    assert "| `features.0` | `torch.nn.modules.conv.Conv2d` | 1 | 448 |" in text and "missing" not in text
    assert "| `LSTM` | 1 |" in text


def test_all_operators_of_a_supported_model_have_converters(archive, net):
    assert command.run_json("ops", "--missing", archive) == {"missing": []}


def test_profile_lists_the_stages(archive, net, tmp_path):
    stdout = command.run("export", archive, "-o", tmp_path / "m.onnx", "--profile").stdout
    assert [line.split("s  ")[1] for line in stdout.splitlines() if " s  " in line] == [
        "read the archive", "convert", "write"]
    times = command.run_json("export", archive, "-o", tmp_path / "m.onnx")["seconds"]
    assert set(times) == {"read the archive", "convert", "write"} and all(value >= 0 for value in times.values())


def test_a_report_must_not_overwrite_the_archive_or_the_export(archive, net, tmp_path):
    before = archive.read_bytes()
    command.run("export", archive, "-o", tmp_path / "m.onnx", "--report", archive, code=2)
    command.run("export", archive, "-o", tmp_path / "m.onnx", "--report", tmp_path / "m.onnx", code=2)
    command.run("export", archive, "-o", tmp_path / "m.onnx", "--report", tmp_path / "none" / "r.md", code=5)
    assert archive.read_bytes() == before and not (tmp_path / "m.onnx").exists()


def test_keep_operator_warns_about_operators_that_the_model_lacks(tmp_path):
    torch.jit.trace(nn.GELU(), torch.randn(2), check_trace=False).save(str(tmp_path / "m.pt"))
    options = [word for name in ("aten::gelu", "aten::gelu.default", "aten::glu", "aten::gelu.out")
               for word in ("--keep-operator", name)]
    result = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", *options)
    warnings = [line for line in result.stderr.splitlines() if "E0105" in line]
    assert len(warnings) == 2 and "warning" in warnings[0] and "has no operator aten::gelu.out" in warnings[0]
    assert "has no operator aten::glu;" in warnings[1] and "try: " in warnings[1]
    assert [node.domain for node in onnx.load(tmp_path / "m.onnx").graph.node] == ["whence.aten"]


def function_file(path, name="gelu", domain="whence.aten", opset=18, body=None):
    """Writes a model file with one function of one input: the node `body`, or tanh(x)."""
    node = body or onnx.helper.make_node("Tanh", ["x"], ["y"])
    function = onnx.helper.make_function(domain, name, ["x"], ["y"], [node],
                                         [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid(domain, 1)])
    path.write_bytes(onnx.ModelProto(ir_version=10, functions=[function]).SerializeToString())
    return path


def test_functions_of_the_user_are_called(tmp_path):
    """Two modules call one function, so the nodes in its body belong to their common ancestor."""
    module, x = nn.Sequential(nn.GELU(), nn.Linear(4, 4), nn.GELU()).eval(), torch.randn(2, 4)
    torch.jit.trace(module, x, check_trace=False).save(str(tmp_path / "m.pt"))
    functions = function_file(tmp_path / "functions.onnx")
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--converters", functions, "--annotate")
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    file = onnx.load(tmp_path / "m.onnx")
    assert [node.op_type for node in file.graph.node] == ["gelu", "Gemm", "gelu"] and len(file.functions) == 1
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    expected = torch.tanh(module[1](torch.tanh(x))).detach().numpy()
    np.testing.assert_allclose(session.run(None, {"input": x.numpy()})[0], expected, rtol=1e-4, atol=1e-5)
    modules = [{entry.key: entry.value for entry in node.metadata_props}["pkg.whence.module"]
               for node in [*file.graph.node, *file.functions[0].node]]
    assert modules == ["0", "1", "2", ""]
    assert command.run_json("validate", tmp_path / "m.onnx")["clean"]


@pytest.mark.parametrize("operator, attributes, opset, expected", [
    ("Tanh", {}, 13, 20), ("Cast", {"to": 1}, 13, 20), ("ReduceMax", {"keepdims": 1}, 13, 20),
    ("Softmax", {"axis": 1}, 12, 12),     # opset 13 changed Softmax
    ("ReduceMax", {"axes": [0]}, 13, 13),  # axes are an input from opset 18
    ("Squeeze", {"axes": [0]}, 12, 12), ("Split", {}, 13, 13), ("Split", {"num_outputs": 1}, 18, 20)])
def test_functions_get_the_opset_of_the_export_if_it_does_not_change_them(operator, attributes, opset, expected, tmp_path):
    torch.jit.trace(nn.GELU(), torch.randn(1, 2), check_trace=False).save(str(tmp_path / "m.pt"))
    functions = function_file(tmp_path / "functions.onnx", opset=opset,
                              body=onnx.helper.make_node(operator, ["x"], ["y"], **attributes))
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--converters", functions)
    (function,) = onnx.load(tmp_path / "m.onnx").functions
    assert {entry.domain: entry.version for entry in function.opset_import}[""] == expected


def test_unusable_functions_are_refused(tmp_path):
    torch.jit.trace(nn.GELU(), torch.randn(2), check_trace=False).save(str(tmp_path / "m.pt"))
    calls_itself = onnx.helper.make_node("gelu", ["x"], ["y"], domain="whence.aten")
    text = tmp_path / "text.onnx"
    text.write_text("not a model")
    for file, code, exit_code in ((tmp_path / "none.onnx", "E0102", 2), (text, "E0203", 3),
                                  (function_file(tmp_path / "a.onnx", domain="other"), "E0203", 3),
                                  (function_file(tmp_path / "b.onnx", opset=21), "E0302", 4),
                                  (function_file(tmp_path / "c.onnx", body=calls_itself), "E0204", 3)):
        result = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--converters", file,
                             code=exit_code)
        assert code in result.stderr and "try:" in result.stderr and not (tmp_path / "m.onnx").exists()


def functions_file(path, *functions):
    """Writes a model file with functions (name, nodes) of one input and one output in ATen's domain."""
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("whence.aten", 1)]
    protos = [onnx.helper.make_function("whence.aten", name, ["x"], ["y"], nodes, opsets) for name, nodes in functions]
    path.write_bytes(onnx.ModelProto(ir_version=10, functions=protos).SerializeToString())
    return path


def call(name, source="x", target="y"):
    return onnx.helper.make_node(name, [source], [target], domain="whence.aten")


def if_by_size(branch):
    """Returns nodes that call y = branch(x) inside an If."""
    result = [onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)]
    graphs = [onnx.helper.make_graph([call(branch, target="z")], name, [], result) for name in ("then", "else")]
    return [onnx.helper.make_node("Size", ["x"], ["n"]),
            onnx.helper.make_node("Cast", ["n"], ["c"], to=onnx.TensorProto.BOOL),
            onnx.helper.make_node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1])]


def test_functions_called_in_branches_are_included(tmp_path):
    x = torch.randn(2, 4)
    torch.jit.trace(nn.GELU(), x, check_trace=False).save(str(tmp_path / "m.pt"))
    file = functions_file(tmp_path / "f.onnx", ("gelu", if_by_size("inner")),
                          ("inner", [onnx.helper.make_node("Tanh", ["x"], ["y"])]))
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--converters", file)
    assert [function.name for function in onnx.load(tmp_path / "m.onnx").functions] == ["gelu", "inner"]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0], np.tanh(x.numpy()),
                               rtol=1e-5, atol=1e-6)


def test_functions_that_are_called_twice_are_visited_once(tmp_path):
    """Sixty such functions make 2^60 calls."""
    torch.jit.trace(nn.GELU(), torch.randn(2), check_trace=False).save(str(tmp_path / "m.pt"))
    twice = [(f"f{i}", [call(f"f{i + 1}", "x", "z"), call(f"f{i + 1}", "z", "y")]) for i in range(60)]
    last = ("f60", [onnx.helper.make_node("Tanh", ["x"], ["y"])])
    file = functions_file(tmp_path / "f.onnx", ("gelu", [call("f0")]), *twice, last)
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--converters", file)
    assert len(onnx.load(tmp_path / "m.onnx").functions) == 62


@pytest.mark.parametrize("functions, code", [
    ([("gelu", if_by_size("gelu"))], "E0204"),
    ([("gelu", [call("a")]), ("a", if_by_size("b")), ("b", [call("a")])], "E0204"),
    ([("gelu", [call("f0")]), *((f"f{i}", [call(f"f{i + 1}")]) for i in range(1100))], "E0306")],
    ids=["calls itself", "call each other", "too deep"])
def test_endless_recursion_of_functions_is_refused(functions, code, tmp_path):
    torch.jit.trace(nn.GELU(), torch.randn(2), check_trace=False).save(str(tmp_path / "m.pt"))
    file = functions_file(tmp_path / "f.onnx", *functions)
    result = command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--converters", file, code=None)
    assert result.stderr.startswith(code) and "try:" in result.stderr and not (tmp_path / "m.onnx").exists()
