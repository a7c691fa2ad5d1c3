"""A gate that passes an annotated export and stops a file that lost metadata: gate.py FOLDER"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import torch
from transformers import BertConfig, BertModel

WHENCE = os.environ.get("WHENCE", "whence")


def whence(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([WHENCE, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=False)


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    config = BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=128, return_dict=False)
    program = torch.export.export(BertModel(config).eval(), (torch.randint(0, 500, (1, 16)),), strict=False)
    torch.export.save(program, folder / "bert.pt2")
    whence("export", folder / "bert.pt2", "-o", folder / "bert.onnx", "--annotate")
    (folder / "baseline.json").write_text(whence("validate", folder / "bert.onnx", "--json").stdout)
    gate = shutil.copy(Path(__file__).with_name("gate.json"), folder)

    good = whence("validate", folder / "bert.onnx", "--config", gate, "--format", "github")
    model = onnx.load(folder / "bert.onnx")
    for node in model.graph.node:
        if "/encoder/layer.1/attention/" in node.name:
            del node.metadata_props[:]  # like a tool that builds new nodes
    onnx.save(model, folder / "changed.onnx")
    bad = whence("validate", folder / "changed.onnx", "--config", gate, "--format", "github")
    print(bad.stdout, end="")
    print(f"the annotated export: exit code {good.returncode}; after the tool: exit code {bad.returncode}")
    return 0 if (good.returncode, bad.returncode) == (0, 1) and "encoder.layer.1" in bad.stdout else 1


if __name__ == "__main__":
    sys.exit(main())
