"""Runs the command for graphs and node data. Imports neither Model Explorer nor PyTorch nor onnx."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from ..command.process import run_json, run_text
from ..errors import WhenceError, error
from ..files.sidecar_paths import sidecar_beside

OTHER_MODEL = "E0206"


def graph_of(model: str) -> dict[str, Any]:
    """Returns the graph as the fields of graph_builder.Graph, from `whence model-explorer`."""
    return _output("model-explorer", model)["graphs"][0]


def confidence_of(model: str) -> dict[str, Any]:
    """Returns confidences as the fields of node_data_builder.GraphNodeData."""
    return _only_graph(_output("model-explorer", model, "--confidence"))


def time_of(model: str, profile: str) -> dict[str, Any]:
    return _only_graph(json.loads(run_text("profile", model, "--profile", profile, "--format", "model-explorer")))


def error_of(model: str, values: str) -> dict[str, Any]:
    """Runs the model in ONNX Runtime, in the Python of $WHENCE_PYTHON, else python3."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "error.json"
        run_json("accuracy", model, "--values", values, "--model-explorer", output, accepted=(0, 1))
        return _only_graph(json.loads(output.read_text(encoding="utf-8")))


def _output(subcommand: str, model: str, *options: str) -> dict[str, Any]:
    """Runs the subcommand, with the sidecar next to the model if it belongs to the model."""
    sidecar = sidecar_beside(Path(model))
    try:
        return json.loads(run_text(subcommand, model, *options, *(["--sidecar", sidecar] if sidecar else [])))
    except WhenceError as failure:
        if sidecar is None or failure.code != OTHER_MODEL:
            raise
        return json.loads(run_text(subcommand, model, *options))


def _only_graph(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the node data of an ONNX file's only graph. Raises WhenceError E0105 if it is empty."""
    figures = next(iter(data.values()), None)
    if not figures or not figures["results"]:
        raise error("E0105", "unknown_node", "no node has data", "pass measurements of this file")
    return figures
