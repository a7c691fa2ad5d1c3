"""Settings during an export, restored afterwards, also after an error: the model's mode, PyTorch's flag for exports,
its fast path of attention, hooks of state dicts, and the output of messages."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Literal

import torch

from ..base import library_warnings
from ..errors import WhenceWarning, error

log: logging.Logger = logging.getLogger("whence")

Training = Literal["eval", "preserve", "train"]
_WORDS = {"EVAL": "eval", "PRESERVE": "preserve", "TRAINING": "train"}


def training_word(training: Any) -> str:
    """Returns "eval", "preserve" or "train"; accepts torch.onnx.TrainingMode too. Raises WhenceError E0101."""
    word = _WORDS.get(getattr(training, "name", ""), training)
    if word not in _WORDS.values():
        raise error("E0101", "usage", f"training={training!r} is not a mode",
                    "use 'eval', 'preserve' or 'train', or a torch.onnx.TrainingMode")
    return word


@contextmanager
def select_model_mode_for_export(model: Any, training: Any = "eval") -> Iterator[None]:
    """Sets the model's mode inside the block; afterwards restores every module's own mode.

    Warns if the model as a whole was in another mode. A frozen or traced module keeps its behaviour.
    """
    word = training_word(training)
    if word == "preserve" or not isinstance(model, torch.nn.Module) or not hasattr(model, "training"):
        yield
        return
    before = [(module, module.training) for module in model.modules()]
    if model.training != (word == "train"):
        names = {True: "training", False: "evaluation"}
        warnings.warn(f"the model is in {names[model.training]} mode and is exported in {names[word == 'train']} mode, "
                      f"as training='{word}' requests; 'preserve' keeps its mode", WhenceWarning, stacklevel=4)
    try:
        model.train(word == "train")
        yield
    finally:
        for module, was_training in before:
            module.training = was_training


def is_in_onnx_export() -> bool:
    """Returns true while a model is being exported, by whence or by torch.onnx."""
    return torch.onnx.is_in_onnx_export()


class _Flag:
    """A PyTorch flag that all threads share; the last block that sets it restores the earlier value."""

    def __init__(self, get: Callable[[], bool], set_flag: Callable[[bool], None]) -> None:
        self._get, self._set = get, set_flag
        self._lock = threading.Lock()
        self._times = 0
        self._before = False

    @contextmanager
    def set_to(self, value: bool) -> Iterator[None]:
        with self._lock:
            if self._times == 0:
                self._before = self._get()
            self._times += 1
            self._set(value)
        try:
            yield
        finally:
            with self._lock:
                self._times -= 1
                if self._times == 0:
                    self._set(self._before)


def _set_exporting(exporting: bool) -> None:
    from torch.onnx._internal.exporter import _flags  # loads all of PyTorch's exporter, so it is imported late

    _flags._is_onnx_exporting = exporting


_exporting = _Flag(torch.onnx.is_in_onnx_export, _set_exporting)
_fast_path = _Flag(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled)


def onnx_export_flag() -> AbstractContextManager[None]:
    """Makes torch.onnx.is_in_onnx_export() true inside the block."""
    return _exporting.set_to(True)


def without_fast_path() -> AbstractContextManager[None]:
    """Makes attention use operators that can be exported. Without gradients, PyTorch would use kernels of whole layers,
    which make nested tensors of padded ones, and zeros of the layers' results for padding."""
    return _fast_path.set_to(False)


@contextmanager
def without_apex_hooks(model: Any) -> Iterator[None]:
    """Removes Apex O2's hooks, with which state_dict() returns copies of the weights instead of parameters."""
    removed = []
    for module in model.modules() if isinstance(model, torch.nn.Module) else ():
        hooks = getattr(module, "_state_dict_hooks", None) or {}
        for key in [key for key, hook in hooks.items() if type(hook).__name__ == "O2StateDictHook"]:
            removed.append((hooks, key, hooks.pop(key)))
    try:
        yield
    finally:
        for hooks, key, hook in removed:
            hooks[key] = hook


@contextmanager
def quiet() -> Iterator[None]:
    """Disables PyTorch's log output for an attempt that may fail: the failure is handled, or raised with its own
    message."""
    from torch._logging._internal import log_registry

    loggers = [logging.getLogger(name) for name in log_registry.get_log_qnames() | {"torch._guards"}]
    before = [each.disabled for each in loggers]
    for each in loggers:
        each.disabled = True
    try:
        yield
    finally:
        for each, disabled in zip(loggers, before):
            each.disabled = disabled


@contextmanager
def messages_shown(shown: bool) -> Iterator[None]:
    """Makes the logger "whence" also write to standard error, from level INFO."""
    if not shown:
        yield
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[whence] %(message)s"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(min(level or logging.INFO, logging.INFO))
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


@contextmanager
def exporting(model: Any, training: Any, shown: bool) -> Iterator[None]:
    """Applies all of the above except the flag, which must not be set for the model that the file is compared with."""
    with ExitStack() as stack:
        stack.enter_context(messages_shown(shown))
        stack.enter_context(library_warnings.hidden())
        stack.enter_context(select_model_mode_for_export(model, training))
        stack.enter_context(without_apex_hooks(model))
        stack.enter_context(without_fast_path())
        yield
