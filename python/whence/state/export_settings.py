"""Settings that hold while an export runs, and are restored afterwards, also after an error: the model's mode, the flag
that user code asks for, PyTorch's fast path of attention, hooks of state dicts, the destination of messages."""

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
    """"eval", "preserve" or "train"; torch.onnx.TrainingMode is taken too. Raises WhenceError E0101."""
    word = _WORDS.get(getattr(training, "name", ""), training)
    if word not in _WORDS.values():
        raise error("E0101", "usage", f"training={training!r} is not a mode",
                    "'eval', 'preserve' or 'train', or a torch.onnx.TrainingMode")
    return word


@contextmanager
def select_model_mode_for_export(model: Any, training: Any = "eval") -> Iterator[None]:
    """Inside the block the model is in that mode; afterwards every module is in the one that it had.

    Warns where the model as a whole was in another mode. What a frozen or traced module does is settled already.
    """
    word = training_word(training)
    if word == "preserve" or not isinstance(model, torch.nn.Module) or not hasattr(model, "training"):
        yield
        return
    before = [(module, module.training) for module in model.modules()]
    if model.training != (word == "train"):
        names = {True: "training", False: "evaluation"}
        warnings.warn(f"the model is in {names[model.training]} mode and is exported in {names[word == 'train']} mode, "
                      f"as training='{word}' says; 'preserve' exports it as it is", WhenceWarning, stacklevel=4)
    try:
        model.train(word == "train")
        yield
    finally:
        for module, was_training in before:
            module.training = was_training


def is_in_onnx_export() -> bool:
    """True for code that runs because a model is being exported, by whence or by torch.onnx."""
    return torch.onnx.is_in_onnx_export()


class _Flag:
    """A flag of PyTorch that is one for all threads: it is as before when the last block that sets it is over."""

    def __init__(self, get: Callable[[], bool], put: Callable[[bool], None]) -> None:
        self._get, self._put = get, put
        self._lock = threading.Lock()
        self._times = 0
        self._before = False

    @contextmanager
    def held(self, value: bool) -> Iterator[None]:
        with self._lock:
            if self._times == 0:
                self._before = self._get()
            self._times += 1
            self._put(value)
        try:
            yield
        finally:
            with self._lock:
                self._times -= 1
                if self._times == 0:
                    self._put(self._before)


def _set_exporting(exporting: bool) -> None:
    from torch.onnx._internal.exporter import _flags  # with all of PyTorch's exporter, so not before it is asked for

    _flags._is_onnx_exporting = exporting


_exporting = _Flag(torch.onnx.is_in_onnx_export, _set_exporting)
_fast_path = _Flag(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled)


def onnx_export_flag() -> AbstractContextManager[None]:
    """torch.onnx.is_in_onnx_export() is true inside the block."""
    return _exporting.held(True)


def without_fast_path() -> AbstractContextManager[None]:
    """Attention computes by operators that can be exported. The kernels that PyTorch has for whole layers, where no
    gradients are asked for, make nested tensors of padded ones, and zeros of what the layers make of padding."""
    return _fast_path.held(False)


@contextmanager
def without_apex_hooks(model: Any) -> Iterator[None]:
    """Apex O2 makes state_dict() return copies of the weights; as copies they are not parameters any more."""
    taken = []
    for module in model.modules() if isinstance(model, torch.nn.Module) else ():
        hooks = getattr(module, "_state_dict_hooks", None) or {}
        for key in [key for key, hook in hooks.items() if type(hook).__name__ == "O2StateDictHook"]:
            taken.append((hooks, key, hooks.pop(key)))
    try:
        yield
    finally:
        for hooks, key, hook in taken:
            hooks[key] = hook


@contextmanager
def quiet() -> Iterator[None]:
    """Without what PyTorch logs of an attempt that fails: the failure is handled, or raised with its own words."""
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
    """The logger "whence" also writes to standard error, from INFO on."""
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
    """All of the above but the flag, which is for the export alone and not for what it is compared with."""
    with ExitStack() as stack:
        stack.enter_context(messages_shown(shown))
        stack.enter_context(library_warnings.hidden())
        stack.enter_context(select_model_mode_for_export(model, training))
        stack.enter_context(without_apex_hooks(model))
        stack.enter_context(without_fast_path())
        yield
