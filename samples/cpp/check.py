"""Runs the exported models in ONNX Runtime at both sizes and compares them with LibTorch's results: check.py FOLDER."""

import sys
from pathlib import Path

import numpy
import onnxruntime
import torch

folder = Path(sys.argv[1])
failed = False
for model in sorted(folder.glob("*.onnx")):
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    for case in ("0", "1"):
        input_array = torch.load(folder / f"{model.stem}.{case}.input.pt").numpy()
        expected = torch.load(folder / f"{model.stem}.{case}.expected.pt").numpy()
        result = session.run(None, {session.get_inputs()[0].name: input_array})[0]
        error = numpy.abs(result - expected).max() if result.shape == expected.shape else numpy.inf
        failed |= not error < 1e-4
        print(f"{model.stem:<14} {str(list(input_array.shape)):<16} largest difference {error:.1e}")
sys.exit(failed)
