"""Finds the first node that a runtime cannot load or run, by bisection: it runs the file's first half, and so on.

The values of the nodes before it remain observable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..base.optional_packages import import_optional
from ..errors import WhenceError
from .annotated_file import File, Node
from .runtimes import Runtime


@dataclass(frozen=True)
class Failure:
    node: Node
    message: str  # the runtime's
    before: File  # the nodes before it


def find(file: File, start: Callable[[File], Runtime], feed: Mapping[str, torch.Tensor]) -> Failure | None:
    """Returns the first node that fails in ``start``'s runtime; None if the file runs when all results are requested."""
    model = import_optional("onnx", "reading a model").load(file.path, load_external_data=False)
    nodes, outputs = list(model.graph.node), list(model.graph.output)

    def error_of(count: int) -> str:
        """Returns the runtime's message for the first ``count`` nodes; an empty string if they run."""
        part = _beginning(file, model, nodes[:count], outputs)
        try:
            for _ in start(part).take(feed, list(_unread(part))):
                pass
        except WhenceError as failure:
            if failure.code != "E0207":
                raise
            return failure.diagnostics[0].message
        return ""

    message = error_of(len(nodes))
    if not message:
        return None
    running, failing = 0, len(nodes)
    while failing - running > 1:
        middle = (running + failing) // 2
        error = error_of(middle)
        if error:
            failing, message = middle, error
        else:
            running = middle
    return Failure(file.nodes[running], message, _beginning(file, model, nodes[:running], outputs))


def _beginning(file: File, model: Any, nodes: list[Any], outputs: list[Any]) -> File:
    """Returns the file with only these nodes' values, and the outputs among them. Changes the nodes of ``model``."""
    producer = {name: node for name, node in file.producer.items() if node.at < len(nodes)}
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    del model.graph.output[:]
    model.graph.output.extend(each for each in outputs if each.name in producer)
    structure = type(file.model)()
    structure.CopyFrom(file.model)
    del structure.graph.output[:]
    structure.graph.output.extend(model.graph.output)
    return replace(file, model=structure, producer=producer, content=model.SerializeToString())


def _unread(part: File) -> Iterator[str]:
    """Yields the results that none of the part's nodes reads: to compute them, the runtime runs every node."""
    read = {name for node in part.producer.values() for name in node.inputs}
    return (name for name in part.producer if name not in read)
