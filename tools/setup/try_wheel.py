"""try_wheel.py WHEEL: measures the time from pip install to the report of a foreign model, for `make wheel`.

Uses an empty virtual environment, then one with PyTorch, and a PATH with only that environment. More than 60 s are an error."""

import logging
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

from python.environments import linked, with_dependencies

LIMIT = 60


def make_foreign_model(folder: Path) -> None:
    """Writes an ONNX file by PyTorch's exporter and the model's published weights."""
    from safetensors.torch import save_file

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model = BertModel(BertConfig(num_hidden_layers=2, hidden_size=128, num_attention_heads=2, intermediate_size=512,
                                 return_dict=False)).eval()
    tokens = torch.ones(1, 8, dtype=torch.int64)
    torch.onnx.export(model, (tokens,), str(folder / "foreign.onnx"), dynamo=True, verbose=False, external_data=False)
    save_file(model.state_dict(), folder / "model.safetensors")


def seconds_to_report(wheel: Path, python: Path, folder: Path) -> float:
    environment = {"PATH": str(python.parent), "HOME": str(folder)}

    def run(*command: object) -> None:
        subprocess.run([*map(str, command)], check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL)

    start = time.perf_counter()
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--disable-pip-version-check", wheel)
    run("whence", "annotate", "foreign.onnx", "--weights", "model.safetensors", "-o", "annotated.onnx")
    run("whence", "report", "annotated.onnx", "-o", "report.html")
    return time.perf_counter() - start


def main() -> int:
    wheel = Path(sys.argv[1]).resolve()
    slow = False
    with tempfile.TemporaryDirectory() as folder:
        make_foreign_model(Path(folder))
        for what, packages in {"without PyTorch": set(), "with PyTorch": with_dependencies("torch", set())}.items():
            python = linked(Path(folder) / what, packages)
            taken = seconds_to_report(wheel, python, Path(folder))
            slow |= taken > LIMIT
            print(f"whence: {what}, from pip install to the report of a foreign model: {taken:.1f} s", flush=True)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
