"""The result of whence.export runs, saves and verifies like a torch.onnx.ONNXProgram."""

import collections
import copy
import gc
import io
import warnings
from typing import List, NamedTuple, Optional

import onnx
import onnxruntime
import pytest
import torch
import whence

from results import assert_same_results

pytestmark = pytest.mark.usefixtures("quiet")

NATIVE = ["native", "native-export"]


class Net(torch.nn.Module):
    """x: float32[n, 4] -> float32[n, 512]"""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 512)
        self.norm = torch.nn.LayerNorm(512)

    def forward(self, x):
        return self.norm(torch.relu(self.first(x)))


@pytest.fixture(params=NATIVE)
def exported(request):
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(3, 4)
    return model, x, whence.export(model, (x,), backend=request.param)


def assert_equal(got, expected):
    expected = expected if isinstance(expected, tuple) else (expected,)
    torch.testing.assert_close(tuple(got), expected, rtol=1e-4, atol=1e-5)


def test_program_in_memory(exported):
    model, x, program = exported
    with torch.no_grad():
        assert_equal(program(x), model(x))
    file = onnx.load_from_string(program.model_bytes)
    onnx.checker.check_model(file, full_check=True)
    assert file == program.model_proto and program.validation.clean and program.validation.coverage.percent == 100
    assert [node.op_type for node in program.model.graph] == [node.op_type for node in file.graph.node]
    assert (program.exported_program is None) == (program.backend == "native")
    assert program.verify().ok and program.verify((x + 1,)).ok
    assert program.path.exists() and "in memory" in repr(program)


def test_temporary_file_is_deleted_with_the_program():
    program = whence.export(Net().eval(), torch.randn(3, 4))
    path = program.path
    del program
    gc.collect()
    assert not path.exists() and not path.parent.exists()


def test_export_to_a_file_or_a_buffer(tmp_path):
    model, x = Net().eval(), torch.randn(3, 4)
    program = whence.export(model, x, tmp_path / "m.onnx")
    assert program.path == tmp_path / "m.onnx" and program.sidecar == tmp_path / "m.whence.json"
    assert_equal(program(x), model(x).detach())
    buffer = io.BytesIO()
    assert whence.export(model, x, buffer).model_bytes == buffer.getvalue() == program.model_bytes


def test_exported_program_runs_like_the_model():
    model, x = Net().eval(), torch.randn(3, 4)
    program = whence.export(model, x, dynamo=True)
    assert isinstance(program.exported_program, torch.export.ExportedProgram)
    assert_equal([program.exported_program.module()(x)], model(x))


def test_export_of_an_exported_program():
    class Nested(Net):
        def forward(self, pair, d):
            return super().forward(pair[0] + d["z"]), pair[1] * 2

    model, (x, y, z) = Nested().eval(), torch.randn(3, 3, 4)
    source = torch.export.export(model, ((x, y), {"z": z}), dynamic_shapes=(({0: torch.export.Dim.AUTO}, None),
                                                                            {"z": {0: torch.export.Dim.AUTO}}))
    program = whence.export(source)
    reference = torch.onnx.export(source, dynamo=True, verbose=False)
    assert [value.name for value in program.model.graph.inputs] == [
        value.name for value in reference.model.graph.inputs]
    with torch.no_grad():
        assert_equal(program((x, y), {"z": z}), model((x, y), {"z": z}))
    assert program.exported_program is source and program.verify().ok and program.backend == "native-export"
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(source, backend="torch-torchscript")
    assert raised.value.code == "E0303"


def test_model_that_needs_data_is_exported_from_its_bytecode():
    class Slices(torch.nn.Module):
        def forward(self, x, n):
            x[:n, 0] = n
            return x * 2

    model, x = Slices().eval(), torch.zeros(5, 3)
    program = whence.export(model, (x.clone(), torch.tensor([3])), backend="native-export")
    for n in (3, 1):
        assert_equal(program(x.clone(), torch.tensor([n])), model(x.clone(), torch.tensor([n])))

    class Fails(torch.nn.Module):
        def forward(self, x):
            raise ValueError("on any data")

    with pytest.raises(ValueError, match="on any data"):
        whence.export(Fails(), (x,), backend="native-export")


