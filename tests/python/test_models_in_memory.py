"""Every function that reads a model accepts a path, a program, an onnx.ModelProto or an onnx_ir.Model."""

import inspect
import os
import tempfile

import onnx
import onnx_ir
import onnxruntime
import pytest
import torch
import whence
from whence.files import model_files

pytestmark = pytest.mark.usefixtures("quiet")


class Net(torch.nn.Module):
    """x: float32[n, 6] -> float32[n, 3]"""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 100), torch.nn.Linear(100, 3)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def other_model() -> Net:
    """Returns a model with other weights, so that a comparison finds differences."""
    model = Net().eval()
    torch.nn.init.ones_(model.second.weight)
    return model


class ModelForms:
    """One model in every form that the functions accept."""

    def __init__(self, folder):
        torch.manual_seed(0)
        self.model, self.x, self.folder = Net().eval(), torch.randn(2, 6), folder
        self.path = folder / "net.onnx"
        self.program = whence.export(self.model, (self.x,), self.path)
        self.in_memory = whence.export(self.model, (self.x,))
        self.values = whence.record_values(self.model, (self.x,))
        options = onnxruntime.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, str(folder / "ort")
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(self.path), options)
        session.run(None, {"x": self.x.numpy()})
        self.measured = session.end_profiling()

    def forms(self) -> dict:
        return {"text": str(self.path), "program": self.program, "program in memory": self.in_memory,
                "ModelProto": onnx.load(self.path), "ir": onnx_ir.load(self.path)}


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return ModelForms(tmp_path_factory.mktemp("case"))


def modules_of(path) -> list[str]:
    return sorted({row.path for row in whence.show(path)})


# The result of each function on a model, without the file's name and times.
RESULTS = {
    "show": lambda case, model, out: list(whence.show(model)),
    "explain": lambda case, model, out: whence.explain(model, onnx.load(case.path).graph.node[0].name).module,
    "diff": lambda case, model, out: (whence.diff(model, case.path).same, whence.diff(case.path, model).same),
    "compare": lambda case, model, out: whence.compare(case.path, model).diff["same"],
    "validate": lambda case, model, out: (whence.validate(model, baseline=model).clean, whence.validate(model).coverage),
    "select": lambda case, model, out: whence.select(model, ["first"]).names,
    "attest": lambda case, model, out: whence.attest(model, case.model, sidecar=case.program.sidecar).bytes,
    "refit": lambda case, model, out: whence.refit(model, other_model(), base=case.model, output=out).replaced,
    "weights": lambda case, model, out: whence.weights(model, case.model).stored,
    "place": lambda case, model, out: whence.place(model, ["cpu=**"]).devices,
    "profile": lambda case, model, out: whence.profile(model, case.measured, optimized=model).operator_time,
    "accuracy": lambda case, model, out: [
        (module.name, module.status) for module in whence.accuracy(model, case.values).modules],
    "sensitivity": lambda case, model, out: whence.sensitivity(model, [(case.x,)], time=False).together_error,
    "verify": lambda case, model, out: (whence.verify(model, case.model, case.x).ok,
                                        whence.verify(model, other_model(), case.x).ok),
    "annotate": lambda case, model, out: whence.annotate(model, case.program.sidecar, output=out).exact,
    "carry": lambda case, model, out: whence.carry(model, lambda a, b: onnx.save(onnx.load(a), b), out).exact,
    "functions": lambda case, model, out: whence.functions(model, output=out, types=["Linear"]).nodes_after,
    "inline": lambda case, model, out: modules_of(whence.inline(model, output=out)),
    "extract": lambda case, model, out: modules_of(whence.extract(model, "second", out)),
}


def test_table_has_every_function_that_takes_a_model():
    functions = [name for name in whence.__all__ if inspect.isfunction(getattr(whence, name))
                 and any(parameter.annotation == "Model"
                         for parameter in inspect.signature(getattr(whence, name)).parameters.values())]
    assert sorted(functions) == sorted(RESULTS)
    path_functions = [name for name in whence.__all__ if inspect.isfunction(getattr(whence, name))
                      and any(parameter.name in ("model", "path") and "PathLike" in str(parameter.annotation)
                              for parameter in inspect.signature(getattr(whence, name)).parameters.values())]
    assert sorted(path_functions) == ["record", "record_values"]  # these paths are outputs


