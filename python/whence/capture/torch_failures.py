"""Makes a WhenceError of an exception of PyTorch: a code, the module, the source line, and what to do.

The original is chained, with all that PyTorch says. Exceptions of the model's own code are not PyTorch's, and pass.
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
# Files that are not the model's: PyTorch, whence, and the standard library without the packages that lie in it.
_PACKAGES = Path(torch.__file__).parents[1]
_NOT_OF_THE_MODEL = tuple(f"{folder}/" for folder in (*(_PACKAGES / name for name in _LIBRARIES), Path(__file__).parents[1]))
_STANDARD = tuple({sysconfig.get_path("stdlib") + "/", sysconfig.get_path("platstdlib") + "/"})
_LONGEST = 600  # letters of PyTorch's text that the message repeats

_OTHERWISE = "another backend may export it (native, native-export, torch-torchscript); the cause of this error has all that " \
    "PyTorch says"
# Kinds of failures: (words in PyTorch's text, code, name, remedy).
_KINDS = (
    (r"Constraints violated|specialized", "E0304", "baked_size",
     "leave that axis out of dynamic_shapes, or give torch.export.Dim.AUTO for it, which the model may fix"),
    (r"data-dependent|data dependent|guard on", "E0303", "unsupported_feature",
     "write the branch with torch.where or torch.cond, or script the module: torch.jit.script keeps branches"),
    (r"fake (impl|kernel|tensor)|register_fake|[Mm]eta kernel", "E0303", "unsupported_feature",
     "register what the operator returns, torch.library.register_fake, or export a trace, backend='native'"),
    (r"No ONNX function found|operator .* is not supported|UnsupportedOperator", "E0301", "no_converter",
     "give a converter in custom_translation_table, or take whence's own, backend='native'"),
    (r"FakeTensor|\.numpy\(\)|data pointer|[Cc]annot access data", "E0303", "unsupported_feature",
     "compute with tensors alone, without numpy and .tolist(), or export a trace, backend='native'"),
)


def translated(failure: Exception, model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> Exception:
    """``failure`` itself where it is whence's or the model's own, else a WhenceError to raise from it: E0207 where the model
    does not run on the arguments either, E0304 for a size that it fixes, E0301 for an operator, E0303 for anything else."""
    if isinstance(failure, WhenceError) or not _is_of_pytorch(failure):
        return failure
    own = own_failure(model, args, kwargs)
    if own is not None:
        return _does_not_run(own, failure, model, args, kwargs)
    root = _root(failure)
    text = _text(root)
    code, name, remedy = next((kind[1:] for kind in _KINDS if re.search(kind[0], f"{type(root).__name__}: {root}")),
                              ("E0303", "unsupported_feature", _OTHERWISE))
    return error(code, name, f"PyTorch does not export the model: {text}", remedy, **_place(failure, model))


def warn_of_own_failure(model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> None:
    """For a model that was exported although it does not run on its arguments: PyTorch captures it without computing."""
    if (own := own_failure(model, args, kwargs)) is not None:
        warnings.warn(str(_does_not_run(own, own, model, args, kwargs)), WhenceWarning, stacklevel=4)


def own_failure(model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> Exception | None:
    """Runs a module by itself on copies of the arguments and returns what it raises; None where it runs, or is not a module."""
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
        return None
    try:
        with warnings.catch_warnings(), torch.no_grad(), calls.tensors_only(model, args, kwargs) as call:
            warnings.simplefilter("ignore")
            model(*call.copies())
    except Exception as raised:  # the model raises of every kind
        return raised
    return None


def _does_not_run(own: Exception, failure: Exception, model: Any, args: Any,
                  kwargs: Mapping[str, Any] | None) -> WhenceError:
    doubles = any(tensor.dtype is torch.float64 for tensor in trees.tensors_in(trees.with_tensors((args, kwargs))))
    remedy = "give float32, as x.astype('float32') or x.float() does: some arguments are float64" \
        if doubles and re.search("dtype|Double", str(own)) else "give arguments that the model accepts"
    return error("E0207", "run_failed", f"PyTorch does not run the model on these arguments: {_text(own)}", remedy,
                 **(_place(own, model) or _place(failure, model)))


def _is_of_pytorch(failure: Exception) -> bool:
    """Raised by PyTorch's code, in Python or below it. What the model's code raises itself is its own, but for a
    RuntimeError, which says no more than a WhenceError that is one, too."""
    kind = type(failure)
    if isinstance(failure, (MemoryError, torch.OutOfMemoryError)):
        return False
    if kind is RuntimeError or kind.__module__.partition(".")[0] in _LIBRARIES:
        return True
    frames = [frame for frame, _ in traceback.walk_tb(failure.__traceback__)]
    return bool(frames) and not _is_of_the_model(frames[-1])


def _root(failure: BaseException) -> BaseException:
    """The first of a chain of causes: an exporter raises one of its own from what went wrong."""
    while failure.__cause__ is not None:
        failure = failure.__cause__
    return failure


def _text(failure: BaseException) -> str:
    """The first paragraph of the message, in one line."""
    said = " ".join(str(failure).strip().split("\n\n")[0].split())
    if not isinstance(failure, RuntimeError) or not said:
        said = f"{type(failure).__name__}: {said}".removesuffix(": ")
    return said if len(said) <= _LONGEST else said[:_LONGEST - 3] + "..."


def _place(failure: Exception, model: Any) -> dict[str, str]:
    """The innermost module that was running, and the innermost line of the model's code."""
    root = _root(failure)
    frames = [entry for each in {id(each): each for each in (failure, root)}.values()
              for entry in traceback.walk_tb(each.__traceback__)]
    names = {id(module): path for path, module in model.named_modules()} if isinstance(model, torch.nn.Module) else {}
    place: dict[str, str] = {}
    running = [names[id(frame.f_locals["self"])] for frame, _ in frames if id(frame.f_locals.get("self")) in names]
    if running:
        place["module"] = running[-1]
    lines = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames if _is_of_the_model(frame)]
    lines = lines or list(_lines_in(str(root)))
    if lines:
        file, line, function = lines[-1]
        place["source"] = f"{Path(file).name}:{line} {function}"
    return place


def _is_of_the_model(frame: FrameType) -> bool:
    return _is_file_of_the_model(frame.f_code.co_filename)


def _is_file_of_the_model(file: str) -> bool:
    if file.startswith(("<frozen", *_NOT_OF_THE_MODEL)):
        return False
    return "/site-packages/" in file or not file.startswith(_STANDARD)


def _lines_in(text: str) -> Iterator[tuple[str, int, str]]:
    """Lines of the model that dynamo names in its message: it follows the source, and has no frame of it."""
    for file, line, function in re.findall(r'File "([^"]+)", line (\d+), in (\w+)', text):
        if _is_file_of_the_model(file):
            yield file, int(line), function
