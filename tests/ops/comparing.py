"""Compares an exported operator with PyTorch: the file must be valid and return PyTorch's results in ONNX Runtime."""

import math
from pathlib import Path
from typing import Callable, Iterator, Sequence

import onnx
import onnx.checker
import onnx.shape_inference
import onnxruntime
import torch

from ops.case import Case
from ops.runtime_gaps import ABORTS_ON_EMPTY, is_known_gap, refuses_empty
from results import assert_same_results

NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}  # dtypes of Python's numbers
GROWTH = 3  # added to the first dynamic size for the comparison at larger sizes; see Case.larger


def flat(result) -> list[torch.Tensor]:
    if isinstance(result, (tuple, list)):
        return [tensor for element in result for tensor in flat(element)]
    if not isinstance(result, torch.Tensor):
        return [torch.tensor(result, dtype=NUMBERS[type(result)])]
    # Files store complex numbers as pairs.
    return [torch.view_as_real(result.resolve_conj()) if result.is_complex() else result]


def check_file(path: Path) -> onnx.ModelProto:
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    return model


def run_reference(reference: Callable, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        return flat(reference(*[tensor.clone() for tensor in tensors]))


def run_file(case: Case, session: onnxruntime.InferenceSession, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    names = {value.name for value in session.get_inputs()}
    feed = {name: tensor.numpy() for name, tensor in zip(case.argument_names, tensors, strict=True) if name in names}
    return [torch.from_numpy(array) for array in session.run(None, feed)]


def check_declared_shapes(results: Sequence[torch.Tensor], model: onnx.ModelProto) -> None:
    for result, declared in zip(results, model.graph.output, strict=True):
        optional = declared.type.HasField("optional_type")
        type_ = (declared.type.optional_type.elem_type if optional else declared.type).tensor_type
        for size, dim in zip(result.shape, type_.shape.dim, strict=True):
            assert not dim.HasField("dim_value") or dim.dim_value == size, "the declared output shape is wrong"


def compare(case: Case, expected: list[torch.Tensor], model: onnx.ModelProto, session: onnxruntime.InferenceSession,
            tensors: Sequence[torch.Tensor]) -> None:
    actual = run_file(case, session, tensors)
    check_declared_shapes(actual, model)
    if case.tolerance:
        assert_same_results(actual, expected, (case.tolerance.relative, case.tolerance.absolute))
    else:
        assert_same_results([torch.zeros_like(each) for each in actual], [torch.zeros_like(each) for each in expected])


def required_feeds(case: Case) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Yields tensors that PyTorch must accept, each with a description."""
    yield "the traced tensors", case.tensors()
    yield "other values", case.tensors(draw=1)
    if case.dynamic:
        yield "larger sizes", case.tensors(case.larger(GROWTH))
    for number, tensors in enumerate(case.other_inputs):
        yield f"other_inputs[{number}]", list(tensors)


def small_sizes(case: Case) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Yields inputs with one dynamic size, then all of them, set to 1 and to 0; PyTorch may refuse these."""
    symbols = case.symbols()
    for size in (1, 0):
        for changed in [[symbol] for symbol in symbols] + ([symbols] if len(symbols) > 1 else []):
            text = f"{'='.join(changed)}={size}"
            if text not in case.not_at:
                yield text, case.tensors({**case.sizes(), **dict.fromkeys(changed, size)}, draw=1)


def with_special_values(tensor: torch.Tensor, draw: int) -> torch.Tensor:
    """Replaces about half of the elements of a floating-point tensor with NaN, infinities and 0."""
    if not tensor.is_floating_point():
        return tensor
    generator = torch.Generator().manual_seed(draw)
    values = torch.tensor([math.nan, math.inf, -math.inf, 0.0], dtype=tensor.dtype)
    kinds = values[torch.randint(4, tensor.shape, generator=generator)]
    return torch.where(torch.rand(tensor.shape, generator=generator) < 0.5, kinds, tensor)


# Families whose results copy or select single elements, so that NaN and infinities must equal PyTorch's. Sums of
# products are excluded: their order and multiplications by 0 (0 * inf is NaN) depend on the kernel, in PyTorch as in
# ONNX Runtime.
SPECIAL_VALUE_FAMILIES = {"activation", "arithmetic", "cast", "comparison", "creation", "division", "index", "joining",
                          "padding", "quantile", "rearrange", "reduction", "repeat", "running", "scatter", "shape",
                          "slicing", "softmax", "sorting", "statistics", "unary"}


def special_values(case: Case) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Yields inputs with NaN and infinities at several sets of positions."""
    floating = any(each.dtype.is_floating_point for each in case.inputs)
    if floating and case.family in SPECIAL_VALUE_FAMILIES and not case.finite:
        for draw in range(2, 5):
            yield f"NaN and infinities ({draw})", [with_special_values(each, draw + 10 * index)
                                                   for index, each in enumerate(case.tensors(draw=draw))]


def results_or_none(reference: Callable, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
    """Returns PyTorch's results, or None if PyTorch refuses the inputs."""
    try:
        return run_reference(reference, tensors)
    except Exception:  # noqa: BLE001, PyTorch may raise any exception
        return None


def with_double_for_nan(reference: Callable, tensors: Sequence[torch.Tensor],
                        expected: list[torch.Tensor]) -> list[torch.Tensor]:
    """Replaces NaN in the expected results with float64's results, because PyTorch's vector instructions may create
    NaN: with AVX-512, gelu of infinity is NaN in float32 and infinity in float64."""
    in_double = results_or_none(reference, [each.double() if each.is_floating_point() else each for each in tensors])
    if in_double is None or [each.shape for each in in_double] != [each.shape for each in expected]:
        return expected
    return [torch.where(each.isnan(), other.to(each.dtype), each) if each.is_floating_point() else each
            for each, other in zip(expected, in_double, strict=True)]


def open_session(path: Path, optimized: bool = True) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # a thread pool costs more than these graphs
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def check_export(case: Case, reference: Callable, path: Path, dtype: str = "",
                 small_size_reference: Callable | None = None) -> None:
    """Compares the file with the reference on all feeds. If `dtype` is not the row's, PyTorch may refuse every feed
    except the traced one, and the gaps in runtime_gaps.py are accepted. `small_size_reference` replaces the reference
    at sizes 0 and 1, if the reference accepts sizes that the file excludes."""
    model, session = check_file(path), open_session(path)
    failures = []

    def check(what: str, expected: list[torch.Tensor], tensors: list[torch.Tensor]) -> None:
        try:
            compare(case, expected, model, session, tensors)
        except Exception as error:  # noqa: BLE001, one run reports all feeds that fail
            if not (what.endswith("=0") and refuses_empty(error)) and not (dtype and is_known_gap(error, dtype)):
                failures.append(f"with {what}: {error}")

    for what, tensors in required_feeds(case):
        expected = results_or_none(reference, tensors) if dtype else run_reference(reference, tensors)
        if expected is not None:
            check(what, expected, tensors)
    aborts = any(node.op_type in ABORTS_ON_EMPTY for node in model.graph.node)
    for what, tensors in small_sizes(case):
        if aborts and what.endswith("=0"):
            continue
        if (expected := results_or_none(small_size_reference or reference, tensors)) is not None:
            check(what, expected, tensors)
    for what, tensors in special_values(case):
        if (expected := results_or_none(reference, tensors)) is not None:
            count = len(failures)
            check(what, expected, tensors)
            if len(failures) > count:
                failures.pop()
                check(what, with_double_for_nan(reference, tensors, expected), tensors)
    assert not failures, "\n".join(failures)
