"""Measures each subcommand on an ONNX file of a million nodes: CPU time, wall time, peak resident memory.

    python tests/bench/million_nodes.py [--nodes 1000000] [--folder /tmp] [--only report,functions]

large_model.py writes the file: 166,666 blocks with separate weights, ten metadata entries per node, 640 MB. The
commands run one after another. Exits with 1 if a command needs more than 30 s of CPU or 3 GiB.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

import large_model

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import command
from bench.measured import measure

CPU_LIMIT, MEMORY_LIMIT = 30.0, 3.0  # seconds, GiB


def write_profile(path: Path, blocks: int) -> None:
    """Writes an ONNX Runtime profile of one run: one event per node."""
    with path.open("w") as file:
        file.write('[\n{"cat":"Session","pid":1,"tid":1,"dur":9,"ts":1,"ph":"X","name":"model_run","args":{}}')
        for block in range(blocks):
            for i, (operator, module, _) in enumerate(large_model.BLOCK_NODES):
                name = large_model.node_name(block, module, operator, i)
                event = {"cat": "Node", "pid": 1, "tid": 1, "dur": 1 + i, "ts": 6 * block + i, "ph": "X",
                         "name": f"{name}_kernel_time",
                         "args": {"op_name": operator, "node_index": str(6 * block + i),
                                  "provider": "CPUExecutionProvider"}}
                file.write(",\n" + json.dumps(event))
        file.write("\n]\n")


def write_files(folder: Path, blocks: int) -> None:
    large_model.write_model(folder / "model.onnx", blocks, annotated=True)
    write_profile(folder / "profile.json", blocks)


def commands(folder: Path, blocks: int) -> dict[str, tuple[list, Path | None]]:
    """Maps each command to its arguments and the file for its standard output. Later commands read earlier outputs."""
    model, out = folder / "model.onnx", lambda name: folder / name
    middle = f"layers.{blocks // 2}"
    return {
        "validate": ([model], None),
        "validate --full": (["--full", model], None),
        "show": ([model], None),
        "explain": ([model, f"/layers/{blocks // 2}/up/MatMul"], None),
        "select": ([model, "--modules", "layers.1*.up"], None),
        "place": ([model, "--rule", "gpu=layers.1*", "--default", "cpu", "-o", out("placed.onnx")], None),
        "annotate (annotated)": ([model, "-o", out("again.onnx")], None),
        "strip": ([model, "-o", out("stripped.onnx")], None),
        "diff": ([model, out("placed.onnx")], None),
        "dot": ([model], out("out.dot")),
        "graphml": ([model], out("out.graphml")),
        "model-explorer": ([model], out("out.json")),
        "profile": ([model, "--profile", out("profile.json")], None),
        "extract": ([model, "--module", middle, "-o", out("part.onnx")], None),
        "carry": ([model, "-o", out("carried.onnx"), "--", "cp", "{in}", "{out}"], None),
        "functions": ([model, "-o", out("functions.onnx")], None),
        "inline": ([out("functions.onnx"), "-o", out("inlined.onnx")], None),
        "report": ([model, "-o", out("report.html")], None),
        "report --format md": ([model, "--format", "md", "-o", out("report.md")], None),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="working folder, 5 GB; its files are kept")
    parser.add_argument("--only", help="run only these commands, comma-separated")
    options = parser.parse_args()
    blocks, exceeded = max(options.nodes // large_model.NODES_PER_BLOCK, 1), False
    with tempfile.TemporaryDirectory(prefix="whence-million-") as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "model.onnx").exists():
            # In a separate process, because a child starts with its parent's peak.
            writer = multiprocessing.Process(target=write_files, args=(folder, blocks))
            writer.start()
            writer.join()
        size = (folder / "model.onnx").stat().st_size
        print(f"{large_model.NODES_PER_BLOCK * blocks:,} nodes, {size / 1e6:.0f} MB")
        print(f"{'':26} {'CPU s':>7} {'wall s':>7} {'GiB':>6}", flush=True)
        for name, (arguments, output) in commands(folder, blocks).items():
            if options.only and name not in options.only.split(","):
                continue
            try:
                cost = measure([command.BINARY, name.split()[0], *arguments], output or os.devnull, (0, 1))
            except RuntimeError as error:
                print(f"{name:26} {error}", flush=True)
                exceeded = True
                continue
            exceeded |= cost.cpu > CPU_LIMIT or cost.gib > MEMORY_LIMIT
            print(f"{name:26} {cost.cpu:7.1f} {cost.wall:7.1f} {cost.gib:6.2f}", flush=True)
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
