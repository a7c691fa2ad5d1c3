"""Exports of traces use functions registered with torch.onnx.register_custom_op_symbolic."""

import warnings

import onnx
import pytest
import torch
import whence
from torch.onnx import symbolic_helper


@pytest.fixture
def register():
    """Returns torch.onnx.register_custom_op_symbolic; registrations are removed after the test."""
    registered = []

    def register(name, function, opset=9):
        registered.append((name, opset))
        torch.onnx.register_custom_op_symbolic(name, function, opset)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield register
        for name, opset in registered:
            torch.onnx.unregister_custom_op_symbolic(name, opset)


def gelu(g, self, approximate):
    assert symbolic_helper._get_const(approximate, "s", "approximate") == "none"
    return g.op("com.microsoft::Gelu", self).setType(self.type())


def test_symbolic_with_a_custom_domain(register):
    register("::gelu", gelu)
    model, x = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU()), torch.randn(2, 4)
    program = whence.export(model, (x,), dynamic_axes={"input": {0: "n"}}, opset_version=18)
    proto = program.model_proto
    node = proto.graph.node[-1]
    assert (node.domain, node.op_type) == ("com.microsoft", "Gelu")
    assert "1" in {entry.key: entry.value for entry in node.metadata_props}["pkg.torch.onnx.name_scopes"]
    assert {opset.domain: opset.version for opset in proto.opset_import} == {"": 18, "com.microsoft": 1}
    torch.testing.assert_close(program(x)[0], model(x), rtol=1e-4, atol=1e-5)
    other = whence.export(model, (x,), custom_opsets={"com.microsoft": 2}, opset_version=18).model_proto
    assert other.opset_import[1].version == 2
    assert whence.export(model, (x,), backend="native-export").model_proto.graph.node[-1].domain == ""


def test_symbolics_with_several_nodes_lists_and_numbers(register):
    @symbolic_helper.parse_args("v", "i")
    def cat(g, tensors, dim):
        return g.op("Concat", *symbolic_helper._unpack_list(tensors), axis_i=dim)

    @symbolic_helper.parse_args("v", "is", "b", "i")
    def twice_mean(g, x, dim, keepdim, dtype):
        assert dtype is None
        mean = g.op("ReduceMean", x, axes_i=dim, keepdims_i=keepdim)
        return g.op("Mul", mean, g.op("Constant", value_t=torch.tensor(2.0)))

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.cat([x, x.relu()], 1).mean(1, keepdim=True) + torch.cat([x, x], 1).mean((0, 1))

    register("aten::cat", cat)
    register("aten::mean", twice_mean)
    x = torch.randn(2, 4)
    program = whence.export(Model(), (x,), opset_version=17)
    onnx.checker.check_model(program.model_proto, full_check=True)
    expected = 2 * (torch.cat([x, x.relu()], 1).mean(1, keepdim=True) + torch.cat([x, x], 1).mean((0, 1)))
    torch.testing.assert_close(program(x)[0], expected, rtol=1e-4, atol=1e-5)


def test_symbolic_in_a_branch_at_its_registered_opsets(register):
    class Model(torch.nn.Module):
        def forward(self, x):
            if bool(x.sum() > 0):
                return torch.nn.functional.gelu(x)
            return x

    register("aten::gelu", gelu, 17)
    x, model = torch.ones(2, 3), torch.jit.script(Model())
    branches = [attribute.g for node in whence.export(model, (x,), opset_version=17).model_proto.graph.node
                for attribute in node.attribute if attribute.HasField("g")]
    assert "com.microsoft" in [node.domain for branch in branches for node in branch.node]
    older = whence.export(model, (x,), opset_version=16).model_proto
    assert {opset.domain for opset in older.opset_import} == {""}


def test_symbolic_that_returns_its_argument(register):
    register("aten::relu", lambda g, self: self)
    x = torch.randn(2, 3)
    program = whence.export(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh(), torch.nn.ReLU()), (x,))
    onnx.checker.check_model(program.model_proto, full_check=True)
    torch.testing.assert_close(program(x)[0], x.tanh(), rtol=1e-4, atol=1e-5)


def test_symbolic_that_raises(register):
    def failing(g, self, approximate):
        raise ValueError("not today")

    register("aten::gelu", failing)
    with pytest.raises(whence.WhenceError, match="not today") as raised:
        whence.export(torch.nn.GELU(), (torch.ones(2),), opset_version=18)
    assert raised.value.code == "E0302"
