"""Finds the first node that a runtime cannot load or run, by bisection: it runs the file's first half, and so on.

The values of the nodes before it remain observable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..base.optional_packages import import_optional
from ..errors import WhenceError
from . import model_structure
from .annotated_file import File, Node
from .runtimes import Runtime, node_named_in


@dataclass(frozen=True)
class Failure:
    node: Node
    message: str  # the runtime's
    before: File  # the nodes before it


def find(file: File, start: Callable[[File], Runtime], feed: Mapping[str, torch.Tensor]) -> Failure | None:
    """Returns the first node that fails in ``start``'s runtime; None if the file runs when all results are requested."""
    model = file.load()
    order = _in_order(file)
    protos, outputs = list(model.graph.node), list(model.graph.output)

    def error_of(count: int) -> str:
        """Returns the runtime's message for the first ``count`` nodes; an empty string if they run."""
        part = _beginning(file, model, [protos[node.at] for node in order[:count]], outputs)
        try:
            for _ in start(part).take(feed, list(_unread(part))):
                pass
        except WhenceError as failure:
            if failure.code != "E0207":
                raise
            return failure.diagnostics[0].message
        return ""

    message = error_of(len(order))
    if not message:
        return None
    running, failing = 0, len(order)
    while failing - running > 1:
        middle = (running + failing) // 2
        error = error_of(middle)
        if error:
            failing, message = middle, error
        else:
            running = middle
    before = [protos[node.at] for node in order[:running]]
    return Failure(order[running], message, _beginning(file, model, before, outputs))


def named_in(stop: WhenceError, file: File) -> Failure | None:
    """Returns the node that the runtime's error names as the failure of a file that runs when all results are requested:
    ONNX Runtime reuses memory when they are not. Returns None if it names none."""
    message = stop.diagnostics[0].message
    node = node_named_in(message, file)
    return None if node is None else Failure(node, message, file)


def _in_order(file: File) -> list[Node]:
    """Returns the nodes, each after those whose results it reads: tools append nodes at the end of a file."""
    order: list[Node] = []
    placed: set[int] = set()
    for node in file.nodes:
        pending = [node]
        while pending:
            producers = {file.producer[name].at: file.producer[name] for name in pending[-1].inputs if name in file.producer}
            missing = [each for at, each in producers.items() if at not in placed and each is not pending[-1]]
            if missing and len(pending) <= len(file.nodes):  # a circle is an error of the runtime's
                pending += missing
                continue
            last = pending.pop()
            if last.at not in placed:
                placed.add(last.at)
                order.append(last)
    return order


def _beginning(file: File, model: Any, nodes: list[Any], outputs: list[Any]) -> File:
    """Returns the file with only these nodes' values, and the outputs among them. Changes the nodes of ``model``."""
    computed = {name for node in nodes for name in node.output if name}
    producer = {name: node for name, node in file.producer.items() if name in computed}
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
