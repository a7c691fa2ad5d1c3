"""whence reports which module, call and source line of a PyTorch model each ONNX node comes from.

    with whence.record("model.whence.json"):
        torch.onnx.export(model, args, "model.onnx", dynamo=False)
    whence.annotate("model.onnx", "model.whence.json")
    report = whence.validate("model.onnx")

or in one call: ``whence.export(model, args, "model.onnx")``.
"""

import importlib
from typing import TYPE_CHECKING

from .annotation.carry import carry
from .annotation.keep import KeepReport, keep
from .annotation.reports import AnnotateReport, Comparison, Coverage, ValidationReport, annotate, compare, validate
from .editing.derived_weights import (AttestedTensor, Attestation, RecoveredWeights, RefitReport, attest, refit,
                                      weights)
from .editing.device_placement import Crossing, DeviceShare, PlaceReport, PlacementDifference, place
from .editing.model_functions import Function, FunctionsReport, functions, inline
from .editing.shared_weights import SharedWeights, share_weights
from .errors import Diagnostic, WhenceError, WhenceWarning
from .inspection.modules import (Difference, Explanation, ModuleChange, ModuleRow, ModuleRows, ModuleTime, Profile,
                                 diff, explain, extract, profile, show)
from .inspection.selection import SelectedNode, Selection, select
from .recording.record import Recording, record

if TYPE_CHECKING:
    from .converters.custom_translations import register_custom_op, unregister_custom_op
    from .exporting.export import export
    from .exporting.program import ONNXProgram
    from .exporting.unconvertible import UnconvertibleOp, unconvertible_ops
    from .numerics.api import accuracy
    from .numerics.chain import ChainReport, accuracy_chain
    from .numerics.report import AccuracyReport, FirstDifference, ModuleAccuracy
    from .numerics.verification import OutputDifference, Verification, verify
    from .quantising.api import sensitivity
    from .quantising.report import Choice, ModuleSensitivity, SensitivityReport
    from .state.export_settings import is_in_onnx_export, select_model_mode_for_export
    from .values.value_file import Values
    from .values.value_recorder import record_values

# Names imported on first use: their modules import torch, which would slow down the command's start.
_LAZY_IMPORTS = {
    "export": "exporting.export", "ONNXProgram": "exporting.program", "UnconvertibleOp": "exporting.unconvertible",
    "unconvertible_ops": "exporting.unconvertible",
    "is_in_onnx_export": "state.export_settings", "select_model_mode_for_export": "state.export_settings",
    "register_custom_op": "converters.custom_translations", "unregister_custom_op": "converters.custom_translations",
    "OutputDifference": "numerics.verification", "Verification": "numerics.verification", "verify": "numerics.verification",
    "accuracy": "numerics.api", "accuracy_chain": "numerics.chain", "ChainReport": "numerics.chain",
    "AccuracyReport": "numerics.report", "FirstDifference": "numerics.report",
    "ModuleAccuracy": "numerics.report", "sensitivity": "quantising.api", "Choice": "quantising.report",
    "ModuleSensitivity": "quantising.report", "SensitivityReport": "quantising.report",
    "Values": "values.value_file", "record_values": "values.value_recorder",
}

# Removed names, with their replacements.
_REMOVED = {name: "validate(model).raw['naming'] counts kinds of names; compare() counts them in two files"
            for name in ("Naming", "naming")}

__all__ = [
    "AccuracyReport", "AnnotateReport", "Attestation", "AttestedTensor", "ChainReport", "Choice", "Comparison", "Coverage", "Crossing", "DeviceShare",
    "Diagnostic", "Difference", "Explanation", "FirstDifference", "Function", "FunctionsReport", "KeepReport",
    "ModuleAccuracy",
    "ModuleChange", "ModuleRow", "ModuleRows", "ModuleSensitivity", "ModuleTime", "ONNXProgram", "OutputDifference",
    "PlaceReport", "PlacementDifference", "Profile", "Recording", "RecoveredWeights", "RefitReport", "SelectedNode", "Selection", "SensitivityReport",
    "SharedWeights", "UnconvertibleOp", "ValidationReport", "Values", "Verification", "WhenceError", "WhenceWarning",
    "accuracy", "accuracy_chain", "annotate", "attest", "carry", "compare", "diff", "explain", "export", "extract", "functions", "inline",
    "is_in_onnx_export", "keep", "place", "profile", "record", "record_values", "refit", "register_custom_op", "select",
    "select_model_mode_for_export", "sensitivity", "share_weights", "show", "unconvertible_ops",
    "unregister_custom_op", "validate", "verify", "weights",
]


def __dir__() -> list[str]:
    """Lists the public names, imported or not, without the package's modules."""
    return [*__all__, "__version__", *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from .base.version import package_version

        return package_version()
    if name in _REMOVED:
        raise AttributeError(f"whence.{name} was removed: {_REMOVED[name]}")
    if name not in _LAZY_IMPORTS:
        raise AttributeError(f"module 'whence' has no attribute '{name}'")
    try:
        return getattr(importlib.import_module(f".{_LAZY_IMPORTS[name]}", __name__), name)
    except ModuleNotFoundError as missing:
        package = str(missing.name).partition(".")[0]
        if package == __name__:
            raise
        from .errors import error

        raise error("E0307", "needs_libtorch", f"whence.{name} needs the Python package {package}",
                    f"pip install {package}") from None
