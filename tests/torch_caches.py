"""Caches constant results that PyTorch's exporters recompute in every call. For small models, this takes most of their
time."""

import functools
import logging
import types
import typing
from typing import Callable

import torch
from torch._C import DispatchKey
from torch._export import utils
from torch._export.serde import schema, serialize
from torch._ops import OperatorBase
from torch.onnx._internal.exporter._registration import ONNXRegistry


def share() -> None:
    share_translations()
    share_type_hints()
    share_operators()
    skip_annotations()
    skip_traces()


def share_translations() -> None:
    """The dynamo exporter parses the source of its 500 translations at every export. Here every registry is a copy of
    the first one of its opset, so that translations added by a test stay in its own copy."""
    parsed = functools.cache(ONNXRegistry.from_torchlib)

    def from_torchlib(*opset, **options) -> ONNXRegistry:
        first = parsed(*opset, **options)
        registry = ONNXRegistry()
        registry._opset_version = first.opset_version
        registry.functions = {target: list(translations) for target, translations in first.functions.items()}
        return registry

    ONNXRegistry.from_torchlib = staticmethod(from_torchlib)


def share_type_hints() -> None:
    """torch.export.load evaluates the annotations of the schema's fifty classes for every object in an archive."""
    hints = functools.cache(lambda cls: typing.get_type_hints(cls, globalns=vars(schema)))

    def get_type_hints(cls, globalns) -> dict:
        assert globalns is vars(schema)
        return hints(cls)

    module = types.ModuleType("typing")
    vars(module).update(vars(typing), get_type_hints=get_type_hints)
    serialize.typing = module  # only in this module


def share_operators() -> None:
    """Each decomposition looks up the thousand composite C++ operators in torch.ops for every namespace. Here, they are
    looked up again only after a library has registered another one."""
    look_up, previous = utils._materialize_cpp_cia_ops, []

    def look_up_new() -> None:
        registered = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if registered != previous:
            look_up()
            previous[:] = registered

    utils._materialize_cpp_cia_ops = look_up_new


def skip_annotations() -> None:
    """Each decomposition registers six thousand kernels twice, and for each, PyTorch evaluates the annotations of a
    helper function."""
    register = OperatorBase.py_impl

    def py_impl(self, key) -> Callable:
        if not isinstance(key, DispatchKey) or key == DispatchKey.Python:
            return register(self, key)

        def inner(kernel):
            if key in self.py_kernels:
                raise RuntimeError(f"Trying to override a python impl for {key} on operator {self.name()}")
            self.py_kernels[key] = kernel
            self._dispatch_cache.clear()
            return kernel

        return inner

    OperatorBase.py_impl = py_impl


def skip_traces() -> None:
    """pytest adds handlers to each logger that does not propagate. PyTorch's compilation log normally has no handler;
    with one, it records the stack and the sizes of every tensor."""
    logging.getLogger("torch.__trace").propagate = True
