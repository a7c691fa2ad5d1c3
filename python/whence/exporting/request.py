"""The arguments of ``whence.export``, and which backends support them.

The options have the names of torch.onnx.export's. A backend refuses options that it does not support.
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
    """The arguments of a call of ``export``, which documents them."""

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
        """Returns the backends to try, in order. Raises WhenceError E0101, or E0104 for a model of another type."""
        model, backend, dynamo = self.model, self.backend, self.dynamo
        if not isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
            raise error("E0104", "input_mismatch", f"the model is a {type(model).__name__}, not a torch.nn.Module",
                        "wrap the computation in a module: its forward is exported")
        if isinstance(model, torch.nn.DataParallel):
            raise error("E0104", "input_mismatch", "the model is a torch.nn.DataParallel", "export its model.module")
        if dynamo is not None and backend != "native":
            raise error("E0101", "usage", "dynamo and backend exclude each other", "pass only one of them")
        if dynamo or dynamo is None and backend == "native" and isinstance(model, torch.export.ExportedProgram):
            return ("native-export",)
        chain = (backend,) if isinstance(backend, str) else tuple(backend)
        for name in chain:
            if name not in BACKENDS:
                raise error("E0101", "usage", f"unknown backend '{name}'", "choose from " + ", ".join(BACKENDS))
        if not chain:
            raise error("E0101", "usage", "the list of backends is empty", "choose from " + ", ".join(BACKENDS))
        return chain

    def completed(self) -> ExportRequest:
        """Returns the request with ``training`` as one of three words, with the values of a
        torch.onnx.ExportableModule, and with ``dynamic_shapes`` nested like the arguments. Raises WhenceError E0101."""
        request = replace(self, training=training_word(self.training))._with_example()
        return replace(request, dynamic_shapes=request._nested_shapes())

    def _with_example(self) -> ExportRequest:
        """Returns the request with a torch.onnx.ExportableModule's example, and with its names and shapes unless they
        are set."""
        model, args = self.model, self.args
        has_args = isinstance(args, torch.Tensor) or trees.is_array(args) or args or self.kwargs
        if has_args or not isinstance(model, torch.onnx.ExportableModule):
            return self
        args, kwargs = model.example_arguments()
        defaults = {name: getattr(model, name)() for name in ("input_names", "output_names", "dynamic_shapes")
                   if getattr(self, name) is None}
        return replace(self, args=args, kwargs=kwargs, **defaults)

    def _nested_shapes(self) -> Any:
        """Returns dynamic_shapes, computed from the arguments for ShapesCollection and AdditionalInputs of
        torch.export."""
        shapes = self.dynamic_shapes
        if not isinstance(shapes, (torch.export.ShapesCollection, torch.export.AdditionalInputs)):
            return shapes
        args = self.args if isinstance(self.args, (tuple, list)) else (self.args,)
        return shapes.dynamic_shapes(self.model, tuple(args), dict(self.kwargs or {}))

    def for_torch_dynamo(self) -> dict[str, Any]:
        """Returns the options that torch.onnx.export(dynamo=True) implements itself."""
        return {"dump_exported_program": self.dump_exported_program, "artifacts_dir": self.artifacts_dir,
                "profile": self.profile, "verbose": self.verbose,
                "custom_translation_table": self.custom_translation_table, "report": bool(self.report)}


# Options that only some backends support: the default, and the backends.
_BACKENDS_WITH = {
    "report": (None, "native", "native-export", "torch-dynamo"),
    "dump_exported_program": (False, "native", "native-export", "torch-dynamo"),
    "custom_translation_table": (None, "native", "native-export", "torch-dynamo"),
    "custom_opsets": (None, "native", "native-export", "torch-torchscript"),
    "operators": (None, "native", "native-export"),
    "external_data": (False, "native", "native-export", "torch-dynamo"),
    "operator_export_type": ("ONNX", "native", "native-export"),
    "autograd_inlining": (True, "native-export", "torch-torchscript"),
}


def refuse_unsupported_options(chain: Sequence[str], request: ExportRequest) -> None:
    """Raises WhenceError E0101 for options that a backend of the chain does not support."""
    for name, (default, *backends) in _BACKENDS_WITH.items():
        value = getattr(request, name)
        value = getattr(value, "name", value)
        unsupporting = [each for each in chain if each not in backends]
        if value and value != default and unsupporting or default is True and not value and unsupporting:
            raise error("E0101", "usage", f"the backend {unsupporting[0]} does not support {name}",
                        "use one of these: " + ", ".join(backends))
    if isinstance(request.model, torch.export.ExportedProgram):
        for name, is_set, why in (
                ("dynamic_shapes", request.dynamic_shapes, "pass them to torch.export.export"),
                ("dynamic_axes", request.dynamic_axes, "pass dynamic_shapes to torch.export.export"),
                ("training", request.training == "train", "export the module to a program in that mode"),
                ("autograd_inlining", not request.autograd_inlining, "torch.export has already inlined them")):
            if is_set:
                raise error("E0101", "usage", f"{name} of a torch.export.ExportedProgram cannot be changed", why)
    if "torch-dynamo" in chain and request.report and not isinstance(request.report, bool):
        raise error("E0101", "usage", "only the native backends accept a path of a report",
                    "use report=True and artifacts_dir, or backend='native-export'")
    if "torch-dynamo" in chain and request.external_data and not isinstance(request.external_data, bool):
        raise error("E0101", "usage", "only the native backends accept a layout of external data",
                    "use external_data=True, or backend='native-export'")


# Options of older versions of torch.onnx.export that whence never had, and their replacements.
_REMEDIES = {
    "fallback": "backend=['native', 'native-export', 'torch-dynamo'] is a chain; program.backend names the result",
    "export_options": "pass the options by name: dynamic_shapes=..., external_data=...",
    "opset": "opset_version=20",
    "use_external_data_format": "external_data=True",
    "example_outputs": "leave it out: the example call determines the results",
    "enable_onnx_checker": "leave it out: whence.validate(path) checks a file",
    "strip_doc_string": "leave it out: `whence strip` removes the metadata",
    "add_node_names": "leave it out: nodes always have names",
    "fixed_batch_size": "leave it out: sizes that dynamic_shapes does not name are fixed",
    "path": "use f, as in torch.onnx.export",
}


def refuse_unknown(unknown: Mapping[str, Any], option_names: Sequence[str]) -> None:
    for name in unknown:
        near = difflib.get_close_matches(name, option_names, 1)
        raise error("E0101", "usage", f"unknown option '{name}'",
                    _REMEDIES.get(name) or (f"did you mean {near[0]}?" if near else "help(whence.export) lists them"))


def check_file(f: Any) -> None:
    """Raises WhenceError E0101 unless ``f`` is a path, None, or a binary stream."""
    is_path = isinstance(f, (str, os.PathLike))
    if is_path:
        require_model_name(Path(f))
    if is_path and Path(f).name or f is None or not is_path and hasattr(f, "write") and not isinstance(f, io.TextIOBase):
        return
    raise error("E0101", "usage", f"f={f!r} is neither a file's path nor a binary stream",
                "pass 'model.onnx', a BytesIO, open(path, 'wb'), or nothing for a program in memory")


def check_apart(**files: str | os.PathLike[str] | None) -> None:
    """Raises WhenceError E0101 if two options name the same file."""
    option_by_path: dict[str, str] = {}
    for option, file in files.items():
        if file is None or Path(file).exists() and not Path(file).is_file():
            continue
        other = option_by_path.setdefault(os.path.realpath(file), option)
        if other != option:
            raise error("E0101", "usage", f"{other} and {option} would be one file: {file}",
                        "name another file for one of them", file=str(file))


def check_function_modules(classes: Any) -> dict[str, Any] | None:
    """Returns the arguments for ``functions``: all modules for True, or class names; None for no functions."""
    if classes is True:
        return {"modules": ["**"]}
    if not classes:
        return None
    invalid = [each for each in classes if not isinstance(each, type)] if not isinstance(classes, str) else [classes]
    if invalid:
        raise error("E0101", "usage", f"export_modules_as_functions contains {invalid[0]!r}, which is not a class",
                    "pass True, or the classes of modules: {torch.nn.Linear}")
    return {"types": sorted({each.__name__ for each in classes})}
