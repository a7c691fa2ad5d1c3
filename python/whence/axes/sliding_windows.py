"""Layers of caches with a sliding window, in a file that takes keys of any length.

Such a layer counts the tokens that it was given in a number of Python, and drops keys that lie before its window. A
file would hold the number of the example. So where the length of the keys is dynamic, the layer keeps every key, as
those of a DynamicCache() without a config do: the model masks what lies before the window, and the numbers are the
same. A cache that has dropped keys cannot be made one that has not.
"""

from __future__ import annotations

from typing import Any

from ..arguments import caches, trees
from ..arguments.calls import Call
from ..errors import Diagnostic, WhenceError, error
from .dynamic_axes import Axes


def keep_all_keys(call: Call, axes: Axes) -> None:
    """Changes layers of ``call`` in place whose keys have a dynamic length. Raises WhenceError E0304 for one that
    has dropped keys."""
    for path, name in call.names.items():
        if caches.head_of(path) is None or 2 not in axes.get(name, {}):
            continue
        layer = trees.at(call.arguments, path[:-1])
        if caches.is_window(layer):
            if caches.has_dropped(layer) or not caches.keep_all(layer):
                raise _refused(name, layer, "E0304", "baked_size")


def counts_in_python(call: Call) -> Diagnostic | None:
    """E0304 for layers of fixed length that count the tokens they were given in a number of Python."""
    counting = [layer for layer in _layers(call.arguments) if caches.counts_in_python(layer)]
    if not counting:
        return None
    return Diagnostic(
        "E0304", "baked_size", "warning", f"{len(counting)} layers of the cache ({type(counting[0]).__name__}) count tokens in "
        f"a number of Python: the file is right after {counting[0].cumulative_length_int} tokens alone",
        "give transformers.DynamicCache() without a config, whose keys may have any length")


def as_exported(known: Call, given: Any) -> Any:
    """The arguments of another call with layers that keep every key, where the file was exported with such. Raises
    WhenceError E0104 for one that has dropped keys: the file would count its tokens wrong."""
    if any(map(caches.is_window, _layers(known.arguments))) or not any(map(caches.is_window, _layers(given))):
        return given
    copy = trees.copied(given)
    for layer in filter(caches.is_window, _layers(copy)):
        if caches.has_dropped(layer) or not caches.keep_all(layer):
            raise _refused("the cache", layer, "E0104", "input_mismatch")
    return copy


def _layers(arguments: Any) -> list[Any]:
    return [layer for cache in trees.caches_in(arguments) for layer in getattr(cache, "layers", ())]


def _refused(name: str, layer: Any, code: str, kind: str) -> WhenceError:
    return error(code, kind, f"'{name}' belongs to a layer with a sliding window ({type(layer).__name__}) that has "
                 f"seen {layer.cumulative_length} tokens and holds {layer.keys.shape[-2]}: a file fixes that number",
                 "give a cache that keeps every key, transformers.DynamicCache() without a config: the model masks "
                 "what lies before the window")
