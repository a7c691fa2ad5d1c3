"""Models of any size for measurements: a chain of residual blocks of six nodes each, written without PyTorch.

    python tests/bench/large_model.py 1000000 annotated.onnx             with annotate's metadata
    python tests/bench/large_model.py 1000000 bare.onnx --bare --sidecar model.whence.json
    python tests/bench/large_model.py 1000 model.onnx --bare --external 100e9    weights in a sparse file of 100 GB

A block is two linear layers, an activation and a sum: MatMul, Add, Relu, MatMul, Add, Add. Protobuf is written field by
field, because Python's onnx takes minutes for a million nodes. Every run writes the same bytes.
"""

import argparse
import json
import random
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import xxhash

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import command

NODES_PER_BLOCK, WIDTH = 6, 4
LINEAR = "torch.nn.modules.linear.Linear"
VERSION = "0.1.0"

# The nodes of a block: operator, module within the block, operation.
BLOCK_NODES = [("MatMul", "up", 0), ("Add", "up", 0), ("Relu", "", 1),
               ("MatMul", "down", 2), ("Add", "down", 2), ("Add", "", 3)]
OPERATIONS = ["linear", "relu", "linear", "add"]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_field(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def bytes_field(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def entry(field: int, key: str, value: str) -> bytes:
    """Encodes a StringStringEntryProto."""
    return bytes_field(field, bytes_field(1, key) + bytes_field(2, value))


def value_info(name: str, *sizes: int) -> bytes:
    shape = b"".join(bytes_field(1, varint_field(1, size)) for size in sizes)
    return bytes_field(1, name) + bytes_field(2, bytes_field(1, varint_field(1, 1) + bytes_field(2, shape)))


def node_metadata(block: int, module: str, operation: int) -> bytes:
    """Returns the metadata entries of one node, as annotate writes them."""
    path = f"layers.{block}" + (f".{module}" if module else "")
    op = OPERATIONS[operation]
    scopes, classes = ["", f"layers.{block}"], ["Model", "Block"]
    if module:
        scopes.append(path), classes.append(LINEAR)
    name = f"{op}_{4 * block + operation}"
    steps = [f"{scope}: {kind}" for scope, kind in zip(scopes, classes, strict=True)]
    scopes.append(name), classes.append(f"aten.{op}.default")
    return b"".join(entry(9, key, value) for key, value in [
        ("namespace", "/".join([*steps, f"{name}: {classes[-1]}"])),
        ("pkg.torch.onnx.class_hierarchy", repr(classes)),
        ("pkg.torch.onnx.name_scopes", repr(scopes)),
        ("pkg.whence.module", path),
        ("pkg.whence.id", f"{path}/0/{op}/0"),
        ("pkg.whence.call", "0"),
        ("pkg.whence.source", "model.py:12 forward"),
        ("pkg.whence.confidence", "exact"),
        ("pkg.whence.rule", "stamp"),
        ("pkg.whence.version", VERSION),
    ])


def node_name(block: int, module: str, operator: str, index: int) -> str:
    repeated = "_1" if index == 4 and not module else ""
    return f"/layers/{block}/{module}/{operator}{repeated}".replace("//", "/")


def nodes(blocks: int, annotated: bool) -> Iterator[bytes]:
    x = "x"
    for block in range(blocks):
        weights = [f"layers.{block}.{name}" if annotated else f"w{4 * block + i}"
                   for i, name in enumerate(("up.weight", "up.bias", "down.weight", "down.bias"))]
        values = [f"v{NODES_PER_BLOCK * block + i}" for i in range(NODES_PER_BLOCK)]
        if block == blocks - 1:
            values[5] = "y"
        inputs = [(x, weights[0]), (values[0], weights[1]), (values[1],), (values[2], weights[2]),
                  (values[3], weights[3]), (x, values[4])]
        for i, (operator, module, operation) in enumerate(BLOCK_NODES):
            node = b"".join(bytes_field(1, name) for name in inputs[i]) + bytes_field(2, values[i])
            if annotated:
                node += bytes_field(3, node_name(block, module, operator, i)) + bytes_field(4, operator)
                node += node_metadata(block, module, operation)
            else:
                node += bytes_field(4, operator)
            yield node
        x = values[5]


def initializers(blocks: int, annotated: bool, external: int) -> Iterator[bytes]:
    """Yields weights [4, 4] and biases [4], or references to `external` bytes of larger ones in another file."""
    generator = random.Random(0)
    width, offset = layer_width(blocks, external), 0
    for block in range(blocks):
        for i, name in enumerate(("up.weight", "up.bias", "down.weight", "down.bias")):
            sizes = [width] if "bias" in name else [width, width]
            tensor = b"".join(varint_field(1, size) for size in sizes) + varint_field(2, 1)
            tensor += bytes_field(8, f"layers.{block}.{name}" if annotated else f"w{4 * block + i}")
            count = width if len(sizes) == 1 else width * width
            if external:
                tensor += entry(13, "location", "weights.bin") + entry(13, "offset", str(offset))
                tensor += entry(13, "length", str(4 * count)) + varint_field(14, 1)
                offset += 4 * count
            else:
                tensor += bytes_field(9, struct.pack(f"<{count}f", *(generator.gauss(0, 1) for _ in range(count))))
            yield tensor


def layer_width(blocks: int, external: int) -> int:
    """Returns the number of features per layer with which all weights take about `external` bytes."""
    return max(WIDTH, int((external / (8 * blocks)) ** 0.5)) if external else WIDTH


def write_model(path: Path, blocks: int, annotated: bool = False, external: int = 0) -> None:
    width = layer_width(blocks, external)
    graph = bytearray()
    for node in nodes(blocks, annotated):
        graph += bytes_field(1, node)
    graph += bytes_field(2, "chain")
    for tensor in initializers(blocks, annotated, external):
        graph += bytes_field(5, tensor)
    graph += bytes_field(11, value_info("x", 2, width)) + bytes_field(12, value_info("y", 2, width))
    model = varint_field(1, 10) + bytes_field(7, bytes(graph)) + bytes_field(8, bytes_field(1, "") + varint_field(2, 18))
    if annotated:
        model += entry(14, "pkg.whence.annotated", VERSION)
    path.write_bytes(model)
    if external:
        write_weights(path.parent / "weights.bin", blocks, width)


def write_weights(path: Path, blocks: int, width: int) -> None:
    """Writes a sparse file with numbers at the start of each tensor, so that no tensor is all zeros."""
    start = struct.pack("<4f", 0.5, -1.25, 3.0, 0.75)
    with path.open("wb") as data:
        offset = 0
        for _ in range(blocks):
            for count in (width * width, width) * 2:
                data.seek(offset)
                data.write(start)
                offset += 4 * count
        data.truncate(offset)


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
    """Computes the digest like schema/program.cpp: operators with their scopes, then parameters."""
    lines = []
    for target, overload, scope, *_ in t.rows["operations"]:
        _, module, call = t.rows["scopes"][scope]
        path = t.strings[t.rows["modules"][module][0]]
        lines.append(f"{t.strings[target]}.{t.strings[overload]}\t{path}#{call}\n")
    lines += [t.strings[row[0]] + "\n" for row in t.rows["parameters"]]
    return xxhash.xxh3_128_hexdigest("".join(lines).encode())


def write_sidecar(path: Path, blocks: int, width: int = WIDTH) -> None:
    """Writes the model's sidecar. Parameters have no digests, so matching relies on sizes and structure."""
    t = SidecarTables()
    children = list(range(1, 1 + 3 * blocks, 3))
    t.add("modules", [t.text(""), t.text("Model"), -1, [], children, 0, False, [], 0, 0])
    t.add("scopes", [-1, 0, 0])
    x = t.add("values", [t.text("x"), "tensor", "float32", [2, width], "input", 0, -1])
    t.add("inputs", [t.text("x"), x])

    def parameter(module: str, name: str, shape: list) -> int:
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        index = t.add("parameters", [t.text(f"{module}.{name}"), [], "parameter", True, True, "float32", shape,
                                     "model.pt", f"data/{module}.{name}", 0, size, None, None, None, None])
        return t.add("values", [t.text(f"{module}.{name}"), "tensor", "float32", shape, "parameter", index, -1])

    def operation(target: str, overload: str, scope: int, arguments: list) -> int:
        name = t.text(f"%{len(t.rows['values'])}")
        out = t.add("values", [name, "tensor", "float32", [2, width], "node", -1, -1])
        t.add("operations", [t.text(target), t.text(overload), scope, -1, name, arguments, [out], False, 0, t.text("")])
        return out

    def value(name: str, index: int) -> list:
        return [t.text(name), {"value": index}]

    for i in range(blocks):
        block = t.add("modules", [t.text(f"layers.{i}"), t.text("Block"), 0, [], [0, 0], 2, False, [], 0, 0])
        scope = t.add("scopes", [0, block, 0])
        linears = []
        for name in ("up", "down"):
            linear_path = f"layers.{i}.{name}"
            parameters = [len(t.rows.get("parameters", [])), len(t.rows.get("parameters", [])) + 1]
            module = t.add("modules", [t.text(linear_path), t.text(LINEAR), block, [], [], 3, True, parameters, 0, 0])
            linears.append((t.add("scopes", [scope, module, 0]), parameter(linear_path, "weight", [width, width]),
                            parameter(linear_path, "bias", [width])))
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


def expected_modules(count: int) -> list[str]:
    """Returns the correct module of each node, in the order of the file."""
    return [f"layers.{i // NODES_PER_BLOCK}.{BLOCK_NODES[i % NODES_PER_BLOCK][1]}".rstrip(".") for i in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nodes", type=int)
    parser.add_argument("model", type=Path)
    parser.add_argument("--bare", action="store_true", help="write neither metadata nor names")
    parser.add_argument("--external", type=float, default=0, help="bytes of weights in a sparse file next to the model")
    parser.add_argument("--sidecar", type=Path)
    options = parser.parse_args()
    blocks, external = max(options.nodes // NODES_PER_BLOCK, 1), int(options.external)
    write_model(options.model, blocks, annotated=not options.bare, external=external)
    if options.sidecar:
        write_sidecar(options.sidecar, blocks, layer_width(blocks, external))


if __name__ == "__main__":
    main()
