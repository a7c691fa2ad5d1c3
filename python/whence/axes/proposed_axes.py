"""Dynamic axes that whence proposes, where the caller names none: dynamic_shapes="auto", and calls that take a cache.

    input_ids               [batch, sequence]
    position_ids            [batch, sequence]
    attention_mask          [batch, past+sequence]
    past_key_values.0.key   [batch, heads, past, size]

The batch is the first axis of every tensor that is as long there as the cache; the other axes go by the names that
transformers' models give their arguments, and by the sizes of the example. A proposal is a wish: what the model fixes
is fixed in the file, and reported.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ..arguments import caches, trees
from ..arguments.calls import Call
from ..errors import WhenceWarning
from ..state.export_settings import log
from .dynamic_axes import Axes, Axis

AUTO = "auto"  # in the place of dynamic_shapes
BATCH, SEQUENCE, PAST, TOTAL, ENCODED, MASKED = \
    "batch", "sequence", "past", "past+sequence", "encoder_sequence", "mask"

# Axes of transformers' arguments that are as long as the tokens of this call.
_OF_TOKENS = {"input_ids": 1, "inputs_embeds": 1, "position_ids": -1, "token_type_ids": 1, "cache_position": 0,
              "decoder_input_ids": 1, "decoder_inputs_embeds": 1, "decoder_position_ids": -1}
_POSITIONS = ("position_ids", "decoder_position_ids")
# Masks over what was seen before and the tokens of this call: the last axis, and in four dimensions the one before.
_MASKS = ("attention_mask", "decoder_attention_mask")
# Axes as long as what an encoder was given, in a call that has a decoder's part, too.
_ENCODED = {"encoder_outputs": 1, "encoder_hidden_states": 1, "encoder_attention_mask": -1}
_ENCODED_BESIDE_DECODER = {"input_ids": 1, "inputs_embeds": 1, "attention_mask": -1}


def wanted(dynamic_shapes: Any, dynamic_axes: Any, call: Call) -> bool:
    """True where the caller asks for a proposal, or says nothing of sizes and gives a cache."""
    if dynamic_shapes is None and dynamic_axes is None:
        return any(True for _ in trees.caches_in(call.arguments))
    return isinstance(dynamic_shapes, str) and dynamic_shapes == AUTO and not dynamic_axes


def proposed(call: Call) -> Axes:
    """The axes of the call's tensors that may differ at run time, all of them wishes."""
    roles = _Roles(call)
    axes = {name: roles.of(path, tensor) for path, name in call.names.items()
            if (tensor := call.tensors.get(name)) is not None}
    return {name: {axis: roles.axis(role) for axis, role in each.items()} for name, each in axes.items() if each}


