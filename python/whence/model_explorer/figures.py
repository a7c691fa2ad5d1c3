"""Node data that the user adds in Model Explorer's panel: confidence, time and error."""

from __future__ import annotations

from typing import Any

from model_explorer import (
    GetConfigEditorsResult, NodeDataProvider, NodeDataProviderFilter, NodeDataProviderMetadata, NodeDataProviderResult,
)
from model_explorer.config_editor import FileConfigEditor
from model_explorer.node_data_builder import GraphNodeData

from ..errors import WhenceError
from . import written
from .adapter import ADAPTER

CONFIDENCE, TIME, ERROR = "whence_confidence", "whence_time", "whence_error"
_FILTER = NodeDataProviderFilter(modelFileExts=["onnx"], adapterIds=[ADAPTER])
_FILES = {
    TIME: FileConfigEditor(id="profile", label="Profile", required=True, description="a profile of this file by "
                           "ONNX Runtime, OpenVINO, TensorRT or QNN"),
    ERROR: FileConfigEditor(id="values", label="Recorded values", required=True, description="the file from "
                            "`whence record --values` or whence.record_values", fileExts=["safetensors"]),
}


class WhenceFigures(NodeDataProvider):
    metadata: list[NodeDataProviderMetadata] = [
        NodeDataProviderMetadata(id=CONFIDENCE, name="whence: confidence", icon="verified", filter=_FILTER,
                                 description="Confidence in the module of each node"),
        NodeDataProviderMetadata(id=TIME, name="whence: time", icon="timer", filter=_FILTER,
                                 description="Time measured by a runtime"),
        NodeDataProviderMetadata(id=ERROR, name="whence: error", icon="troubleshoot", filter=_FILTER,
                                 description="Relative difference from PyTorch; runs the file in ONNX Runtime"),
    ]

    def get_config_editors(self, provider_id: str) -> GetConfigEditorsResult:
        editor = _FILES.get(provider_id)
        return GetConfigEditorsResult(configEditors=[editor] if editor else [])

    def run(self, provider_id: str, model_path: str, graph_id: str, config_values: dict[str, Any],
            graph: object) -> NodeDataProviderResult:
        try:
            if provider_id == TIME:
                data = written.time_of(model_path, config_values["profile"])
            elif provider_id == ERROR:
                data = written.error_of(model_path, config_values["values"])
            else:
                data = written.confidence_of(model_path)
        except WhenceError as failure:
            return NodeDataProviderResult(error=str(failure))
        return NodeDataProviderResult(result=GraphNodeData(**data))
