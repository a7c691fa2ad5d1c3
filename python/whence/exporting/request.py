"""The request of a caller of ``whence.export``, and which backend can do what of it.

The options are those of torch.onnx.export under the same names. None is ignored: what a backend cannot do is refused.
"""

from __future__ import annotations

import difflib
import io
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import torch

from ..arguments import trees
from ..errors import error
from ..files.atomic_files import require_model_name
from ..state.export_settings import Training, training_word

Backend = Literal["native", "native-export", "torch-dynamo", "torch-torchscript"]
BACKENDS: tuple[str, ...] = get_args(Backend)


@dataclass(frozen=True)
class ExportRequest:
    """The arguments of a call of ``export``, whose docstring says what they mean."""

    model: Any
    args: Any
    f: str | os.PathLike[str] | BinaryIO | None
    backend: Backend | Sequence[Backend]
    kwargs: Mapping[str, Any] | None
    verbose: bool | None
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    opset_version: int | None
    dynamo: bool | None
    external_data: bool | Mapping[str, Any]
    dynamic_shapes: Any
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None
    custom_translation_table: Mapping[Any, Any] | None
    custom_opsets: Mapping[str, int] | None
    report: bool | str | os.PathLike[str] | None
    optimize: bool
    do_constant_folding: bool
    verify: bool
    profile: bool
    dump_exported_program: bool
    artifacts_dir: str | os.PathLike[str]
    export_params: bool
    keep_initializers_as_inputs: bool | None
    keep_bfloat16: bool
    training: Training | Any
    operator_export_type: Any
    autograd_inlining: bool
    export_modules_as_functions: bool | Collection[type]
    operators: Literal["fused", "plain"] | None
    sidecar: str | os.PathLike[str] | None
    overwrite: bool

    def chain(self) -> tuple[str, ...]:
        """The backends to try, in order. Raises WhenceError E0101, E0104 for a model of another type."""
        model, backend, dynamo = self.model, self.backend, self.dynamo
        if not isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
            raise error("E0104", "input_mismatch", f"the model is a {type(model).__name__}, not a torch.nn.Module",
                        "wrap what computes in a module: its forward is what is exported")
        if isinstance(model, torch.nn.DataParallel):
            raise error("E0104", "input_mismatch", "the model is a torch.nn.DataParallel", "export its model.module")
        if dynamo is not None and backend != "native":
            raise error("E0101", "usage", "dynamo and backend say the same", "give one of them")
        if dynamo or dynamo is None and backend == "native" and isinstance(model, torch.export.ExportedProgram):
            return ("native-export",)
        chain = (backend,) if isinstance(backend, str) else tuple(backend)
        for each in chain:
            if each not in BACKENDS:
                raise error("E0101", "usage", f"there is no backend '{each}'", "one of " + ", ".join(BACKENDS))
        if not chain:
            raise error("E0101", "usage", "there is no backend in the chain", "one or more of " + ", ".join(BACKENDS))
        return chain

    def completed(self) -> ExportRequest:
        """The request with ``training`` as one of three words, what a torch.onnx.ExportableModule brings, and
        ``dynamic_shapes`` nested as the arguments are. Raises WhenceError E0101."""
        request = replace(self, training=training_word(self.training))._with_example()
        return replace(request, dynamic_shapes=request._nested_shapes())

    def _with_example(self) -> ExportRequest:
        """A torch.onnx.ExportableModule brings its example, and what is otherwise not given."""
        model, args = self.model, self.args
        args_given = isinstance(args, torch.Tensor) or trees.is_array(args) or args or self.kwargs
        if args_given or not isinstance(model, torch.onnx.ExportableModule):
            return self
        args, kwargs = model.example_arguments()
        brought = {name: getattr(model, name)() for name in ("input_names", "output_names", "dynamic_shapes")
                   if getattr(self, name) is None}
        return replace(self, args=args, kwargs=kwargs, **brought)

    def _nested_shapes(self) -> Any:
        """torch.export.ShapesCollection and AdditionalInputs make their shapes of the arguments."""
        shapes = self.dynamic_shapes
        if not isinstance(shapes, (torch.export.ShapesCollection, torch.export.AdditionalInputs)):
            return shapes
        args = self.args if isinstance(self.args, (tuple, list)) else (self.args,)
        return shapes.dynamic_shapes(self.model, tuple(args), dict(self.kwargs or {}))

    def for_torch_alone(self) -> dict[str, Any]:
        """The options that torch.onnx.export(dynamo=True) serves itself."""
        return {"dump_exported_program": self.dump_exported_program, "artifacts_dir": self.artifacts_dir,
                "profile": self.profile, "verbose": self.verbose,
                "custom_translation_table": self.custom_translation_table, "report": bool(self.report)}


