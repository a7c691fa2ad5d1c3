"""Every function of the package that reads a model takes a path, a program, an onnx.ModelProto or an onnx_ir.Model."""

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


def other() -> Net:
    """A model of other weights, for a comparison that finds that."""
    model = Net().eval()
    torch.nn.init.ones_(model.second.weight)
    return model


class Made:
    """One model, in every form that holds it."""

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
def made(tmp_path_factory):
    return Made(tmp_path_factory.mktemp("made"))


def modules_of(path) -> list[str]:
    return sorted({each.path for each in whence.show(path)})


# What each function says of a model, without what is the file's: its name and its times.
SAYS = {
    "show": lambda made, model, out: list(whence.show(model)),
    "explain": lambda made, model, out: whence.explain(model, onnx.load(made.path).graph.node[0].name).module,
    "diff": lambda made, model, out: (whence.diff(model, made.path).same, whence.diff(made.path, model).same),
    "compare": lambda made, model, out: whence.compare(made.path, model).diff["same"],
    "validate": lambda made, model, out: (whence.validate(model, baseline=model).clean, whence.validate(model).coverage),
    "select": lambda made, model, out: whence.select(model, ["first"]).names,
    "place": lambda made, model, out: whence.place(model, ["cpu=**"]).devices,
    "profile": lambda made, model, out: whence.profile(model, made.measured, optimized=model).operator_time,
    "accuracy": lambda made, model, out: [(each.name, each.status) for each in whence.accuracy(model, made.values).modules],
    "sensitivity": lambda made, model, out: whence.sensitivity(model, [(made.x,)], time=False).together_error,
    "verify": lambda made, model, out: (whence.verify(model, made.model, made.x).ok,
                                        whence.verify(model, other(), made.x).ok),
    "annotate": lambda made, model, out: whence.annotate(model, made.program.sidecar, output=out).exact,
    "carry": lambda made, model, out: whence.carry(model, lambda a, b: onnx.save(onnx.load(a), b), out).exact,
    "functions": lambda made, model, out: whence.functions(model, output=out, types=["Linear"]).nodes_after,
    "inline": lambda made, model, out: modules_of(whence.inline(model, output=out)),
    "extract": lambda made, model, out: modules_of(whence.extract(model, "second", out)),
}


def test_the_table_has_every_function_that_takes_a_model():
    takes = [name for name in whence.__all__ if inspect.isfunction(getattr(whence, name))
             and any(each.annotation == "Model" for each in inspect.signature(getattr(whence, name)).parameters.values())]
    assert sorted(takes) == sorted(SAYS)
    takes_paths = [name for name in whence.__all__ if inspect.isfunction(getattr(whence, name))
                   and any(each.name in ("model", "path") and "PathLike" in str(each.annotation)
                           for each in inspect.signature(getattr(whence, name)).parameters.values())]
    assert sorted(takes_paths) == ["record", "record_values"]  # what they write


@pytest.mark.parametrize("function", SAYS)
def test_all_forms_are_one_model(function, made, tmp_path):
    say = SAYS[function]
    expected = say(made, made.path, tmp_path / "path.onnx")
    for name, form in made.forms().items():
        assert say(made, form, tmp_path / f"{name}.onnx") == expected, name
    assert expected not in ((), [], None) and expected is not False


@pytest.mark.parametrize("function, arguments", [("show", {}), ("validate", {}), ("select", {"modules": ["first"]})])
def test_the_model_goes_by_either_name(function, arguments, made):
    """But for accuracy and verify, of which `model` is the PyTorch model."""
    call = getattr(whence, function)
    assert repr(call(model=made.path, **arguments)) == repr(call(path=made.path, **arguments)) == repr(call(made.path, **arguments))
    with pytest.raises(TypeError, match="unexpected keyword|multiple values"):
        call(made.path, model=made.path, path=made.path)
    with pytest.raises(TypeError):
        whence.accuracy(model=made.path)


def test_the_programs_of_pytorch(made):
    program = torch.onnx.export(made.model, (made.x,), dynamo=True, verbose=False)
    assert whence.verify(program, made.model, made.x).ok
    assert whence.validate(program).coverage.nodes == len(program.model_proto.graph.node)


@pytest.mark.parametrize("function", ["annotate", "functions", "inline", "carry"])
def test_a_model_in_memory_is_not_written_to(function, made):
    model = onnx.load(made.path)
    before = model.SerializeToString()
    arguments = {"annotate": (made.program.sidecar,), "carry": (["true", "{in}"],)}.get(function, ())
    with pytest.raises(whence.WhenceError, match="output='model.onnx'") as raised:
        getattr(whence, function)(model, *arguments)
    assert raised.value.code == "E0101" and model.SerializeToString() == before


@pytest.mark.parametrize("wrong", [None, 3, b"bytes", torch.nn.Linear(1, 1)])
def test_what_holds_no_model_is_refused(wrong):
    for function in (whence.show, whence.validate):
        with pytest.raises(whence.WhenceError) as raised:
            function(wrong)
        assert raised.value.code == "E0101" and "onnx.ModelProto" in raised.value.remedy


@pytest.mark.parametrize("load", [onnx.load, onnx_ir.load])
def test_weights_that_do_not_fit_into_a_file_lie_beside_it(load, made, monkeypatch):
    """A message of protobuf ends at 2 GiB; here after a byte."""
    monkeypatch.setattr(model_files, "_MAX_EMBEDDED", 1)
    model = load(made.path)
    with model_files.as_file(model) as path:
        name = os.path.basename(path)
        assert sorted(os.listdir(os.path.dirname(path))) == [name, f"{name}.data"]
        assert whence.verify(path, made.model, made.x).ok
    assert whence.verify(model, made.model, made.x).ok  # it still has its weights
    assert not os.path.exists(path)


def test_weights_in_a_file_of_their_own(made, tmp_path):
    whence.export(made.model, (made.x,), tmp_path / "outside.onnx", external_data={"threshold": 1})
    assert (tmp_path / "outside.onnx.data").exists()
    for model in (onnx.load(tmp_path / "outside.onnx"), onnx_ir.load(tmp_path / "outside.onnx")):
        assert whence.verify(model, made.model, made.x).ok and not whence.verify(model, other(), made.x).ok


def test_an_error_names_the_graph_and_not_the_file_that_is_gone(made):
    model = onnx.load(made.path)
    model.graph.name = "my graph"
    with pytest.raises(whence.WhenceError) as raised:
        whence.explain(model, "no such node")
    assert raised.value.code == "E0105" and raised.value.diagnostics[0].where["file"] == "my_graph.onnx"
    assert tempfile.gettempdir() not in str(raised.value)


def test_a_program_is_a_path(made):
    assert os.fspath(made.in_memory) == str(made.in_memory.path)
    [got] = onnxruntime.InferenceSession(os.fspath(made.in_memory)).run(None, {"x": made.x.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), made.model(made.x).detach(), rtol=1e-4, atol=1e-5)
    assert onnx.load(made.in_memory) == made.in_memory.model_proto