class _Roles:
    """The names of sizes in one call."""

    def __init__(self, call: Call) -> None:
        tensors = {path: call.tensors[name] for path, name in call.names.items() if name in call.tensors}
        held = {path: tensor for path, tensor in tensors.items() if caches.head_of(path) is not None and tensor.dim()}
        first = next(iter(held.values() or (each for each in tensors.values() if each.dim())), None)
        self._batch = None if first is None else first.shape[0]
        self._arguments = call.arguments
        self._past = next((each.shape[2] for path, each in held.items() if self._grows(path)), None)
        self._has_dropped = any(caches.has_dropped(trees.at(call.arguments, path[:-1])) for path in held)
        self._has_decoder = any(caches.of_encoder(path) for path in held) or any(
            str(path[0]).startswith("decoder_") for path in tensors)
        self._sequence = next((tensor.shape[axis] for path, tensor in tensors.items()
                               if (axis := self._tokens_axis(path[0], tensor)) is not None), None)

    def axis(self, role: str) -> Axis:
        parts = ((PAST, self._past), (SEQUENCE, self._sequence)) if role == TOTAL else ()
        return Axis(role, wished=True, proposed=True, parts=parts, smallest={PAST: 0, SEQUENCE: 1}.get(role))

    def _tokens_axis(self, argument: Any, tensor: torch.Tensor) -> int | None:
        if self._has_decoder and argument in _ENCODED_BESIDE_DECODER or argument not in _OF_TOKENS:
            return None
        axis = _OF_TOKENS[argument]
        return axis % tensor.dim() if -tensor.dim() <= axis < tensor.dim() else None

    def of(self, path: trees.Path, tensor: torch.Tensor) -> dict[int, str]:
        if not tensor.dim():
            return {}
        # Positions of several kinds (time, height, width) stand before the batch.
        first = 1 if path[0] in _POSITIONS and tensor.dim() == 3 else 0
        found = {first: BATCH} if tensor.shape[first] == self._batch else {}
        if self._has_dropped:  # it counts its tokens in a number, which the file fixes
            return found
        if caches.head_of(path) is not None:
            if self._grows(path, of_encoder=caches.of_encoder(path)):
                found[2] = ENCODED if caches.of_encoder(path) else PAST
            return found
        argument, last = path[0], tensor.dim() - 1
        encoded = {**_ENCODED, **(_ENCODED_BESIDE_DECODER if self._has_decoder else {})}
        if argument in encoded:
            axis = encoded[argument] % tensor.dim() if tensor.dim() > 1 else 0
            return {**found, axis: ENCODED} if axis else found
        if argument in _MASKS:
            return found | self._of_mask(tensor, last)
        axis = self._tokens_axis(argument, tensor)
        if axis is not None and (axis or argument == "cache_position"):
            found[axis] = SEQUENCE
        return found

    def _of_mask(self, tensor: torch.Tensor, last: int) -> dict[int, str]:
        sizes: dict[int, str] = {}
        if last == 3 and tensor.shape[2] == self._sequence:
            sizes[2] = SEQUENCE
        if last and self._sequence is not None and self._past is not None \
                and tensor.shape[last] == self._past + self._sequence:
            sizes[last] = TOTAL
        elif last and tensor.shape[last] == self._sequence:
            sizes[last] = SEQUENCE
        elif last == 1 and self._past is None:  # over a static cache, which pads it to its own length
            sizes[last] = MASKED
        return sizes

    def _grows(self, path: trees.Path, of_encoder: bool = False) -> bool:
        """True for the keys and values of a layer that becomes longer with each call."""
        return str(path[-1]) in ("keys", "values") and caches.of_encoder(path) == of_encoder \
            and caches.grows(trees.at(self._arguments, path[:-1]))


def shown(axes: Mapping[str, Mapping[int, Any]]) -> str:
    """input_ids [0: batch, 1: sequence], ..., one entry for all tensors of a cache that have the same."""
    alike: dict[str, list[str]] = {}
    for name, each in axes.items():
        alike.setdefault(", ".join(f"{axis}: {size}" for axis, size in each.items()), []).append(name)
    return "; ".join(f"{_together(names)} [{sizes}]" for sizes, names in alike.items())


def _together(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]}, ... {names[-1]} ({len(names)} tensors)"


def report(call: Call, input_names: Sequence[str], in_file: Mapping[str, Mapping[int, str]]) -> None:
    """A message to the logger "whence": which sizes the file leaves open, and a warning of those that it fixes."""
    own_name = dict(zip(call.tensors, [*input_names, *list(call.tensors)[len(input_names):]]))
    asked = {own_name[name]: {axis: what.name for axis, what in axes.items()} for name, axes in proposed(call).items()}
    fixed = {name: left for name, axes in asked.items()
             if (left := {axis: size for axis, size in axes.items() if axis not in in_file.get(name, {})})}
    log.warning("dynamic axes that whence proposes: %s (dynamic_axes or dynamic_shapes chooses others, dynamic_axes={} "
                "none)", shown(in_file) or "none")
    if fixed:
        warnings.warn(f"of the axes that whence proposes the model fixes {shown(fixed)}: the file has the sizes of the "
                      "example there", WhenceWarning, stacklevel=4)