def test_containers_that_an_archive_cannot_name():
    pair = collections.namedtuple("pair", "first second")

    class Packed(torch.nn.Module):
        def forward(self, values):
            return {"top": torch.topk(values.first, 2), "sums": pair(values.second + 1, values.first.max(1))}

    model, x, y = Packed().eval(), torch.randn(3, 4), torch.randn(2)
    program = whence.export(model, (pair(x, y),), backend="native-export")
    assert len(program.model_proto.graph.output) == 5
    assert_equal(program(pair(x, y)), tuple(torch.utils._pytree.tree_leaves(model(pair(x, y)))))


@pytest.mark.parametrize("backend", NATIVE)
def test_exportable_module_supplies_its_arguments(backend):
    class SuppliesArguments(torch.onnx.ExportableModule):
        def forward(self, x, scale=1.0):
            return x * scale

        def example_arguments(self):
            return (torch.randn(2, 3),), {"scale": 3.0}

        def input_names(self):
            return ("given",)

        def output_names(self):
            return ("scaled",)

        def dynamic_shapes(self):
            return {"x": {0: "batch"}}

    program = whence.export(SuppliesArguments(), backend=backend)
    reference = torch.onnx.export(SuppliesArguments(), dynamic_shapes={"x": {0: "batch"}, "scale": None},
                                  verbose=False).model_proto.graph
    graph = program.model_proto.graph
    assert (graph.input[0].name, graph.output[0].name) == (reference.input[0].name, reference.output[0].name)
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"  # PyTorch omits it for the float
    assert_equal(program(torch.ones(5, 3), scale=3.0), torch.full((5, 3), 3.0))


def test_intermediate_values(exported):
    model, x, program = exported
    name = next(node.output[0] for node in program.model_proto.graph.node if node.op_type == "Relu")
    assert_equal(program.compute_values([name], (x,)), torch.relu(model.first(x)).detach())
    with pytest.raises(whence.WhenceError) as raised:
        program.compute_values(["none"], (x,))
    assert raised.value.code == "E0105"


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("as_inputs", [True, False])
def test_save_equals_pytorch(exported, weights, as_inputs, tmp_path):
    """Inputs, initializers and values equal those of torch.onnx.ONNXProgram.save with the same options."""
    model, x, program = exported
    options = {"include_initializers": weights, "keep_initializers_as_inputs": as_inputs}
    program.save(tmp_path / "ours.onnx", **options)
    torch.onnx.export(model, (x,), dynamo=True, verbose=False).save(tmp_path / "torch.onnx", **options)
    graph, reference = (onnx.load(tmp_path / name).graph for name in ("ours.onnx", "torch.onnx"))
    assert (len(graph.initializer) > 0) == (len(reference.initializer) > 0) == weights
    inputs = {value.name for value in graph.input}
    parameters = {name for name, _ in model.named_parameters()}
    if as_inputs:
        assert parameters - {"norm.weight", "norm.bias"} <= inputs
    else:
        assert len(graph.input) == len(reference.input) == 1
    if weights:
        onnx.checker.check_model(str(tmp_path / "ours.onnx"), full_check=True)
        session = onnxruntime.InferenceSession(tmp_path / "ours.onnx", providers=["CPUExecutionProvider"])
        assert_equal([torch.from_numpy(session.run(None, {"x": x.numpy()})[0])], model(x).detach())
    assert len(program.model_proto.graph.initializer) > 0  # the program is unchanged


def test_save_with_external_data(exported, tmp_path):
    model, x, program = exported
    program.save(tmp_path / "m.onnx", external_data=True)
    assert (tmp_path / "m.onnx.data").stat().st_size >= 4 * 512 * 4
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert_equal([torch.from_numpy(session.run(None, {"x": x.numpy()})[0])], model(x).detach())
    external = whence.export(model, x, tmp_path / "e.onnx", external_data=True)
    external.save(tmp_path / "one.onnx", external_data=False)
    assert not (tmp_path / "one.onnx.data").exists()
    assert onnx.load_from_string(external.model_bytes) == onnx.load(tmp_path / "one.onnx")
    external.save(tmp_path / "two.onnx")
    assert (tmp_path / "two.onnx.data").exists()
    with pytest.raises(whence.WhenceError) as raised:
        program.save(tmp_path / "none" / "m.onnx")
    assert raised.value.code == "E0401"


