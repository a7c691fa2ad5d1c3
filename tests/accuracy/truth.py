"""The truth of a corpus file: the module calls that each node represents, or why they are unknown.

    {"nodes": {key: [[module, call], ...]}, "unknown": {key: reason}}

A call is -1 if it is unknown. The answer expected from whence follows from the truth: the set of modules, and their
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
        partial = path.with_suffix(".part")  # an interrupted run leaves no partial truth
        partial.write_text(json.dumps({"nodes": nodes, "unknown": self.unknown}, indent=0) + "\n")
        partial.rename(path)

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
    """Returns the lowest module that contains all of them; compares complete path segments."""
    split = [path.split(".") if path else [] for path in paths]
    common = []
    for segments in zip(*split):
        if len(set(segments)) > 1:
            break
        common.append(segments[0])
    return ".".join(common)


def is_ancestor(ancestor: str, path: str) -> bool:
    return ancestor != path and (ancestor == "" or path.startswith(ancestor + "."))
