"""Makes one change at a time to the programs of torch.export archives, one archive for each row of tests/ops, and
exports each: whence must write a file or report an error with a remedy, within limits of time and memory.

    python tests/export/mutate_programs.py --count 20 --seed 0 --keep findings --family pooling --family windows

It changes numbers, lists, strings and kinds of arguments, results of nodes, sizes and dtypes of tensors, and bounds of
sizes. --count tries a random sample of the changes of each row instead of all. Prints a line for each finding (a
defect, too slow, too large) and the count of each code; --keep stores the archives of findings.
"""

import argparse
import collections
import contextlib
import io
import json
import random
import resource
import sys
import tempfile
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import command
from cli.mutate_archives import outcome
from command_server.client import WITHOUT_LIBTORCH, CommandServer
from ops.case import Case
from ops.table import FAMILIES

PROGRAM = "models/model.json"
NUMBERS = (0, 1, -1, -7, 1000, 1 << 20, 1 << 33, 1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63))
FRACTIONS = (0.0, -1.0, 1e300, "Infinity", "-Infinity", "NaN")
TEXTS = ("", "mean", "no such word")
SIZES = (0, 1, 3, -1, 1 << 20, 1 << 33, 1 << 58, 1 << 62)
DTYPES = (0, 1, 5, 6, 7, 10, 12, 13, 99, -1)  # numbers of torch._export.serde; some are undefined
TENSOR_LISTS = ("as_tensors", "as_optional_tensors", "as_nested_tensors")
REMOVED = object()


@dataclass(frozen=True)
class Change:
    """Replaces the part at `path` with `value`."""
    path: tuple
    value: object

    def __str__(self) -> str:
        value = "removed" if self.value is REMOVED else json.dumps(self.value)
        return f"{'.'.join(str(key) for key in self.path)} = {value[:80]}"


def graphs(part, path=()) -> Iterator[tuple[tuple, dict]]:
    """Yields each graph, nested ones included, with its path in the document."""
    if isinstance(part, dict):
        if "nodes" in part and "tensor_values" in part:
            yield path, part
        for key, value in part.items():
            yield from graphs(value, (*path, key))
    elif isinstance(part, list):
        for index, value in enumerate(part):
            yield from graphs(value, (*path, index))


def list_changes(path: tuple, values: list) -> Iterator[Change]:
    """Yields changes of the length; an empty list becomes 1, 2 or 9 ones (no operator accepts 9)."""
    if values:
        for other in ([], values[:-1], values[:1], [*values, values[-1]], values + values, values[:1] * 9):
            if other != values:
                yield Change(path, other)
    else:
        for length in (1, 2, 9):
            yield Change(path, [1] * length)


def value_changes(part, path: tuple, key: str = "") -> Iterator[Change]:
    """Yields changes of the numbers, words and lengths within one argument; `graphs` visits nested graphs."""
    if key == "as_graph":
        return
    if isinstance(part, bool):
        yield Change(path, not part)
    elif isinstance(part, int):
        yield from (Change(path, number) for number in NUMBERS if number != part)
    elif isinstance(part, float) or key == "as_float":
        yield from (Change(path, number) for number in FRACTIONS if number != part)
    elif isinstance(part, str) and key in ("as_string", "as_strings"):
        yield from (Change(path, text) for text in TEXTS if text != part)
    elif isinstance(part, list):
        yield from list_changes(path, part)
        for index, value in enumerate(part):
            yield from value_changes(value, (*path, index), key)
    elif isinstance(part, dict):
        for inner, value in part.items():
            yield from value_changes(value, (*path, inner), inner)


def other_kinds(argument: dict, tensor: str) -> Iterator[dict]:
    """Yields arguments of all other kinds."""
    named = {"name": tensor}
    samples = {"as_none": True, "as_int": 3, "as_float": 0.5, "as_bool": True, "as_string": "mean",
               "as_scalar_type": 7, "as_ints": [1, 2], "as_floats": [0.5], "as_bools": [True, False],
               "as_tensor": named, "as_tensors": [named],
               "as_optional_tensors": [{"as_none": True}, {"as_tensor": named}],
               "as_complex": {"real": 1.0, "imag": 2.0}, "as_sym_int": {"as_int": 2}, "as_sym_ints": [{"as_int": 2}]}
    yield from ({kind: value} for kind, value in samples.items() if kind not in argument)
    if argument.get("as_tensor", named) != named:
        yield {"as_tensor": named}
    for kind in set(TENSOR_LISTS) & set(argument):
        yield {kind: [{"as_none": True}] if kind == "as_optional_tensors" else []}


def node_changes(path: tuple, graph: dict) -> Iterator[Change]:
    """Yields changes of the arguments and results of the graph's nodes."""
    tensors = list(graph["tensor_values"]) or ["x"]
    for at, node in enumerate(graph["nodes"]):
        node_path = (*path, "nodes", at)
        for index, argument in enumerate(node["inputs"]):
            argument_path = (*node_path, "inputs", index, "arg")
            yield from value_changes(argument["arg"], argument_path)
            yield from (Change(argument_path, other) for tensor in {tensors[0], tensors[-1]}
                        for other in other_kinds(argument["arg"], tensor))
            yield Change((*node_path, "inputs", index), REMOVED)
        yield from list_changes((*node_path, "outputs"), node["outputs"])
        for index, result in enumerate(node["outputs"]):
            yield Change((*node_path, "outputs", index), {"as_none": True})
            yield from value_changes(result, (*node_path, "outputs", index))