def test_replaced_weights_and_renamed_axes(exported, tmp_path):
    model, x, program = exported
    dynamic = whence.export(model, (x,), tmp_path / "m.onnx", program.backend, optimize=False,
                          dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.manual_seed(1)
    other = Net().eval()
    dynamic.apply_weights(other.state_dict())
    (old,) = {value.dim_param for value in dynamic.model_proto.graph.input[0].type.tensor_type.shape.dim} - {""}
    dynamic.rename_axes({old: "batch"})
    with torch.no_grad():
        assert_equal(dynamic(x), other(x))
        assert_equal(dynamic.call_reference(x), other(x))
    graph = dynamic.model_proto.graph
    assert {value.type.tensor_type.shape.dim[0].dim_param for value in [*graph.input, *graph.output]} == {"batch"}
    assert not any(old in entry.value for entry in graph.metadata_props if "range" in entry.key)
    exported_graph = onnx.load(tmp_path / "m.onnx").graph  # the exported file is unchanged
    assert exported_graph.input[0].type.tensor_type.shape.dim[0].dim_param == old
    assert dynamic.path != tmp_path / "m.onnx"
    for change, code in ((lambda: dynamic.apply_weights({"first.weight": torch.zeros(3)}), "E0104"),
                         (lambda: dynamic.apply_weights({"none": torch.zeros(3)}), "E0105"),
                         (lambda: dynamic.rename_axes({"none": "n"}), "E0105")):
        with pytest.raises(whence.WhenceError) as raised:
            change()
        assert raised.value.code == code


def test_bfloat16():
    class Through(torch.nn.Module):
        def forward(self, x):
            return (x.float() * 2).bfloat16()

    x = torch.randn(2, 4, dtype=torch.bfloat16)
    (got,) = whence.export(Through(), x)(x)
    assert got.dtype == torch.bfloat16 and torch.equal(got, x * 2)


def test_verify_names_the_differing_output_and_warns():
    class DiffersInExport(Net):
        """Returns a different result while it is exported."""

        def forward(self, x):
            return super().forward(x) + (1 if torch.onnx.is_in_onnx_export() else 0)

    with pytest.warns(whence.WhenceWarning, match="differ"):
        program = whence.export(DiffersInExport().eval(), torch.randn(3, 4), verify=True)
    assert not program.verification.ok and abs(program.verification.outputs[0].largest - 1) < 1e-3
    assert whence.export(Net().eval(), torch.randn(3, 4), verify=True).verification.ok


@pytest.mark.parametrize("backend", NATIVE)
def test_file_without_weights_uses_the_models_weights(backend):
    model, x = Net().eval(), torch.randn(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", whence.WhenceWarning)
        program = whence.export(model, (x,), verify=True, export_params=False, backend=backend)
    assert not program.model_proto.graph.initializer or len(program.model_proto.graph.input) > 4
    assert program.verification.ok and whence.verify(program, model, (x * 2,)).ok
    assert whence.verify(whence.export(model, (x,), backend=backend), model, (x,)).ok, "the program is still loaded"
    assert_equal(program(x), model(x))
    with torch.no_grad():
        model.first.bias += 1
    assert program.verify().ok, "the current weights are used"


def test_verify_reports_arguments_that_pytorch_cannot_run():
    model = Net().eval()
    program = whence.export(model, (torch.randn(3, 4),))
    with pytest.raises(whence.WhenceError, match="cannot run the model on these arguments") as raised:
        whence.verify(program.path, model, (torch.randn(3, 5),))
    assert raised.value.code == "E0207"


class Constant(torch.nn.Module):
    """Takes no tensor arguments."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(3.0))

    def forward(self, doubled=True):
        return self.weight * (2 if doubled else 3)


@pytest.mark.parametrize("backend", NATIVE)
def test_model_without_tensor_arguments(backend):
    program = whence.export(Constant(), (), backend=backend)
    assert_equal(program(), torch.tensor([0.0, 2.0, 4.0]))
    assert not program.model_proto.graph.input


class Writes(torch.nn.Module):
    """Writes into a buffer and into its argument, and assigns a new buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))
        self.register_buffer("last", torch.zeros(2, 3))

    def forward(self, x):
        self.calls.add_(1)
        x.mul_(2)
        self.last = x + 1
        return x + self.calls


def test_tracing_does_not_change_buffers_and_arguments():
    model, x = Writes(), torch.ones(2, 3)
    last = model.last
    program = whence.export(model, (x,))
    assert torch.equal(x, torch.ones(2, 3)) and torch.equal(model.calls, torch.zeros(3))
    assert model.last is last and torch.equal(last, torch.zeros(2, 3))
    assert_equal(program(x.clone()), torch.full((2, 3), 3.0))


