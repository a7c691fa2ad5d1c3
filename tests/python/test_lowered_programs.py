"""Programs that are functionalized before they are saved: torch.vmap, and operators that write to their arguments."""


import onnx
import pytest
import torch
import whence
from onnxscript import opset18 as op

from results import assert_same_results

pytestmark = pytest.mark.usefixtures("quiet")


class Mapped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)
        self.after = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 2))

    def forward(self, x):
        return self.after(torch.vmap(self.layer)(x))


def vmapped(function, **dims):
    class One(torch.nn.Module):
        def forward(self, x):
            return torch.vmap(function, **dims)(x)

    class Two(torch.nn.Module):
        def forward(self, x, y):
            return torch.vmap(function, **dims)(x, y)

    return One() if function.__code__.co_argcount == 1 else Two()


class Nested(torch.nn.Module):
    def forward(self, x, y):
        return torch.vmap(lambda a, b: torch.vmap(lambda c: c * a.sum())(b))(x, y)


CASES = {
    "linear": (Mapped(), [(5, 3)]),
    "dot": (vmapped(lambda a, b: torch.dot(a, b)), [(5, 3), (5, 3)]),
    "matmul": (vmapped(lambda a, b: a @ b, in_dims=(0, None)), [(5, 2, 3), (3, 4)]),
    "sum over the batch": (vmapped(lambda a: a.sum(), in_dims=1), [(5, 3)]),
    "other dimensions": (vmapped(lambda a, b: a * b.sum(0), in_dims=(1, 2), out_dims=1), [(3, 5), (4, 3, 5)]),
    "several results": (vmapped(lambda a: (a.relu(), a.cumsum(0)), in_dims=-1, out_dims=(0, 1)), [(3, 5)]),
    "nested": (Nested(), [(5, 3), (5, 4)]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_vmap(name, backend):
    if name == "nested" and backend == "native":
        pytest.skip("torch.jit.trace has no nested vmap")
    model, shapes = CASES[name]
    args = tuple(torch.randn(shape) for shape in shapes)
    program = whence.export(model, args, backend=backend)
    onnx.checker.check_model(program.model_proto, full_check=True)
    expected = model(*args)
    assert_same_results(program(*args), expected if isinstance(expected, tuple) else [expected])
    assert program.validation.clean


def test_vmap_of_a_dynamic_batch_keeps_modules():
    model = Mapped().eval()
    program = whence.export(model, (torch.randn(5, 3),), dynamo=True, dynamic_shapes={"x": {0: "n"}})
    for size in (2, 7):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x)[0], model(x).detach(), rtol=1e-5, atol=1e-5)
    modules = {entry.value for node in program.model_proto.graph.node for entry in node.metadata_props
               if entry.key == "pkg.whence.module"}
    assert {"layer", "after.0", "after.1"} <= modules and program.validation.coverage.percent == 100


# ---- operators that write to their arguments ------------------------------------------------------------------------


library = torch.library.Library("whence_test_lowered", "DEF")
library.define("add_into(Tensor y, Tensor(a!) x) -> ()")
library.impl("add_into", lambda y, x: (x.add_(y), None)[1], "CompositeExplicitAutograd")
library.define("shifted(Tensor y, Tensor(a!) x, float by=1.0) -> Tensor")


def _shifted(y, x, by=1.0):
    x.add_(y * by)
    return x * 2


library.impl("shifted", _shifted, "CPU")
torch.library.register_fake("whence_test_lowered::shifted", lambda y, x, by=1.0: torch.empty_like(x))
OPS = torch.ops.whence_test_lowered
TABLE = {OPS.add_into.default: lambda y, x: op.Add(x, y)}


class Writes(torch.nn.Module):
    def forward(self, x, y):
        z = x.clone()
        OPS.add_into(y, z)
        return z + OPS.shifted(y, z, 2.5), z


def shifted(y, x, by=1.0):
    updated = op.Add(x, op.Mul(y, by))
    return op.Mul(updated, 2), updated


@pytest.mark.parametrize("dynamo", [None, True])
def test_translation_returns_written_tensors(dynamo):
    """A translation returns the operator's results, then the written tensors."""
    x, y = torch.randn(3), torch.randn(3)
    program = whence.export(Writes(), (x, y), dynamo=dynamo, custom_translation_table=TABLE | {
        OPS.shifted.default: shifted})
    assert_same_results(program(x, y), Writes()(x, y))
    assert program.validation.clean and "whence" not in str(program.model_proto.opset_import)


def test_writing_operators_in_a_custom_domain():
    x, y = torch.randn(3), torch.randn(3)
    program = whence.export(Writes(), (x, y), custom_opsets={"whence_test_lowered": 2})
    nodes = {node.op_type: node for node in program.model_proto.graph.node if node.domain}
    assert {name: (len(node.input), len(node.output)) for name, node in nodes.items()} == {
        "add_into": (2, 1), "shifted": (2, 2)}
    inputs = onnx.helper.get_node_attr_value(nodes["shifted"], "inputs")
    assert [each.decode() for each in inputs] == ["x", "y"]  # the written tensors come first


def test_writing_operator_without_a_translation_is_refused():
    with pytest.raises(whence.WhenceError, match="whence_test_lowered::shifted") as raised:
        whence.export(Writes(), (torch.randn(3), torch.randn(3)), custom_translation_table=TABLE)
    assert raised.value.code == "E0301"


def test_write_to_part_of_a_tensor_is_refused():
    class Part(torch.nn.Module):
        def forward(self, x, y):
            z = x.clone()
            OPS.add_into(y, z[0])
            return z

    with pytest.raises(whence.WhenceError, match="add_into, which writes to a part of a tensor") as raised:
        whence.export(Part(), (torch.randn(2, 3), torch.randn(3)), custom_translation_table=TABLE)
    assert raised.value.code == "E0303" and raised.value.remedy
