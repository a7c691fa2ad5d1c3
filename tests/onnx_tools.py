"""Tools that read one ONNX file and write another, for the folders that test whence on such files.

A tool is a function (source, target, runs). `runs` has the arrays of calibration runs, by input name; only static
quantisers read it. Packages are imported when a tool runs, because some environments lack some of them.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Runs = list[dict[str, Any]]
Tool = Callable[[Path, Path, Runs], None]


def onnxslim(source: Path, target: Path, runs: Runs) -> None:
    import onnx
    import onnxslim as package

    onnx.save(package.slim(str(source)), target)


def onnxsim(source: Path, target: Path, runs: Runs) -> None:
    import onnx
    import onnxsim as package

    onnx.save(package.simplify(onnx.load(source))[0], target)


def onnxoptimizer(source: Path, target: Path, runs: Runs) -> None:
    import onnx
    import onnxoptimizer as package

    onnx.save(package.optimize(onnx.load(source)), target)


def onnxscript(source: Path, target: Path, runs: Runs) -> None:
    import onnx
    import onnxscript.optimizer

    onnx.save(onnxscript.optimizer.optimize(onnx.load(source)), target)


def version_converter(opset: int) -> Tool:
    def write(source: Path, target: Path, runs: Runs) -> None:
        import onnx
        import onnx.version_converter

        onnx.save(onnx.version_converter.convert_version(onnx.load(source), opset), target)

    return write


def onnxruntime(level: str) -> Tool:
    """`level`: BASIC, EXTENDED or ALL."""
    def write(source: Path, target: Path, runs: Runs) -> None:
        import onnxruntime as package

        options = package.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(package.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
        options.optimized_model_filepath = str(target)
        package.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    return write


def transformer_fusion(model_type: str, heads: int, size: int) -> Tool:
    """ONNX Runtime's optimiser of transformers. `size`: of the hidden states."""
    def write(source: Path, target: Path, runs: Runs) -> None:
        import logging

        from onnxruntime.transformers import optimizer

        logging.getLogger("onnxruntime.transformers").setLevel(logging.ERROR)
        optimised = optimizer.optimize_model(str(source), model_type=model_type, num_heads=heads, hidden_size=size)
        optimised.save_model_to_file(str(target))

    return write


def float16(module: str = "onnxruntime.transformers.float16") -> Tool:
    """`module`: one of the two that have this converter; the other is onnxconverter_common.float16."""
    def write(source: Path, target: Path, runs: Runs) -> None:
        import onnx

        convert = importlib.import_module(module).convert_float_to_float16
        onnx.save(convert(onnx.load(source), keep_io_types=True), target)

    return write


def dynamic_int8(shapes: bool = True, **options: Any) -> Tool:
    """Types in `options` are names: weight_type="QUInt8". `shapes=False` removes the shapes that the file states: the
    quantiser's shape inference fails on some of the dynamo exporter, and does not cover ONNX Runtime's operators."""
    def write(source: Path, target: Path, runs: Runs) -> None:
        import onnx
        from onnxruntime.quantization import quantize_dynamic

        if shapes:
            quantize_dynamic(source, target, **_with_types(options))
            return
        model = onnx.load(source)
        del model.graph.value_info[:]
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            onnx.save(model, Path(folder) / source.name)
            quantize_dynamic(Path(folder) / source.name, target, extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
                             **_with_types(options))

    return write


def static_int8(quant_format: str, **options: Any) -> Tool:
    """`quant_format`: QDQ or QOperator. Types in `options` are names: weight_type="QInt8"."""
    def write(source: Path, target: Path, runs: Runs) -> None:
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

        class Reader(CalibrationDataReader):
            def __init__(self) -> None:
                self._runs: Iterator[dict[str, Any]] = iter(runs)

            def get_next(self) -> dict[str, Any] | None:
                return next(self._runs, None)

        quantize_static(source, target, Reader(), quant_format=QuantFormat[quant_format], **_with_types(options))

    return write


def blocks(quant_format: str = "QOperator", **options: Any) -> Tool:
    """Matrices in blocks of 4 or 8 bits. `quant_format`: QOperator (MatMulNBits) or QDQ (DequantizeLinear)."""
    def write(source: Path, target: Path, runs: Runs) -> None:
        import onnx
        from onnxruntime.quantization import QuantFormat
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        quantizer = MatMulNBitsQuantizer(onnx.load(source), quant_format=QuantFormat[quant_format], **options)
        quantizer.process()
        quantizer.model.save_model_to_file(str(target))

    return write


def _with_types(options: dict[str, Any]) -> dict[str, Any]:
    from onnxruntime.quantization import QuantType

    return {key: QuantType[value] if key.endswith("_type") else value for key, value in options.items()}
