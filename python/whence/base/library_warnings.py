"""Hides warnings that other libraries raise while whence uses them: a caller of whence cannot fix their cause."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Warnings about future changes, hidden for all modules: PyTorch's exporters use deprecated names of PyTorch.
_CATEGORIES = (FutureWarning, DeprecationWarning, PendingDeprecationWarning)
_LIBRARIES = ("torch", "functorch", "onnx", "onnx_ir", "onnxscript", "onnxruntime", "openvino", "safetensors", "google")
# A library's warning is attributed to its caller, often a decorator or context manager of the standard library.
_MODULES = rf"({'|'.join([*_LIBRARIES, *sorted(sys.stdlib_module_names)])})(\.|$)"


@contextmanager
def hidden() -> Iterator[None]:
    """Hides warnings of other libraries. Warnings of whence and of the model's own code follow the caller's filters."""
    with warnings.catch_warnings():
        for category in _CATEGORIES:
            warnings.filterwarnings("ignore", category=category)
        warnings.filterwarnings("ignore", module=_MODULES)
        yield