def tensor_changes(path: tuple, graph: dict) -> Iterator[Change]:
    """Yields changes of the sizes, ranks and dtypes of the graph's tensors."""
    for name, tensor in graph["tensor_values"].items():
        tensor_path, sizes = (*path, "tensor_values", name), tensor["sizes"]
        for axis, size in enumerate(sizes):
            yield from (Change((*tensor_path, "sizes", axis), {"as_int": other}) for other in SIZES
                        if size != {"as_int": other})
        ranks = [sizes[:-1], sizes[1:], [*sizes, {"as_int": 1}], [{"as_int": 7}, *sizes], [], [{"as_int": 2}] * 9]
        for other in ranks:
            if other != sizes:
                yield Change(tensor_path, tensor | {"sizes": other, "strides": [{"as_int": 1}] * len(other)})
        yield from (Change((*tensor_path, "dtype"), dtype) for dtype in DTYPES if dtype != tensor["dtype"])


def changes(document: dict) -> list[Change]:
    collected = []
    for path, graph in graphs(document):
        collected += [*node_changes(path, graph), *tensor_changes(path, graph)]
    for symbol, bounds in document["range_constraints"].items():
        collected += value_changes(bounds, ("range_constraints", symbol))
    return collected


@contextlib.contextmanager
def applied(change: Change, document: dict) -> Iterator[None]:
    """Changes the document within the context and restores it afterwards."""
    part, key = document, change.path[-1]
    for step in change.path[:-1]:
        part = part[step]
    before = part[key]
    if change.value is REMOVED:
        del part[key]
    else:
        part[key] = change.value
    yield
    if change.value is REMOVED:
        part.insert(key, before)
    else:
        part[key] = before


def archive_of(case: Case) -> zipfile.ZipFile | None:
    """Exports the row with torch.export; returns None if PyTorch cannot export it."""
    content = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.save(case.exported_program(), content)
    except Exception:  # noqa: BLE001, PyTorch may raise any exception
        return None
    return zipfile.ZipFile(content)


class Sweep:
    """Runs the command on changed archives, stored in /dev/shm if it exists, and collects the outcomes.

    seconds, memory  limits of one run; memory in bytes
    keep             folder for the archives of findings
    """

    def __init__(self, seconds: float = 10, memory: int = 1 << 30, keep: Path | None = None):
        self.server, self.seconds, self.keep = CommandServer(command.SERVER, WITHOUT_LIBTORCH), seconds, keep
        resource.prlimit(self.server.process.pid, resource.RLIMIT_DATA, (memory, memory))  # inherited by child processes
        self.counts, self.findings = collections.Counter(), []

    def run(self, archive: zipfile.ZipFile, name: str, count: int | None, rng: random.Random) -> None:
        """Tries all changes of an archive, or a sample of `count`."""
        members = {name: archive.read(name) for name in archive.namelist() if "sample_inputs" not in name}
        program = next(name for name in members if name.endswith(PROGRAM))
        document = json.loads(members.pop(program))
        sample = changes(document)
        if count is not None and count < len(sample):
            sample = rng.sample(sample, count)
        in_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        with tempfile.TemporaryDirectory(dir=in_memory) as folder:
            path = Path(folder) / "changed.pt2"
            for change in sample:
                with applied(change, document), zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as copy:
                    copy.writestr(program, json.dumps(document))
                    for member, content in members.items():
                        copy.writestr(member, content)
                self.judge(path, f"{name}: {change}")

    def judge(self, path: Path, description: str) -> None:
        result, stderr = outcome(self.server, path, path.parent, self.seconds)
        if not result.startswith(("FINDING", "ok")) and "try:" not in stderr:
            result = f"FINDING {result} without a remedy"
        self.counts[result] += 1
        if result.startswith("FINDING"):
            self.findings.append(f"{description}: {result} {' '.join(stderr.split())[:300]}")
            print(self.findings[-1], flush=True)
            if self.keep:
                self.keep.mkdir(parents=True, exist_ok=True)
                (self.keep / f"{len(self.findings)}.pt2").write_bytes(path.read_bytes())
        (path.parent / "out.onnx").unlink(missing_ok=True)


def sweep_family(family: str, sweep: Sweep, count: int | None, seed: int) -> int:
    """Sweeps the rows of a family that PyTorch exports; returns their number."""
    exported = 0
    for number, case in enumerate(FAMILIES[family]):
        if archive := archive_of(case):
            sweep.run(archive, f"{family} {number} {case}", count, random.Random(f"{seed} {family} {number}"))
            exported += 1
    return exported


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--family", action="append", choices=FAMILIES, help="a table of tests/ops/cases")
    arguments.add_argument("--count", type=int, help="number of changes tried per row")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--seconds", type=float, default=10, help="time limit of one run")
    arguments.add_argument("--memory", type=int, default=1, help="memory limit of one run in GiB")
    arguments.add_argument("--keep", type=Path, help="folder for the archives of findings")
    options = arguments.parse_args()
    sweep = Sweep(options.seconds, options.memory << 30, options.keep)
    for family in options.family or FAMILIES:
        rows = sweep_family(family, sweep, options.count, options.seed)
        print(f"{family}: {rows} rows; {sweep.counts.total()} archives so far", file=sys.stderr, flush=True)
    print(*(f"{count:6} {name}" for name, count in sweep.counts.most_common()), sep="\n")
    return int(bool(sweep.findings))


if __name__ == "__main__":
    sys.exit(main())
