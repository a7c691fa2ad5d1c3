"""Runs a model with ONNX Runtime's profiler and sums the times by module: by_module.py FOLDER"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from transformers import BertConfig, BertModel

WHENCE = os.environ.get("WHENCE", "whence")
RUNS = 20


def whence(*arguments: object) -> str:
    return subprocess.run([WHENCE, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout


def export(folder: Path) -> Path:
    torch.manual_seed(0)
    config = BertConfig(vocab_size=500, hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=1024, return_dict=False)
    program = torch.export.export(BertModel(config).eval(), (torch.randint(0, 500, (1, 128)),), strict=False)
    torch.export.save(program, folder / "bert.pt2")
    whence("export", folder / "bert.pt2", "-o", folder / "bert.onnx", "--annotate")
    return folder / "bert.onnx"


def run(model: Path, optimized: Path) -> Path:
    """Runs the model and returns the profile that ONNX Runtime wrote."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(model.with_suffix(""))
    options.optimized_model_filepath = str(optimized)
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for _ in range(RUNS):
        session.run(None, {session.get_inputs()[0].name: np.ones((1, 128), np.int64)})
    return Path(session.end_profiling())


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    model, optimized = export(folder), folder / "bert.optimized.onnx"
    profile = run(model, optimized)
    arguments = [model, "--profile", profile, "--optimized", optimized]

    print(whence("profile", *arguments, "--depth", 4))
    whence("profile", *arguments, "--format", "speedscope", "-o", folder / "bert.speedscope.json")
    report = json.loads(whence("profile", *arguments, "--json"))
    events = json.loads(profile.read_text())
    warm = min(event["ts"] + event["dur"] for event in events if event["name"] == "model_run")
    total = sum(event["dur"] for event in events if event["cat"] == "Node" and event["ts"] >= warm)
    known = 1 - report["unattributed"] / report["operator_time"]
    print(f"{report['operator_time']} of {total} microseconds of the profile, {100 * known:.0f} % of them in a module")
    return 0 if report["operator_time"] == total and known > 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