@pytest.mark.parametrize("function", RESULTS)
def test_all_forms_give_the_same_result(function, case, tmp_path):
    result = RESULTS[function]
    expected = result(case, case.path, tmp_path / "path.onnx")
    for name, form in case.forms().items():
        assert result(case, form, tmp_path / f"{name}.onnx") == expected, name
    assert expected not in ((), [], None) and expected is not False


@pytest.mark.parametrize("function, arguments", [("show", {}), ("validate", {}), ("select", {"modules": ["first"]})])
def test_model_and_path_are_the_same_keyword(function, arguments, case):
    """Except in accuracy and verify, whose `model` is the PyTorch model."""
    call = getattr(whence, function)
    assert repr(call(model=case.path, **arguments)) == repr(call(path=case.path, **arguments)) == repr(call(case.path, **arguments))
    with pytest.raises(TypeError, match="unexpected keyword|multiple values"):
        call(case.path, model=case.path, path=case.path)
    with pytest.raises(TypeError):
        whence.accuracy(model=case.path)


def test_programs_of_pytorch_are_accepted(case):
    program = torch.onnx.export(case.model, (case.x,), dynamo=True, verbose=False)
    assert whence.verify(program, case.model, case.x).ok
    assert whence.validate(program).coverage.nodes == len(program.model_proto.graph.node)


@pytest.mark.parametrize("function", ["functions", "inline", "carry"])
def test_model_in_memory_needs_an_output_path(function, case):
    model = onnx.load(case.path)
    before = model.SerializeToString()
    arguments = {"carry": (["true", "{in}"],)}.get(function, ())
    with pytest.raises(whence.WhenceError, match="output='model.onnx'") as raised:
        getattr(whence, function)(model, *arguments)
    assert raised.value.code == "E0101" and model.SerializeToString() == before


@pytest.mark.parametrize("wrong", [None, 3, b"bytes", torch.nn.Linear(1, 1)])
def test_objects_without_a_model_are_refused(wrong):
    for function in (whence.show, whence.validate):
        with pytest.raises(whence.WhenceError) as raised:
            function(wrong)
        assert raised.value.code == "E0101" and "onnx.ModelProto" in raised.value.remedy


@pytest.mark.parametrize("load", [onnx.load, onnx_ir.load])
def test_large_weights_are_written_as_external_data(load, case, monkeypatch):
    """A protobuf message is limited to 2 GiB; the limit here is one byte."""
    monkeypatch.setattr(model_files, "_MAX_EMBEDDED", 1)
    model = load(case.path)
    with model_files.as_file(model) as path:
        name = os.path.basename(path)
        assert sorted(os.listdir(os.path.dirname(path))) == [name, f"{name}.data"]
        assert whence.verify(path, case.model, case.x).ok
    assert whence.verify(model, case.model, case.x).ok  # the model in memory keeps its weights
    assert not os.path.exists(path)


def test_models_with_external_data(case, tmp_path):
    whence.export(case.model, (case.x,), tmp_path / "outside.onnx", external_data={"threshold": 1})
    assert (tmp_path / "outside.onnx.data").exists()
    for model in (onnx.load(tmp_path / "outside.onnx"), onnx_ir.load(tmp_path / "outside.onnx")):
        assert whence.verify(model, case.model, case.x).ok and not whence.verify(model, other_model(), case.x).ok


def test_error_names_the_graph_and_not_the_deleted_file(case):
    model = onnx.load(case.path)
    model.graph.name = "my graph"
    with pytest.raises(whence.WhenceError) as raised:
        whence.explain(model, "no such node")
    assert raised.value.code == "E0105" and raised.value.diagnostics[0].where["file"] == "my_graph.onnx"
    assert tempfile.gettempdir() not in str(raised.value)


def test_program_is_a_path(case):
    assert os.fspath(case.in_memory) == str(case.in_memory.path)
    [got] = onnxruntime.InferenceSession(os.fspath(case.in_memory)).run(None, {"x": case.x.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), case.model(case.x).detach(), rtol=1e-4, atol=1e-5)
    assert onnx.load(case.in_memory) == case.in_memory.model_proto
