"""Turns checkpoint arguments into files, for functions that read weights: a model or a state dict in memory is written
to a temporary file for the duration of the call."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from ..base.optional_packages import import_optional
from ..errors import error, renamed_in_errors

if TYPE_CHECKING:
    import torch

    # A path of safetensors, shards, a file of torch.save or a folder; a model, an exported program or a state dict.
    Checkpoint = Union[str, os.PathLike[str], Mapping[str, torch.Tensor], torch.nn.Module, torch.export.ExportedProgram]
else:
    Checkpoint = Any


@contextmanager
def checkpoint_file(checkpoint: Checkpoint | None, argument: str) -> Iterator[str | os.PathLike[str] | None]:
    """Yields the path of a checkpoint. Raises WhenceError E0101 if the argument is not a checkpoint or has no numbers."""
    if checkpoint is None or isinstance(checkpoint, (str, os.PathLike)):
        yield checkpoint
        return
    torch = import_optional("torch", "a checkpoint in memory")
    state = {name: _tensor(name, each, argument) for name, each in _state(checkpoint, argument).items()}
    if not state:
        raise error("E0101", "usage", f"{argument} has no tensors", "pass the state dict of the whole model")
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        path = Path(folder) / "state.pt"
        torch.save(state, path)
        with renamed_in_errors(path, f"{argument} ({type(checkpoint).__name__})"):
            yield path


def _state(checkpoint: Any, argument: str) -> Mapping[Any, Any]:
    """Returns parameters and buffers by name; of an exported program also its constants, which include the buffers
    that its state dict omits."""
    state = getattr(checkpoint, "state_dict", checkpoint)
    state = state() if callable(state) else state
    if not isinstance(state, Mapping):
        raise error("E0101", "usage", f"{argument} is {type(checkpoint).__name__}, which is not a checkpoint",
                    "pass a path, a model, an exported program or a state dict")
    constants = getattr(checkpoint, "constants", None)
    if state is checkpoint or not isinstance(constants, Mapping):
        return state
    torch = import_optional("torch", "an exported program")
    return {**state, **{name: each for name, each in constants.items() if isinstance(each, torch.Tensor)}}


def _tensor(name: object, value: Any, argument: str) -> Any:
    """Converts arrays of NumPy to tensors. Keeps values that are no tensors, which files of training have beside them."""
    import torch

    if type(value).__module__ == "numpy" and hasattr(value, "__array_interface__"):
        return torch.from_numpy(value.copy())
    if isinstance(value, torch.Tensor) and (value.is_meta or isinstance(value, torch._subclasses.FakeTensor)):
        raise error("E0101", "usage", f"'{name}' of {argument} has sizes but no numbers (it is on the meta device)",
                    "load the weights of the model first")
    return value
