"""What `whence export x.pt2` costs beside `torch.export.load` + `torch.onnx.export(dynamo=True)`, and how it grows.

    python tests/bench/exported_programs.py [--runs 5] [bert_tiny resnet50 ...]

Whole processes on the same archive: CPU time (user + system) and peak resident memory as the kernel counts them,
medians over the runs, the two taking turns. Then a chain of operations of growing length (models/exported_chain.py).
Exit code 1 when a figure misses its aim: a fortieth of the CPU time, a quarter of the memory, 100,000 operations in
3 s, and ten times the operations in at most fifteen times the time.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import command
from bench.export_cost import measure
from models.exported_chain import write_chain

CPU_AIM, MEMORY_AIM = 40.0, 4.0
LENGTHS, SECONDS_AIM, GROWTH_AIM = (1_000, 10_000, 100_000), 3.0, 15.0

PYTHON_EXPORT = """
import sys, torch, warnings
warnings.filterwarnings("ignore")
archive, output = sys.argv[1:]
torch.onnx.export(torch.export.load(archive), dynamo=True, f=output, opset_version=18, verbose=False)
"""


def make_archive(name: str, folder: Path) -> None:
    """Runs in a process of its own: a child's peak memory counts what its parent held when it was forked."""
    import torch

    from models import zoo

    entry = zoo.MODELS[name]
    sizes = {**entry.first, "height": 224, "width": 224} if name == "resnet50" else entry.first
    model = entry.model()
    if hasattr(model, "config"):
        model.config.return_dict = False  # torch.export.load would need the class of the result
    program = torch.export.export(model, (), dict(entry.inputs(sizes)), strict=False)
    torch.export.save(program, folder / f"{name}.pt2")


def compare(name: str, runs: int, folder: Path) -> bool:
    subprocess.run([sys.executable, __file__, "--make", folder, name], check=True, stderr=subprocess.DEVNULL)
    archive = folder / f"{name}.pt2"
    output = folder / "exported.onnx"
    contenders = {
        "whence": [command.BINARY, "export", archive, "-o", output],
        "python": [sys.executable, "-c", PYTHON_EXPORT, archive, output],
    }
    results = {key: [] for key in contenders}
    for _ in range(runs):
        for key, arguments in contenders.items():
            for old in folder.glob("exported.onnx*"):  # the kernel charges who writes over a file for freeing its pages
                old.unlink()
            results[key].append(measure(arguments))
    cpu, memory = ({key: statistics.median(row[column] for row in rows) for key, rows in results.items()}
                   for column in (0, 1))
    cpu_ratio, memory_ratio = cpu["python"] / cpu["whence"], memory["python"] / memory["whence"]
    print(f"{name:14} CPU {cpu['whence']:6.3f} s against {cpu['python']:6.2f} s: {cpu_ratio:5.1f} x less   "
          f"memory {memory['whence']:6.0f} MiB against {memory['python']:6.0f} MiB: {memory_ratio:4.1f} x less",
          flush=True)
    return cpu_ratio >= CPU_AIM and memory_ratio >= MEMORY_AIM


def growth(runs: int, folder: Path) -> bool:
    medians = []
    for length in LENGTHS:
        path = folder / f"chain{length}.pt2"
        write_chain(path, length)
        seconds = []
        for _ in range(runs):
            start = time.perf_counter()
            measure([command.BINARY, "export", path, "-o", folder / "chain.onnx"])
            seconds.append(time.perf_counter() - start)
        medians.append(statistics.median(seconds))
        print(f"{length:7} operations, {path.stat().st_size / 2**20:6.1f} MiB: {medians[-1]:6.3f} s", flush=True)
    return medians[-1] <= SECONDS_AIM and medians[-1] / medians[-2] <= GROWTH_AIM


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
        reached.append(growth(options.runs, Path(folder)))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
