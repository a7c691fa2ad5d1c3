"""Runs an exported file in ONNX Runtime and the model in PyTorch on the same inputs, and compares outputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..arguments import calls, trees
from ..base import library_warnings
from ..base.report_printing import Printed, Table, counted
from ..errors import WhenceError, error
from ..files.model_files import Model, as_file
from ..state.export_settings import without_fast_path
from ..state.model_state import refuse_results_without_data, state_restored
from ..values.value_recorder import Recorder, modules_of
from . import annotated_file, file_inputs, ort_session
from .api import accuracy_on
from .file_inputs import ExtraInputs


@dataclass(frozen=True)
class OutputDifference:
    """The difference between an output of the file and the model's output."""

    name: str
    shapes_equal: bool
    largest: float  # largest absolute difference; NaN if elements are NaN in only one output
    within: bool    # |actual - expected| <= atol + rtol * |expected| for all elements


@dataclass(frozen=True, repr=False)
class Verification(Printed):
    outputs: tuple[OutputDifference, ...]
    first_module: str | None = None  # the first that differs although its inputs agree; None: none or unknown
    modules_compared: int = 0        # module calls with observable results

    @property
    def ok(self) -> bool:
        return all(output.shapes_equal and output.within for output in self.outputs)

    def _headline(self) -> str:
        wrong = [each.name for each in self.outputs if not (each.shapes_equal and each.within)]
        return (f"{counted(len(self.outputs), 'output')}, " + (f"{len(wrong)} of them differ: {', '.join(wrong)}" if wrong else "all equal")
                + (f"; first module that differs: {self.first_module!r}" if self.first_module is not None else ""))

    def _table(self) -> Table:
        return Table(("output", "", "largest difference"), [
            (each.name, "equal" if each.shapes_equal and each.within else "differs",
             f"{each.largest:.3g}" if each.shapes_equal else "other shape") for each in self.outputs], texts=2)

    def __str__(self) -> str:
        lines = [f"{each.name}: " + ("equal" if each.shapes_equal and each.within else "DIFFERS") +
                 (f", largest difference {each.largest:.3g}" if each.shapes_equal else ", other shape")
                 for each in self.outputs]
        if not self.ok:
            lines.append(f"first module that differs: {self.first_module!r}" if self.first_module is not None
                         else "no module's own result differs")
        return "\n".join(lines)


def verify(path: Model, model: Any, args: Sequence[Any] | Any = (), *,
           kwargs: Mapping[str, Any] | None = None, rtol: float = 1e-3, atol: float = 1e-4,
           input_names: Sequence[str] | Mapping[str, str] = (), extra_inputs: ExtraInputs | None = None) -> Verification:
    """Runs ``path`` in ONNX Runtime and ``model`` on ``args`` and ``kwargs``, and compares their outputs.

    path          the file, which may be an ``ONNXProgram`` or a model in memory. A file without weights gets the
                  model's weights. The call's tensors are its inputs by forward's names or, if the file has other names,
                  in the order of forward's signature.
    model         a module, which may be scripted, or a torch.export.ExportedProgram, which runs on its example inputs
                  without ``args``.
    input_names   ``input_names`` of the export, or forward's names by the file's input names.
    extra_inputs  inputs of the file that forward does not have, as for ``accuracy``.

    If outputs differ and the file is annotated, compares module results as ``accuracy`` does with the tolerance
    ``rtol``, and names the first module that differs. Raises WhenceError: E0104 if inputs or outputs do not fit, E0207
    if the model does not run on the arguments, E0307 without onnxruntime or onnx."""
    ort_session.import_optional("onnx", "verifying")
    input_names = input_names or getattr(getattr(path, "_source", None), "input_names", ())
    with as_file(path, "path") as file, library_warnings.hidden():
        return _verify(file, model, args, kwargs, rtol, atol, input_names, extra_inputs)


