"""The corpus's optimisers, quantisers and converters; each reads one file and writes another."""

import logging
from pathlib import Path

import numpy
import onnx
import onnxruntime

from accuracy import models

LEVELS = {"basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
          "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
          "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL}


def onnxruntime_offline(level: str):
    def optimise(name: str, source: Path, target: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = LEVELS[level]
        options.optimized_model_filepath = str(target)
        options.log_severity_level = 4
        onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])

    return optimise


def transformers_fusion(name: str, source: Path, target: Path) -> None:
    from onnxruntime.transformers import optimizer

    sizes = {"bert_tiny": (2, 128), "distilbert": (4, 96), "gpt2": (4, 96), "vit": (4, 64)}[name]
    logging.getLogger("onnxruntime.transformers").setLevel(logging.ERROR)
    optimised = optimizer.optimize_model(str(source), model_type=models.FUSION_TYPES[name], num_heads=sizes[0],
                                         hidden_size=sizes[1])
    optimised.save_model_to_file(str(target))


def onnxslim(name: str, source: Path, target: Path) -> None:
    import onnxslim as tool

    tool.slim(str(source), str(target))


def onnxsim(name: str, source: Path, target: Path) -> None:
    import onnxsim as tool

    simplified, equal = tool.simplify(onnx.load(source))
    assert equal, "onnxsim reports that its file gives other results"
    onnx.save(simplified, target)


def float16(name: str, source: Path, target: Path) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def dynamic_int8(name: str, source: Path, target: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    # Shape inference fails on shapes stored by the dynamo exporter, and does not cover ONNX Runtime's operators.
    onnx.save(without_shapes(onnx.load(source)), source)
    quantize_dynamic(str(source), str(target), extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})


def without_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    del model.graph.value_info[:]
    return model


def static_qdq(name: str, source: Path, target: Path) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Example(CalibrationDataReader):
        def __init__(self):
            self.rows = iter([{key: numpy.asarray(value) for key, value in models.example(name).items()}])

        def get_next(self):
            return next(self.rows, None)

    quantize_static(str(source), str(target), Example(), quant_format=QuantFormat.QDQ)
