"""PyTorch's dynamo exporter parses the source of its 500 translations at every export, which is most of the time that a
small model takes. A process of the tests does so once for each opset."""

import functools

from torch.onnx._internal.exporter._registration import ONNXRegistry


def share() -> None:
    """Makes every registry a copy of the first one of its opset: translations that a test adds stay its own."""
    parsed = functools.cache(ONNXRegistry.from_torchlib)

    def from_torchlib(*opset, **named) -> ONNXRegistry:
        first = parsed(*opset, **named)
        registry = ONNXRegistry()
        registry._opset_version = first.opset_version
        registry.functions = {target: list(translations) for target, translations in first.functions.items()}
        return registry

    ONNXRegistry.from_torchlib = staticmethod(from_torchlib)