class Accumulates(torch.nn.Module):
    """Accumulates in attributes that are not buffers."""

    def __init__(self):
        super().__init__()
        self.weights, self.sums, self.calls, self.first = torch.ones(3), torch.zeros(3), 0, None

    def forward(self, x):
        self.weights = self.weights * 3
        self.sums += 1
        self.calls += 1
        self.first = x.shape[0] if self.first is None else self.first
        return x * self.weights + self.sums + self.calls + self.first * 0


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("axes", [None, {"x": [0, 1]}])
def test_state_in_attributes_is_unchanged(backend, axes):
    """An export may run the model several times. The file computes the result of the first call."""
    model, x = Accumulates().eval(), torch.rand(2, 3)
    sums = model.sums
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = whence.export(model, (x,), backend=backend, dynamic_axes=axes)
    assert not [warning for warning in caught
                if "E0304" in str(warning.message) and "computes something else" in str(warning.message)]
    assert torch.equal(model.weights, torch.ones(3)) and torch.equal(model.sums, torch.zeros(3))
    assert model.sums is sums and (model.calls, model.first) == (0, None)
    assert_equal(program(x), Accumulates()(x))


class Growing(torch.nn.Module):
    """x: float32[6, 4], n: int64[] -> n slices of x"""

    def forward(self, x, n) -> List[torch.Tensor]:
        rows: List[torch.Tensor] = []
        for t in range(int(n)):
            rows.append(x[: t + 1] * 2)
        return rows


def test_growing_list_is_a_sequence_output():
    model, x = torch.jit.script(Growing()), torch.rand(6, 4)
    program = whence.export(model, (x, torch.tensor(2)), verify=True)
    assert program.verification.ok
    assert [output.name for output in program.verification.outputs] == ["output[0]", "output[1]"]
    (rows,) = program(x, torch.tensor(4))
    torch.testing.assert_close(rows, model(x, torch.tensor(4)))


def test_save_to_a_buffer():
    model = torch.nn.Linear(3, 2)
    program = whence.export(model, torch.randn(4, 3), external_data=True)
    buffer = io.BytesIO()
    program.save(buffer)
    x = torch.randn(4, 3)
    session = onnxruntime.InferenceSession(buffer.getvalue())
    result = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(result), model(x).detach())
    with pytest.raises(whence.WhenceError, match="one file"):
        program.save(io.BytesIO(), external_data=True)


def test_inputs_with_swapped_names():
    """input_names gives the first input the name of forward's second argument."""
    class Minus(torch.nn.Module):
        def forward(self, a, b):
            return a - b

    a, b = torch.randn(3), torch.randn(3)
    program = whence.export(Minus(), (a, b), input_names=["b", "a"], verify=True)
    assert_equal(program(a, b), a - b)
    assert program.verification.ok and whence.verify(program, Minus(), (a, b)).ok


def test_external_data_of_a_file_with_brackets_in_its_name(tmp_path):
    model, x = Net().eval(), torch.randn(3, 4)
    program = whence.export(model, (x,), tmp_path / "m[1].onnx", external_data=True)
    program.save(tmp_path / "saved.onnx")
    onnx.checker.check_model(str(tmp_path / "saved.onnx"))
    assert (tmp_path / "saved.onnx.data").exists() and len(program.model_bytes) > 512 * 4
    inline = whence.export(model, (x,), tmp_path / "inline.onnx")
    (tmp_path / "inline.onnx.bak").write_text("somebody else's")
    inline.save(tmp_path / "inline2.onnx")
    assert not (tmp_path / "inline2.onnx.data").exists()


def test_external_data_options_of_the_command(tmp_path):
    x = torch.randn(3, 4)
    program = whence.export(Net().eval(), (x,), tmp_path / "m.onnx", external_data={"threshold": 0, "per_tensor": True})
    data_files = {path.name for path in tmp_path.iterdir()} - {"m.onnx", "m.whence.json"}
    assert len(data_files) == 4 and all(name.startswith("m.onnx.") for name in data_files)
    assert_equal(program(x), program._source.model(x).detach())
    with pytest.raises(whence.WhenceError, match="external_data") as refused:
        whence.export(Net().eval(), (x,), external_data={"treshold": 0})
    assert refused.value.code == "E0101"


def test_export_to_an_open_file(tmp_path):
    with open(tmp_path / "m.onnx", "wb") as file:
        program = whence.export(Net().eval(), (torch.randn(3, 4),), file)
    assert (tmp_path / "m.onnx").read_bytes() == program.model_bytes
    for wrong in (3, "", io.StringIO()):
        with pytest.raises(whence.WhenceError, match="neither a file's path nor a binary stream"):
            whence.export(Net().eval(), (torch.randn(3, 4),), wrong)


