"""Proposes dynamic axes if the caller names none: for dynamic_shapes="auto", and for calls that take a cache.

    input_ids               [batch, sequence]
    position_ids            [batch, sequence]
    attention_mask          [batch, past+sequence]
    past_key_values.0.key   [batch, heads, past, size]

The batch is the first axis of every tensor whose first axis is as long as the cache's. Other axes are recognised by the
names of arguments in transformers' models and by the sizes of the example. Proposed axes are optional: if the model
fixes one, it is fixed in the file and reported.
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

AUTO = "auto"  # a value of dynamic_shapes
BATCH, SEQUENCE, PAST, TOTAL, ENCODED, MASKED = \
    "batch", "sequence", "past", "past+sequence", "encoder_sequence", "mask"

# Axes of transformers' arguments whose length is the number of tokens in this call.
_TOKEN_AXES = {"input_ids": 1, "inputs_embeds": 1, "position_ids": -1, "token_type_ids": 1, "cache_position": 0,
              "decoder_input_ids": 1, "decoder_inputs_embeds": 1, "decoder_position_ids": -1}
_POSITIONS = ("position_ids", "decoder_position_ids")
# Masks over past tokens and this call's tokens: the dynamic axis is the last one; in four dimensions also the third.
_MASKS = ("attention_mask", "decoder_attention_mask")
# Axes as long as an encoder's input. The second table applies only to a call with arguments of a decoder.
_ENCODED = {"encoder_outputs": 1, "encoder_hidden_states": 1, "encoder_attention_mask": -1}
_ENCODED_WITH_DECODER = {"input_ids": 1, "inputs_embeds": 1, "attention_mask": -1}


def is_requested(dynamic_shapes: Any, dynamic_axes: Any, call: Call) -> bool:
    """Returns true if the caller requests a proposal, or names no dynamic sizes and passes a cache."""
    if dynamic_shapes is None and dynamic_axes is None:
        return any(True for _ in trees.caches_in(call.arguments))
    return isinstance(dynamic_shapes, str) and dynamic_shapes == AUTO and not dynamic_axes


def propose(call: Call) -> Axes:
    """Returns the axes of the call's tensors that may differ at run time, all of them optional."""
    roles = _Roles(call)
    axes = {name: roles.roles_of(path, tensor) for path, name in call.names.items()
            if (tensor := call.tensors.get(name)) is not None}
    return {name: {axis: roles.axis(role) for axis, role in each.items()} for name, each in axes.items() if each}


