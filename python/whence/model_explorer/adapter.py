"""The adapter: ONNX files as graphs whose layers are modules."""

from __future__ import annotations

from model_explorer import Adapter, AdapterMetadata, ModelExplorerGraphs
from model_explorer.graph_builder import Graph

from . import written

ADAPTER = "whence_onnx"


class WhenceAdapter(Adapter):
    """Nodes and edges stay dictionaries: 100,000 objects of each kind would only be made dictionaries again."""

    metadata = AdapterMetadata(
        id=ADAPTER, name="ONNX by PyTorch module", source_repo="",
        description="Layers are modules and their calls; nodes say their source line and how sure that is (whence).",
        fileExts=["onnx"])

    def convert(self, model_path: str, settings: dict) -> ModelExplorerGraphs:
        return {"graphs": [Graph(**written.graph_of(model_path))]}
