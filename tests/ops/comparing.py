"""An exported operator against PyTorch: the file has to be valid, and ONNX Runtime has to give what PyTorch gives."""

from pathlib import Path
from typing import Callable, Sequence

import onnx
import onnx.checker
import onnx.shape_inference
import onnxruntime
import torch

from ops.case import Case

NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}  # Python's, as tensors
GROWTH = 3  # by which dynamic axes are longer in the second comparison


def flat(result) -> list[torch.Tensor]:
    if isinstance(result, (tuple, list)):
        return [tensor for element in result for tensor in flat(element)]
    if not isinstance(result, torch.Tensor):
        return [torch.tensor(result, dtype=NUMBERS[type(result)])]
    return [torch.view_as_real(result.resolve_conj()) if result.is_complex() else result]  # as files have them


def check_file(path: Path) -> onnx.ModelProto:
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    return model


def compare(case: Case, reference: Callable, model: onnx.ModelProto, session: onnxruntime.InferenceSession,
            tensors: Sequence[torch.Tensor]) -> None:
    with torch.no_grad():
        expected = flat(reference(*[tensor.clone() for tensor in tensors]))
    wanted = {value.name for value in session.get_inputs()}
    feed = {name: tensor.numpy() for name, tensor in zip(case.argument_names(), tensors, strict=True) if name in wanted}
    actual = [torch.from_numpy(array) for array in session.run(None, feed)]
    assert len(actual) == len(expected)
    for ours, theirs, declared in zip(actual, expected, model.graph.output, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        optional = declared.type.HasField("optional_type")
        type_ = (declared.type.optional_type.elem_type if optional else declared.type).tensor_type
        for size, dim in zip(ours.shape, type_.shape.dim, strict=True):
            assert not dim.HasField("dim_value") or dim.dim_value == size, "the declared output shape is wrong"
        if case.tolerance:
            torch.testing.assert_close(ours, theirs, rtol=case.tolerance.relative, atol=case.tolerance.absolute,
                                       equal_nan=True)


def check_export(case: Case, reference: Callable, path: Path) -> None:
    model = check_file(path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # a pool of threads costs more than these graphs do
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for growth in (0, GROWTH) if case.dynamic else (0,):
        compare(case, reference, model, session, case.tensors(growth))
    for tensors in case.other_inputs:
        compare(case, reference, model, session, tensors)
