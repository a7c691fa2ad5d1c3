"""A common interface to ONNX Runtime's quantisers. They quantise the chosen nodes of a file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..numerics.annotated_file import Node


@dataclass(frozen=True)
class Example:
    """Inputs and paths that a quantiser may need in addition to the file."""

    feeds: Sequence[Mapping[str, Any]]  # arrays by input name, one set for each calibration run
    cache: Path                         # calibrated ranges, reused by later trials
    external: bool                      # true: the file has external weights, and so must the target


@dataclass(frozen=True)
class Quantiser:
    name: str
    operators: frozenset[str]           # operator types that it quantises; empty: all
    write: Callable[[Path, Path, list[str], Example], None]  # source, target, names of nodes
    renames_gemm: bool = False          # replaces each Gemm with a MatMul of another name before it selects nodes

    def changes(self, node: Node) -> bool:
        return not self.operators or node.op_type in self.operators

    def names(self, node: Node) -> list[str]:
        """Returns the names by which the quantiser may refer to the node."""
        return [node.name, f"{node.name}_MatMul"] if self.renames_gemm and node.op_type == "Gemm" else [node.name]


def named(name: str) -> Quantiser:
    return {each.name: each for each in (_DYNAMIC, _STATIC, _HALF)}[name]


NAMES = ("int8-dynamic", "qdq", "float16")


def _int8_dynamic(source: Path, target: Path, nodes: list[str], example: Example) -> None:
    from onnx import TensorProto
    from onnxruntime.quantization import quantize_dynamic

    # DefaultTensorType: the type of values without an inferred type.
    quantize_dynamic(str(source), str(target), nodes_to_quantize=nodes, op_types_to_quantize=sorted(_DYNAMIC.operators),
                     use_external_data_format=example.external, extra_options={"DefaultTensorType": TensorProto.FLOAT})


def _qdq(source: Path, target: Path, nodes: list[str], example: Example) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._rows = iter(example.feeds)

        def get_next(self):
            row = next(self._rows, None)
            return None if row is None else dict(row)

    quantize_static(str(source), str(target), Reader(), quant_format=QuantFormat.QDQ, nodes_to_quantize=nodes,
                    op_types_to_quantize=sorted(_STATIC.operators), use_external_data_format=example.external,
                    calibration_cache_path=str(example.cache))


def _float16(source: Path, target: Path, nodes: list[str], example: Example) -> None:
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.load(str(source))
    chosen = set(nodes)
    unchanged_nodes = [node.name for node in model.graph.node if node.name not in chosen]
    half = convert_float_to_float16(model, keep_io_types=True, node_block_list=unchanged_nodes,
                                    disable_shape_infer=example.external)
    onnx.save(half, str(target), save_as_external_data=example.external, location=f"{target.name}.data")


# ONNX Runtime has no CPU kernel for ConvInteger with int8 weights. QDQ quantises only matrix products and convolutions:
# elsewhere, the large numbers of a mask would take up the entire range and round all other values to zero.
_DYNAMIC = Quantiser("int8-dynamic", frozenset({"MatMul", "Gemm", "Gather", "LSTM", "Attention"}), _int8_dynamic, True)
_STATIC = Quantiser("qdq", frozenset({"MatMul", "Gemm", "Conv", "ConvTranspose"}), _qdq)
_HALF = Quantiser("float16", frozenset(), _float16)


@contextmanager
def quiet_logging() -> Iterator[None]:
    """Suppresses the hints that ONNX Runtime's quantisers log for each file."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(level)
