"""The transformations of exported files: one row each, in the order of the report.

`base` is the row's input file: the exporter's (`exported`) or another row's. A tool's file can also be annotated from
the tool's input (`whence annotate --from`).
"""

from dataclasses import dataclass
from typing import Callable

from accuracy import cut, rename
from accuracy.models import FUSION
from accuracy.tools import TOOLS


@dataclass(frozen=True)
class Transformation:
    name: str
    base: str | None = "exported"
    rename: Callable | None = None  # changes a model in place, returns {old key: new key}
    cut: Callable | None = None     # like rename, but also takes the example inputs
    tool: Callable | None = None    # (model's name, source, target)
    models: frozenset | None = None  # None for all

    def applies_to(self, model: str) -> bool:
        return self.models is None or model in self.models


def of_tool(name: str, prefix: str, base: str) -> Transformation:
    only = frozenset(FUSION) if name == "ort-fusion" else None
    return Transformation(prefix + name, base, tool=TOOLS[name], models=only)


TABLE = [
    Transformation("exported", base=None),
    Transformation("stripped", rename=rename.strip),
    Transformation("nodes-renamed", rename=rename.rename_nodes),
    Transformation("renamed", rename=rename.rename_everything),
    *(of_tool(name, "", "exported") for name in TOOLS),
    *(of_tool(name, "renamed+", "renamed") for name in TOOLS),
    of_tool("float16", "ort-extended+", "ort-extended"),
    of_tool("int8", "ort-extended+", "ort-extended"),
    of_tool("int8", "onnxslim+", "onnxslim"),
    of_tool("qdq", "ort-basic+", "ort-basic"),
    Transformation("extracted", cut=cut.extract),
    Transformation("wrapped", cut=cut.wrap),
    Transformation("renamed+extracted", base="renamed", cut=cut.extract),
    Transformation("renamed+wrapped", base="renamed", cut=cut.wrap),
]
BY_NAME = {row.name: row for row in TABLE}
