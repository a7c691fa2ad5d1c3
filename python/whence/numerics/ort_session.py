"""Runs an ONNX file in ONNX Runtime on torch tensors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..base.optional_packages import import_optional
from ..errors import error

# Dtypes that numpy lacks: passed as unsigned integers of the same bits, with ONNX's number for the dtype.
_AS_BITS = {torch.bfloat16: (torch.uint16, 16), torch.float8_e4m3fn: (torch.uint8, 17),
            torch.float8_e4m3fnuz: (torch.uint8, 18), torch.float8_e5m2: (torch.uint8, 19),
            torch.float8_e5m2fnuz: (torch.uint8, 20)}


def session_options(optimised: bool = True) -> Any:
    """Returns options of a session that logs only errors."""
    runtime = import_optional("onnxruntime", "running a file")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def session(file: str | os.PathLike[str] | bytes, optimised: bool = True) -> Any:
    runtime = import_optional("onnxruntime", "running a file")
    source = file if isinstance(file, bytes) else str(file)
    if isinstance(source, str) and not os.path.exists(source):
        raise error("E0102", "missing_file", f"there is no file {source}", "check the path", file=source)
    try:
        return runtime.InferenceSession(source, session_options(optimised), providers=["CPUExecutionProvider"])
    except Exception as failure:  # ONNX Runtime has one exception class for each code, without a common base
        raise error("E0207", "run_failed", f"ONNX Runtime cannot load the file: {failure}",
                    "check the file with whence.validate") from failure


def ort_value(tensor: torch.Tensor) -> Any:
    value = import_optional("onnxruntime", "running a file").OrtValue
    tensor = tensor.detach().cpu().resolve_conj()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)  # PyTorch's exporter turns a complex input into pairs of real numbers
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


def _of_arrays(value: Any) -> Any:
    if isinstance(value, list):
        return [torch.as_tensor(each) for each in value]
    return None if value is None else torch.as_tensor(value)


def run(running: Any, tensors: Mapping[str, torch.Tensor]) -> tuple[Any, ...]:
    """Returns the outputs in the file's order. A sequence is a list of tensors, an optional output a tensor or None."""
    inputs = {name: ort_value(tensor) for name, tensor in tensors.items()}
    array_outputs = [each.name for each in running.get_outputs() if not each.type.startswith("tensor(")]
    tensor_outputs = [each.name for each in running.get_outputs() if each.name not in array_outputs]
    found = dict(zip(tensor_outputs, map(tensor_of, running.run_with_ort_values(tensor_outputs, inputs)))) \
        if tensor_outputs else {}
    if array_outputs:  # ONNX Runtime returns sequences and optional values as Python objects
        arrays = {name: value.numpy() for name, value in inputs.items()}
        found |= dict(zip(array_outputs, map(_of_arrays, running.run(array_outputs, arrays))))
    return tuple(found[each.name] for each in running.get_outputs())


def weights_of(model: Any) -> dict[str, torch.Tensor]:
    """Returns parameters and buffers of a module or ExportedProgram by qualified name; a tied one has several names."""
    if isinstance(model, torch.export.ExportedProgram):
        constants = {name: each for name, each in model.constants.items() if isinstance(each, torch.Tensor)}
        return {**model.state_dict, **constants}
    return {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}


def renamed(tensors: Mapping[str, torch.Tensor], input_names: Sequence[str]) -> dict[str, torch.Tensor]:
    """Returns the call's tensors, the first ones renamed to the export's ``input_names``."""
    names = [*input_names, *list(tensors)[len(input_names):]]
    return dict(zip(names, tensors.values())) if len(set(names)) == len(names) else dict(tensors)


def without_quantized(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Replaces each quantized tensor by its integers, scale and zero point, as in an ONNX file."""
    plain: dict[str, torch.Tensor] = {}
    for name, each in tensors.items():
        if each.is_quantized and each.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            plain |= {name: each.int_repr(), f"{name}_scale": torch.tensor(each.q_scale(), dtype=torch.float64),
                      f"{name}_zero_point": torch.tensor(each.q_zero_point())}
        else:
            plain[name] = each
    return plain


def inputs_of(running: Any, tensors: Mapping[str, torch.Tensor], file: str,
              model: Any = None) -> dict[str, torch.Tensor]:
    """Returns the call's tensors under the file's names: paired by name if the file has forward's names, else in order.

    A file exported without weights has them as inputs: they come from ``model``.
    Raises WhenceError E0104 if there are too few tensors.
    """
    tensors = without_quantized(tensors)
    names = [each.name for each in running.get_inputs()]
    if len(names) > len(tensors) and model is not None:
        weights = weights_of(model)
        weight_inputs = {name: weights[name] for name in names if name in weights and name not in tensors}
        names = [name for name in names if name not in weight_inputs]
        return weight_inputs | _by_name_or_order(names, tensors, file)
    return _by_name_or_order(names, tensors, file)


def _by_name_or_order(names: list[str], tensors: Mapping[str, torch.Tensor], file: str) -> dict[str, torch.Tensor]:
    if len(names) > len(tensors):
        raise error("E0104", "input_mismatch",
                    f"the file has {len(names)} inputs, the call has {len(tensors)} tensors",
                    f"its inputs are: {', '.join(names)}", file=file)
    if set(names) <= set(tensors):
        return {name: tensors[name] for name in names}
    if len(names) < len(tensors):
        raise error("E0104", "input_mismatch", f"the file has fewer inputs than the call's {len(tensors)} tensors, and "
                    "under other names", f"its inputs are: {', '.join(names)}", file=file)
    return dict(zip(names, tensors.values()))
