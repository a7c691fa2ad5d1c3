"""Single passes of other tools, as rows of carried.py: onnxoptimizer's passes, onnxscript's rules, Olive's ONNX passes.

The names of rows begin with the tool: `onnxoptimizer:fuse_bn_into_conv`, `onnxscript:add_0_rule`, `ort_fusions:all`,
`olive:OnnxPeepholeOptimizer`. `IN_MEMORY` has the tools that edit a model of onnx_ir, which `whence.keep` can observe.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx_ir

from accuracy import models

IN_MEMORY: dict[str, Callable[[onnx_ir.Model], None]] = {}
WITH_ORIGINS: dict[str, Callable[[str, Path, Path], None]] = {}  # Olive's passes as whence.exporters.olive runs them


def tools() -> dict[str, Callable[[str, Path, Path], None]]:
    """Returns all rows of the tools that are installed."""
    IN_MEMORY.update(onnxscript_rules())
    found = {name: on_files(edit) for name, edit in IN_MEMORY.items()}
    if importlib.util.find_spec("onnxoptimizer"):
        found |= onnxoptimizer_passes()
    if importlib.util.find_spec("olive"):
        found |= olive_passes("olive")
        WITH_ORIGINS.update(olive_passes("whence"))
    return found


def on_files(edit: Callable[[onnx_ir.Model], None]):
    def tool(name: str, source: Path, target: Path) -> None:
        model = onnx_ir.load(source)
        edit(model)
        onnx_ir.save(model, target)

    return tool


# onnxscript ----------------------------------------------------------------------------------------------------------

def onnxscript_rules() -> dict[str, Callable[[onnx_ir.Model], None]]:
    from onnxscript import optimizer, rewriter, version_converter
    from onnxscript.rewriter import ort_fusions
    from onnxscript.rewriter.rules import common

    def applying(rules):
        return lambda model: (rules if hasattr(rules, "apply_to_model") else rules()).apply_to_model(model)

    found = {f"onnxscript:{name}": applying(getattr(common, name)) for name in common.__all__}
    found["onnxscript:rewrite"] = lambda model: rewriter.rewrite(model)
    found["onnxscript:optimize"] = lambda model: optimizer.optimize(model)
    found["onnxscript:version-21"] = lambda model: version_converter.convert_version(model, 21)
    found["ort_fusions:all"] = lambda model: ort_fusions.optimize_for_ort(model)
    found |= {f"ort_fusions:{name}": after_preparation(fusion) for name, fusion in fusions(ort_fusions).items()}
    return found


def fusions(package) -> dict[str, Callable]:
    """Returns the functions `fuse_...` that the modules of ort_fusions define."""
    modules = [importlib.import_module(f"{package.__name__}.{entry.name}") for entry in pkgutil.iter_modules(package.__path__)]
    return {name: value for module in modules for name, value in vars(module).items()
            if name.startswith("fuse_") and name != "fuse_xformers" and callable(value)}


def after_preparation(fusion: Callable):
    """Returns the fusion after the steps that fuse_xformers runs before it on every model."""
    def edit(model: onnx_ir.Model) -> None:
        from onnxscript.rewriter.ort_fusions._core import _pre_optimize

        _pre_optimize(model)
        fusion(model)

    return edit


# Passes that split a model or rename its inputs.
NOT_MEASURED = {"lift_lexical_references", "split_init", "split_predict", "rename_input_output"}

# onnxoptimizer -------------------------------------------------------------------------------------------------------

def onnxoptimizer_passes() -> dict[str, Callable[[str, Path, Path], None]]:
    import onnxoptimizer

    def running(passes):
        def tool(name: str, source: Path, target: Path) -> None:
            onnx.save(onnxoptimizer.optimize(onnx.load(source), passes), target)

        return tool

    found = {f"onnxoptimizer:{name}": running([name]) for name in onnxoptimizer.get_available_passes()
             if name not in NOT_MEASURED}
    return found | {"onnxoptimizer:all": running(None)}


# Olive ---------------------------------------------------------------------------------------------------------------

OLIVE = {
    "OnnxPeepholeOptimizer": {}, "OnnxScriptFusion": {}, "OrtTransformersOptimization": {}, "OnnxFloatToFloat16": {},
    "OnnxDynamicQuantization": {"quant_preprocess": False}, "OnnxQuantizationPreprocess": {},
    "OnnxStaticQuantization": {"quant_preprocess": False}, "OnnxBlockWiseRtnQuantization": {}, "OnnxHqqQuantization": {},
    "OnnxKQuantQuantization": {}, "OnnxOpVersionConversion": {"target_opset": 21}, "OnnxIODataTypeConverter": {},
    "GraphSurgeries": {"surgeries": [{"surgeon": "MatMulAddToGemm"}]}, "SplitModel": {},
    "InputNCHWtoNHWC": {}, "OrtMixedPrecision": {},
}
SIZES = {"bert_tiny": ("bert", 2, 128), "distilbert": ("bert", 4, 96), "llama": ("gpt2", 4, 64)}


def olive_passes(package: str) -> dict[str, Callable[[str, Path, Path], None]]:
    return {f"olive:{name}": olive_pass(package, name, settings) for name, settings in OLIVE.items()}


def olive_pass(package: str, kind: str, settings: dict):
    def tool(name: str, source: Path, target: Path) -> None:
        from olive.hardware import AcceleratorSpec, Device
        from olive.model import ONNXModelHandler
        from olive.package_config import OlivePackageConfig
        from olive.passes.olive_pass import create_pass_from_dict

        all_settings = dict(settings)
        if kind == "OrtTransformersOptimization" and name in SIZES:
            all_settings |= dict(zip(("model_type", "num_heads", "hidden_size"), SIZES[name], strict=True))
        if kind == "OnnxStaticQuantization":
            all_settings["data_config"] = data_config(name)
        pass_class = OlivePackageConfig.load_default_config().import_pass_module(kind.lower())
        if package == "whence":
            pass_class = getattr(importlib.import_module("whence.exporters.olive"), kind)
        step = create_pass_from_dict(pass_class, all_settings, disable_search=True,
                                     accelerator_spec=AcceleratorSpec(Device.CPU, "CPUExecutionProvider"))
        output = step.run(ONNXModelHandler(str(source)), str(target.with_suffix("")) + "-olive")
        onnx.save(onnx.load(output.model_path), target)

    return tool


def data_config(name: str) -> dict:
    """Returns Olive's configuration of data with the names, shapes and types of the model's example: tensors of ones."""
    example = models.example(name)
    types = [str(value.dtype).removeprefix("torch.") for value in example.values()]
    return {"name": "ones", "type": "DummyDataContainer", "load_dataset_config": {"params": {
        "input_names": list(example), "input_shapes": [list(value.shape) for value in example.values()],
        "input_types": types, "max_samples": 1}}}
