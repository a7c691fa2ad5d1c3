"""User-defined operators: registered converters, separate domains, torch.autograd.Function."""


import onnx
import onnxscript
import pytest
import torch
import whence
from onnxscript import opset18 as op

pytestmark = pytest.mark.usefixtures("quiet")

user_opset = onnxscript.values.Opset("mine", 1)
library = torch.library.Library("whence_test_mylib", "DEF")
library.define("scaled(Tensor x, float factor) -> Tensor")
library.impl("scaled", lambda x, factor: x * factor, "CompositeExplicitAutograd")
SCALED = torch.ops.whence_test_mylib.scaled.default


class Uses(torch.nn.Module):
    def forward(self, x):
        return torch.ops.whence_test_mylib.scaled(x, 2.5) + 1


@onnxscript.script(user_opset)
def scaled(x, factor: float):
    return op.Mul(x, op.Constant(value_float=factor))


@onnxscript.script(user_opset)
def scaled_later(x, factor: float):
    return op.Neg(op.Neg(op.Mul(x, op.Constant(value_float=factor))))


def operators(program):
    return [node.op_type for function in program.model_proto.functions for node in function.node]


def test_converters_registered_for_a_range_of_opsets():
    x = torch.randn(2, 3)
    whence.register_custom_op(SCALED, scaled, 18)
    whence.register_custom_op("whence_test_mylib::scaled", scaled_later, 20, until=21)
    try:
        for opset, has_neg in ((18, False), (19, False), (20, True), (21, True), (22, False)):
            program = whence.export(Uses(), x, backend="native-export", opset_version=opset)
            torch.testing.assert_close(program(x)[0], x * 2.5 + 1)
            assert ("Neg" in operators(program)) == has_neg, opset
        own_table = whence.export(Uses(), x, backend="native-export", opset_version=20,
                                  custom_translation_table={SCALED: scaled})
        assert "Neg" not in operators(own_table)  # the table of this export overrides the registry
        whence.unregister_custom_op(SCALED, 20)
        program = whence.export(Uses(), x, backend="native-export", opset_version=20)
        assert "Neg" not in operators(program)
    finally:
        whence.unregister_custom_op(SCALED)
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(Uses(), x, backend="native-export")
    assert raised.value.code == "E0301" and "--" not in raised.value.remedy
    assert "custom_translation_table" in raised.value.remedy and "custom_opsets={'" in raised.value.remedy
    with pytest.raises(whence.WhenceError, match="nothing is registered"):
        whence.unregister_custom_op(SCALED)


@pytest.mark.parametrize("operator, first, last, code", [
    ("scaled", 18, 23, "E0104"), ("onnx scaled::x", 18, 23, "E0104"), (SCALED, 12, 23, "E0101"),
    (SCALED, 20, 19, "E0101"), (SCALED, 18, 99, "E0101")])
def test_invalid_registrations_are_refused(operator, first, last, code):
    with pytest.raises(whence.WhenceError) as raised:
        whence.register_custom_op(operator, scaled, first, until=last)
    assert raised.value.code == code and raised.value.remedy
    with pytest.raises(whence.WhenceError):
        whence.unregister_custom_op(SCALED)


def scaled_undecorated(x, factor: float):
    return op.Mul(x, op.Constant(value_float=factor))


def test_undecorated_function_is_a_translation():
    """torch.onnx.export also accepts functions without onnxscript's decorator."""
    x = torch.randn(2, 3)
    program = whence.export(Uses(), x, backend="native-export", custom_translation_table={SCALED: scaled_undecorated})
    torch.testing.assert_close(program(x)[0], x * 2.5 + 1)


def prints(x, factor: float):
    print("not ONNX")
    return [x for _ in range(3)]


def test_function_without_onnx_operators_is_refused():
    with pytest.raises(whence.WhenceError, match="it returns 3 values") as raised:
        whence.export(Uses(), torch.randn(2, 3), backend="native-export", custom_translation_table={SCALED: prints})
    assert raised.value.code == "E0302" and raised.value.remedy


