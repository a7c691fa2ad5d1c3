"""Adapts cache layers with a sliding window for a file that accepts keys of any length.

A sliding-window layer counts its tokens in a Python number, which a file would fix, and drops keys before its window.
If the length of the keys is dynamic, the layer therefore keeps every key, like a layer of a DynamicCache() without a
config. The model masks keys before the window, so the results do not change. Dropped keys cannot be restored.
"""

from __future__ import annotations

from typing import Any

from ..arguments import caches, trees
from ..arguments.calls import Call
from ..errors import Diagnostic, WhenceError, error
from .dynamic_axes import Axes


def keep_all_keys(call: Call, axes: Axes) -> None:
    """Changes the layers of ``call`` whose keys have a dynamic length, in place. Raises WhenceError E0304 for a layer
    that has dropped keys."""
    for path, name in call.names.items():
        if caches.head_of(path) is None or 2 not in axes.get(name, {}):
            continue
        layer = trees.at(call.arguments, path[:-1])
        if caches.is_window(layer):
            if caches.has_dropped(layer) or not caches.keep_all(layer):
                raise _refused(name, layer, "E0304", "baked_size")


def counts_in_python(call: Call) -> Diagnostic | None:
    """Returns E0304 if layers of fixed length count their tokens in a Python number."""
    counting = [layer for layer in _layers(call.arguments) if caches.counts_in_python(layer)]
    if not counting:
        return None
    return Diagnostic(
        "E0304", "baked_size", "warning", f"{len(counting)} layers of the cache ({type(counting[0]).__name__}) count "
        f"tokens in a Python number: the file is correct only after {counting[0].cumulative_length_int} tokens",
        "pass transformers.DynamicCache() without a config: its keys may have any length")


def as_exported(exported: Call, arguments: Any) -> Any:
    """Returns the arguments of another call. Its layers keep every key if the file was exported with layers that do so.
    Raises WhenceError E0104 for a layer that has dropped keys, because the file would miscount its tokens."""
    if any(map(caches.is_window, _layers(exported.arguments))) or not any(map(caches.is_window, _layers(arguments))):
        return arguments
    copy = trees.copied(arguments)
    for layer in filter(caches.is_window, _layers(copy)):
        if caches.has_dropped(layer) or not caches.keep_all(layer):
            raise _refused("the cache", layer, "E0104", "input_mismatch")
    return copy


def _layers(arguments: Any) -> list[Any]:
    return [layer for cache in trees.caches_in(arguments) for layer in getattr(cache, "layers", ())]


def _refused(name: str, layer: Any, code: str, kind: str) -> WhenceError:
    return error(code, kind, f"'{name}' belongs to a layer with a sliding window ({type(layer).__name__}) that "
                 f"has received {layer.cumulative_length} tokens and stores {layer.keys.shape[-2]}; the file would fix "
                 "the number of received tokens",
                 "pass transformers.DynamicCache() without a config, which keeps every key; the model masks the keys "
                 "before the window")
