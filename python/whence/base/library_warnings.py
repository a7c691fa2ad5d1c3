"""Warnings that other libraries give while whence uses them: nothing in them is for a caller of whence to change."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Categories for coming changes, whoever's code is at fault: PyTorch's exporters use PyTorch's own old names.
_CATEGORIES = (FutureWarning, DeprecationWarning, PendingDeprecationWarning)
_LIBRARIES = ("torch", "functorch", "onnx", "onnx_ir", "onnxscript", "onnxruntime", "openvino", "safetensors", "google")
# A library's warning stands where its caller is, which is often a decorator or context of the standard library.
_MODULES = rf"({'|'.join([*_LIBRARIES, *sorted(sys.stdlib_module_names)])})(\.|$)"


@contextmanager
def hidden() -> Iterator[None]:
    """Warnings of other libraries do not pass. Those of whence and of the model's own code do, as the caller's filters
    say."""
    with warnings.catch_warnings():
        for category in _CATEGORIES:
            warnings.filterwarnings("ignore", category=category)
        warnings.filterwarnings("ignore", module=_MODULES)
        yield
