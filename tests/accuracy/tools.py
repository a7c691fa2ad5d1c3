"""The corpus's optimisers, quantisers and converters; each reads one file of a model and writes another."""

from collections.abc import Callable
from pathlib import Path

import numpy
import onnx

import onnx_tools
from accuracy import models

Tool = Callable[[str, Path, Path], None]  # (name of the model, source, target)


def for_any_model(tool: onnx_tools.Tool) -> Tool:
    return lambda name, source, target: tool(source, target, [])


def onnxruntime_offline(level: str) -> Tool:
    return for_any_model(onnx_tools.onnxruntime(level.upper()))


def transformers_fusion(name: str, source: Path, target: Path) -> None:
    onnx_tools.transformer_fusion(*models.FUSION[name])(source, target, [])


def onnxsim(name: str, source: Path, target: Path) -> None:
    import onnxsim as tool

    simplified, equal = tool.simplify(onnx.load(source))
    assert equal, "onnxsim reports that its file gives other results"
    onnx.save(simplified, target)


def static_qdq(name: str, source: Path, target: Path) -> None:
    runs = [{key: numpy.asarray(value) for key, value in models.example(name).items()}]
    onnx_tools.static_int8("QDQ")(source, target, runs)


onnxslim = for_any_model(onnx_tools.onnxslim)
float16 = for_any_model(onnx_tools.float16())
dynamic_int8 = for_any_model(onnx_tools.dynamic_int8(shapes=False))

TOOLS = {
    "ort-basic": onnxruntime_offline("basic"),
    "ort-extended": onnxruntime_offline("extended"),
    "ort-all": onnxruntime_offline("all"),
    "ort-fusion": transformers_fusion,
    "onnxslim": onnxslim,
    "onnxsim": onnxsim,
    "float16": float16,
    "int8": dynamic_int8,
    "qdq": static_qdq,
}
