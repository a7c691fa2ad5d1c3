"""Measures how the time of `whence annotate` on a file without names grows with its nodes: 1,000 to 1,000,000.

    python tests/bench/match_scaling.py [--runs 3] [1000 10000 100000 1000000]

The model is large_model.py's chain of residual blocks, with a sidecar. Prints the best wall and CPU times of complete
processes, which read the sidecar, match and write. `x n log n` is the CPU time divided by n log n, relative to the
previous size: 1.0 if the time grows as n log n. Exits with 1 above a limit of wall time: 0.5 s for 10,000 nodes, 3 s
for 100,000, 45 s for 1,000,000.
"""

import argparse
import math
import sys
import tempfile
from pathlib import Path

import large_model
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import command
from bench.measured import Cost, measure

LIMITS = {10_000: 0.5, 100_000: 3.0, 1_000_000: 45.0}


def best(folder: Path, runs: int) -> Cost:
    """Returns the best value of each figure."""
    arguments = [command.BINARY, "annotate", folder / "model.onnx", "--sidecar", folder / "model.whence.json",
                 "-o", folder / "out.onnx"]
    return Cost(*map(min, zip(*(measure(arguments) for _ in range(runs)), strict=True)))


def correct_share(folder: Path) -> float:
    """Returns the share of nodes with the correct module. The nodes are in the order of the blocks."""
    model = onnx.load(folder / "out.onnx")
    found = [next((p.value for p in node.metadata_props if p.key == "pkg.whence.module"), None)
             for node in model.graph.node]
    expected = large_model.expected_modules(len(found))
    return sum(a == b for a, b in zip(found, expected, strict=True)) / len(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("nodes", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    arguments = parser.parse_args()
    exceeded, previous = False, None
    print(f"{'nodes':>9} {'wall s':>8} {'CPU s':>8} {'GiB':>6} {'us/node':>8} {'x n log n':>9} {'right %':>8}")
    for nodes in arguments.nodes:
        with tempfile.TemporaryDirectory(prefix="whence-scaling-") as name:
            folder, blocks = Path(name), max(nodes // large_model.NODES_PER_BLOCK, 1)
            large_model.write_sidecar(folder / "model.whence.json", blocks)
            large_model.write_model(folder / "model.onnx", blocks)
            cost = best(folder, arguments.runs)
            exceeded |= cost.wall > LIMITS.get(nodes, float("inf"))
            scaled_time = cost.cpu / (nodes * math.log2(nodes))
            growth = "" if previous is None else f"{scaled_time / previous:.2f}"
            previous = scaled_time
            print(f"{blocks * large_model.NODES_PER_BLOCK:>9} {cost.wall:>8.3f} {cost.cpu:>8.3f} {cost.gib:>6.2f} "
                  f"{1e6 * cost.cpu / nodes:>8.1f} {growth:>9} {100 * correct_share(folder):>8.2f}", flush=True)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
