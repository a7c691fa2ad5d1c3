"""whence: says which module, call and source line of a PyTorch model every ONNX node comes from.

    with whence.record("model.whence.json"):
        torch.onnx.export(model, args, "model.onnx", dynamo=False)
    whence.annotate("model.onnx", "model.whence.json")
    report = whence.validate("model.onnx")

or all of it at once: ``whence.export(model, args, "model.onnx")``.
"""

from .errors import Diagnostic, WhenceError, WhenceWarning
from .exporting import ExportReport, export
from .naming import Naming, naming
from .plugin import Recording, record
from .reports import AnnotateReport, Comparison, Coverage, ValidationReport, annotate, compare, validate
from .verifying import OutputDifference, Verification, verify

__version__ = "0.1.0"
__all__ = [
    "AnnotateReport", "Comparison", "Coverage", "Diagnostic", "ExportReport", "Naming", "OutputDifference", "Recording",
    "ValidationReport", "Verification", "WhenceError", "WhenceWarning", "annotate", "compare", "export", "naming",
    "record", "validate", "verify",
]
