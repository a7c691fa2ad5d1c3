"""Passes of onnxoptimizer and onnxsim: their C++ functions take the names of passes, to run or to skip."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .steps import Steps

_FOLDING = "constant folding"
_EMPTY = b"\x08\x08\x3a\x03\x12\x01g\x42\x02\x10\x11"  # a ModelProto of IR version 8 and opset 17 with an empty graph


def _patch_optimizer(module: Any, steps: Steps, replace: Callable) -> None:
    def with_allowed_passes(original: Callable) -> Callable:
        def optimize(*arguments: Any) -> Any:
            return original(*(steps.allowed("onnxoptimizer", each) if isinstance(each, (list, tuple)) else each
                              for each in arguments))

        return optimize

    for name in ("optimize", "optimize_fixedpoint", "optimize_from_path", "optimize_fixedpoint_from_path"):
        replace(module, name, with_allowed_passes)


def _patch_simplifier(module: Any, steps: Steps, replace: Callable) -> None:
    if not hasattr(module, "_list_optimizers"):  # versions before 0.5 have no list of their passes
        return

    def with_allowed_passes(original: Callable) -> Callable:
        def simplify(*arguments: Any, **options: Any) -> Any:
            # The argument after the model, or after its two paths, names the passes to skip; None skips all. The next
            # one switches constant folding on.
            models = [at for at, each in enumerate(arguments) if isinstance(each, (bytes, str))]
            at = models[-1] + 1 if models else len(arguments)
            if at + 1 >= len(arguments):
                return original(*arguments, **options)
            skipped, folds = arguments[at], arguments[at + 1]
            if isinstance(arguments[at - 1], bytes):  # the first call registers further passes
                with suppress(Exception):  # some versions refuse an empty graph, after registering them
                    original(*arguments[:at - 1], _EMPTY, *arguments[at:], **options)
            may_fold = folds and steps.allows("onnxsim", _FOLDING, is_switch=True)
            if skipped is not None:
                run = [each for each in module._list_optimizers() if each not in skipped]
                allowed = set(steps.allowed("onnxsim", run))
                skipped = [*skipped, *(each for each in run if each not in allowed)]
            return original(*arguments[:at], skipped, may_fold, *arguments[at + 2:], **options)

        return simplify

    for name in ("simplify", "simplify_path"):
        replace(module, name, with_allowed_passes)


PATCHES = {"onnxoptimizer.onnx_opt_cpp2py_export": _patch_optimizer, "onnxsim.onnxsim_cpp2py_export": _patch_simplifier}