def test_relative_path_survives_chdir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = whence.export(Net().eval(), (torch.randn(3, 4),), "m.onnx")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert program(torch.randn(3, 4))[0].shape == (3, 512)


def test_scripted_function_keeps_its_defaults():
    @torch.jit.script
    def scaled(x, y: Optional[torch.Tensor] = None, times: int = 3):
        return x * times if y is None else x * times + y

    x, y = torch.randn(2), torch.randn(2)
    without_y, with_y = whence.export(scaled, (x,)), whence.export(scaled, (x, y), kwargs={"times": 2})
    assert_equal(without_y(x), x * 3)
    assert_equal(with_y(x, y, times=2), x * 2 + y)
    with pytest.raises(whence.WhenceError, match="'times' is fixed"):
        with_y(x, y)


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def test_named_tuple_as_argument_of_a_scripted_module():
    class Sums(torch.nn.Module):
        def forward(self, pair: Pair):
            return pair.first + pair.second

    pair = Pair(torch.randn(2), torch.randn(2))
    assert_equal(whence.export(torch.jit.script(Sums()), (pair,))(pair), pair.first + pair.second)


def test_quantized_arguments_and_results():
    class Adds(torch.nn.Module):
        def forward(self, q):
            return torch.ops.quantized.add_relu(q, q, 0.1, 5)

    q = torch.quantize_per_tensor(torch.randn(2, 3), 0.05, 10, torch.quint8)
    program = whence.export(Adds(), (q,), verify=True)
    integers, scale, zero_point = program(q)
    expected = Adds()(q)
    assert torch.equal(integers, expected.int_repr()) and int(zero_point) == 5 and abs(float(scale) - 0.1) < 1e-6
    assert program.verification.ok and len(program.verification.outputs) == 3


def test_optional_result_is_none_or_a_tensor():
    class Maybe(torch.nn.Module):
        def forward(self, x) -> Optional[torch.Tensor]:
            return x if x.sum() > 0 else None

    program = whence.export(torch.jit.script(Maybe()), (torch.ones(2),), verify=True)
    assert program(-torch.ones(2)) == (None,) and torch.equal(program(torch.ones(2))[0], torch.ones(2))


def test_file_that_onnx_runtime_cannot_run_is_still_written(tmp_path):
    model = torch.nn.Linear(4, 3).bfloat16()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = whence.export(model, (torch.randn(2, 4).bfloat16(),), tmp_path / "m.onnx", verify=True,
                                keep_bfloat16=True)
    assert program.verification is None
    assert any("the file is not verified: E0207" in str(warning.message) for warning in caught)
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    with pytest.raises(whence.WhenceError) as missing:
        whence.verify(tmp_path / "none.onnx", model, (torch.randn(2, 4).bfloat16(),))
    assert missing.value.code == "E0102"


@pytest.mark.parametrize("backend", NATIVE)
def test_save_in_a_folder_with_other_weights(backend, tmp_path, monkeypatch):
    x = torch.randn(3, 4)
    first, second = (whence.export(Net().eval(), x, backend=backend) for _ in range(2))
    monkeypatch.chdir(tmp_path)
    first.save("m.onnx", external_data=True)
    first.save("m.onnx", external_data=True)  # the same bytes
    with pytest.raises(whence.WhenceError) as refused:
        second.save("m.onnx", external_data=True)
    assert refused.value.code == "E0401" and "overwrite=True" in refused.value.remedy
    assert whence.verify("m.onnx", first._source.model, x).ok
    (tmp_path / "other").mkdir()
    second.save("other/m.onnx", external_data=True)
    second.save("m.onnx", external_data=True, overwrite=True)
    assert whence.verify("m.onnx", second._source.model, x).ok
    assert whence.verify("other/m.onnx", second._source.model, x).ok


