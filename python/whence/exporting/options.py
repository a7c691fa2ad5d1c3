"""The options of an export in the terms of the command and of torch.onnx.export, checked before anything runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..arguments.trees import identifier
from ..axes.dynamic_axes import Axes
from ..converters import torch_symbolics
from ..converters.call_expansion import Maker
from ..converters.custom_translations import (DEFAULT_OPSET, NEWEST_OPSET, OLDEST_OPSET, registered, translation_table,
                                              write_functions)
from ..converters.python_functions import PythonTranslation, part_of
from ..errors import error
from ..state.export_settings import log
from .request import ExportRequest


@dataclass(frozen=True)
class Options:
    """The options of an export, for the command and for torch.onnx.export."""

    opset: int
    input_names: Sequence[str]
    output_names: Sequence[str]
    optimize: bool
    fold: bool
    export_params: bool
    keep_initializers_as_inputs: bool
    keep_bfloat16: bool
    external_data: Mapping[str, Any] | None  # None: the weights stay in the file, as long as they fit
    translations: Mapping[str, Any]   # "mylib::op" -> FunctionProto or PythonTranslation
    custom_opsets: Mapping[str, int]
    unsupported_as_domain: bool
    overwrite: bool = False
    operators: str | None = None
    symbolics: frozenset[str] = frozenset()  # "aten::gelu": operators with a user's function in torch.onnx

    def for_command(self, axes: Axes, folder: Path, report: str | os.PathLike[str] | None) -> list[Any]:
        """Returns the arguments of the command; writes the files that it needs to ``folder``."""
        arguments: list[Any] = ["--opset", self.opset]
        for name, specs in axes.items():
            axis_names = ",".join(f"{axis}={spec.command_name}" for axis, spec in specs.items() if spec.name)
            arguments += ["--dynamic", f"{identifier(name)}:{axis_names}"] if axis_names else []
        arguments += ["--input-names", ",".join(self.input_names)] if self.input_names else []
        arguments += ["--output-names", ",".join(self.output_names)] if self.output_names else []
        arguments += ["--report", report] if report else []
        arguments += ["--operators", self.operators] if self.operators else []
        arguments += ["--on-unsupported", "domain"] if self.unsupported_as_domain else []
        for operator in sorted(self.makers()):
            arguments += ["--keep-operator", operator]
        for domain, version in self.custom_opsets.items():
            arguments += ["--custom-opset", f"{domain}={version}"]
        functions = {name: each for name, each in self.translations.items() if name not in self.makers()}
        if functions:
            arguments += ["--converters", write_functions(functions, folder / "functions.onnx")]
        flags = {"--overwrite": self.overwrite, "--no-optimize": not self.optimize, "--no-fold": not self.fold,
                 "--weights-as-inputs": not self.export_params,
                 "--keep-initializers-as-inputs": self.keep_initializers_as_inputs,
                 "--keep-bfloat16": self.keep_bfloat16, "--external-data": self.external_data is not None}
        for name, value in (self.external_data or {}).items():
            arguments += ["--external-data-per-tensor"] if name == "per_tensor" else [f"--external-data-{name}", value]
        return arguments + [flag for flag, is_set in flags.items() if is_set]

    def makers(self) -> dict[str, Maker]:
        """Returns the functions that convert single calls in Python, by operator: "mylib::op"."""
        makers: dict[str, Maker] = {name: lambda call: torch_symbolics.part_of(call, self.opset, self.custom_opsets)
                                  for name in self.symbolics}
        for name, each in self.translations.items():
            if isinstance(each, PythonTranslation):
                makers[name] = partial(part_of, each, opset=self.opset)
        return makers

    def for_torch(self, tensors: Mapping[Any, Any], axes: Axes, dynamo: bool) -> dict[str, Any]:
        import torch

        names = [*self.input_names, *list(tensors)[len(self.input_names):]]
        options = {"input_names": names, "output_names": list(self.output_names) or None, "opset_version": self.opset,
                   "export_params": self.export_params, "keep_initializers_as_inputs": self.keep_initializers_as_inputs,
                   "dynamo": dynamo}
        if dynamo:
            options |= {"external_data": self.external_data is not None, "optimize": self.optimize and self.fold}
            if axes:
                options["dynamic_shapes"] = tuple(
                    {axis: spec.name if spec.dim is None and spec.name and not spec.parts else spec.for_torch_export()
                     for axis, spec in axes[name].items()} if name in axes else None for name in tensors)
        else:
            options |= {"do_constant_folding": self.optimize and self.fold,
                        "training": torch.onnx.TrainingMode.PRESERVE,
                        "custom_opsets": dict(self.custom_opsets) or None}
            new_name = dict(zip(tensors, names))
            if axes:
                options["dynamic_axes"] = {
                    new_name[name]: {axis: spec.name or f"{name}_dynamic_axes_{number}"
                                     for number, (axis, spec) in enumerate(specs.items(), 1)}
                    for name, specs in axes.items()}
        return options


def shapes_for_torch_export(tensors: Mapping[Any, Any], axes: Axes) -> tuple[Any, ...]:
    """Returns dynamic_shapes for a forward that takes only these tensors."""
    return tuple({axis: spec.for_torch_export() for axis, spec in axes[name].items()} if name in axes else None
                 for name in tensors)


def check_opset(opset: Any) -> int:
    if not isinstance(opset, int) or isinstance(opset, bool) or not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise error("E0101", "usage", f"opset_version={opset!r} cannot be exported",
                    f"choose from {OLDEST_OPSET} to {NEWEST_OPSET}; onnx.version_converter writes older opsets")
    return opset


def check_external_data(external_data: Any) -> dict[str, Any] | None:
    """Returns None for False, {} for True, and for a dict its entries ("threshold", "alignment", "per_tensor") that are
    not False."""
    if isinstance(external_data, bool):
        return {} if external_data else None
    kinds = {"threshold": int, "alignment": int, "per_tensor": bool}
    if not isinstance(external_data, Mapping) or any(
            type(value) is not kinds.get(name) for name, value in external_data.items()):
        raise error("E0101", "usage", f"external_data={external_data!r} is not a valid setting",
                    "pass True, or a dict with any of: threshold and alignment in bytes, per_tensor=True")
    return {name: value for name, value in external_data.items() if value is not False}


def check_custom_opsets(custom_opsets: Mapping[str, int] | None) -> dict[str, int]:
    if not isinstance(custom_opsets, (Mapping, type(None))):
        raise error("E0101", "usage", f"custom_opsets is a {type(custom_opsets).__name__}", "pass {'mylib': 1}")
    for domain, version in (custom_opsets or {}).items():
        if not isinstance(version, int) or version < 1 or domain in ("", "ai.onnx"):
            raise error("E0101", "usage", f"custom_opsets={{{domain!r}: {version!r}}} is not a domain with a version",
                        "pass {'mylib': 1}; the version of ONNX's own operators is opset_version")
    return dict(custom_opsets or {})


def check_operators(operators: str | None) -> str | None:
    if operators not in (None, "fused", "plain"):
        raise error("E0101", "usage", f"operators={operators!r} is unknown",
                    "'fused' writes all operators that the opset has, 'plain' none newer than opset 22")
    return operators


def check_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else tuple(names or ())
    repeated = [name for name in names if names.count(name) > 1]
    invalid = [name for name in names if not isinstance(name, str) or not name or "," in name]
    if repeated or invalid:
        raise error("E0101", "usage", f"{what} contains {(repeated or invalid)[0]!r}" + (" twice" if repeated else ""),
                    "use unique names without commas")
    return names


def unsupported_as_domain(operator_export_type: Any) -> bool:
    """Returns true if operators without a converter become nodes of another domain. Accepts a
    torch.onnx.OperatorExportTypes or its name."""
    word = getattr(operator_export_type, "name", operator_export_type)
    if word in ("ONNX", None):
        return False
    if word in ("ONNX_ATEN_FALLBACK", "ONNX_FALLTHROUGH"):
        return True
    raise error("E0303", "unsupported_feature",
                f"operator_export_type={word} is not supported: the file would have no ONNX operators",
                "use ONNX_ATEN_FALLBACK, which keeps only operators without a converter, in their own domain")


def options_of(request: ExportRequest, chain: Sequence[str]) -> Options:
    """Returns the checked options. Raises WhenceError E0101 for options that no export supports, E0303."""
    opset = check_opset(DEFAULT_OPSET if request.opset_version is None else request.opset_version)
    # PyTorch's exporter runs these functions itself and accepts any Python in them.
    table = None if set(chain) == {"torch-dynamo"} else request.custom_translation_table
    return Options(opset=opset, input_names=check_names(request.input_names, "input_names"),
                   output_names=check_names(request.output_names, "output_names"),
                   optimize=request.optimize, fold=request.do_constant_folding,
                   export_params=request.export_params,
                   keep_initializers_as_inputs=bool(request.keep_initializers_as_inputs),
                   keep_bfloat16=bool(request.keep_bfloat16),
                   external_data=check_external_data(request.external_data),
                   translations=registered(opset) | translation_table(table),
                   custom_opsets=check_custom_opsets(request.custom_opsets),
                   unsupported_as_domain=unsupported_as_domain(request.operator_export_type),
                   operators=check_operators(request.operators),
                   overwrite=bool(request.overwrite))


def log_decisions(request: ExportRequest, options: Options) -> None:
    """Logs differences between the requested options and the file."""
    if not request.do_constant_folding and request.optimize:
        log.info("do_constant_folding=False: every weight is stored as in the model; torch-dynamo, which always folds "
                 "when it optimises, does not optimise")
    if request.keep_initializers_as_inputs is None:
        log.info("keep_initializers_as_inputs=None: weights are not inputs")
    if request.keep_initializers_as_inputs and not options.export_params:
        log.info("keep_initializers_as_inputs with export_params=False: the weights are already inputs")
    if request.opset_version is None:
        log.info("opset_version=None: opset %d", options.opset)
    if request.training != "eval" and options.optimize:
        log.info("training='%s' with optimize=True: folding keeps dropout and batch normalisation in that mode; "
                 "optimize=False keeps every parameter unchanged", request.training)
