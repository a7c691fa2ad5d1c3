"""Data flow between observed values of a measurement."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from .annotated_file import File, Node
from .measurements import Measured, Measurement, is_quantising


class Flow:
    """The nodes between observed values. Later changes to the measurement do not affect the flow."""

    def __init__(self, file: File, measurement: Measurement) -> None:
        self.file = file
        self.measurement = measurement
        self.observed: dict[str, Measured] = {}
        for each in measurement.points:
            # An output of the wrong form may be the result of another module, which is right.
            if each.value is not None and (each.value not in self.observed or each.is_wrong_output):
                self.observed[each.value] = each
        self._regions: dict[str, tuple[list[Node], list[Measured]]] = {}

    def region(self, value: str) -> tuple[list[Node], list[Measured]]:
        """Returns the nodes, in the file's order, that compute ``value`` from observed values, and these values."""
        if value not in self._regions:
            self._regions[value] = self._find_region(value)
        return self._regions[value]

    def _find_region(self, value: str) -> tuple[list[Node], list[Measured]]:
        nodes: dict[int, Node] = {}
        reads: dict[str, Measured] = {}
        pending = [value]
        while pending:
            node = self.file.producer.get(pending.pop())
            if node is None or node.at in nodes:
                continue
            nodes[node.at] = node
            for name in node.inputs:
                if name in self.observed and name != value:
                    reads[name] = self.observed[name]  # may be a constant
            pending += (name for name in self.file.data_inputs(node) if name not in self.observed or name == value)
        return [nodes[at] for at in sorted(nodes)], list(reads.values())

    def inherited_error(self, value: str) -> float:
        """Returns the largest relative difference of the observed values from which ``value`` is computed."""
        return max((each.figures.relative for each in self.region(value)[1]), default=0.0)

    def largest_earlier_error(self, value: str) -> float:
        """Returns the largest relative difference of all observed values on which ``value`` depends."""
        return self._largest_earlier[value]

    @cached_property
    def _largest_earlier(self) -> dict[str, float]:
        largest: dict[str, float] = {}
        for name in self.observed:  # in the file's order, so earlier values are complete
            largest[name] = max((max(each.figures.relative, largest.get(each.value, 0.0))
                                 for each in self.region(name)[1]), default=0.0)
        return largest

    def is_quantised(self, value: str) -> bool:
        """Returns true if nodes in the value's region quantise or read quantised weights."""
        return self.quantise(self.region(value)[0])

    def quantise(self, nodes: Iterable[Node]) -> bool:
        return any(is_quantising(node.op_type) or any(name in self._low_bits for name in node.inputs) for node in nodes)

    @cached_property
    def _low_bits(self) -> set[str]:
        """Returns the constants that are computed from quantised constants."""
        found: set[str] = set()
        for node in self.file.nodes:
            if is_quantising(node.op_type) or any(name in found for name in node.inputs):
                found.update(name for name in node.outputs if name in self.file.constants)
        return found

    def has_weights(self, nodes: Iterable[Node]) -> bool:
        """Returns true if the nodes read constants with several elements, or computed from such constants."""
        return any(name in self._weights for node in nodes for name in node.inputs)

    @cached_property
    def _weights(self) -> set[str]:
        found = {name for name, count in self.file.elements.items() if count > 1}
        for node in self.file.nodes:
            if any(name in found for name in node.inputs):
                found.update(name for name in node.outputs if name in self.file.constants)
        return found

    def next_observed(self, value: str) -> tuple[list[Measured], bool]:
        """Returns the next observed values computed from this value, and true if an output of the file is reached
        before them."""
        visited: set[int] = set()
        observed: dict[str, Measured] = {}
        reaches_output = value in self.file.outputs
        pending = [value]
        while pending:
            for node in self.file.readers.get(pending.pop(), ()):
                if node.at in visited:
                    continue
                visited.add(node.at)
                for name in node.outputs:
                    if name in self.observed and name != value:
                        observed[name] = self.observed[name]
                    elif name not in self.file.sizes:
                        reaches_output = reaches_output or name in self.file.outputs
                        pending.append(name)
        return list(observed.values()), reaches_output

    def first_observed(self, nodes: Iterable[Node]) -> Measured | None:
        """Returns the first observed value computed from these nodes' results."""
        later = [each for node in nodes for name in node.outputs if name
                 for each in ([self.observed[name]] if name in self.observed else self.next_observed(name)[0])]
        return min(later, key=lambda each: self.file.position(each.value), default=None)
