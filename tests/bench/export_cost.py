"""What `whence export` costs beside Python's `torch.jit.load` + `torch.onnx.export(dynamo=False)` on the same archive.

    python tests/bench/export_cost.py [--runs 5] [bert_tiny resnet50 ...]

Whole processes: CPU time (user + system) and peak resident memory as the kernel counts them, medians over the runs,
the two taking turns. Exit code 1 when a ratio misses its aim: a fifth of the CPU time, half of the memory.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import command

CPU_AIM, MEMORY_AIM = 5.0, 2.0

PYTHON_EXPORT = """
import sys, torch, warnings
warnings.filterwarnings("ignore")
archive, inputs, output = sys.argv[1:]
model = torch.jit.load(archive)
torch.onnx.export(model, tuple(torch.load(inputs).values()), output, dynamo=False, opset_version=18)
"""


def measure(arguments: list) -> tuple[float, float]:
    """(CPU seconds, peak MiB) of one process."""
    process = subprocess.Popen(list(map(str, arguments)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"{arguments[0]} failed: {errors[-500:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def make_archive(name: str, folder: Path) -> None:
    """The model of the zoo with a tuple for its output, which the TorchScript exporter needs, and its inputs.

    Runs in a process of its own: a child's peak memory counts what its parent held when it was forked, so the
    measuring process must stay small.
    """
    import torch

    from models import zoo

    entry = zoo.MODELS[name]
    model = entry.model()
    if hasattr(model, "config"):
        model.config.return_dict = False
    sizes = {**entry.first, "height": 224, "width": 224} if name == "resnet50" else entry.first
    inputs = entry.inputs(sizes)
    zoo.trace_module(model, inputs).save(str(folder / f"{name}.pt"))
    torch.save(inputs, folder / f"{name}.inputs.pt")


def compare(name: str, runs: int, folder: Path) -> bool:
    subprocess.run([sys.executable, __file__, "--make", folder, name], check=True, stderr=subprocess.DEVNULL)
    archive, inputs = folder / f"{name}.pt", folder / f"{name}.inputs.pt"
    contenders = {
        "whence": [command.BINARY, "export", archive, "--inputs", inputs, "-o", folder / "whence.onnx"],
        "python": [sys.executable, "-c", PYTHON_EXPORT, archive, inputs, folder / "python.onnx"],
    }
    results = {key: [] for key in contenders}
    for _ in range(runs):
        for key, arguments in contenders.items():
            results[key].append(measure(arguments))
    cpu, memory = ({key: statistics.median(row[column] for row in rows) for key, rows in results.items()}
                   for column in (0, 1))
    cpu_ratio, memory_ratio = cpu["python"] / cpu["whence"], memory["python"] / memory["whence"]
    print(f"{name:14} CPU {cpu['whence']:6.2f} s against {cpu['python']:6.2f} s: {cpu_ratio:5.1f} x less   "
          f"memory {memory['whence']:6.0f} MiB against {memory['python']:6.0f} MiB: {memory_ratio:4.1f} x less")
    return cpu_ratio >= CPU_AIM and memory_ratio >= MEMORY_AIM


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", default=["bert_tiny", "resnet50"])
    options = parser.parse_args()
    if options.make:
        for name in options.models:
            make_archive(name, options.make)
        return 0
    with tempfile.TemporaryDirectory(prefix="whence-bench-") as folder:
        reached = [compare(name, options.runs, Path(folder)) for name in options.models]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
