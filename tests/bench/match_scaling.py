"""How the time of `whence annotate` on a foreign file grows with its nodes: 1,000 to 100,000, names stripped.

    python tests/bench/match_scaling.py [--runs 3] [1000 10000 100000]

The model repeats one residual block (two linear layers, an activation, a sum); sidecar and ONNX file are written here,
so that nothing else limits the size. Wall clock of the whole process, the best of the runs: reading the sidecar,
matching and writing. Exit code 1 above the aims: 10,000 nodes in 1 s, 100,000 in 15 s.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import xxhash
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import command

AIMS = {10_000: 1.0, 100_000: 15.0}
NODES_A_BLOCK, WIDTH = 6, 4


class SidecarTables:
    """The tables of a sidecar (schema/sidecar.schema.json), filled row by row."""

    def __init__(self):
        self.strings, self.numbers, self.rows = [], {}, {}

    def text(self, value: str) -> int:
        if value not in self.numbers:
            self.numbers[value] = len(self.strings)
            self.strings.append(value)
        return self.numbers[value]

    def add(self, table: str, row: list) -> int:
        rows = self.rows.setdefault(table, [])
        rows.append(row)
        return len(rows) - 1


def program_digest(t: SidecarTables) -> str:
    """As schema/program.cpp makes it: operators with their scopes, then parameters."""
    lines = []
    for target, overload, scope, *_ in t.rows["operations"]:
        _, module, call = t.rows["scopes"][scope]
        path = t.strings[t.rows["modules"][module][0]]
        lines.append(f"{t.strings[target]}.{t.strings[overload]}\t{path}#{call}\n")
    lines += [t.strings[row[0]] + "\n" for row in t.rows["parameters"]]
    return xxhash.xxh3_128_hexdigest("".join(lines).encode())


def write_sidecar(blocks: int, path: Path) -> None:
    t = SidecarTables()
    children = list(range(1, 1 + 3 * blocks, 3))
    t.add("modules", [t.text(""), t.text("Model"), -1, [], children, 0, False, [], 0, 0])
    t.add("scopes", [-1, 0, 0])
    x = t.add("values", [t.text("x"), "tensor", "float32", [2, WIDTH], "input", 0, -1])
    t.add("inputs", [t.text("x"), x])

    def parameter(module: str, name: str, shape: list) -> int:
        size = 4 * int(np.prod(shape))
        index = t.add("parameters", [t.text(f"{module}.{name}"), [], "parameter", True, True, "float32", shape,
                                     "model.pt", f"data/{module}.{name}", 0, size, None, None, None, None])
        return t.add("values", [t.text(f"{module}.{name}"), "tensor", "float32", shape, "parameter", index, -1])

    def operation(target: str, overload: str, scope: int, arguments: list) -> int:
        name = t.text(f"%{len(t.rows['values'])}")
        out = t.add("values", [name, "tensor", "float32", [2, WIDTH], "node", -1, -1])
        t.add("operations", [t.text(target), t.text(overload), scope, -1, name, arguments, [out], False, 0, t.text("")])
        return out

    def value(name: str, number: int) -> list:
        return [t.text(name), {"value": number}]

    for i in range(blocks):
        block = t.add("modules", [t.text(f"layers.{i}"), t.text("Block"), 0, [], [0, 0], 2, False, [], 0, 0])
        scope = t.add("scopes", [0, block, 0])
        linears = []
        for name in ("up", "down"):
            path_of = f"layers.{i}.{name}"
            own = [len(t.rows.get("parameters", [])), len(t.rows.get("parameters", [])) + 1]
            module = t.add("modules", [t.text(path_of), t.text("torch.nn.modules.linear.Linear"), block, [], [], 3, True,
                                       own, 0, 0])
            linears.append((t.add("scopes", [scope, module, 0]), parameter(path_of, "weight", [WIDTH, WIDTH]),
                            parameter(path_of, "bias", [WIDTH])))
        t.rows["modules"][block][4] = [block + 1, block + 2]
        h = x
        for step, (linear, weight, bias) in enumerate(linears):
            h = operation("aten::linear", "", linear, value("input", h) + value("weight", weight) + value("bias", bias))
            if step == 0:
                h = operation("aten::relu", "", scope, value("self", h))
        x = operation("aten::add", "Tensor", scope, value("self", x) + value("other", h) + [t.text("alpha"), 1])
    t.add("outputs", [t.text("y"), {"value": x}])
    t.add("blocks", [-1, [], []])
    columns = json.loads((command.ROOT / "schema/fixtures/v1.0/sample.whence.json").read_text())
    document = {key: columns[key] for key in ("format", "version", "producer", "source", "program_digest", "ran")}
    document["strings"] = t.strings
    document["program_digest"] = program_digest(t)
    for table, content in columns.items():
        if isinstance(content, dict) and "columns" in content:
            document[table] = {"columns": content["columns"], "rows": t.rows.get(table, [])}
    path.write_text(json.dumps(document))


def write_model(blocks: int, path: Path) -> None:
    generator = np.random.default_rng(0)
    nodes, weights = [], []
    fresh = iter(range(10 ** 9))

    def node(operator: str, *inputs: str) -> str:
        name = f"v{next(fresh)}"
        nodes.append(helper.make_node(operator, list(inputs), [name]))
        return name

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        weights.append(numpy_helper.from_array(generator.standard_normal(shape, dtype=np.float32), name))
        return name

    x = "x"
    for _ in range(blocks):
        h = node("Add", node("MatMul", x, weight(WIDTH, WIDTH)), weight(WIDTH))
        h = node("Relu", h)
        h = node("Add", node("MatMul", h, weight(WIDTH, WIDTH)), weight(WIDTH))
        x = node("Add", x, h)
    nodes[-1].output[0] = "y"
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, WIDTH]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", info[:1], info[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())


def seconds(folder: Path, runs: int) -> float:
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([command.BINARY, "annotate", folder / "model.onnx", "--sidecar", folder / "model.whence.json",
                        "-o", folder / "out.onnx"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
    return best


def right(folder: Path) -> float:
    """Share of nodes with the right module: the order of the nodes is that of the blocks."""
    model = onnx.load(folder / "out.onnx")
    found = [next((p.value for p in node.metadata_props if p.key == "pkg.whence.module"), None)
             for node in model.graph.node]
    parts = ["up", "up", "", "down", "down", ""]
    wanted = [f"layers.{i // NODES_A_BLOCK}.{parts[i % NODES_A_BLOCK]}".rstrip(".") for i in range(len(found))]
    return sum(a == b for a, b in zip(found, wanted, strict=True)) / len(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("nodes", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    arguments = parser.parse_args()
    missed = False
    print(f"{'nodes':>8} {'seconds':>9} {'us/node':>8} {'right %':>8}")
    for nodes in arguments.nodes:
        with tempfile.TemporaryDirectory(prefix="whence-scaling-") as name:
            folder, blocks = Path(name), max(nodes // NODES_A_BLOCK, 1)
            write_sidecar(blocks, folder / "model.whence.json")
            write_model(blocks, folder / "model.onnx")
            took = seconds(folder, arguments.runs)
            missed |= took > AIMS.get(nodes, float("inf"))
            print(f"{blocks * NODES_A_BLOCK:>8} {took:>9.3f} {1e6 * took / nodes:>8.1f} {100 * right(folder):>8.2f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