# Options that only some backends have: the value at which nothing is asked for, and which backends have it.
_SERVED = {
    "report": (None, "native", "native-export", "torch-dynamo"),
    "dump_exported_program": (False, "native", "native-export", "torch-dynamo"),
    "custom_translation_table": (None, "native", "native-export", "torch-dynamo"),
    "custom_opsets": (None, "native", "native-export", "torch-torchscript"),
    "operators": (None, "native", "native-export"),
    "external_data": (False, "native", "native-export", "torch-dynamo"),
    "operator_export_type": ("ONNX", "native", "native-export"),
    "autograd_inlining": (True, "native-export", "torch-torchscript"),
}


def refuse_what_backends_lack(chain: Sequence[str], request: ExportRequest) -> None:
    """Raises WhenceError E0101."""
    for name, (nothing, *served) in _SERVED.items():
        value = getattr(request, name)
        value = getattr(value, "name", value)
        lacking = [each for each in chain if each not in served]
        if value and value != nothing and lacking or nothing is True and not value and lacking:
            raise error("E0101", "usage", f"the backend {lacking[0]} has no {name}", "these have: " + ", ".join(served))
    if isinstance(request.model, torch.export.ExportedProgram):
        for name, asked, why in (
                ("dynamic_shapes", request.dynamic_shapes, "give them to torch.export.export"),
                ("dynamic_axes", request.dynamic_axes, "give dynamic_shapes to torch.export.export"),
                ("training", request.training == "train", "export the module in that mode to a program"),
                ("autograd_inlining", not request.autograd_inlining, "torch.export has inlined them")):
            if asked:
                raise error("E0101", "usage", f"{name} of a torch.export.ExportedProgram is settled already", why)
    if "torch-dynamo" in chain and request.report and not isinstance(request.report, bool):
        raise error("E0101", "usage", "the path of a report is of the native backends",
                    "report=True and artifacts_dir, or backend='native-export'")
    if "torch-dynamo" in chain and request.external_data and not isinstance(request.external_data, bool):
        raise error("E0101", "usage", "how the weights are laid out is for the native backends to say",
                    "external_data=True, or backend='native-export'")


# Options of older versions of torch.onnx.export, which no version of whence has, and what to do instead.
_REMEDIES = {
    "fallback": "backend=['native', 'native-export', 'torch-dynamo'] is a chain; which one did it is said",
    "export_options": "give the options by name: dynamic_shapes=..., external_data=...",
    "opset": "opset_version=20",
    "use_external_data_format": "external_data=True",
    "example_outputs": "leave it out: results are known from the call",
    "enable_onnx_checker": "leave it out: whence.validate(path) checks a file",
    "strip_doc_string": "leave it out: `whence strip` takes away what was written",
    "add_node_names": "leave it out: nodes always have names",
    "fixed_batch_size": "leave it out: sizes that dynamic_shapes does not name are fixed",
    "path": "it is called f, as torch.onnx.export has it",
}


def refuse_unknown(unknown: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in unknown:
        near = difflib.get_close_matches(name, known, 1)
        raise error("E0101", "usage", f"there is no option '{name}'",
                    _REMEDIES.get(name) or (f"did you mean {near[0]}?" if near else "help(whence.export) lists them"))


def check_file(f: Any) -> None:
    """A path, None, or what bytes can be written to."""
    named = isinstance(f, (str, os.PathLike))
    if named:
        require_model_name(Path(f))
    if named and Path(f).name or f is None or not named and hasattr(f, "write") and not isinstance(f, io.TextIOBase):
        return
    raise error("E0101", "usage", f"f={f!r} is neither a file's path nor a binary stream",
                "give 'model.onnx', a BytesIO, open(path, 'wb'), or nothing for a program in memory")


def check_apart(**files: str | os.PathLike[str] | None) -> None:
    """Files that an export writes, by the option that names them."""
    seen: dict[str, str] = {}
    for option, file in files.items():
        if file is None or Path(file).exists() and not Path(file).is_file():
            continue
        other = seen.setdefault(os.path.realpath(file), option)
        if other != option:
            raise error("E0101", "usage", f"{other} and {option} would be one file: {file}",
                        "name another file for one of them", file=str(file))


def check_function_modules(asked: Any) -> dict[str, Any] | None:
    """The choice for ``functions``: every module for True, classes by their names; None for no functions."""
    if asked is True:
        return {"modules": ["**"]}
    if not asked:
        return None
    wrong = [each for each in asked if not isinstance(each, type)] if not isinstance(asked, str) else [asked]
    if wrong:
        raise error("E0101", "usage", f"export_modules_as_functions holds {wrong[0]!r}, which is not a class",
                    "give True, or the classes of modules: {torch.nn.Linear}")
    return {"types": sorted({each.__name__ for each in asked})}
