"""The adapter: shows ONNX files as graphs with modules as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from model_explorer import Adapter, AdapterMetadata, ModelExplorerGraphs
from model_explorer.graph_builder import Graph

from . import command_output

ADAPTER = "whence_onnx"


class UncopiedList(Sequence[Any]):
    """A list of dictionaries that dataclasses.asdict does not copy. Model Explorer creates its JSON with asdict, which
    would copy millions of strings of a graph with 100,000 nodes one by one."""

    def __init__(self, content: list[dict[str, Any]]):
        self._content = content

    def __deepcopy__(self, memo: dict[str, Any]) -> list[dict[str, Any]]:
        return self._content

    def __getitem__(self, index: Any) -> Any:
        return self._content[index]

    def __len__(self) -> int:
        return len(self._content)


class WhenceAdapter(Adapter):

    metadata: AdapterMetadata = AdapterMetadata(
        id=ADAPTER, name="ONNX by PyTorch module", source_repo="",
        description="Layers are modules and their calls; nodes have their source line and confidence (whence).",
        fileExts=["onnx"])

    def convert(self, model_path: str, settings: dict[str, Any]) -> ModelExplorerGraphs:
        graph = command_output.graph_of(model_path)
        return {"graphs": [Graph(**{**graph, "nodes": UncopiedList(graph["nodes"])})]}