def test_operator_is_written_in_a_custom_domain():
    program = whence.export(Uses(), torch.randn(2, 3), backend="native-export",
                            custom_opsets={"whence_test_mylib": 3, "unused": 2})
    model = program.model_proto
    assert {opset.domain: opset.version for opset in model.opset_import} == {"": 20, "whence_test_mylib": 3}
    node = next(node for node in model.graph.node if node.domain)
    assert (node.domain, node.op_type) == ("whence_test_mylib", "scaled")
    assert {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}["factor"] == 2.5
    assert {entry.key: entry.value for entry in node.metadata_props}["pkg.whence.confidence"] == "exact"
    for wrong in ({"mylib": 0}, {"": 18}, {"mylib": "1"}):
        with pytest.raises(whence.WhenceError) as raised:
            whence.export(Uses(), torch.randn(2, 3), custom_opsets=wrong)
        assert raised.value.code == "E0101"


def test_operator_export_types():
    class Lacking(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.matrix_exp(x) + 1

    x = torch.randn(3, 3)
    kinds = torch.onnx.OperatorExportTypes
    for kind in (kinds.ONNX_ATEN_FALLBACK, kinds.ONNX_FALLTHROUGH, "ONNX_ATEN_FALLBACK"):
        program = whence.export(Lacking(), x, operator_export_type=kind)
        assert "whence.aten" in [node.domain for node in program.model_proto.graph.node]
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(Lacking(), x, operator_export_type=kinds.ONNX)
    assert raised.value.code == "E0301"
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(Lacking(), x, operator_export_type=kinds.ONNX_ATEN)
    assert raised.value.code == "E0303"


# ---- torch.autograd.Function ----------------------------------------------------------------------------------------


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, largest=2.0):
        ctx.save_for_backward(x)
        ctx.mark_non_differentiable()
        return x.clamp(max=largest)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Split(torch.autograd.Function):
    """Uses setup_context, and returns two results."""

    @staticmethod
    def forward(x):
        return x.relu(), -x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, a, b):
        return a


class WithFunctions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.inner = torch.nn.Module()

    def forward(self, x):
        positive, negative = Split.apply(Clipped.apply(self.linear(x), 0.5))
        return positive * 2 + negative


@pytest.mark.parametrize("backend", ["native", "native-export", "torch-dynamo"])
def test_autograd_functions_are_inlined(backend):
    model, x = WithFunctions().eval(), torch.randn(2, 3)
    program = whence.export(model, x, backend=backend, verify=True)
    assert program.verification.ok and not any(node.domain for node in program.model_proto.graph.node)
    x.requires_grad_()
    model(x).sum().backward()  # autograd still works: the functions were not changed
    assert x.grad is not None and "apply" in torch.autograd.Function.__dict__


