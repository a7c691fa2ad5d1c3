"""The models of the corpus: those of tests/accuracy and of small_models.py, with arguments by name and weights by seed.
FURTHER are models on which nothing is tuned: those of tests/models/families.py."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

import small_models
from accuracy import models
from models.families import FAMILIES


@dataclass(frozen=True)
class Model:
    name: str
    module: Callable[[int], nn.Module]                     # with the weights of a seed, in eval mode
    arguments: Callable[[], dict[str, torch.Tensor]]       # of forward
    dynamic_axes: dict[str, dict[int, str]] = field(default_factory=dict)   # those that a user would make dynamic
    dynamic_arguments: Callable[[], dict[str, torch.Tensor]] | None = None  # without sizes of 1, which torch.export fixes


def _small(name: str) -> Model:
    def arguments() -> dict[str, torch.Tensor]:
        names = inspect.signature(small_models.CLASSES[name].forward).parameters
        return dict(zip(list(names)[1:], small_models.inputs_of(name), strict=True))

    return Model(name, lambda seed: small_models.model_of(name, seed), arguments)


def _of_accuracy(name: str) -> Model:
    entry = models.ENTRIES[name]
    return Model(name, entry.model, lambda: models.example(name), entry.dynamic,
                 lambda: entry.inputs({key: max(size, 2) for key, size in entry.first.items()}))


def _of_family(name: str) -> Model:
    entry = FAMILIES[name]
    return Model(name, entry.model, lambda: entry.inputs(entry.first))


TUNED = {**{name: _small(name) for name in small_models.CLASSES}, **{name: _of_accuracy(name) for name in models.NAMES}}
FURTHER = {name: _of_family(name) for name in FAMILIES if name not in TUNED}
MODELS = TUNED | FURTHER
