"""The tools of the corpus: those of small_models.py, further ones, and several one after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import onnx_tools
import small_models
import vendor_tools
from accuracy.models import FUSION


@dataclass(frozen=True)
class Tool:
    """Returns, for a model, the tool that reads the file of `base`: the exporter's, or another tool's."""

    of: Callable[[str], onnx_tools.Tool]
    base: str = "exported"
    models: frozenset[str] | None = None  # None for all


def any_model(tool: onnx_tools.Tool, base: str = "exported") -> Tool:
    return Tool(lambda model: tool, base)


# The rounding of numbers by the first word of a tool's name; other tools do not round.
ROUNDINGS = {"float16": "float16", "dynamic": "8 bits", "static": "8 bits", "blocks_of_8": "8 bits", "blocks_of_4": "4 bits"}


# The groups of the documentation's tables, by the beginning of the last tool's name; other tools are optimisers.
GROUPS = {"exported": "exporter alone", "float16": "float16", "dynamic": "8 bits, dynamic",
          "static_operators": "8 bits, static, QOperator", "static": "8 bits, static, QDQ",
          "blocks": "blocks of 4 and 8 bits"}


def group(name: str) -> str:
    last = name.rpartition("+")[2]
    return next((each for prefix, each in GROUPS.items() if last.startswith(prefix)), "optimiser, converter")


def rounding(name: str) -> str:
    """Returns the rounding by a tool: float32, float16, 8 bits or 4 bits."""
    last = name.rpartition("+")[2]
    return next((each for prefix, each in ROUNDINGS.items() if last.startswith(prefix)), "float32")


# The quantiser's shape inference fails on files that contain operators of ONNX Runtime, and on some of the dynamo exporter.
_DYNAMIC = onnx_tools.dynamic_int8(shapes=False)

TOOLS = {
    **{name: any_model(tool) for name, tool in small_models.TOOLS.items()},
    "dynamic": any_model(_DYNAMIC),
    "dynamic_channels": any_model(onnx_tools.dynamic_int8(shapes=False, per_channel=True, reduce_range=True,
                                                          weight_type="QUInt8")),
    "static_operators_channels": any_model(onnx_tools.static_int8("QOperator", per_channel=True, weight_type="QInt8")),
    "static_16_bits": any_model(onnx_tools.static_int8("QDQ", weight_type="QInt8", activation_type="QInt16")),
    "ort_extended": any_model(onnx_tools.onnxruntime("EXTENDED")),
    "ort_fusion": Tool(lambda model: onnx_tools.transformer_fusion(*FUSION[model]), models=frozenset(FUSION)),
    "onnxscript": any_model(onnx_tools.onnxscript),
    "version_converter": any_model(onnx_tools.version_converter(22)),
    "float16_common": any_model(onnx_tools.float16("onnxconverter_common.float16")),
    "blocks_of_4_qdq": any_model(onnx_tools.blocks("QDQ", block_size=32, bits=4, is_symmetric=True)),
    "blocks_of_4_qdq_asymmetric": any_model(onnx_tools.blocks("QDQ", block_size=16, bits=4, is_symmetric=False)),
    "blocks_of_4_gather": any_model(onnx_tools.blocks(block_size=32, bits=4, is_symmetric=False,
                                                      op_types_to_quantize=("MatMul", "Gather"))),
    "blocks_of_8_symmetric": any_model(onnx_tools.blocks(block_size=64, bits=8, is_symmetric=True)),
    "ort_extended+dynamic": any_model(_DYNAMIC, "ort_extended"),
    "onnxslim+dynamic": any_model(_DYNAMIC, "onnxslim"),
    "ort_basic+static": any_model(onnx_tools.static_int8("QDQ"), "ort_basic"),
    "ort_fusion+float16": Tool(lambda model: onnx_tools.float16(), "ort_fusion", frozenset(FUSION)),
    "ort_fusion+dynamic": Tool(lambda model: _DYNAMIC, "ort_fusion", frozenset(FUSION)),
    "onnxsim+blocks_of_4": any_model(onnx_tools.blocks(block_size=32, bits=4, is_symmetric=True), "onnxsim"),
    **{name: any_model(functools.partial(vendor_tools.run, name)) for name in vendor_tools.available()},
}

# Those for models on which nothing is tuned: one of each kind.
FOR_FURTHER = ("onnxslim", "onnxsim", "ort_all", "ort_extended", "float16", "dynamic", "static", "static_operators",
               "blocks_of_4", "onnxscript")
FOR_DYNAMIC = ("onnxslim", "ort_extended", "ort_all", "float16", "dynamic", "blocks_of_4", "ort_extended+dynamic")


def names(model: str) -> list[str]:
    """Returns the tools of a model; each stands after the tool whose file it reads."""
    return [name for name, tool in TOOLS.items() if tool.models is None or model in tool.models]
