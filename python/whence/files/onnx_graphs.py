"""Walks the graphs of an onnx.ModelProto, bodies of branches and loops included, and saves it with external weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..base.optional_packages import import_optional

EXTERNAL_FROM = 1024  # bytes from which weights are external, as in torch.onnx and onnx.save_model


def save_with_external_weights(model: Any, path: Path) -> None:
    """Saves the model with weights of 1024 bytes and more in ``path`` + ``.data``, a file that must not exist yet.

    Does not use onnx.save_model(location=...), which checks for an existing file in the current folder instead of the
    folder of ``path``.
    """
    onnx, helper = (import_optional(name, "saving external weights") for name in ("onnx", "onnx.external_data_helper"))
    for graph in graphs(model.graph):
        for tensor in graph.initializer:
            if len(tensor.raw_data) >= EXTERNAL_FROM:
                helper.set_external_data(tensor, path.name + ".data")
    onnx.save_model(model, str(path))


def graphs(graph: Any) -> Iterator[Any]:
    """Yields the graph and the bodies of its nodes, recursively."""
    yield graph
    for node in graph.node:
        yield from bodies(node)


def bodies(node: Any) -> Iterator[Any]:
    """Yields the graphs of branches and loops inside a node, recursively."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from graphs(attribute.g)