def _verify(path: str, model: Any, args: Any, kwargs: Mapping[str, Any] | None, rtol: float, atol: float,
              input_names: Sequence[str] | Mapping[str, str], extra_inputs: ExtraInputs | None) -> Verification:
    session = ort_session.session(path)
    recorder = Recorder()
    try:
        tensors, expected = _call_model(model, args, kwargs, recorder)
    except WhenceError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError) as failure:
        raise error("E0207", "run_failed", f"PyTorch cannot run the model on these arguments: {failure}",
                    "pass arguments that the model accepts") from failure
    refuse_results_without_data(expected, model, tensors.values())
    expected = list(ort_session.without_quantized(dict(zip(map(str, range(len(expected))), expected))).values())
    feed = _feed(path, session, tensors, model, input_names, extra_inputs)
    actual = _tensors_by_name(session, ort_session.run(session, feed))
    if len(actual) != len(expected):
        raise error("E0104", "input_mismatch",
                    f"the file returns {len(actual)} tensors, but the model returns {len(expected)}",
                    "export again with the same arguments", file=str(path))
    compared = tuple(_difference(name, value, tensor, rtol, atol) for (name, value), tensor in zip(actual, expected))
    verification = Verification(compared)
    if verification.ok or not recorder.runs:
        return verification
    try:
        report = accuracy_on(path, recorder.values(), feed, rtol)
    except WhenceError:  # the file is not annotated, or has modules of another model
        return verification
    return Verification(compared, report.first and report.first.module, report.observable)


def _feed(path: Any, session: Any, tensors: Mapping[str, torch.Tensor], model: Any,
          input_names: Sequence[str] | Mapping[str, str], extra_inputs: ExtraInputs | None) -> dict[str, torch.Tensor]:
    if not isinstance(input_names, Mapping) and extra_inputs is None:
        return ort_session.inputs_of(session, ort_session.renamed(tensors, input_names), str(path), model)
    pairs = input_names if isinstance(input_names, Mapping) else dict(zip(input_names, tensors))
    return file_inputs.feed(annotated_file.read(path, annotated=False), ort_session.without_quantized(tensors),
                            file_inputs.overrides_of(pairs, extra_inputs)).tensors


def _tensors_by_name(session: Any, results: Sequence[Any]) -> list[tuple[str, Any]]:
    """Returns outputs by name. Sequences are split into elements, and absent optional outputs are left out."""
    outputs = []
    for output, value in zip(session.get_outputs(), results):
        if isinstance(value, list):
            outputs += [(f"{output.name}[{at}]", element) for at, element in enumerate(value)]
        elif value is not None:
            outputs.append((output.name, value))
    return outputs


def _call_model(model: Any, args: Any, kwargs: Any,
                recorder: Recorder) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
    """Calls the model on copies of its input tensors. Returns the tensors and the model's results."""
    with torch.no_grad(), without_fast_path():  # as in the export
        if isinstance(model, torch.export.ExportedProgram):
            args, kwargs = trees.with_tensors((args, kwargs))
            if kwargs is None and isinstance(args, (tuple, list)) and not args:
                args, kwargs = model.example_inputs
            args = args if isinstance(args, (tuple, list)) else (args,)
            positional, keywords = trees.copied((args, dict(kwargs or {})))
            with state_restored([model.state_dict, model.constants]):
                output = model.module()(*positional, **keywords)
            inputs = enumerate(trees.tensors_in((args, kwargs)))
            return {str(at): each for at, each in inputs}, trees.tensors_in(output)
        if isinstance(model, torch.jit.ScriptModule):
            call = calls.opened(calls.signature_of(model), args, kwargs)
            # Runs a copy, because the state of scripted modules cannot be restored from Python.
            return call.tensors, trees.tensors_in(copy.deepcopy(model)(**trees.copied(call.arguments)))
        with calls.tensors_only(model, args, kwargs) as call:
            inputs = dict(zip(call.tensors, call.copies()))
            with recorder.run(modules_of(model), inputs):
                return call.tensors, trees.tensors_in(model(*inputs.values()))


def _difference(name: str, actual: Any, expected: torch.Tensor, rtol: float, atol: float) -> OutputDifference:
    tensor = actual if isinstance(actual, torch.Tensor) else torch.as_tensor(actual)
    if expected.is_complex() and not tensor.is_complex():
        expected = torch.view_as_real(expected.resolve_conj())
    if tensor.shape != expected.shape:
        return OutputDifference(name, False, float("nan"), False)
    a, b = tensor.double(), expected.double()
    largest = float((a - b).abs().nan_to_num(nan=0.0 if torch.equal(a.isnan(), b.isnan()) else float("nan")).max()) \
        if a.numel() else 0.0
    return OutputDifference(name, True, largest, torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True))
