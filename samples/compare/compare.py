"""Compares two exports of one model, and an optimised file, module by module: compare.py FOLDER"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import onnxruntime
import torch
from transformers import BertConfig, BertModel

WHENCE = os.environ.get("WHENCE", "whence")


def whence(*arguments: object, code: int = 0) -> str:
    result = subprocess.run([WHENCE, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=False)
    assert result.returncode == code, (arguments, result.returncode)
    return result.stdout


def export_twice(folder: Path) -> tuple[Path, Path, Path]:
    """Returns the files of PyTorch's dynamo exporter and of whence, and the sidecar, all from one torch.export archive."""
    torch.manual_seed(0)
    config = BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=128, return_dict=False)
    program = torch.export.export(BertModel(config).eval(), (torch.randint(0, 500, (1, 16)),), strict=False)
    torch.export.save(program, folder / "bert.pt2")
    record = folder / "bert.whence.json"
    whence("record", folder / "bert.pt2", "-o", record)
    whence("export", folder / "bert.pt2", "-o", folder / "native.onnx", "--annotate")
    torch.onnx.export(program, f=str(folder / "plain.onnx"), dynamo=True, verbose=False, external_data=False)
    whence("annotate", folder / "plain.onnx", "--sidecar", record, "-o", folder / "dynamo.onnx")
    return folder / "dynamo.onnx", folder / "native.onnx", record


def optimise(path: Path, target: Path) -> Path:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return target


def run(path: Path) -> numpy.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: numpy.arange(16, dtype=numpy.int64)[None]})[0]


def compare_naming(before: Path, after: Path, record: Path) -> tuple[int, int]:
    """Prints the reports; returns the numbers of nodes that name their module instance, before and after."""
    # Allows V112: ONNX Runtime keeps the types of tensors that it removed.
    arguments = ["validate", after, "--sidecar", record, "--baseline", before, "--depth", "1", "--allow", "V112"]
    print(whence(*arguments))
    report = json.loads(whence(*arguments, "--json"))
    return report["baseline"]["naming"]["full_hierarchies"], report["naming"]["full_hierarchies"]


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    dynamo, native, record = export_twice(folder)
    print(whence("diff", dynamo, native, "--depth", "2"))
    optimised = optimise(native, folder / "optimised.onnx")
    whence("annotate", optimised, "--sidecar", record, "-o", folder / "again.onnx")
    print(whence("diff", native, folder / "again.onnx", "--depth", "2"))
    named_before, named_after = compare_naming(optimised, folder / "again.onnx", record)

    difference = max(float(numpy.abs(run(native) - run(path)).max()) for path in (dynamo, folder / "again.onnx"))
    print(f"nodes that name their module: {named_before} after the optimiser, {named_after} annotated again")
    print(f"largest difference between the files: {difference:.1e}")
    return 0 if named_before < named_after and difference < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
