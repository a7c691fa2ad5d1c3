"""`whence.annotate` on models in memory: the nodes get the origins that a file gets, and weights stay where they are."""

import onnx
import onnx_ir
import pytest
import torch
from onnx import TensorProto, helper

import whence
from python.test_models_in_memory import Net
from whence.files import memory_edits

pytestmark = pytest.mark.usefixtures("quiet")


class Case:
    def __init__(self, folder):
        torch.manual_seed(0)
        self.model, self.x = Net().eval(), torch.randn(2, 6)
        self.sidecar, self.path, self.annotated = (folder / name for name in ("net.whence.json", "net.onnx", "annotated.onnx"))
        with whence.record(self.sidecar):
            self.export().save(self.path, external_data=True)
        self.report = whence.annotate(self.path, self.sidecar, output=self.annotated)

    def export(self) -> torch.onnx.ONNXProgram:
        return torch.onnx.export(self.model, (self.x,), dynamo=True, verbose=False)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return Case(tmp_path_factory.mktemp("case"))


def origins(nodes) -> list[tuple[str, dict[str, str]]]:
    return [(node.name, dict(node.metadata_props)) for node in nodes]


def origins_in(path) -> list[tuple[str, dict[str, str]]]:
    return origins(onnx_ir.load(path).graph)


@pytest.mark.parametrize("form", ["program", "ir", "ir with external weights", "proto"])
def test_nodes_get_the_origins_that_the_file_gets(form, case):
    model = {"program": case.export, "ir": lambda: case.export().model, "proto": lambda: onnx.load(case.path),
             "ir with external weights": lambda: onnx_ir.load(case.path)}[form]()
    report = whence.annotate(model, case.sidecar)
    nodes = onnx_ir.from_proto(model).graph if form == "proto" else getattr(model, "model", model).graph
    assert origins(nodes) == origins_in(case.annotated)
    assert any(keys["pkg.whence.module"] == "second" for _, keys in origins(nodes))
    assert (report.matched, report.nodes, report.path) == (case.report.matched, case.report.nodes, None)
    assert str(report).startswith("in memory: ")


def test_a_model_whose_external_weights_were_not_loaded(case):
    """A ModelProto does not state in which folder they are."""
    model = onnx.load(case.path, load_external_data=False)
    before = [tensor.SerializeToString() for tensor in model.graph.initializer]
    assert any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer)
    whence.annotate(model, case.sidecar)
    assert [(name, keys["pkg.whence.module"]) for name, keys in origins(onnx_ir.from_proto(model).graph)] == [
        (name, keys["pkg.whence.module"]) for name, keys in origins_in(case.annotated)]
    assert [tensor.SerializeToString() for tensor in model.graph.initializer] == before


def test_complete_model_equals_the_annotated_file(case):
    """Also its IR version and its metadata."""
    model = onnx.load(case.path)
    whence.annotate(model, case.sidecar)
    assert model == onnx.load(case.annotated)


def test_tensors_stay_the_same_objects(case):
    model = onnx_ir.load(case.path)
    before = {name: value.const_value for name, value in model.graph.initializers.items()}
    assert any(isinstance(tensor, onnx_ir.ExternalTensor) for tensor in before.values())
    whence.annotate(model, case.sidecar)
    assert {name: value.const_value for name, value in model.graph.initializers.items()} == before


def test_large_and_lazy_weights_are_not_read(case, monkeypatch):
    """The origins are right without the contents of the weights."""
    class Unreadable(onnx_ir.Tensor):
        def tobytes(self):
            raise AssertionError("the weight was read")

        numpy = tobytes

    def evaluate():
        raise AssertionError("the lazy weight was evaluated")

    monkeypatch.setattr(memory_edits, "_MAX_WRITTEN", 2000)
    model = case.export().model
    first, second = (next(value for name, value in model.graph.initializers.items() if name == f"{layer}.weight")
                     for layer in ("first", "second"))
    first.const_value = Unreadable(first.const_value.numpy(), dtype=first.dtype, name=first.name)
    second.const_value = onnx_ir.LazyTensor(evaluate, second.dtype, second.shape, name=second.name)
    assert first.const_value.nbytes == 2400 and second.const_value.nbytes == 1200
    whence.annotate(model, case.sidecar)
    assert [(name, keys["pkg.whence.module"]) for name, keys in origins(model.graph)] == [
        (name, keys["pkg.whence.module"]) for name, keys in origins_in(case.annotated)]


def with_subgraph_and_function() -> onnx.ModelProto:
    """A node, a branch in an If, and a call of a local function, each with PyTorch's key for a module of its own."""
    def node(op_type, inputs, output, module, **attributes):
        made = helper.make_node(op_type, inputs, [output], **attributes)
        entry = made.metadata_props.add()
        entry.key, entry.value = "pkg.torch.onnx.name_scopes", repr(["", module, "call"])
        return made

    def branch(name):
        value = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [2])
        return helper.make_graph([node("Relu" if name == "yes" else "Tanh", ["a"], f"{name}_y", name)], name, [], [value])

    function = helper.make_function("local", "Body", ["p"], ["q"], [node("Exp", ["p"], "q", "body")],
                                    [helper.make_opsetid("", 18)])
    graph = helper.make_graph(
        [node("Abs", ["x"], "a", "first"), node("If", ["c"], "b", "choice", then_branch=branch("yes"), else_branch=branch("no")),
         node("Body", ["b"], "y", "caller", domain="local")], "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("local", 1)],
                             functions=[function], ir_version=10)


@pytest.mark.parametrize("form", ["ir", "proto"])
def test_nodes_of_branches_and_functions(form, tmp_path):
    model = with_subgraph_and_function()
    onnx.save(model, tmp_path / "file.onnx")
    whence.annotate(tmp_path / "file.onnx")
    edited = onnx_ir.from_proto(model) if form == "ir" else model
    whence.annotate(edited)
    got = edited if form == "ir" else onnx_ir.from_proto(edited)
    expected = onnx_ir.load(tmp_path / "file.onnx")
    modules = [keys["pkg.whence.module"] for _, keys in origins(got.graph.all_nodes())]
    assert sorted(modules) == ["body", "choice", "first", "no", "yes"]  # a call has the module of its body
    assert origins(got.graph.all_nodes()) == origins(expected.graph.all_nodes())
    [body], [expected_body] = got.functions.values(), expected.functions.values()
    assert origins(body) == origins(expected_body)


@pytest.mark.parametrize("load", [onnx.load, onnx_ir.load])
def test_error_leaves_the_model_as_it_was(load, case, tmp_path):
    with whence.record(tmp_path / "other.whence.json"):
        torch.onnx.export(torch.nn.Conv2d(1, 1, 1), (torch.ones(1, 1, 2, 2),), dynamo=True, verbose=False)
    model = load(case.path)
    before = onnx_ir.to_proto(model) if load is onnx_ir.load else onnx.load(case.path)
    with pytest.raises(whence.WhenceError) as raised:
        whence.annotate(model, tmp_path / "other.whence.json")
    assert raised.value.code == "E0206"
    assert (onnx_ir.to_proto(model) if load is onnx_ir.load else model) == before


@pytest.mark.parametrize("options", [{"functions": "auto"}, {"values": "net.values.safetensors"}])
def test_changes_of_the_graph_and_runs_need_an_output(options, case):
    with pytest.raises(whence.WhenceError, match="output='model.onnx'") as raised:
        whence.annotate(onnx_ir.load(case.path), case.sidecar, **options)
    assert raised.value.code == "E0101"
