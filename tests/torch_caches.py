"""What PyTorch's exporters work out anew each time they are called, though it never changes, and a process of the tests
needs once: for small models this is most of the time that they take."""

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
    leave_out_annotations()
    leave_out_traces()


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


def share_operators() -> None:
    """Each decomposition looks up the thousand composite operators of C++ in torch.ops once for every namespace there.
    They stay there; what was looked up before is, again, when another library registers one."""
    look_up, known = utils._materialize_cpp_cia_ops, []

    def look_up_new() -> None:
        registered = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if registered != known:
            look_up()
            known[:] = registered

    utils._materialize_cpp_cia_ops = look_up_new


def leave_out_annotations() -> None:
    """Each decomposition registers six thousand kernels, twice, and PyTorch evaluates the annotations of a function that
    it defines for every one."""
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


def leave_out_traces() -> None:
    """pytest adds handlers to each logger that does not propagate. PyTorch's log of what it compiles has none, unless
    somebody asks for it; with any, it writes down the stack and the sizes of every tensor that it meets."""
    logging.getLogger("torch.__trace").propagate = True
