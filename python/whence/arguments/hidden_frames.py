"""Stacks of a model's own lines: functions of whence between them are left out."""

from __future__ import annotations

from types import FunctionType

import torch


def leave_out_of_stacks(function: FunctionType) -> None:
    """PyTorch leaves the frames of its own call of modules out of the stacks that it records, and so does whence."""
    function.__code__ = function.__code__.replace(co_filename=torch.nn.modules.module.__file__, co_name="_call_impl")