def test_apply_weights_ignores_files_in_the_current_folder(tmp_path, monkeypatch):
    model, x = Net().eval(), torch.randn(3, 4)
    program = whence.export(model, x, external_data=True, optimize=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx.data").write_text("another file")
    program.apply_weights({"first.bias": torch.ones(512)})
    with torch.no_grad():
        model.first.bias.fill_(1)
        assert_equal(program(x), model(x))
    assert (tmp_path / "model.onnx.data").read_text() == "another file"


@pytest.mark.parametrize("earlier", [None, "# Export, an earlier one"])
@pytest.mark.parametrize("report, external_data", [
    ("m.onnx.data", True), ("m.onnx.first.weight", {"per_tensor": True})])
@pytest.mark.parametrize("backend", NATIVE)
def test_report_at_the_path_of_the_weights_is_refused(backend, report, external_data, earlier, tmp_path):
    if earlier:
        (tmp_path / report).write_text(earlier)
    for _ in range(2):
        with pytest.raises(whence.WhenceError) as refused:
            whence.export(Net().eval(), torch.randn(3, 4), tmp_path / "m.onnx", backend, report=tmp_path / report,
                          external_data=external_data)
        assert refused.value.code in ("E0101", "E0401") and report in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ([report] if earlier else []), str(refused.value)
    if not earlier:
        whence.export(Net().eval(), torch.randn(3, 4), tmp_path / "m.onnx", backend, external_data=external_data)


def test_report_does_not_replace_weights(tmp_path):
    x, model = torch.randn(3, 4), Net().eval()
    whence.export(model, x, tmp_path / "m.onnx", external_data={"per_tensor": True})
    for external_data in (False, {"per_tensor": True}):
        with pytest.raises(whence.WhenceError, match="E0401.*would replace another file.*overwrite=True"):
            whence.export(Net().eval(), x, tmp_path / "m.onnx", report=tmp_path / "m.onnx.first.weight",
                          external_data=external_data)
    assert whence.verify(tmp_path / "m.onnx", model, x).ok


def test_save_to_an_invalid_target(exported, tmp_path):
    for wrong in (tmp_path, 3, None):
        with pytest.raises(whence.WhenceError, match="neither a file's path nor a binary stream"):
            exported[2].save(wrong)


class Branches(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


class ChecksSizes(torch.nn.Module):
    """torch._check accepts no tensors, but sizes are tensors in a trace."""

    def forward(self, x):
        torch._check(x.shape[0] > 0)
        return x * 2


class Overlaps(torch.nn.Module):
    """Can be traced but not converted; the operators of PyTorch's decomposition have converters."""

    def forward(self, x):
        return torch.ops.aten.unfold_backward(x.unfold(1, 8, 4), x.shape, 1, 8, 4)


@pytest.mark.parametrize("model", [Branches(), ChecksSizes(), Overlaps()])
def test_torch_export_captures_models_that_cannot_be_traced(model):
    x = torch.randn(2, 32)
    program = whence.export(model, (x,))
    assert program.backend == "native-export"
    for value in x, -x:
        torch.testing.assert_close(program(value)[0], model(value), rtol=1e-4, atol=1e-5)


def test_error_of_the_model_is_raised_if_every_capture_fails():
    class Fails(torch.nn.Module):
        def forward(self, x):
            raise ZeroDivisionError("of the model")

    with pytest.raises(ZeroDivisionError, match="of the model"):
        whence.export(Fails(), torch.randn(2))


def test_exported_program_is_decomposed_if_an_operator_needs_it():
    x = torch.randn(2, 32)
    program = whence.export(torch.export.export(Overlaps(), (x,)))
    torch.testing.assert_close(program(x)[0], Overlaps()(x), rtol=1e-4, atol=1e-5)


class Divides(torch.nn.Module):
    def forward(self, x):
        return x.size(0) / 2, torch.tensor(7) / torch.tensor(2), x.to(torch.int32) / 2


@pytest.mark.parametrize("make", [lambda model: model, torch.jit.script])
def test_default_dtype_of_the_process_is_used(make):
    torch.set_default_dtype(torch.float64)
    try:
        x = torch.ones(3)
        expected = Divides()(x)
        program = whence.export(make(Divides()), (x,))
        assert_same_results(program(x), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_training_writes_batch_normalisation_as_one_node():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))
    x = torch.randn(2, 3, 5, 5)
    fresh = whence.export(copy.deepcopy(model), (x,), training="train")  # ONNX Runtime would update the statistics
    for _ in range(2):
        torch.testing.assert_close(fresh(x)[0], copy.deepcopy(model).train()(x).detach(), rtol=1e-4, atol=1e-5)
    model(x)
    program = whence.export(model, (x,), training="train")
    node, = (node for node in program.model_proto.graph.node if node.op_type == "BatchNormalization")
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    assert attributes["training_mode"] == 1 and attributes["momentum"] == pytest.approx(0.9)
    torch.testing.assert_close(program(x)[0], model.train()(x).detach(), rtol=1e-4, atol=1e-5)
