"""The inputs and results of each module call, from forward hooks: a reference that is independent of whence."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Call:
    module: str  # qualified name, "" is the root
    number: int  # call number within the module, from 0
    inputs: list[torch.Tensor]
    results: list[torch.Tensor]


def tensors_in(value) -> list[torch.Tensor]:
    """Returns the tensors in arguments or results, at any depth."""
    if isinstance(value, torch.Tensor):
        return [value.detach().clone()]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for element in value for tensor in tensors_in(element)]
    return []


def observe(model: torch.nn.Module, inputs: dict) -> list[Call]:
    """Runs the model once; returns its calls in order of completion, with the first name of each module."""
    calls: list[Call] = []
    counts: dict[str, int] = {}

    def enter(name, args, kwargs):
        started.append((name, counts.setdefault(name, 0), tensors_in([args, kwargs])))
        counts[name] += 1

    def leave(result):
        calls.append(Call(*started.pop(), tensors_in(result)))

    started: list[tuple] = []
    handles = []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(
            lambda _, args, kwargs, name=name: enter(name, args, kwargs), with_kwargs=True))
        handles.append(module.register_forward_hook(lambda _, args, result: leave(result)))
    with torch.no_grad():
        model(**inputs)
    for handle in handles:
        handle.remove()
    return calls
