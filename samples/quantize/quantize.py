"""Quantises all modules of a model except one, and checks the result by module: quantize.py FOLDER"""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from transformers import BertConfig, BertModel

WHENCE = os.environ.get("WHENCE", "whence")
KEPT = "encoder.layer.1.attention"


def whence(*arguments: object) -> str:
    return subprocess.run([WHENCE, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout


def integer_products(path: Path) -> list[str]:
    """Returns the modules of matrix products that compute in integers."""
    nodes = json.loads(whence("select", path, "--ops", "MatMulInteger", "--json"))["nodes"]
    return [node["module"] for node in nodes]


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=128, return_dict=False)
    program = torch.export.export(BertModel(config).eval(), (torch.randint(0, 500, (1, 16)),), strict=False)
    torch.export.save(program, folder / "bert.pt2")
    whence("export", folder / "bert.pt2", "-o", folder / "bert.onnx", "--annotate")

    chosen = json.loads(whence("select", folder / "bert.onnx", "--modules", KEPT, "--format", "ort-quant"))
    quantize_dynamic(folder / "bert.onnx", folder / "quantised.onnx", weight_type=QuantType.QInt8,
                     op_types_to_quantize=["MatMul", "Gemm"], **chosen)
    whence("annotate", folder / "quantised.onnx", "--from", folder / "bert.onnx", "-o", folder / "quantised.onnx")

    modules = integer_products(folder / "quantised.onnx")
    inside = [module for module in modules if module == KEPT or module.startswith(KEPT + ".")]
    print(f"{len(modules)} products in integers, {len(inside)} of them in {KEPT}")
    return 0 if modules and not inside else 1


if __name__ == "__main__":
    sys.exit(main())
