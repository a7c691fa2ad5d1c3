"""Measures how often `whence accuracy` names the faulty module: plants faults in single modules of the models of
tests/accuracy, exports them, applies tools and annotates the files.

    planted_faults.py --folder /tmp/faults [--models bert_tiny,gpt2] [--tools float16] [--faults 3] [--alone]

Prints a line for each fault, and a table: `named`, the module itself is named; `around`, the module is a suspect or
within the named module; `wrong`, another module is named; `missed`, no module is named. Files that differ without a
fault, as some quantised files do, are reported and skipped.
"""

import argparse
import collections
import logging
import os
import random
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "python")]
os.environ.setdefault("WHENCE", str(ROOT / "build" / "bin" / "whence"))

import torch  # noqa: E402

import whence  # noqa: E402
from accuracy import models, tools  # noqa: E402

TOOLS = {"none": lambda name, source, target: shutil.copy(source, target), "onnxslim": tools.onnxslim,
         "onnxsim": tools.onnxsim, "ort-extended": tools.onnxruntime_offline("extended"), "float16": tools.float16,
         "int8": tools.dynamic_int8, "qdq": lambda name, source, target: quantise_products(name, source, target)}


def quantise_products(name: str, source: Path, target: Path) -> None:
    """Quantises only products and convolutions (QDQ), because quantising masks of large numbers is itself a fault."""
    import numpy
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Example(CalibrationDataReader):
        def __init__(self):
            self.rows = iter([{key: numpy.asarray(value) for key, value in models.example(name).items()}])

        def get_next(self):
            return next(self.rows, None)

    quantize_static(str(source), str(target), Example(), quant_format=QuantFormat.QDQ,
                    op_types_to_quantize=["MatMul", "Conv", "Gemm"])


def roll_rows(module: torch.nn.Module) -> None:
    module.weight.data = module.weight.data.roll(1, 0)


def coarsen(module: torch.nn.Module) -> None:
    """Rounds the weight to three or four levels."""
    scale = module.weight.data.abs().max() / 1.5
    module.weight.data = (module.weight.data / scale).round() * scale


def zero_bias(module: torch.nn.Module) -> None:
    module.bias.data.zero_()


def change_eps(module: torch.nn.Module) -> None:
    module.eps = 0.05


def faults_of(module: torch.nn.Module) -> Iterator[Callable]:
    weight = getattr(module, "weight", None)
    if weight is not None and weight.dim() >= 2:
        yield from (roll_rows, coarsen)
    if hasattr(module, "eps") and not isinstance(module, torch.nn.BatchNorm2d):
        yield change_eps
    if isinstance(getattr(module, "bias", None), torch.nn.Parameter) and bool(module.bias.any()):
        yield zero_bias


def possible_faults(model: torch.nn.Module, called: set[str]) -> list[tuple[str, Callable]]:
    """Returns each called leaf module that shares no weights, with its possible faults."""
    owners = collections.Counter(id(tensor) for _, tensor in model.named_parameters(remove_duplicate=False))
    return [(path, fault) for path, module in model.named_modules() if path in called and not list(module.children())
            and all(owners[id(tensor)] == 1 for tensor in module.parameters()) for fault in faults_of(module)]


def verdict(first, path: str) -> str:
    if first is None:
        return "missed"
    if first.module == path:
        return "named"
    return "around" if path in first.suspects or not first.module or path.startswith(first.module + ".") else "wrong"


def first_difference(folder: Path, name: str, tool: str, values, fault: tuple[str, Callable] | None, alone: bool):
    """Exports the model with the fault, applies the tool, and returns the first difference of the file."""
    model = models.ENTRIES[name].model().eval()
    if fault:
        with torch.no_grad():
            fault[1](model.get_submodule(fault[0]))
    source, copy, target = (folder / f"{name}.{kind}.onnx" for kind in ("exported", "copy", tool))
    with models.quiet():
        whence.export(model, (), source, kwargs=models.example(name))
        shutil.copy(source, copy)
        TOOLS[tool](name, copy, target)
        if tool != "none":
            whence.annotate(target, source=source)
    return whence.accuracy(target, values, model=models.ENTRIES[name].model().eval() if alone else None).first


def silence_warnings() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--models", default=",".join(models.NAMES))
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--faults", type=int, default=3, help="for each model (3)")
    parser.add_argument("--alone", action="store_true", help="also pass the PyTorch model to whence accuracy")
    options = parser.parse_args()
    for text, choices in ((options.models, models.NAMES), (options.tools, TOOLS)):
        if unknown := set(text.split(",")) - set(choices):
            parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(choices)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    silence_warnings()
    generator = random.Random(1)
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for name in options.models.split(","):
        model = models.ENTRIES[name].model().eval()
        values = whence.record_values(model, kwargs=models.example(name))
        candidates = possible_faults(model, {call.module for call in values.runs[0].calls})
        planted = generator.sample(candidates, min(options.faults, len(candidates)))
        for tool in options.tools.split(","):
            try:
                if (first := first_difference(options.folder, name, tool, values, None, options.alone)) is not None:
                    print(f"{name} {tool}: skipped, differs without a fault: {first}")
                    continue
                for path, fault in planted:
                    first = first_difference(options.folder, name, tool, values, (path, fault), options.alone)
                    word = verdict(first, path)
                    counts[tool][word] += 1
                    print(f"{word:7} {name} {tool} {fault.__name__} in {path}" + ("" if word == "named" else f": {first}"))
            except Exception as failure:  # each tool raises its own exceptions
                print(f"{name} {tool}: skipped, {type(failure).__name__}: {str(failure).splitlines()[0][:100]}")
    words = ("named", "around", "wrong", "missed")
    print(f"\n{'tool':<14}" + "".join(f"{word:>8}" for word in words))
    for tool, count in counts.items():
        print(f"{tool:<14}" + "".join(f"{count[word]:>8}" for word in words))


if __name__ == "__main__":
    main()
