"""Runs the exported model in ONNX Runtime and the original in PyTorch on real sentences, at sizes that were not traced.

usage: check_minilm.py MODEL.onnx    exits with 1 if the results differ by more than float32 rounding
"""

import sys

import numpy as np
import onnxruntime
import torch

import minilm

TOLERANCE = 2e-5  # absolute, for values around 1 after 6 layers of float32
SENTENCES = [
    "How do I find out which layer is slow?",
    "The profiler says which module takes the most time.",
    "Penguins cannot fly, but they swim very well.",
]


def embed(hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Averages over words and normalises, like the model's authors: [sentences, words, 384] -> [sentences, 384]."""
    weights = mask[:, :, None].astype(np.float32)
    mean = (hidden * weights).sum(1) / weights.sum(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def main(path: str) -> int:
    model = minilm.load_model()
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    worst = 0.0
    for sentences in (SENTENCES, SENTENCES[:1]):
        inputs = minilm.tokenize(sentences)
        with torch.no_grad():
            expected = [output.numpy() for output in model(**inputs)]
        feeds = {name: tensor.numpy() for name, tensor in inputs.items()}
        actual = session.run(None, feeds)
        difference = max(float(np.abs(a - e).max()) for a, e in zip(actual, expected, strict=True))
        worst = max(worst, difference)
        size = "x".join(str(n) for n in inputs["input_ids"].shape)
        print(f"  input {size:>5}: largest difference between ONNX Runtime and PyTorch {difference:.1e}")
        if len(sentences) > 1:
            vectors = embed(actual[0], feeds["attention_mask"])
    print(f"  similarity by ONNX Runtime: {vectors[0] @ vectors[1]:.2f}  '{SENTENCES[0]}' and '{SENTENCES[1]}'")
    print(f"                              {vectors[0] @ vectors[2]:.2f}  '{SENTENCES[0]}' and '{SENTENCES[2]}'")
    if worst > TOLERANCE:
        print(f"  more than {TOLERANCE}: the export is wrong", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
