"""Temporary settings for an export, restored even after an error: the model's mode, PyTorch's export flag, its fast
path of attention, state dict hooks, and message output."""

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
    """Returns "eval", "preserve" or "train". Also accepts a torch.onnx.TrainingMode. Raises WhenceError E0101."""
    word = _WORDS.get(getattr(training, "name", ""), training)
    if word not in _WORDS.values():
        raise error("E0101", "usage", f"unknown mode: training={training!r}",
                    "pass 'eval', 'preserve', 'train' or a torch.onnx.TrainingMode")
    return word


@contextmanager
def select_model_mode_for_export(model: Any, training: Any = "eval") -> Iterator[None]:
    """Sets the model's mode inside the block, then restores the mode of each module.

    Warns if the root module was in another mode. Frozen and traced modules keep their behaviour.
    """
    word = training_word(training)
    if word == "preserve" or not isinstance(model, torch.nn.Module) or not hasattr(model, "training"):
        yield
        return
    before = [(module, module.training) for module in model.modules()]
    if model.training != (word == "train"):
        names = {True: "training", False: "evaluation"}
        warnings.warn(f"the model is in {names[model.training]} mode and is exported in {names[word == 'train']} mode, "
                      f"because training='{word}'; training='preserve' keeps the mode", WhenceWarning, stacklevel=4)
    try:
        model.train(word == "train")
        yield
    finally:
        for module, was_training in before:
            module.training = was_training


def is_in_onnx_export() -> bool:
    """Returns true while whence or torch.onnx exports a model."""
    return torch.onnx.is_in_onnx_export()


class _Flag:
    """A PyTorch flag shared by all threads. The last block to end restores the original value."""

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
    from torch.onnx._internal.exporter import _flags  # imported here because it loads all of PyTorch's exporter

    _flags._is_onnx_exporting = exporting


_exporting = _Flag(torch.onnx.is_in_onnx_export, _set_exporting)
_fast_path = _Flag(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled)


def onnx_export_flag() -> AbstractContextManager[None]:
    """Makes torch.onnx.is_in_onnx_export() true inside the block."""
    return _exporting.set_to(True)


def without_fast_path() -> AbstractContextManager[None]:
    """Makes attention use exportable operators. Without gradients, PyTorch would use fused kernels for entire layers,
    which convert padded tensors to nested ones and return zeros for padding."""
    return _fast_path.set_to(False)


@contextmanager
def without_apex_hooks(model: Any) -> Iterator[None]:
    """Removes Apex O2's hooks, which make state_dict() return copies of the weights instead of the parameters."""
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
    """Disables PyTorch's log output during an attempt that may fail. The caller handles or raises the failure."""
    from torch._logging._internal import log_registry

    loggers = [logging.getLogger(name) for name in log_registry.get_log_qnames() | {"torch._guards"}]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before):
            logger.disabled = disabled


@contextmanager
def show_messages(shown: bool) -> Iterator[None]:
    """Makes the logger "whence" write to standard error, from level INFO, if ``shown`` is true."""
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
    """Applies all settings of this file except the export flag, which must not be set while the model runs for a
    comparison with the file."""
    with ExitStack() as stack:
        stack.enter_context(show_messages(shown))
        stack.enter_context(library_warnings.hidden())
        stack.enter_context(select_model_mode_for_export(model, training))
        stack.enter_context(without_apex_hooks(model))
        stack.enter_context(without_fast_path())
        yield
