"""Runs an ONNX file in ONNX Runtime on torch tensors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..base.optional_packages import import_optional
from ..errors import error

# Dtypes that numpy lacks: they are passed as unsigned integers with the same bits and ONNX's number for the dtype.
_AS_BITS = {torch.bfloat16: (torch.uint16, 16), torch.float8_e4m3fn: (torch.uint8, 17),
            torch.float8_e4m3fnuz: (torch.uint8, 18), torch.float8_e5m2: (torch.uint8, 19),
            torch.float8_e5m2fnuz: (torch.uint8, 20)}


def session_options(optimised: bool = True) -> Any:
    """Returns session options that log nothing: failures are exceptions."""
    runtime = import_optional("onnxruntime", "running a file")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def session(file: str | os.PathLike[str] | bytes, optimised: bool = True) -> Any:
    runtime = import_optional("onnxruntime", "running a file")
    source = file if isinstance(file, bytes) else str(file)
    if isinstance(source, str) and not os.path.exists(source):
        raise error("E0102", "missing_file", f"{source} does not exist", "check the path", file=source)
    try:
        return runtime.InferenceSession(source, session_options(optimised), providers=["CPUExecutionProvider"])
    except Exception as failure:  # ONNX Runtime's exceptions have no common base class
        raise error("E0207", "run_failed", f"ONNX Runtime cannot load the file: {failure}",
                    "check the file with whence.validate") from failure


def ort_value(tensor: torch.Tensor) -> Any:
    value = import_optional("onnxruntime", "running a file").OrtValue
    tensor = tensor.detach().cpu().resolve_conj()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)  # as in PyTorch's exporter
    if tensor.dtype in _AS_BITS:
        bits, number = _AS_BITS[tensor.dtype]
        return value.ortvalue_from_numpy_with_onnx_type(tensor.contiguous().view(bits).numpy(), number)
    return value.ortvalue_from_numpy(tensor.resolve_neg().contiguous().numpy())


def tensor_of(value: Any) -> Any:
    if not value.is_tensor():
        return value
    if value.element_type() in {number for _, number in _AS_BITS.values()}:
        return torch.from_dlpack(value._get_c_value())
    return torch.from_numpy(value.numpy())


def value_info(name: str, tensor: torch.Tensor) -> Any:
    """Returns the declaration of a value in a graph, an onnx.ValueInfoProto. Complex numbers are pairs."""
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    helper = import_optional("onnx", "writing a model").helper
    element_type = _AS_BITS[tensor.dtype][1] if tensor.dtype in _AS_BITS else \
        helper.np_dtype_to_tensor_dtype(tensor.resolve_conj().numpy().dtype)
    return helper.make_tensor_value_info(name, element_type, list(tensor.shape))


def _to_tensors(value: Any) -> Any:
    if isinstance(value, list):
        return [torch.as_tensor(each) for each in value]
    return None if value is None else torch.as_tensor(value)


def run(inference_session: Any, tensors: Mapping[str, torch.Tensor]) -> tuple[Any, ...]:
    """Returns the outputs in the file's order. Sequences are lists of tensors; optional outputs are tensors or None."""
    inputs = {name: ort_value(tensor) for name, tensor in tensors.items()}
    object_outputs = [each.name for each in inference_session.get_outputs() if not each.type.startswith("tensor(")]
    tensor_outputs = [each.name for each in inference_session.get_outputs() if each.name not in object_outputs]
    outputs = dict(zip(tensor_outputs, map(tensor_of, inference_session.run_with_ort_values(tensor_outputs, inputs)))) \
        if tensor_outputs else {}
    if object_outputs:  # ONNX Runtime returns sequences and optional values as Python objects
        input_arrays = {name: value.numpy() for name, value in inputs.items()}
        outputs |= dict(zip(object_outputs, map(_to_tensors, inference_session.run(object_outputs, input_arrays))))
    return tuple(outputs[each.name] for each in inference_session.get_outputs())


def weights_of(model: Any) -> dict[str, torch.Tensor]:
    """Returns parameters and buffers of a module or ExportedProgram by qualified name; tied ones under all names."""
    if isinstance(model, torch.export.ExportedProgram):
        constants = {name: each for name, each in model.constants.items() if isinstance(each, torch.Tensor)}
        return {**model.state_dict, **constants}
    return {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}


def renamed(tensors: Mapping[str, torch.Tensor], input_names: Sequence[str]) -> dict[str, torch.Tensor]:
    """Renames the call's first tensors to ``input_names`` of the export."""
    names = [*input_names, *list(tensors)[len(input_names):]]
    return dict(zip(names, tensors.values())) if len(set(names)) == len(names) else dict(tensors)


def without_quantized(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Replaces quantized tensors with their integers, scale and zero point, as in an ONNX file."""
    unquantized: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.is_quantized and tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            unquantized |= {name: tensor.int_repr(),
                            f"{name}_scale": torch.tensor(tensor.q_scale(), dtype=torch.float64),
                            f"{name}_zero_point": torch.tensor(tensor.q_zero_point())}
        else:
            unquantized[name] = tensor
    return unquantized


def inputs_of(inference_session: Any, tensors: Mapping[str, torch.Tensor], file: str,
              model: Any = None) -> dict[str, torch.Tensor]:
    """Returns the call's tensors by the file's input names: paired by name if the file has forward's names, else in
    order.

    If the file was exported without weights, its weight inputs are taken from ``model``. Raises WhenceError E0104 if
    the number of tensors does not fit.
    """
    tensors = without_quantized(tensors)
    names = [each.name for each in inference_session.get_inputs()]
    if len(names) > len(tensors) and model is not None:
        weights = weights_of(model)
        weight_inputs = {name: weights[name] for name in names if name in weights and name not in tensors}
        names = [name for name in names if name not in weight_inputs]
        return weight_inputs | _by_name_or_order(names, tensors, file)
    return _by_name_or_order(names, tensors, file)


def _by_name_or_order(names: list[str], tensors: Mapping[str, torch.Tensor], file: str) -> dict[str, torch.Tensor]:
    if len(names) > len(tensors):
        raise error("E0104", "input_mismatch",
                    f"the file has {len(names)} inputs, but the call has {len(tensors)} tensors",
                    f"its inputs are: {', '.join(names)}", file=file)
    if set(names) <= set(tensors):
        return {name: tensors[name] for name in names}
    if len(names) < len(tensors):
        raise error("E0104", "input_mismatch", f"the call has {len(tensors)} tensors, but the file has fewer inputs "
                    "and other names", f"its inputs are: {', '.join(names)}", file=file)
    return dict(zip(names, tensors.values()))
