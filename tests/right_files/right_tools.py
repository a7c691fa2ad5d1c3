"""The tools that write right files: PyTorch's exporters, and tools that change an exported file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Inputs = list[dict[str, Any]]  # arrays by input name, of several runs


@dataclass(frozen=True)
class Tool:
    """Changes the file of an exporter.

    write     reads a file, changes it, and writes another. It also gets inputs for calibration.
    number_format   of the written file, a key of rounded_runs.MINIMUM
    pins      packages that the main environment does not have
    """

    write: Callable[[Path, Path, Inputs], None]
    number_format: str = "float32"
    pins: tuple[str, ...] = ()


def torchscript(module: Any, inputs: tuple, path: Path) -> None:
    import torch

    torch.onnx.export(module, inputs, path, dynamo=False, opset_version=18)


def dynamo(module: Any, inputs: tuple, path: Path) -> None:
    import torch

    torch.onnx.export(module, inputs, dynamo=True, verbose=False).save(path, external_data=False)


EXPORTERS = {"torchscript": torchscript, "dynamo": dynamo}


def _onnxsim(source: Path, target: Path, inputs: Inputs) -> None:
    import onnx
    import onnxsim

    onnx.save(onnxsim.simplify(onnx.load(source))[0], target)


def _onnxslim(source: Path, target: Path, inputs: Inputs) -> None:
    import onnx
    import onnxslim

    onnx.save(onnxslim.slim(str(source)), target)


def _onnxoptimizer(source: Path, target: Path, inputs: Inputs) -> None:
    import onnx
    import onnxoptimizer

    onnx.save(onnxoptimizer.optimize(onnx.load(source)), target)


def _onnxscript(source: Path, target: Path, inputs: Inputs) -> None:
    import onnx
    import onnxscript.optimizer

    onnx.save(onnxscript.optimizer.optimize(onnx.load(source)), target)


def _version_converter(source: Path, target: Path, inputs: Inputs) -> None:
    import onnx
    import onnx.version_converter

    onnx.save(onnx.version_converter.convert_version(onnx.load(source), 22), target)


def _onnxruntime(level: str) -> Callable[[Path, Path, Inputs], None]:
    def write(source: Path, target: Path, inputs: Inputs) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
        options.optimized_model_filepath = str(target)
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    return write


def _float16(source: Path, target: Path, inputs: Inputs) -> None:
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def _common_float16(source: Path, target: Path, inputs: Inputs) -> None:
    import onnx
    from onnxconverter_common.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def _dynamic(source: Path, target: Path, inputs: Inputs) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(source, target)


def _static(quant_format: str, **options: Any) -> Callable[[Path, Path, Inputs], None]:
    def write(source: Path, target: Path, inputs: Inputs) -> None:
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

        class Reader(CalibrationDataReader):
            def __init__(self) -> None:
                self._runs: Iterator[dict[str, Any]] = iter(inputs)

            def get_next(self) -> dict[str, Any] | None:
                return next(self._runs, None)

        quantize_static(source, target, Reader(), quant_format=QuantFormat[quant_format], **options)

    return write


def _four_bits(source: Path, target: Path, inputs: Inputs) -> None:
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=16, is_symmetric=True)
    quantizer.process()
    quantizer.model.save_model_to_file(str(target))


TOOLS = {
    "onnxruntime-basic": Tool(_onnxruntime("BASIC")),
    "onnxruntime-extended": Tool(_onnxruntime("EXTENDED")),
    "onnxruntime-all": Tool(_onnxruntime("ALL")),
    "float16": Tool(_float16, "float16"),
    "int8-dynamic": Tool(_dynamic, "8 bits"),
    "int8-qdq": Tool(_static("QDQ"), "8 bits"),
    "int8-qdq-channels": Tool(_static("QDQ", per_channel=True), "8 bits"),
    "int8-qoperator": Tool(_static("QOperator"), "8 bits"),
    "int4-matmul": Tool(_four_bits, "4 bits"),
    "onnxscript": Tool(_onnxscript),
    "version-converter": Tool(_version_converter),
    "onnxsim": Tool(_onnxsim),
    "onnxslim": Tool(_onnxslim),
    "onnxoptimizer": Tool(_onnxoptimizer, pins=("onnxoptimizer==0.4.2",)),
    "float16-common": Tool(_common_float16, "float16", ("onnxconverter-common==1.16.0",)),
}
