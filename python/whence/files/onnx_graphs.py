"""The graphs of an onnx.ModelProto, those in branches and loops too, and its weights in a file beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..base.optional_packages import needs

BESIDE_FROM = 1024  # bytes, as torch.onnx and onnx.save_model have it


def save_with_weights_beside(model: Any, path: Path) -> None:
    """Weights of 1024 bytes and more go into ``path`` with ``.data`` at its end, in a folder that has no such file.

    onnx.save_model(location=...) is not asked to do that: it looks for a file of that name in the current folder, not
    in the one of ``path``, and refuses where there is one.
    """
    onnx, helper = (needs(name, "weights beside a model") for name in ("onnx", "onnx.external_data_helper"))
    for graph in graphs(model.graph):
        for tensor in graph.initializer:
            if len(tensor.raw_data) >= BESIDE_FROM:
                helper.set_external_data(tensor, path.name + ".data")
    onnx.save_model(model, str(path))


def graphs(graph: Any) -> Iterator[Any]:
    """It, and the bodies of its nodes, and of theirs."""
    yield graph
    for node in graph.node:
        yield from bodies(node)


def bodies(node: Any) -> Iterator[Any]:
    """The graphs of branches and loops inside of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from graphs(attribute.g)
