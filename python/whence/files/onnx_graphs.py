"""Iterates over the graphs of an onnx.ModelProto, including subgraphs, and saves it with external weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..base.optional_packages import import_optional

EXTERNAL_FROM = 1024  # minimum size in bytes of external weights, as in torch.onnx and onnx.save_model


def save_with_external_weights(model: Any, path: Path) -> None:
    """Saves the model, with weights of 1024 bytes or more in ``path`` + ``.data``, which must not exist.

    Does not use onnx.save_model(location=...): it checks for an existing file in the current folder instead of the
    folder of ``path``.
    """
    onnx, helper = (import_optional(name, "saving external weights") for name in ("onnx", "onnx.external_data_helper"))
    for graph in graphs(model.graph):
        for tensor in graph.initializer:
            if len(tensor.raw_data) >= EXTERNAL_FROM:
                helper.set_external_data(tensor, path.name + ".data")
    onnx.save_model(model, str(path))


def graphs(graph: Any) -> Iterator[Any]:
    """Yields the graph and all its subgraphs."""
    yield graph
    for node in graph.node:
        yield from bodies(node)


def bodies(node: Any) -> Iterator[Any]:
    """Yields all subgraphs of a node (branches and loop bodies)."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from graphs(attribute.g)
