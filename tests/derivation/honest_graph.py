"""A file that is to be changed: its tensors with the verdict `exact`, and the rows that a statement has after the change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

ROUNDED_STEPS = ('"step": "fold"', '"computed_from"')
READERS = 4  # nodes after a changed tensor that may be named instead of it


@dataclass(frozen=True)
class Change:
    """The tensors, nodes and parameters of which one must be named, and the modules that they belong to."""

    text: str
    names: frozenset[str]
    modules: frozenset[str]


@dataclass
class Honest:
    """A file that is to be changed, with the statement about it."""

    model: onnx.ModelProto
    predicate: dict
    random: np.random.Generator
    rows: dict[str, dict] = field(init=False)
    tensors: dict[str, onnx.TensorProto] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = {row["name"]: row for row in self.predicate["tensors"]}
        self.tensors = {each.name: each for each in self.model.graph.initializer
                        if self.rows.get(each.name, {}).get("verdict") == "exact"}

    def numbers(self, name: str) -> np.ndarray:
        return numpy_helper.to_array(self.tensors[name]).copy()

    def certain(self) -> set[str]:
        """Returns the tensors that follow from parameters without rounded arithmetic: others may be off by some ulps."""
        texts = {name: json.dumps(self.rows[name]["derivation"]) for name in self.tensors}
        return {name for name, text in texts.items() if not any(step in text for step in ROUNDED_STEPS)}

    def choose(self, dtypes: tuple, condition: Callable[[np.ndarray], bool] = lambda numbers: True,
               names: set[str] | None = None) -> str | None:
        """Returns one of the exact tensors with such numbers."""
        kinds = {helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in dtypes}
        chosen = [name for name, tensor in self.tensors.items() if tensor.data_type in kinds
                  and (names is None or name in names) and condition(numpy_helper.to_array(tensor))]
        return str(self.random.choice(sorted(chosen))) if chosen else None

    def put(self, name: str, numbers: np.ndarray, text: str) -> Change:
        self.tensors[name].CopyFrom(numpy_helper.from_array(numbers, name))
        return self.change(name, text=text)

    def change(self, *names: str, text: str) -> Change:
        modules = {module for name in names for module in self.rows[name]["modules"]}
        parameters = {each for name in names for each in _parameters(self.rows[name]["derivation"])}
        beside = {other for node in self.model.graph.node if set(names) & set(node.input) for other in node.input}
        return Change(f"{text} {', '.join(names)}", frozenset(names) | self.readers(set(names)) | parameters | beside,
                      frozenset(modules))

    def readers(self, values: set[str]) -> frozenset[str]:
        """Returns the next nodes that read one of these values, directly or through other nodes."""
        found: set[str] = set()
        for _ in range(READERS):
            nodes = [node for node in self.model.graph.node if values & set(node.input)]
            found |= {node.name for node in nodes}
            values = values | {output for node in nodes for output in node.output}
        return frozenset(found)

    def read_by(self, operators: dict[str, int]) -> set[str]:
        """Returns the values that these operators read as this input."""
        return {node.input[operators[node.op_type]] for node in self.model.graph.node
                if node.op_type in operators and len(node.input) > operators[node.op_type]}


def _parameters(derivation: dict) -> set[str]:
    """Returns the parameters that a tensor was made from."""
    own = {derivation["name"]} if derivation["step"] == "parameter" else set()
    return own.union(*(_parameters(each) for each in derivation.get("inputs", [])))
