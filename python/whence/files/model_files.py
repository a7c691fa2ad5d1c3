"""Turns model arguments into files, for all functions that read a model.

Paths and programs from ``whence.export`` are files already. A model in memory is written to a temporary file for the
duration of the call.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

from ..errors import error, renamed_in_errors
from . import memory_edits

if TYPE_CHECKING:
    import onnx
    import onnx_ir
    import torch

    # A whence.ONNXProgram is a path: it has __fspath__.
    Model = Union[str, os.PathLike[str], onnx.ModelProto, onnx_ir.Model, torch.onnx.ONNXProgram]
else:
    Model = Any

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MAX_NAME = 100                # characters of the graph's name in the file name
_MAX_EMBEDDED = 1_500_000_000  # bytes of embedded weights; a protobuf message is limited to 2 GiB


def takes_models(*names: str, written: str | None = None,
                 in_place_unless: Collection[str] | None = None) -> Callable[[_Function], _Function]:
    """Decorates a function that takes model files: arguments with these names may also be models in memory.

    The first argument is called "model" or "path"; the other of these two names is an alias unless the function uses
    it. ``written`` names the argument for the output file. Without it, the function overwrites the first model, which
    must be a file. With ``in_place_unless``, it may also be in memory: the function then only changes names and metadata
    of nodes, unless one of these arguments is set, and returns a report with a ``path``, which becomes None. Raises
    WhenceError E0101 for another model in memory, and for arguments that are not models."""
    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        other_name = {"model": "path", "path": "model"}.get(names[0], "")
        alias = other_name if other_name not in signature.parameters else ""

        @functools.wraps(function)
        def with_files(*args: Any, **kwargs: Any) -> Any:
            if alias in kwargs and names[0] not in kwargs:
                kwargs[names[0]] = kwargs.pop(alias)
            bound = signature.bind(*args, **kwargs)
            overwrites = written is not None and bound.arguments.get(written) is None
            in_place = overwrites and in_place_unless is not None and is_in_memory(bound.arguments.get(names[0])) \
                and all(bound.arguments.get(argument) is None for argument in in_place_unless)
            with ExitStack() as stack:
                for name in names:
                    model = bound.arguments.get(name)
                    if model is None and signature.parameters[name].default is None:
                        continue
                    if name == names[0] and written is not None and overwrites and not in_place:
                        _require_file(model, written)
                    open_file = edited if name == names[0] and in_place else as_file
                    bound.arguments[name] = stack.enter_context(open_file(model, name))
                result = function(*bound.args, **bound.kwargs)
            return replace(result, path=None) if in_place else result

        return with_files  # type: ignore[return-value]

    return decorate


@contextmanager
def as_file(model: Model, argument: str = "model") -> Iterator[str]:
    """Yields the path of the model's file, which may be temporary. Raises WhenceError E0101 if it is not a model."""
    if isinstance(model, (str, os.PathLike)):  # includes ONNXProgram, which has __fspath__
        yield os.fspath(model)
        return
    write, name = _writer(model, argument)
    with _temporary_file(name) as path:
        write(path)
        yield str(path)


@contextmanager
def edited(model: Any, argument: str = "model") -> Iterator[str]:
    """Yields the path of a temporary file of a model in memory, in which the block edits names and metadata of nodes.
    Copies them into the model if the block succeeds."""
    if (ir_model := ir_model_of(model)) is not None:
        with _temporary_file(ir_model.graph.name or "") as path:
            memory_edits.write_outline(ir_model, path)
            yield str(path)
            memory_edits.apply_to_ir(path, ir_model)
        return
    with as_file(memory_edits.without_external_weights(model), argument) as name:
        yield name
        memory_edits.apply_to_proto(Path(name), model)


@contextmanager
def _temporary_file(name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        path = Path(folder) / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)[:_MAX_NAME].strip('.') or 'model'}.onnx"
        with renamed_in_errors(path, path.name):
            yield path


def is_in_memory(model: Any) -> bool:
    """Returns true for an onnx.ModelProto, an onnx_ir.Model and the result of torch.onnx.export."""
    return _is_a(model, "onnx", "ModelProto") or ir_model_of(model) is not None


def ir_model_of(model: Any) -> Any:
    """Returns the onnx_ir.Model that the value is or, as a torch.onnx.ONNXProgram, has; else None."""
    if isinstance(model, os.PathLike):  # whence's ONNXProgram, whose model is a copy
        return None
    return next((each for each in (model, getattr(model, "model", None)) if _is_a(each, "onnx_ir", "Model")), None)


def _writer(model: Any, argument: str) -> tuple[Callable[[Path], None], str]:
    """Returns a function that writes the model to a path, and the name of its graph."""
    if (ir_model := ir_model_of(model)) is not None:
        return functools.partial(_write_ir, ir_model), ir_model.graph.name or ""
    if _is_a(model, "onnx", "ModelProto"):
        return functools.partial(_write_proto, model), model.graph.name
    raise error("E0101", "usage", f"{argument} is a {type(model).__module__}.{type(model).__qualname__}, not a "
                "model", "pass a path, an onnx.ModelProto, an onnx_ir.Model or the result of whence.export")


def _is_a(value: Any, package: str, name: str) -> bool:
    """Returns true if the value is an instance of the package's class ``name``. Does not import the package: if it is
    not imported, no such value exists."""
    kind = getattr(sys.modules.get(package), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _write_proto(model: onnx.ModelProto, path: Path) -> None:
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) <= _MAX_EMBEDDED:
        path.write_bytes(model.SerializeToString())
        return
    import onnx as library

    from .onnx_graphs import save_with_external_weights

    copy = library.ModelProto()
    copy.CopyFrom(model)  # does not change the caller's model
    save_with_external_weights(copy, path)


def _write_ir(model: onnx_ir.Model, path: Path) -> None:
    import onnx_ir as library

    tensors = [value.const_value for value in model.graph.initializers.values() if value.const_value is not None]
    is_external = any(isinstance(tensor, library.ExternalTensor) for tensor in tensors) or \
        sum(tensor.nbytes for tensor in tensors) > _MAX_EMBEDDED
    library.save(model, path, external_data=path.name + ".data" if is_external else None)


def _require_file(model: Any, written: str) -> None:
    if not isinstance(model, (str, os.PathLike)):
        raise error("E0101", "usage", "a model in memory has no file to write to",
                    f"pass {written}='model.onnx'")
