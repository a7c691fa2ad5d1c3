"""Recognises transformers' caches and names the tensors in them.

Runtimes and Optimum use the same names: past_key_values.0.key and past_key_values.0.value for inputs, present.0.key and
present.0.value for outputs, and past_key_values.0.decoder.key and past_key_values.0.encoder.key for an
EncoderDecoderCache. Other tensors of a layer are named by attribute, as in past_key_values.0.cumulative_length.
transformers need not be installed, and its classes need not be registered with pytree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_WORDS = {"keys": "key", "values": "value", "self_attention_cache": "decoder", "cross_attention_cache": "encoder"}


class Key(str):
    """The name of an attribute of a cache."""


def is_cache(value: Any) -> bool:
    return any(kind.__name__ == "Cache" and kind.__module__.startswith("transformers.") for kind in type(value).__mro__)


def is_fixed(value: Any, attribute: str) -> bool:
    """Returns true for attributes that follow from a layer's tensors or class and are not used in computation."""
    return attribute in ("_sliding_window_tensor", "batch_size") and type(value).__module__.startswith("transformers.")


def grows(layer: Any) -> bool:
    """Returns true if the layer's keys and values get longer with each call; a static layer has a fixed length."""
    return getattr(layer, "keys", None) is not None and not hasattr(layer, "max_cache_len")


def of_encoder(path: Sequence[Any]) -> bool:
    return "cross_attention_cache" in map(str, path)


def is_window(layer: Any) -> bool:
    return isinstance(getattr(layer, "cumulative_length", None), int) and hasattr(layer, "sliding_window")


def counts_in_python(layer: Any) -> bool:
    """Returns true for a sliding-window layer of fixed length: a Python number determines its next write position."""
    return isinstance(getattr(layer, "cumulative_length_int", None), int) and hasattr(layer, "max_cache_len")


def has_dropped(layer: Any) -> bool:
    """Returns true for a sliding-window layer that stores fewer tokens than it has received."""
    return is_window(layer) and grows(layer) and layer.keys.shape[-2] != layer.cumulative_length


def keep_all(layer: Any) -> bool:
    """Makes a sliding-window layer keep every key, like a layer of a DynamicCache() without a config.

    A sliding-window layer counts its tokens in a Python number, which a file would fix. A layer without a window uses
    the length of its tensors, and the model masks the tokens before the window. Returns false for any other layer.
    """
    if not is_window(layer) or not grows(layer):
        return False
    base_class = type(layer).__bases__[0]
    if getattr(base_class, "is_sliding", True):
        return False
    layer.__class__ = base_class
    for name in set(vars(layer)) & {"cumulative_length", "sliding_window", "_sliding_window_tensor", "record_past"}:
        del layer.__dict__[name]
    return True


def name_parts(path: Sequence[Any]) -> Iterator[str]:
    """Returns the parts of the name of the tensor at ``path`` in a cache, the layer first."""
    words = [_WORDS.get(str(key), str(key)) for key in path if not (isinstance(key, Key) and key == "layers")]
    side = words[:1] if len(words) > 2 and words[0] in ("decoder", "encoder") else []
    words = words[len(side):]
    return iter([*words[:1], *side, *words[1:]])


def head_of(path: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Returns the part of a path that leads to the cache; None if the path does not lead into one."""
    return next((path[:at] for at, key in enumerate(path) if isinstance(key, Key)), None)


def tail_of(path: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Returns the part of a path that lies within the cache; None if the path does not lead into one."""
    head = head_of(path)
    return None if head is None else path[len(head):]


def as_results(paths: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yields the paths of results. "present", "present_1" and so on replace the part that leads to each cache."""
    head_names: dict[tuple[Any, ...], str] = {}
    for path in paths:
        head = head_of(path)
        if head is not None:
            number = len(head_names)
            name = head_names.setdefault(head, f"present_{number}" if number else "present")
            yield (name, *path[len(head):])
        else:
            yield path if path and isinstance(path[0], str) else ("output", *path)


def is_output(name: str) -> bool:
    """Returns true for the name of a tensor in a cache that a model returns."""
    return re.match(r"present(_\d+)?\.\d+\.", name) is not None


def names_by_layer(names: Mapping[tuple[Any, ...], str]) -> dict[Any, Any]:
    """Returns the names of a cache's tensors nested by layer: {0: {"key": name, "value": name}}."""
    layers: dict[Any, Any] = {}
    for path, name in names.items():
        *outer, last = name_parts(path)
        position = layers
        for word in outer:
            position = position.setdefault(int(word) if word.isdigit() else word, {})
        position[last] = name
    return layers


def shapes_by_layer(shape: Any) -> Any:
    """Returns a cache's shapes nested by layer; PyTorch's exporter takes a list of all keys and one of all values."""
    if isinstance(shape, Mapping) and set(shape) == {"key_cache", "value_cache"}:
        shape = list(shape.values())
    if isinstance(shape, (list, tuple)) and len(shape) == 2 and all(_is_list_of_shapes(each) for each in shape):
        return [{"key": key, "value": value} for key, value in zip(*shape)]
    return shape


def _is_list_of_shapes(value: Any) -> bool:
    return isinstance(value, list) and all(each is None or isinstance(each, Mapping) for each in value)
