"""Measures how the time of `whence export x.pt2` grows with the number of operations: 1,000 to 1,000,000.

    python tests/bench/export_scaling.py [--runs 3] [1000 10000 100000 1000000]

The model is a chain of layers (models/exported_chain.py), each with a weight, and with a module stack and a stack trace
as long as in real models. Prints medians over complete processes. Exits with 1 above a limit: 3 s of CPU for 100,000
operations, 20 s for 1,000,000, and fifteen times the CPU for ten times the operations.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import command
from bench.measured import measure
from models.exported_chain import write_chain

LIMITS, MAX_GROWTH = {100_000: 3.0, 1_000_000: 20.0}, 15.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("operations", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    options = parser.parse_args()
    exceeded, previous = False, None
    print(f"{'operations':>10} {'MiB':>7} {'CPU s':>8} {'wall s':>8} {'peak GiB':>8} {'growth':>7}")
    with tempfile.TemporaryDirectory(prefix="whence-bench-") as name:
        archive, output = Path(name) / "chain.pt2", Path(name) / "chain.onnx"
        for operations in options.operations:
            write_chain(archive, operations)
            costs = []
            for _ in range(options.runs):
                output.unlink(missing_ok=True)  # an overwriting process is charged for freeing the old pages
                costs.append(measure([command.BINARY, "export", archive, "-o", output]))
            cpu, wall, mib = map(statistics.median, zip(*costs, strict=True))
            growth = cpu / previous[1] * 10 * previous[0] / operations if previous else 0.0
            previous = (operations, cpu)
            exceeded |= cpu > LIMITS.get(operations, float("inf")) or (operations > 10_000 and growth > MAX_GROWTH)
            print(f"{operations:>10} {archive.stat().st_size / 2**20:7.1f} {cpu:8.3f} {wall:8.3f} {mib / 1024:8.2f} "
                  f"{growth:7.2f}", flush=True)
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
