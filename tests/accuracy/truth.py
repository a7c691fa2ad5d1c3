"""The truth of a corpus file: for each node the module calls that it represents, or why they are unknown.

    {"nodes": {key: [[module, call], ...]}, "unknown": {key: reason}}

A call is -1 if it is unknown. The expected answer of whence is derived from the truth: the set of modules, and their
lowest common ancestor.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

Call = tuple[str, int]


@dataclass
class Truth:
    nodes: dict[str, frozenset[Call]] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        nodes = {key: sorted(calls) for key, calls in self.nodes.items()}
        written = path.with_suffix(".part")  # an interrupted run leaves no partial truth
        written.write_text(json.dumps({"nodes": nodes, "unknown": self.unknown}, indent=0) + "\n")
        written.rename(path)

    @staticmethod
    def load(path: Path) -> "Truth":
        raw = json.loads(path.read_text())
        return Truth({key: frozenset((module, call) for module, call in calls) for key, calls in raw["nodes"].items()},
                     raw["unknown"])

    def renamed(self, names: dict[str, str]) -> "Truth":
        """Returns the truth of a file with other keys; nodes without a new key are dropped."""
        return Truth({names[key]: calls for key, calls in self.nodes.items() if key in names},
                     {names[key]: reason for key, reason in self.unknown.items() if key in names})


def modules(calls: frozenset[Call]) -> frozenset[str]:
    return frozenset(module for module, _ in calls)


def common_ancestor(paths) -> str:
    """Returns the lowest module that contains all of them, compared by whole segments."""
    split = [path.split(".") if path else [] for path in paths]
    common = []
    for segments in zip(*split):
        if len(set(segments)) > 1:
            break
        common.append(segments[0])
    return ".".join(common)


def is_ancestor(above: str, path: str) -> bool:
    return above != path and (above == "" or path.startswith(above + "."))
