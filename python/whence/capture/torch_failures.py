"""Converts PyTorch's exceptions to WhenceErrors: with a code, the module, the source line, and a remedy.

The original exception is chained, with PyTorch's full text. Exceptions of the model's own code propagate unchanged.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from ..arguments import calls, trees
from ..errors import WhenceError, WhenceWarning, error

_LIBRARIES = ("torch", "functorch", "onnx", "onnx_ir", "onnxscript", "onnxruntime")
# Files that do not belong to the model: PyTorch, whence, and the standard library except its site-packages folder.
_PACKAGES = Path(torch.__file__).parents[1]
_OTHER_FOLDERS = tuple(f"{folder}/" for folder in (*(_PACKAGES / name for name in _LIBRARIES),
                                                      Path(__file__).parents[1]))
_STANDARD = tuple({sysconfig.get_path("stdlib") + "/", sysconfig.get_path("platstdlib") + "/"})
_MAX_LENGTH = 600  # maximum number of characters of PyTorch's text in a message

_OTHER_BACKENDS = "another backend may export it (native, native-export, torch-torchscript); the cause of this error " \
    "has PyTorch's full message"
# Kinds of failures: (words in PyTorch's text, code, name, remedy).
_KINDS = (
    (r"Constraints violated|specialized", "E0304", "baked_size",
     "leave that axis out of dynamic_shapes, or set it to torch.export.Dim.AUTO, which allows the model to fix it"),
    (r"data-dependent|data dependent|guard on", "E0303", "unsupported_feature",
     "write the branch with torch.where or torch.cond, or script the module: torch.jit.script keeps branches"),
    (r"fake (impl|kernel|tensor)|register_fake|[Mm]eta kernel", "E0303", "unsupported_feature",
     "register a fake kernel with torch.library.register_fake, or export a trace with backend='native'"),
    (r"No ONNX function found|operator .* is not supported|UnsupportedOperator", "E0301", "no_converter",
     "pass a converter in custom_translation_table, or use whence's converter with backend='native'"),
    (r"FakeTensor|\.numpy\(\)|data pointer|[Cc]annot access data", "E0303", "unsupported_feature",
     "compute only with tensors, without numpy and .tolist(), or export a trace with backend='native'"),
)


def as_whence_error(failure: Exception, model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> Exception:
    """Returns ``failure`` itself if whence or the model raised it; otherwise a WhenceError to raise from it: E0207 if
    the model does not run on the arguments either, E0304 for a size that it fixes, E0301 for an operator, otherwise
    E0303."""
    if isinstance(failure, WhenceError) or not _is_raised_by_pytorch(failure):
        return failure
    own = own_failure(model, args, kwargs)
    if own is not None:
        return _does_not_run(own, failure, model, args, kwargs)
    root = _root(failure)
    text = _text(root)
    code, name, remedy = next((kind[1:] for kind in _KINDS if re.search(kind[0], f"{type(root).__name__}: {root}")),
                              ("E0303", "unsupported_feature", _OTHER_BACKENDS))
    return error(code, name, f"PyTorch cannot export the model: {text}", remedy, **_location(failure, model))


def warn_of_own_failure(model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> None:
    """Warns if an exported model does not run on its arguments: PyTorch captures a model without computing values."""
    if (own := own_failure(model, args, kwargs)) is not None:
        warnings.warn(str(_does_not_run(own, own, model, args, kwargs)), WhenceWarning, stacklevel=4)


def own_failure(model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> Exception | None:
    """Runs a module on copies of the arguments and returns its exception; None if it runs, or if the model is not a
    Python module."""
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
        return None
    try:
        with warnings.catch_warnings(), torch.no_grad(), calls.tensors_only(model, args, kwargs) as call:
            warnings.simplefilter("ignore")
            model(*call.copies())
    except Exception as raised:  # the model may raise any exception
        return raised
    return None


def _does_not_run(own: Exception, failure: Exception, model: Any, args: Any,
                  kwargs: Mapping[str, Any] | None) -> WhenceError:
    has_float64 = any(tensor.dtype is torch.float64 for tensor in trees.tensors_in(trees.with_tensors((args, kwargs))))
    remedy = "pass float32, for example x.astype('float32') or x.float(): some arguments are float64" \
        if has_float64 and re.search("dtype|Double", str(own)) else "pass arguments that the model accepts"
    return error("E0207", "run_failed", f"PyTorch cannot run the model on these arguments: {_text(own)}", remedy,
                 **(_location(own, model) or _location(failure, model)))


def _is_raised_by_pytorch(failure: Exception) -> bool:
    """Returns true for an exception of PyTorch's code, in Python or C++. The model's own exceptions are not
    converted, except a RuntimeError, because a WhenceError is a RuntimeError, too."""
    kind = type(failure)
    if isinstance(failure, (MemoryError, torch.OutOfMemoryError)):
        return False
    if kind is RuntimeError or kind.__module__.partition(".")[0] in _LIBRARIES:
        return True
    frames = [frame for frame, _ in traceback.walk_tb(failure.__traceback__)]
    return bool(frames) and not _is_model_code(frames[-1])


def _root(failure: BaseException) -> BaseException:
    """Returns the first exception of a chain of causes: exporters raise their own exceptions from the original one."""
    while failure.__cause__ is not None:
        failure = failure.__cause__
    return failure


def _text(failure: BaseException) -> str:
    """Returns the first paragraph of the message, on one line."""
    text = " ".join(str(failure).strip().split("\n\n")[0].split())
    if not isinstance(failure, RuntimeError) or not text:
        text = f"{type(failure).__name__}: {text}".removesuffix(": ")
    return text if len(text) <= _MAX_LENGTH else text[:_MAX_LENGTH - 3] + "..."


def _location(failure: Exception, model: Any) -> dict[str, str]:
    """Returns the innermost module that was running, and the innermost line of the model's code."""
    root = _root(failure)
    frames = [entry for each in {id(each): each for each in (failure, root)}.values()
              for entry in traceback.walk_tb(each.__traceback__)]
    names = {id(module): path for path, module in model.named_modules()} if isinstance(model, torch.nn.Module) else {}
    location: dict[str, str] = {}
    running = [names[id(frame.f_locals["self"])] for frame, _ in frames if id(frame.f_locals.get("self")) in names]
    if running:
        location["module"] = running[-1]
    lines = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames if _is_model_code(frame)]
    lines = lines or list(_lines_in(str(root)))
    if lines:
        file, line, function = lines[-1]
        location["source"] = f"{Path(file).name}:{line} {function}"
    return location


def _is_model_code(frame: FrameType) -> bool:
    return _is_model_file(frame.f_code.co_filename)


def _is_model_file(file: str) -> bool:
    if file.startswith(("<frozen", *_OTHER_FOLDERS)):
        return False
    return "/site-packages/" in file or not file.startswith(_STANDARD)


def _lines_in(text: str) -> Iterator[tuple[str, int, str]]:
    """Yields lines of the model that dynamo names in its message: dynamo interprets the source, so there are no
    frames."""
    for file, line, function in re.findall(r'File "([^"]+)", line (\d+), in (\w+)', text):
        if _is_model_file(file):
            yield file, int(line), function
