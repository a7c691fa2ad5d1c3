"""Python functions as translations: called for each operator call in the model, with symbolic tensors and Python
values."""

import warnings

import numpy as np
import onnx
import onnxscript
import pytest
import torch
import whence
from onnxscript import BOOL, FLOAT, INT64
from onnxscript import opset18 as op

from results import assert_same_results

pytestmark = pytest.mark.usefixtures("quiet")

user_opset = onnxscript.values.Opset("mine", 1)
library = torch.library.Library("whence_test_translations", "DEF")
library.define("mixed(Tensor[] parts, float[] weights, Tensor? bias=None, *, bool twice=False, str how='sum', "
               "ScalarType? dtype=None) -> Tensor")


def _mixed(parts, weights, bias=None, *, twice=False, how="sum", dtype=None):
    total = sum(part * weight for part, weight in zip(parts, weights, strict=True))
    total = total if bias is None else total + bias
    total = total * 2 if twice else total
    total = total / len(parts) if how == "mean" else total
    return total.to(dtype) if dtype else total.clone()


library.impl("mixed", _mixed, "CompositeExplicitAutograd")
library.define("split_at(Tensor x, SymInt size) -> (Tensor, Tensor)")
library.impl("split_at", lambda x, size: (x[:size].clone(), x[size:].clone()), "CompositeExplicitAutograd")
library.define("parts(Tensor x) -> Tensor[]")
library.impl("parts", lambda x: [x[0] * 2, x[1] + 1, x[2]], "CompositeExplicitAutograd")
library.define("offset(Tensor x, float by=0.1, int[] dims=[]) -> Tensor")
library.impl("offset", lambda x, by=0.1, dims=(): x + by + sum(dims), "CompositeExplicitAutograd")
OPS = torch.ops.whence_test_translations

BACKENDS = ["native", "native-export"]


class InSubmodule(torch.nn.Module):
    """Calls the function in a submodule, so that its operations have a module path."""

    def __init__(self, compute):
        super().__init__()
        self.inner = Inner(compute)

    def forward(self, *args):
        return self.inner(*args)


