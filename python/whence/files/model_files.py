"""The one place that makes a file of whatever holds a model: every function that reads a model takes its argument so.

Paths and programs of ``whence.export`` are files already. A model in memory is written to a temporary file, which lasts
as long as the call.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

from ..errors import WhenceError, error

if TYPE_CHECKING:
    import onnx
    import onnx_ir
    import torch

    # A whence.ONNXProgram is a path: it has __fspath__.
    Model = Union[str, os.PathLike[str], onnx.ModelProto, onnx_ir.Model, torch.onnx.ONNXProgram]
else:
    Model = Any

_Function = TypeVar("_Function", bound=Callable[..., Any])
_LONGEST_NAME = 100       # letters of a graph's name that the file gets
_EMBEDDED = 1_500_000_000  # bytes of weights that a file of one message holds, which ends at 2 GiB


def takes_models(*names: str, written: str | None = None) -> Callable[[_Function], _Function]:
    """Decorates a function of model files: the arguments of these names may be models in memory, too.

    The first of them is called model or path, and is taken by either name where the function has no other use for it.
    ``written``: the argument that names the file to write; without it the function writes to the first of ``names``, so
    that this one has to be a file. Raises WhenceError E0101 where it is not, and for what holds no model.
    """
    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        other = {"model": "path", "path": "model"}.get(names[0], "")
        alias = other if other not in signature.parameters else ""

        @functools.wraps(function)
        def with_files(*args: Any, **kwargs: Any) -> Any:
            if alias in kwargs and names[0] not in kwargs:
                kwargs[names[0]] = kwargs.pop(alias)
            bound = signature.bind(*args, **kwargs)
            with ExitStack() as stack:
                for name in names:
                    model = bound.arguments.get(name)
                    if model is None and signature.parameters[name].default is None:
                        continue
                    if name == names[0] and written is not None and bound.arguments.get(written) is None:
                        _require_file(model, written)
                    bound.arguments[name] = stack.enter_context(as_file(model, name))
                return function(*bound.args, **bound.kwargs)

        return with_files  # type: ignore[return-value]

    return decorate


@contextmanager
def as_file(model: Model, argument: str = "model") -> Iterator[str]:
    """The path of a file of the model, which may be gone after the block. Raises WhenceError E0101 for anything else."""
    if isinstance(model, (str, os.PathLike)):  # a program is one: it has __fspath__
        yield os.fspath(model)
        return
    write, name = _writer(model, argument)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        path = Path(folder) / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)[:_LONGEST_NAME].strip('.') or 'model'}.onnx"
        write(path)
        try:
            yield str(path)
        except WhenceError as failure:  # the file is gone when a user reads of it
            raise WhenceError([_without_path(each, path) for each in failure.diagnostics]) from failure.__cause__


def _writer(model: Any, argument: str) -> tuple[Callable[[Path], None], str]:
    """Returns a function that writes the model to a path, and the name of its graph."""
    if _is_a(model, "onnx_ir", "Model"):
        return functools.partial(_write_ir, model), model.graph.name or ""
    if _is_a(getattr(model, "model", None), "onnx_ir", "Model"):  # torch.onnx.ONNXProgram
        return functools.partial(_write_ir, model.model), model.model.graph.name or ""
    if _is_a(model, "onnx", "ModelProto"):
        return functools.partial(_write_proto, model), model.graph.name
    raise error("E0101", "usage", f"{argument} is a {type(model).__module__}.{type(model).__qualname__}, which holds no "
                "model", "give a path, an onnx.ModelProto, an onnx_ir.Model or what whence.export returns")


def _is_a(value: Any, package: str, kind: str) -> bool:
    """An object of a class of a package that this function need not import: where there is such an object, it is."""
    found = getattr(sys.modules.get(package), kind, None)
    return isinstance(found, type) and isinstance(value, found)


def _write_proto(model: onnx.ModelProto, path: Path) -> None:
    if sum(len(each.raw_data) for each in model.graph.initializer) <= _EMBEDDED:
        path.write_bytes(model.SerializeToString())
        return
    import onnx as library

    from .onnx_graphs import save_with_weights_beside

    copy = library.ModelProto()
    copy.CopyFrom(model)  # the caller's stays as it is
    save_with_weights_beside(copy, path)


def _write_ir(model: onnx_ir.Model, path: Path) -> None:
    import onnx_ir as library

    tensors = [each.const_value for each in model.graph.initializers.values() if each.const_value is not None]
    outside = any(isinstance(each, library.ExternalTensor) for each in tensors) or \
        sum(each.nbytes for each in tensors) > _EMBEDDED
    library.save(model, path, external_data=path.name + ".data" if outside else None)


def _require_file(model: Any, written: str) -> None:
    if not isinstance(model, (str, os.PathLike)):
        raise error("E0101", "usage", "a model in memory is not a file that could be written to",
                    f"give {written}='model.onnx'")


def _without_path(diagnostic: Any, path: Path) -> Any:
    """Names the graph instead of its temporary file."""
    def named(text: Any) -> Any:
        return text.replace(str(path), path.name) if isinstance(text, str) else text

    return replace(diagnostic, message=named(diagnostic.message), remedy=named(diagnostic.remedy),
                   where={key: named(value) for key, value in diagnostic.where.items()})
