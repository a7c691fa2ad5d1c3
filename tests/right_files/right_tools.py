"""The tools that write right files: PyTorch's exporters, and tools that change an exported file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_tools


@dataclass(frozen=True)
class Tool:
    """Changes the file of an exporter.

    write     reads a file, changes it, and writes another; see tests/onnx_tools.py
    number_format   of the written file, a key of rounded_runs.MINIMUM
    pins      packages that the main environment does not have
    """

    write: onnx_tools.Tool
    number_format: str = "float32"
    pins: tuple[str, ...] = ()


def torchscript(module: Any, inputs: tuple, path: Path) -> None:
    import torch

    torch.onnx.export(module, inputs, path, dynamo=False, opset_version=18)


def dynamo(module: Any, inputs: tuple, path: Path) -> None:
    import torch

    torch.onnx.export(module, inputs, dynamo=True, verbose=False).save(path, external_data=False)


EXPORTERS = {"torchscript": torchscript, "dynamo": dynamo}


TOOLS = {
    "onnxruntime-basic": Tool(onnx_tools.onnxruntime("BASIC")),
    "onnxruntime-extended": Tool(onnx_tools.onnxruntime("EXTENDED")),
    "onnxruntime-all": Tool(onnx_tools.onnxruntime("ALL")),
    "float16": Tool(onnx_tools.float16(), "float16"),
    "int8-dynamic": Tool(onnx_tools.dynamic_int8(), "8 bits"),
    "int8-qdq": Tool(onnx_tools.static_int8("QDQ"), "8 bits"),
    "int8-qdq-channels": Tool(onnx_tools.static_int8("QDQ", per_channel=True), "8 bits"),
    "int8-qoperator": Tool(onnx_tools.static_int8("QOperator"), "8 bits"),
    "int4-matmul": Tool(onnx_tools.blocks(block_size=16, is_symmetric=True), "4 bits"),
    "onnxscript": Tool(onnx_tools.onnxscript),
    "version-converter": Tool(onnx_tools.version_converter(22)),
    "onnxsim": Tool(onnx_tools.onnxsim),
    "onnxslim": Tool(onnx_tools.onnxslim),
    "onnxoptimizer": Tool(onnx_tools.onnxoptimizer, pins=("onnxoptimizer==0.4.2",)),
    "float16-common": Tool(onnx_tools.float16("onnxconverter_common.float16"), "float16", ("onnxconverter-common==1.16.0",)),
}