class Inner(torch.nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def forward(self, *args):
        return self.compute(*args)


def export(compute, args, table, backend="native", **options):
    program = whence.export(InSubmodule(compute), args, backend=backend, custom_translation_table=table, **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def operators(program):
    return [node.op_type for node in program.model_proto.graph.node]


def assert_results(program, args, expected):
    assert_same_results(program(*args), expected if isinstance(expected, (tuple, list)) else [expected], (1e-5, 1e-6))


@pytest.mark.parametrize("backend", BACKENDS)
def test_translated_nodes_are_in_the_graph(backend):
    def subtracted(self, other):
        return op.Sub(self, other)

    x, y = torch.randn(2, 3), torch.randn(2, 3)
    program = export(lambda x, y: x + y, (x, y), {torch.ops.aten.add.Tensor: subtracted}, backend)
    assert operators(program) == ["Sub"] and not program.model_proto.functions
    assert_results(program, (x, y), x - y)
    (node,) = program.model_proto.graph.node
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    assert metadata["pkg.whence.confidence"] == "exact" and metadata["pkg.whence.module"] == "inner"
    assert metadata["pkg.whence.op"] == "0" and node.name == "/inner/Sub"
    assert program.validation.clean and program.validation.coverage.percent == 100


@pytest.mark.parametrize("backend", BACKENDS)
def test_translations_may_use_python(backend):
    """Uses branches, loops, closures, defaults, keyword arguments, lists of tensors, sizes and dtypes."""
    calls = []

    def mixed(parts, weights, bias=None, *, scale=1.0, **options):
        calls.append((len(parts), weights, bias is None, options, [len(part.shape) for part in parts], parts[0].rank))
        total = parts[0] * weights[0]
        for part, weight in list(zip(parts, weights, strict=True))[1:]:
            total = total + part * weight
        if bias is not None:
            total = op.Add(total, bias)
        if options.get("twice"):
            total = op.Mul(total, 2)
        if options.get("how") == "mean":
            total = total / len(parts)
        if "dtype" in options:
            total = op.Cast(total, to=options["dtype"])
        return total * scale

    def compute(x, y):
        one = OPS.mixed([x, y], [0.1, 0.25], x[0], twice=True, how="mean")
        return one, OPS.mixed([x, y, one], [1.0, 2.0, 3.0], dtype=torch.float64)

    x, y = torch.randn(2, 3), torch.randn(2, 3)
    program = export(compute, (x, y), {OPS.mixed.default: mixed}, backend)
    assert_results(program, (x, y), compute(x, y))
    assert calls == [(2, [0.1, 0.25], False, {"twice": True, "how": "mean"}, [2, 2], 2),
                    (3, [1.0, 2.0, 3.0], True, {"dtype": onnx.TensorProto.DOUBLE}, [2, 2, 2], 2)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int32, torch.bfloat16])
@pytest.mark.parametrize("backend", BACKENDS)
def test_constants_have_the_dtype_of_the_other_operand(dtype, backend):
    def doubled(self):
        half = op.Mul(op.Identity(self), 2)  # Identity's dtype is inferred
        return op.Where(op.Less(half, 1), op.Max(half, 0), half - 1)

    x = torch.arange(6).reshape(2, 3).to(dtype)
    program = export(torch.neg, (x,), {torch.ops.aten.neg.default: doubled}, backend)
    if dtype != torch.bfloat16:  # ONNX Runtime has few kernels for bfloat16
        half = x * 2
        assert_results(program, (x,), torch.where(half < 1, half.clamp(min=0), half - 1))
    names = [tensor.name for tensor in program.model_proto.graph.initializer]
    assert len(names) == len(set(names)) == 3  # equal constants are one initializer: 2, 1 and 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_arguments_equal_those_in_the_model(backend):
    """0.1 and infinity stay Python numbers, not float32; omitted arguments use the function's defaults."""
    calls = []

    def offset(x, by=7.0, dims=()):
        calls.append((by, tuple(dims)))
        return op.Identity(x)

    inf = float("inf")

    def compute(x):
        return (OPS.offset(x, 1 / 3), OPS.offset(x), OPS.offset(x, inf, [3, 4]), OPS.offset(x, dims=[1]))

    export(compute, (torch.randn(2),), {"whence_test_translations::offset": offset}, backend)
    assert calls == [(1 / 3, ()), (7.0, ()), (inf, (3, 4)), (0.1, (1,))]


def test_numbers_in_a_trace_stay_numbers():
    calls = []

    def added(self, other, alpha=1):
        calls.append((other, alpha))
        return op.Add(self, op.Mul(other, alpha) if hasattr(other, "dtype") else other * alpha)

    x = torch.randn(2, dtype=torch.float64)
    for backend in BACKENDS:
        program = export(lambda x: torch.add(x + 1.5, x, alpha=3), (x,), {torch.ops.aten.add.Tensor: added}, backend)
        assert_results(program, (x,), x + 1.5 + 3 * x)
        assert [call if isinstance(call[0], float) else call[1] for call in calls] == [(1.5, 1), 3]
        calls.clear()


@pytest.mark.parametrize("backend", BACKENDS)
def test_translation_of_one_overload(backend):
    def negated(self, *args, **options):
        return op.Neg(self)

    def compute(x):
        return x.sum(), x.sum(0), x.relu()

    x = torch.randn(2, 3)
    by_overload = export(compute, (x,), {torch.ops.aten.sum.dim_IntList: lambda self, dim, keepdim=False: op.ReduceMax(
        self, dim, keepdims=int(keepdim))}, backend)
    assert_results(by_overload, (x,), (x.sum(), x.amax(0), x.relu()))
    by_name = export(compute, (x,), {"aten::sum.dim_IntList": lambda self, dim: op.ReduceMin(self, dim, keepdims=0),
                                   "aten::sum": lambda self: op.ReduceMax(self, keepdims=0),
                                   torch.ops.aten.relu.default: negated}, backend)
    assert_results(by_name, (x,), (x.max(), x.amin(0), -x))


@onnxscript.script(user_opset)
def largest(x):
    return op.Neg(op.ReduceMax(x, keepdims=0))


@onnxscript.script(user_opset)
def halved(x):
    return x / op.CastLike(op.Constant(value_float=2.0), x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_translation_of_one_overload_by_an_onnx_function(backend):
    def compute(x):
        return torch.max(x, x.flip(0)), x.max()

    x = torch.randn(2, 3)
    program = export(compute, (x,), {torch.ops.aten.max.default: largest}, backend, opset_version=18)
    assert [node.op_type for node in program.model_proto.graph.node if node.domain] == ["max.default"]
    assert_results(program, (x,), (torch.max(x, x.flip(0)), -x.max()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_called_functions_are_inlined(backend):
    def squashed(self):
        return halved(self) + halved(op.Tanh(self))

    x = torch.randn(2, 3)
    program = export(torch.relu, (x,), {torch.ops.aten.relu.default: squashed}, backend)
    assert not program.model_proto.functions and {node.domain for node in program.model_proto.graph.node} == {""}
    assert_results(program, (x,), x / 2 + x.tanh() / 2)


def by_bool(self: BOOL, other: BOOL) -> BOOL:
    return op.Xor(self, other)


def by_number(self: FLOAT, other: FLOAT | INT64):
    return op.Greater(self, other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_annotations_select_among_functions(backend):
    table = {torch.ops.aten.logical_and.default: [by_number, by_bool]}
    x, flag = torch.tensor([1.0, 3.0]), torch.tensor([True, False])
    assert_results(export(torch.logical_and, (flag, flag), table, backend), (flag, flag), torch.logical_xor(flag, flag))
    assert_results(export(torch.logical_and, (x, x - 1), table, backend), (x, x - 1), x > x - 1)
    with pytest.raises(whence.WhenceError, match="none of its 2 functions takes tensors of DOUBLE, DOUBLE") as raised:
        export(torch.logical_and, (x.double(), x.double()), table, backend)
    assert raised.value.code == "E0302"


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_results_lists_and_computed_numbers(backend):
    def split_at(x, size):
        return op.Slice(x, [0], [size], [0]), op.Slice(x, [size], [9223372036854775807], [0])

    def compute(x):
        first, second = OPS.split_at(x, x.shape[0] // 2)
        a, b, c = OPS.parts(second)
        return first, a, b + c

    def parts(x):
        sequence = op.SplitToSequence(x, [1, 1, 1], axis=0)
        first, *rest = [op.Squeeze(op.SequenceAt(sequence, index), [0]) for index in range(3)]
        return [first * 2, rest[0] + 1, rest[1]]

    x = torch.randn(6, 3)
    program = export(compute, (x,), {OPS.split_at.default: split_at, OPS.parts.default: parts}, backend)
    assert_results(program, (x,), compute(x))
    as_sequence = export(compute, (x,), {OPS.split_at.default: split_at, OPS.parts.default:
                                         lambda x: op.SplitToSequence(x, axis=0, keepdims=0)}, backend)
    torch.testing.assert_close(as_sequence(x)[1], x[3])


@pytest.mark.parametrize("backend", BACKENDS)
def test_dynamic_sizes(backend):
    calls = []

    def viewed(self, size):
        calls.append((str(self.shape[0]), size[1]))
        return op.Reshape(self, [size[0], -1])

    class Model(torch.nn.Module):
        def forward(self, x):
            return x.view(x.shape[0], 6)

    x = torch.randn(4, 2, 3)
    program = whence.export(Model(), (x,), backend=backend, dynamic_axes={"x": {0: "n"}},
                            custom_translation_table={torch.ops.aten.view.default: viewed})
    assert calls == [("n", 6)]
    for size in (4, 7):
        x = torch.randn(size, 2, 3)
        torch.testing.assert_close(program(x)[0], x.view(size, 6))


def test_translation_in_a_branch_and_a_loop():
    class Model(torch.nn.Module):
        def forward(self, x):
            if bool(x.sum() > 0):
                x = x.relu() + 1
            for _ in range(int(x.shape[0])):
                x = x.relu()
            return x

    def shifted(self):
        return op.Add(op.Neg(self), 0.5)

    for x in (torch.ones(2, 3), -torch.ones(2, 3)):
        program = whence.export(torch.jit.script(Model()), (x,), dynamic_axes={"x": {0: "n"}},
                                custom_translation_table={torch.ops.aten.relu.default: shifted})
        onnx.checker.check_model(program.model_proto, full_check=True)
        expected = 0.5 - x + 1 if x.sum() > 0 else x
        for _ in range(2):
            expected = 0.5 - expected
        torch.testing.assert_close(program(x)[0], expected)
        assert program.validation.clean


class Branches(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.relu() + 1, lambda x: x - 1, (x,))


def test_translation_in_a_branch_of_torch_export():
    program = whence.export(Branches(), (torch.ones(2),), dynamo=True, custom_translation_table={
        torch.ops.aten.relu.default: lambda self: op.Mul(op.Neg(self), 3.0)})
    torch.testing.assert_close(program(torch.ones(2))[0], torch.full((2,), -2.0))
    torch.testing.assert_close(program(-torch.ones(2))[0], torch.full((2,), -2.0))


def test_translation_that_creates_a_branch():
    """Names in the bodies that refer to the outer graph are resolved after the nodes are inserted."""
    body = onnx.parser.parse_graph("body () => (float[N] y) { y = Neg (input_0) }")
    other = onnx.parser.parse_graph("other () => (float[N] z) { z = Abs (input_0) }")

    def branched(self):
        return op.If(op.ReduceMax(self) > 0, then_branch=body, else_branch=other)

    x = torch.tensor([1.0, -2.0])
    program = export(lambda x: (x.relu(), (x - 5).relu()), (x,), {torch.ops.aten.relu.default: branched})
    assert_results(program, (x,), (-x, (x - 5).abs()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_unused_results_and_ignored_arguments(backend):
    def normalised(input, shape, *_):
        result, _, _ = op.LayerNormalization(input, op.Expand(1.0, [4]), axis=-1)
        return result

    x = torch.randn(2, 4)
    layer = torch.nn.LayerNorm(4)
    program = whence.export(layer, (x,), backend=backend, opset_version=18,
                            custom_translation_table={torch.ops.aten.layer_norm.default: normalised})
    node = next(node for node in program.model_proto.graph.node if node.op_type == "LayerNormalization")
    assert len(node.output) == 1
    assert not [tensor.name for tensor in program.model_proto.graph.initializer if tensor.name in ("weight", "bias")]
    torch.testing.assert_close(program(x)[0], layer(x).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_translations_of_operators_that_whence_omits(backend):
    """whence omits dropout and clone, but calls translations for them."""
    x = torch.randn(3)
    table = {torch.ops.aten.clone.default: lambda self, **_: op.Neg(self),
             torch.ops.aten.dropout.default: lambda input, p, train: op.Mul(input, p)}
    program = export(lambda x: torch.nn.functional.dropout(x.clone(), 0.25, False), (x,), table, backend)
    assert_results(program, (x,), -x * 0.25)


@pytest.mark.parametrize("backend", BACKENDS)
def test_constants_of_any_kind(backend):
    vector = torch.tensor([1.0, 2.0, 3.0])

    def weighted(self):
        return op.Add(op.Mul(self, vector), op.Constant(value=onnx.numpy_helper.from_array(np.float32([4, 5, 6])))) \
            + np.float32(2.0) + op.Constant(value_floats=[1.0, 1.0, 1.0])

    x = torch.randn(2, 3)
    assert_results(export(torch.relu, (x,), {torch.ops.aten.relu.default: weighted}, backend), (x,),
          x * vector + torch.tensor([4.0, 5.0, 6.0]) + 3)


def test_translation_with_a_custom_domain():
    domain = onnxscript.values.Opset("com.microsoft", 1)

    def gelu(self, approximate="none"):
        return onnxscript.values.Op(domain, "Gelu")(self)

    x = torch.randn(2, 3)
    program = whence.export(torch.nn.GELU(), (x,), custom_translation_table={torch.ops.aten.gelu.default: gelu})
    assert [(node.domain, node.op_type) for node in program.model_proto.graph.node] == [("com.microsoft", "Gelu")]
    assert {opset.domain: opset.version for opset in program.model_proto.opset_import} == {"": 20, "com.microsoft": 1}
    torch.testing.assert_close(program(x)[0], torch.nn.GELU()(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_unused_translation_gives_a_warning(backend):
    table = {torch.ops.aten.relu.default: lambda self: op.Neg(self), torch.ops.aten.gelu.default: lambda self: self}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", whence.WhenceWarning)
        export(torch.relu, (torch.randn(2),), table, backend)
    (message,) = [str(warning.message) for warning in caught if "E0105" in str(warning.message)]
    assert "has no operator aten::gelu;" in message


def test_translations_registered_for_a_range_of_opsets():
    x = torch.randn(2, 3)
    whence.register_custom_op(torch.ops.aten.relu.default, lambda self: op.Neg(self), 18, until=19)
    try:
        for opset, expected in ((17, "Relu"), (18, "Neg"), (19, "Neg"), (20, "Relu")):
            assert operators(whence.export(torch.nn.ReLU(), (x,), opset_version=opset)) == [expected]
    finally:
        whence.unregister_custom_op(torch.ops.aten.relu.default)


def test_opset_of_operators_in_a_translation():
    from onnxscript import opset13, opset16, opset20

    x = torch.randn(2, 3)

    def converted(function, opset):
        return whence.export(torch.nn.ReLU(), (x,), opset_version=opset,
                             custom_translation_table={torch.ops.aten.relu.default: function}).model_proto

    older = converted(lambda self: opset13.ReduceMax(opset13.Neg(self), axes=[0], keepdims=0) + self, 20)
    assert {opset.domain: opset.version for opset in older.opset_import} == {"": 20}
    for function, opset, fragment in ((lambda self: opset20.Gelu(self), 18, "opset_version=20"),
                                      (lambda self: opset16.GridSample(self, self), 20, "another meaning")):
        with pytest.raises(whence.WhenceError, match=fragment) as raised:
            converted(function, opset)
        assert raised.value.code == "E0302"


@pytest.mark.parametrize("function, fragment", [
    (lambda self: [self, self], "it returns 2 values"),
    (lambda self, more: self, "missing 1 required positional argument: 'more'"),
    (lambda: None, "takes 0 positional arguments but 1 was given"),
    (lambda self: self.nothing, "AttributeError"),
    (lambda self: op.Relu(self, self), "takes 2 positional arguments but 3 were given"),
    (lambda self: op.Clip(self, most=1), "unexpected keyword argument 'most'"),
    (lambda self: self if self > 0 else op.Neg(self), "a tensor's contents are unknown"),
    (lambda self: op.Add(self, object()), "a object cannot be an operand"),
    (lambda self: op.Split(self), "the number of results of Split is unknown"),
])
def test_failing_translations(function, fragment):
    function.__name__ = "unlucky"
    with pytest.raises(whence.WhenceError) as raised:
        export(torch.relu, (torch.randn(3),), {torch.ops.aten.relu.default: function})
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "E0302" and fragment in diagnostic.message and diagnostic.remedy
    assert "'unlucky' of aten::relu" in diagnostic.message
    assert diagnostic.where == {"module": "inner", "op": "aten::relu.default"}


def test_failure_keeps_existing_files(tmp_path):
    def failing(self):
        raise ValueError("not today")

    target, x = tmp_path / "model.onnx", torch.randn(3)
    whence.export(torch.nn.ReLU(), (x,), target, custom_translation_table={torch.ops.aten.relu.default: op.Neg},
                  external_data={"threshold": 1})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert {path.name for path in before} == {"model.onnx", "model.whence.json"}
    with pytest.raises(whence.WhenceError, match="not today"):
        whence.export(torch.nn.ReLU(), (x,), target, custom_translation_table={torch.ops.aten.relu.default: failing})
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_translation_with_external_data(tmp_path):
    target, x = tmp_path / "model.onnx", torch.randn(2, 3)
    model = torch.nn.Sequential(torch.nn.Linear(3, 400), torch.nn.ReLU())
    whence.export(model, (x,), target, external_data=True, custom_translation_table={
        torch.ops.aten.relu.default: lambda self: op.Neg(self)})
    assert {path.name for path in tmp_path.iterdir()} == {"model.onnx", "model.onnx.data", "model.whence.json"}
    onnx.checker.check_model(str(target), full_check=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_translation_of_conv2d(backend):
    """A trace contains aten::_convolution instead of aten::conv2d."""
    def doubled(input, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
        result = op.Conv(input, weight, bias, strides=stride, pads=[*padding, *padding], group=groups)
        return result + result

    model, x = torch.nn.Conv2d(2, 3, 3, padding=1), torch.randn(1, 2, 5, 5)
    program = whence.export(model, (x,), backend=backend, custom_translation_table={
        torch.ops.aten.conv2d.default: doubled})
    torch.testing.assert_close(program(x)[0], 2 * model(x).detach(), rtol=1e-4, atol=1e-4)


class ClippedAtMost(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, most):
        return x.clamp(max=most)


def test_translation_of_an_autograd_function():
    class Model(torch.nn.Module):
        def forward(self, x):
            return ClippedAtMost.apply(x, 0.5)

    x = torch.randn(5)
    program = whence.export(Model(), (x,), backend="native-export", autograd_inlining=False,
                            custom_translation_table={ClippedAtMost: lambda x, most: op.Min(x, most)})
    assert operators(program) == ["Min"]
    torch.testing.assert_close(program(x)[0], x.clamp(max=0.5))


@pytest.mark.parametrize("key, value", [
    (torch.ops.aten.relu.default, 3), (torch.ops.aten.relu.default, []), (torch.ops.aten.relu.default, [halved, "x"]),
    (torch.ops.aten.relu.default, [onnx.FunctionProto(), halved]), (torch.sym_not, halved), (max, halved),
    (torch.ops.higher_order.cond, lambda *_: None)])
def test_invalid_translations(key, value):
    with pytest.raises(whence.WhenceError) as raised:
        export(torch.relu, (torch.randn(3),), {key: value})
    assert raised.value.code == "E0104" and raised.value.remedy
