"""onnx's version converter, which converts from opset to opset: each is a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .steps import Steps


def _patch(module: Any, steps: Steps, replace: Callable) -> None:
    def opset_by_opset(original: Callable) -> Callable:
        def convert_version(model: bytes, target: int) -> bytes:
            opsets = module.onnx.load_model_from_string(model).opset_import
            start = next((each.version for each in opsets if each.domain in ("", "ai.onnx")), target)
            direction = 1 if target > start else -1
            for opset in range(start, target, direction):
                if not steps.allows("onnx's version converter", f"opset {opset} to {opset + direction}"):
                    return original(model, opset)
            return original(model, target)

        return convert_version

    replace(module.C, "convert_version", opset_by_opset)


PATCHES = {"onnx.version_converter": _patch}
