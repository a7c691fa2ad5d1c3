"""What PyTorch's exporters work out anew each time they are called, though it never changes, and a process of the tests
needs once: for small models this is most of the time that they take."""

import functools
import types
import typing

from torch._export.serde import schema, serialize
from torch.onnx._internal.exporter._registration import ONNXRegistry


def share() -> None:
    share_translations()
    share_type_hints()


def share_translations() -> None:
    """The dynamo exporter parses the source of its 500 translations at every export. Every registry becomes a copy of
    the first one of its opset: translations that a test adds stay its own."""
    parsed = functools.cache(ONNXRegistry.from_torchlib)

    def from_torchlib(*opset, **named) -> ONNXRegistry:
        first = parsed(*opset, **named)
        registry = ONNXRegistry()
        registry._opset_version = first.opset_version
        registry.functions = {target: list(translations) for target, translations in first.functions.items()}
        return registry

    ONNXRegistry.from_torchlib = staticmethod(from_torchlib)


def share_type_hints() -> None:
    """torch.export.load evaluates the annotations of the schema's fifty classes once for every object in an archive."""
    hints = functools.cache(lambda cls: typing.get_type_hints(cls, globalns=vars(schema)))

    def get_type_hints(cls, globalns) -> dict:
        assert globalns is vars(schema)
        return hints(cls)

    module = types.ModuleType("typing")
    vars(module).update(vars(typing), get_type_hints=get_type_hints)
    serialize.typing = module  # in this module alone
