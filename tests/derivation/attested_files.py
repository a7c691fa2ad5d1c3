"""Attests the files of the corpus, and counts the tensors, bytes and nodes that whence accounts for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import command
import corpus_files
from corpus_files import File

UNACCOUNTED = "unaccounted"


@dataclass(frozen=True)
class Counts:
    """Of files of honest tools, in which everything should be accounted for."""

    files: int = 0
    without_alarm: int = 0
    tensors: int = 0
    unaccounted_tensors: int = 0
    bytes: int = 0
    unaccounted_bytes: int = 0
    nodes: int = 0
    unaccounted_nodes: int = 0
    not_written: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Attested:
    file: File
    counts: Counts = field(default_factory=Counts)
    alarms: tuple[str, ...] = ()   # a line for each unaccounted tensor and node, or the error of the command
    failure: str = ""              # why the tool wrote no file


def attest(file: File) -> Attested:
    """Attests a file with the checkpoint and the recorded program of its model."""
    if not file.path.exists():
        return Attested(file, Counts(not_written=1), failure=file.failure)
    if not file.sidecar.exists():
        return Attested(file, Counts(files=1), alarms=("the model was not recorded",))
    result = command.run_process(arguments(file), {**command.os.environ})
    if result.returncode not in (0, 1):
        return Attested(file, Counts(files=1), alarms=(f"exit {result.returncode}: {result.stderr.strip()}",))
    return _counted(file, json.loads(result.stdout)["predicate"], result.returncode)


def arguments(file: File) -> list[str]:
    return ["attest", str(file.path), "--weights", str(file.weights), "--sidecar", str(file.sidecar), "--json"]


def findings(predicate: dict) -> list[dict]:
    """Returns the tensors and nodes that are unaccounted, and the absent parameters that have an effect."""
    absent = [{**each, "modules": [each["name"].rpartition(".")[0]]} for each in predicate["absent"]
              if each.get("has_effect")]
    return [each for each in [*predicate["tensors"], *predicate["nodes"]] if each["verdict"] == UNACCOUNTED] + absent


def _counted(file: File, predicate: dict, code: int) -> Attested:
    found = findings(predicate)
    tensors, nodes = ([each for each in predicate[kind] if each["verdict"] == UNACCOUNTED] for kind in ("tensors", "nodes"))
    counts = Counts(files=1, without_alarm=code == 0, tensors=len(predicate["tensors"]), unaccounted_tensors=len(tensors),
                    bytes=sum(each["bytes"] for each in predicate["tensors"]),
                    unaccounted_bytes=sum(each["bytes"] for each in tensors),
                    nodes=len(predicate["nodes"]), unaccounted_nodes=len(nodes))
    lines = [_line(each) for each in found] or ["exit 1, and nothing is named"] * code
    return Attested(file, counts, tuple(lines))


def _line(row: dict) -> str:
    modules = ", ".join(row["modules"])
    if "op_type" in row:
        return f"node {row['name']} {row['op_type']} {modules}"
    kind = "tensor" if "verdict" in row else "absent parameter"
    return f"{kind} {row['name']} {row['dtype']} {row['dims']} {modules}: {row.get('remark', '')}"


def table(results: list[Attested], group: Callable[[str], str]) -> str:
    """Returns the counts by group of tools."""
    by_group: dict[str, Counts] = {}
    for each in results:
        by_group[group(each.file.tool)] = by_group.get(group(each.file.tool), Counts()) + each.counts
    total = sum(by_group.values(), Counts())
    lines = [f"{total.files} files of {len({each.file.model for each in results})} models:", "",
             "| last tool | files | without alarm | tensors accounted for | bytes | nodes | not written |",
             "|---|--:|--:|--:|--:|--:|--:|"]
    lines += [_row(name, counts) for name, counts in by_group.items()]
    return "\n".join([*lines, _row("all", total)]) + "\n"


def _row(tool: str, counts: Counts) -> str:
    return (f"| {tool} | {counts.files} | {counts.without_alarm} | {_share(counts.tensors, counts.unaccounted_tensors)} | "
            f"{_share(counts.bytes, counts.unaccounted_bytes)} | {_share(counts.nodes, counts.unaccounted_nodes)} | "
            f"{counts.not_written} |")


def _share(total: int, missing: int) -> str:
    """Returns a percentage that is 100 only if nothing is missing."""
    share = 100 * (total - missing) / total if total else 100.0
    return "100 %" if not missing else f"{min(share, 99.99):.2f} %"


def details(results: Iterable[Attested]) -> list[str]:
    """Returns a line for each alarm and each file that a tool did not write."""
    lines = []
    for each in results:
        lines += [f"alarm: {each.file.name}: {line}" for line in each.alarms]
        if each.failure and each.failure != f"RuntimeError: {corpus_files.BASE_FAILED}":
            lines.append(f"not written: {each.file.name}: {each.failure[:150]}")
    return lines


def has_failed(results: Iterable[Attested]) -> bool:
    return any(each.alarms for each in results)
