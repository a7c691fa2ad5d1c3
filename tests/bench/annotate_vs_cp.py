"""What `whence annotate` costs on a file of 250 MB, beside `cp` and beside load-annotate-save with Python's onnx.

    python tests/bench/annotate_vs_cp.py [--runs 5] [--folder /dev/shm]

Whole processes, wall time and peak resident memory, medians over the runs, the three taking turns. The disk's cache is
warm. Exit code 1 when annotate takes more than 1.5 times as long as cp, or more than 64 MiB of memory: the structure
of this model is small.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import command

TIME_AIM, MEMORY_AIM = 1.5, 64.0
LAYERS, WIDTH = 15, 2048  # 15 matrices of 16.8 MB

PYTHON_ANNOTATE = """
import sys, onnx
model = onnx.load(sys.argv[1])
for node in model.graph.node:
    entry = node.metadata_props.add()
    entry.key, entry.value = "pkg.whence.module", node.name
onnx.save(model, sys.argv[2])
"""


# In a process of its own: a child's peak memory starts at its parent's.
MAKE_ARCHIVE = f"""
import sys, torch, warnings
warnings.filterwarnings("ignore")
layers = [torch.nn.Sequential(torch.nn.Linear({WIDTH}, {WIDTH}), torch.nn.ReLU()) for _ in range({LAYERS})]
torch.jit.trace(torch.nn.Sequential(*layers).eval(), torch.zeros(1, {WIDTH})).save(sys.argv[1])
"""


def make_model(folder: Path) -> tuple[Path, Path]:
    """A stack of linear layers, exported by whence, with its sidecar."""
    archive, model, sidecar = folder / "model.pt", folder / "model.onnx", folder / "model.whence.json"
    subprocess.run([sys.executable, "-c", MAKE_ARCHIVE, archive], check=True)
    command.run("export", archive, "-o", model, "--sidecar-out", sidecar)
    archive.unlink()
    return model, sidecar


def measure(arguments: list, output: Path) -> tuple[float, float]:
    """(wall seconds, peak MiB) of one process that writes a new file."""
    output.unlink(missing_ok=True)
    start = time.perf_counter()
    process = subprocess.Popen([str(argument) for argument in arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status != 0:
        raise RuntimeError(f"{arguments[0]} failed")
    return seconds, usage.ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="where to work; the default is the system's folder for temporary files")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        model, sidecar = make_model(folder)
        output = folder / "out.onnx"
        contestants = {
            "cp": ["cp", model, output],
            "whence annotate": [command.BINARY, "annotate", model, "--sidecar", sidecar, "-o", output],
            "whence strip": [command.BINARY, "strip", folder / "annotated.onnx", "-o", output],
            "Python onnx": [sys.executable, "-c", PYTHON_ANNOTATE, model, output],
        }
        measure(contestants["whence annotate"][:-1] + [folder / "annotated.onnx"], folder / "annotated.onnx")
        runs = {contestant: [] for contestant in contestants}
        for _ in range(options.runs):
            for contestant, arguments in contestants.items():
                runs[contestant].append(measure(arguments, output))
        megabytes = model.stat().st_size / 1e6

    medians = {contestant: [statistics.median(column) for column in zip(*measured)]
               for contestant, measured in runs.items()}
    print(f"{megabytes:.0f} MB, medians of {options.runs} runs")
    print(f"{'':16} {'wall s':>8} {'x cp':>6} {'peak MiB':>9}")
    for contestant, (seconds, memory) in medians.items():
        print(f"{contestant:16} {seconds:8.3f} {seconds / medians['cp'][0]:6.2f} {memory:9.1f}")
    seconds, memory = medians["whence annotate"]
    return int(seconds > TIME_AIM * medians["cp"][0] or memory > MEMORY_AIM)


if __name__ == "__main__":
    sys.exit(main())