@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_apply_stored_in_a_model_attribute(backend):
    class Holds(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.clip, self.split = Clipped.apply, Split.apply

        def forward(self, x):
            return self.clip(x, 1.0) + self.split(x)[1]

    x = torch.randn(3, 4, requires_grad=True)
    model = Holds()
    program = whence.export(model, (x,), backend=backend)
    torch.testing.assert_close(program(x)[0], model(x).detach(), rtol=1e-5, atol=1e-6)
    model(x).sum().backward()
    assert x.grad is not None


@onnxscript.script(user_opset)
def clipped(x, largest: float):
    return op.Min(x, op.CastLike(op.Constant(value_float=largest), x))


@onnxscript.script(user_opset)
def split(x):
    return op.Relu(x), op.Neg(x)


def test_autograd_functions_are_kept_and_translated():
    model, x = WithFunctions().eval(), torch.randn(2, 3)
    program = whence.export(model, x, backend="native-export", autograd_inlining=False,
                            custom_translation_table={Clipped: clipped, Split: split}, verify=True)
    assert program.verification.ok
    functions = [node.op_type for node in program.model_proto.graph.node if node.domain == "whence.whence_autograd"]
    assert functions == ["Clipped", "Split"]
    domain = whence.export(model, x, backend="native-export", autograd_inlining=False,
                           custom_opsets={"whence_autograd": 1})
    assert [node.op_type for node in domain.model_proto.graph.node if node.domain == "whence_autograd"] == functions
    with pytest.raises(whence.WhenceError, match="whence_autograd::Clipped") as raised:
        whence.export(model, x, backend="native-export", autograd_inlining=False)
    assert raised.value.code == "E0301"
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(model, x, autograd_inlining=False)
    assert raised.value.code == "E0101" and "native-export" in raised.value.remedy


# ---- operators that an export cannot convert -------------------------------------------------------------------------


class LacksTwo(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(3, 3))
        self.inner.append(Cumulative())

    def forward(self, x, n=2):
        return torch.linalg.matrix_exp(self.inner(x)) * n + torch.nextafter(x, x)


class Cumulative(torch.nn.Module):
    def forward(self, x):
        return torch.nextafter(x, x)


@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_unconvertible_operators(backend):
    model, x = LacksTwo().train(), torch.randn(3, 3)
    names = whence.unconvertible_ops(model, (x, 3), 18, backend=backend)
    assert sorted(name.split(".")[0] for name in names) == ["aten::linalg_matrix_exp", "aten::nextafter"]
    first = next(name for name in names if "nextafter" in name)
    assert first.diagnostic.count == 2 and first.diagnostic.where["module"] == "inner.1" and model.training
    assert whence.unconvertible_ops(model.inner[0], x, backend=backend) == []
    with pytest.raises(whence.WhenceError) as raised:
        whence.unconvertible_ops(model, x, 12)
    assert raised.value.code == "E0101"


def test_unconvertible_operators_of_scripted_and_exported_programs():
    class Lacks(torch.nn.Module):
        def forward(self, x):
            return torch.nextafter(x, x)

    x = torch.randn(3, 3)
    assert [str(name) for name in whence.unconvertible_ops(torch.jit.script(Lacks()), x)] == ["aten::nextafter"]
    assert [name.split(".")[0] for name in whence.unconvertible_ops(torch.export.export(Lacks(), (x,)))] == [
        "aten::nextafter"]


@onnxscript.script(user_opset)
def without_weight(x):
    return op.Relu(x)


def test_translation_that_would_drop_tensors_is_refused():
    with pytest.raises(whence.WhenceError, match="takes 1 tensors, .* 2 to 4") as raised:
        whence.export(torch.nn.Linear(3, 4), (torch.ones(2, 3),),
                      custom_translation_table={torch.ops.aten.linear.default: without_weight})
    assert raised.value.code == "E0104"


@pytest.mark.parametrize("dynamo", [None, True])
def test_operator_registered_in_python_is_exported_by_default(dynamo):
    x = torch.randn(2, 3)
    program = whence.export(Uses(), (x,), dynamo=dynamo, custom_translation_table={SCALED: scaled})
    assert program.backend == "native-export"
    torch.testing.assert_close(program(x)[0], Uses()(x))
    assert whence.unconvertible_ops(Uses(), (x,)) == ["whence_test_mylib::scaled"]
    model = whence.export(Uses(), (x,), dynamo=dynamo, custom_opsets={"whence_test_mylib": 2}).model_proto
    assert [(node.domain, node.op_type) for node in model.graph.node] == [("whence_test_mylib", "scaled"), ("", "Add")]


@pytest.mark.parametrize("backend", ["native", "torch-dynamo"])
def test_translations_with_python_control_flow(backend):
    def by_value(x, factor: float):
        return op.Identity(x) if factor == 1 else op.Mul(x, op.Constant(value_float=factor))

    x = torch.randn(2, 3)
    program = whence.export(Uses(), (x,), backend=backend, custom_translation_table={SCALED: by_value})
    torch.testing.assert_close(program(x)[0], Uses()(x))


def test_options_that_are_not_dicts_are_refused():
    for option in ("custom_translation_table", "custom_opsets"):
        with pytest.raises(whence.WhenceError, match=option) as refused:
            whence.export(Uses(), (torch.randn(2, 3),), **{option: [1]})
        assert refused.value.code == "E0101"


@torch.library.custom_op("whence_test_mylib_writes::shifted", mutates_args={"x"})
def shifted(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    x.add_(by)
    return x * 2


@shifted.register_fake
def _(x, by):
    return torch.empty_like(x)


def test_operator_that_writes_to_its_arguments_is_refused():
    class Shifts(torch.nn.Module):
        def forward(self, x):
            y = x.clone()
            return shifted(y, x) + y

    for options in ({}, {"dynamo": True}):
        with pytest.raises(whence.WhenceError, match="no converter: whence_test_mylib_writes::shifted") as raised:
            whence.export(Shifts(), (torch.randn(2),), **options)
        assert raised.value.code == "E0301"