class _Roles:
    """Determines what each axis of a call's tensors measures, such as the batch or the past tokens."""

    def __init__(self, call: Call) -> None:
        tensors = {path: call.tensors[name] for path, name in call.names.items() if name in call.tensors}
        cache_tensors = {path: tensor for path, tensor in tensors.items()
                         if caches.head_of(path) is not None and tensor.dim()}
        first = next(iter(cache_tensors.values() or (each for each in tensors.values() if each.dim())), None)
        self._batch = None if first is None else first.shape[0]
        self._arguments = call.arguments
        self._past = next((each.shape[2] for path, each in cache_tensors.items() if self._grows(path)), None)
        self._has_dropped = any(caches.has_dropped(trees.at(call.arguments, path[:-1])) for path in cache_tensors)
        self._has_decoder = any(caches.of_encoder(path) for path in cache_tensors) or any(
            str(path[0]).startswith("decoder_") for path in tensors)
        self._sequence = next((tensor.shape[axis] for path, tensor in tensors.items()
                               if (axis := self._tokens_axis(path[0], tensor)) is not None), None)

    def axis(self, role: str) -> Axis:
        parts = ((PAST, self._past), (SEQUENCE, self._sequence)) if role == TOTAL else ()
        return Axis(role, optional=True, proposed=True, parts=parts, smallest={PAST: 0, SEQUENCE: 1}.get(role))

    def _tokens_axis(self, argument: Any, tensor: torch.Tensor) -> int | None:
        if self._has_decoder and argument in _ENCODED_WITH_DECODER or argument not in _TOKEN_AXES:
            return None
        axis = _TOKEN_AXES[argument]
        return axis % tensor.dim() if -tensor.dim() <= axis < tensor.dim() else None

    def roles_of(self, path: trees.Path, tensor: torch.Tensor) -> dict[int, str]:
        if not tensor.dim():
            return {}
        # Positions of several kinds (time, height, width) have an axis for the kind before the batch.
        batch_axis = 1 if path[0] in _POSITIONS and tensor.dim() == 3 else 0
        roles = {batch_axis: BATCH} if tensor.shape[batch_axis] == self._batch else {}
        if self._has_dropped:  # the layer counts its tokens in a Python number, which the file fixes
            return roles
        if caches.head_of(path) is not None:
            if self._grows(path, of_encoder=caches.of_encoder(path)):
                roles[2] = ENCODED if caches.of_encoder(path) else PAST
            return roles
        argument, last = path[0], tensor.dim() - 1
        encoded = {**_ENCODED, **(_ENCODED_WITH_DECODER if self._has_decoder else {})}
        if argument in encoded:
            axis = encoded[argument] % tensor.dim() if tensor.dim() > 1 else 0
            return {**roles, axis: ENCODED} if axis else roles
        if argument in _MASKS:
            return roles | self._mask_roles(tensor, last)
        axis = self._tokens_axis(argument, tensor)
        if axis is not None and (axis or argument == "cache_position"):
            roles[axis] = SEQUENCE
        return roles

    def _mask_roles(self, tensor: torch.Tensor, last: int) -> dict[int, str]:
        sizes: dict[int, str] = {}
        if last == 3 and tensor.shape[2] == self._sequence:
            sizes[2] = SEQUENCE
        if last and self._sequence is not None and self._past is not None \
                and tensor.shape[last] == self._past + self._sequence:
            sizes[last] = TOTAL
        elif last and tensor.shape[last] == self._sequence:
            sizes[last] = SEQUENCE
        elif last == 1 and self._past is None:  # a mask over a static cache, padded to the cache's length
            sizes[last] = MASKED
        return sizes

    def _grows(self, path: trees.Path, of_encoder: bool = False) -> bool:
        """Returns true for keys and values of a layer that gets longer with each call."""
        return str(path[-1]) in ("keys", "values") and caches.of_encoder(path) == of_encoder \
            and caches.grows(trees.at(self._arguments, path[:-1]))


def axes_text(axes: Mapping[str, Mapping[int, Any]]) -> str:
    """Returns "input_ids [0: batch, 1: sequence]; ...", with one entry for all tensors with the same axes."""
    names_by_sizes: dict[str, list[str]] = {}
    for name, each in axes.items():
        names_by_sizes.setdefault(", ".join(f"{axis}: {size}" for axis, size in each.items()), []).append(name)
    return "; ".join(f"{_joined_names(names)} [{sizes}]" for sizes, names in names_by_sizes.items())


def _joined_names(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]}, ... {names[-1]} ({len(names)} tensors)"


def report(call: Call, input_names: Sequence[str], file_axes: Mapping[str, Mapping[int, str]]) -> None:
    """Logs which sizes are dynamic in the file, and warns about proposed axes that the model fixes."""
    file_names = dict(zip(call.tensors, [*input_names, *list(call.tensors)[len(input_names):]]))
    requested = {file_names[name]: {axis: spec.name for axis, spec in axes.items()}
                 for name, axes in propose(call).items()}
    fixed = {name: missing for name, axes in requested.items()
             if (missing := {axis: size for axis, size in axes.items() if axis not in file_axes.get(name, {})})}
    log.warning("proposed dynamic axes: %s (pass dynamic_axes or dynamic_shapes to choose others, dynamic_axes={} for "
                "none)", axes_text(file_axes) or "none")
    if fixed:
        warnings.warn(f"the model fixes some of the proposed dynamic axes, which have the example's sizes in the file: "
                      f"{axes_text(fixed)}", WhenceWarning, stacklevel=4)
