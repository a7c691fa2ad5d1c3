"""Points: recorded tensors, each with the file's values that may correspond to it.

A sidecar states which operation computed a module's result, and the file states that operation's node. Without a
sidecar, candidates are all values that nodes of the module compute and other nodes read. ``measurements`` chooses the
candidate with the nearest numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..values.value_file import ModuleCall, Recorded, Run
from .annotated_file import File, Node
from .quantised_values import is_qlinear
from .recorded_program import RecordedProgram, Result

_MAX_CANDIDATES = 8  # for each point
_MAX_UNKNOWN = 256
_QUANTISE_OPS = {"QuantizeLinear", "DequantizeLinear"}  # operators that tools add around a quantised node


@dataclass
class Point:
    """A recorded tensor: a result of calls, or an argument that no call returned."""

    recorded: Recorded
    returned_by: list[int] = field(default_factory=list)       # indices of calls, innermost first
    passed_to: list[int] = field(default_factory=list)
    operation_values: list[str] = field(default_factory=list)  # candidates by operation
    module_values: list[str] = field(default_factory=list)     # candidates by module
    fused_node: Node | None = None                             # the fused node that computes it internally
    partial_values: set[str] = field(default_factory=set)      # read only by nodes of the same operation, which may
    # complete it: a fused node may add the bias

    @property
    def candidates(self) -> list[str]:
        return list(dict.fromkeys((*self.operation_values, *self.module_values)))

    @property
    def source_call(self) -> int | None:
        """Returns the index of the innermost call that returned it."""
        return self.returned_by[0] if self.returned_by else None


class Calls:
    """The calls of a run, and the calls to which each node of a file belongs."""

    def __init__(self, file: File, run: Run) -> None:
        self.run = run
        self._numbers = {(each.module, each.call): at for at, each in enumerate(run.calls)}
        self._counts: dict[str, int] = {}
        for call in run.calls:
            self._counts[call.module] = self._counts.get(call.module, 0) + 1
        self.enclosing: list[frozenset[int]] = [frozenset(self._with_parents(at)) for at in range(len(run.calls))]
        self.calls_of_node: list[tuple[int, ...]] = [self._of(node) for node in file.nodes]
        self._nodes: dict[int, list[Node]] = {}
        for node in file.nodes:
            for at in frozenset().union(*(self.enclosing[each] for each in self.calls_of_node[node.at])):
                self._nodes.setdefault(at, []).append(node)
        self._has_other_modules = any(module for node in file.nodes for module in node.modules)

    def _with_parents(self, at: int | None) -> Iterator[int]:
        while at is not None:
            yield at
            at = self.run.calls[at].parent

    def index_of(self, module: str, call: int) -> int | None:
        """Returns the index of the call, or of the enclosing call if the module is never called, such as a list."""
        while True:
            if (module, call) in self._numbers:
                return self._numbers[module, call]
            if self._counts.get(module) == 1:
                return self._numbers[module, 0]
            if module in self._counts or not module:
                return None  # ambiguous: one of several calls
            module, _, _ = module.rpartition(".")

    def _of(self, node: Node) -> tuple[int, ...]:
        numbers = (self.index_of(module, node.call) for module in node.modules)
        return tuple(dict.fromkeys(at for at in numbers if at is not None))

    def belongs_to_another_model(self) -> bool:
        """Returns true if no node belongs to a recorded module, apart from the root, which every model has."""
        modules = {self.run.calls[at].module for calls in self.calls_of_node for at in calls}
        return not modules or modules == {""} and len(self._counts) > 1 and self._has_other_modules

    def within(self, node: Node, call: int) -> bool:
        """Returns true if the node belongs only to this call and calls inside it."""
        calls = self.calls_of_node[node.at]
        return bool(calls) and all(call in self.enclosing[at] for at in calls)

    def nodes_of(self, call: int) -> Sequence[Node]:
        """Returns the nodes that belong to this call or calls inside it, and maybe to others, in the file's order."""
        return self._nodes.get(call, ())

    def touches(self, node: Node, call: int) -> bool:
        return any(call in self.enclosing[at] for at in self.calls_of_node[node.at])


def find(file: File, calls: Calls, program: RecordedProgram | None) -> list[Point]:
    """Returns the points in the order in which their calls ended, without inputs of the model."""
    inputs = {each.key for each in calls.run.inputs.values()}
    points: dict[str, Point] = {}
    for at, call in enumerate(calls.run.calls):
        for recorded in call.given:
            if recorded.key not in inputs:
                points.setdefault(recorded.key, Point(recorded)).passed_to.append(at)
        for recorded in call.results:
            if recorded.key not in inputs:
                points.setdefault(recorded.key, Point(recorded)).returned_by.append(at)
    by_operation = nodes_by_operation(file)
    for point in points.values():
        for at in point.returned_by:
            if program is not None and not point.operation_values and point.fused_node is None:
                _add_operation_values(point, file, program, by_operation, calls.run.calls[at])
            point.module_values += _values_from(file, calls, at)
        if not point.returned_by:
            # PyTorch's metadata may be wrong at the start of a module: a node merged from two Transposes has the
            # metadata of only one.
            for at in () if file.has_exporter_origins else point.passed_to:
                point.module_values += _inputs_of(file, calls, at)
        elif not point.candidates and point.fused_node is None:
            point.module_values += _constants_of_parent(file, calls, point)
        point.module_values = list(dict.fromkeys(point.module_values))[-_MAX_CANDIDATES:]
        if point.returned_by and not point.candidates:
            point.module_values = _values_of_unknown_nodes(file, calls, point)
    return list(points.values())


def nodes_by_operation(file: File) -> dict[int, list[Node]]:
    nodes: dict[int, list[Node]] = {}
    for node in file.nodes:
        for operation in node.operations:
            nodes.setdefault(operation, []).append(node)
    return nodes


def _add_operation_values(point: Point, file: File, program: RecordedProgram, by_operation: dict[int, list[Node]],
                          call: ModuleCall) -> None:
    result = program_result(point.recorded, call, program.results.get((call.module, call.call), []))
    if result is None:
        return
    nodes = by_operation.get(result.operation, [])
    point.operation_values += values_of(file, nodes, result.operation, result.output)
    point.partial_values |= {name for name in point.operation_values if not _is_read_elsewhere(file, name, nodes)}
    if nodes and all(node.operations[-1] != result.operation for node in nodes):
        point.fused_node = nodes[-1]


def values_of(file: File, nodes: Sequence[Node], operation: int, output: int) -> list[str]:
    """Returns the values that ``nodes``, the operation's nodes, compute for one of its outputs. Leaves out inputs that
    a tool quantised for the operation, although their nodes also belong to it."""
    ends = [node for node in nodes if node.operations[-1] == operation and not _quantises_input(file, node, nodes)]
    results = (node.outputs[output:output + 1] if len(node.outputs) > 1 else node.outputs for node in ends)
    return [name for names in results for name in names if name and _is_read_elsewhere(file, name, ends)
            and not _is_without_bias(file, name)]


def _quantises_input(file: File, node: Node, nodes: Sequence[Node]) -> bool:
    """Returns true if the node quantises or dequantises an input of another node in ``nodes``."""
    consumers = {each.at for each in nodes if each.op_type not in _QUANTISE_OPS}
    return node.op_type in _QUANTISE_OPS and any(reader.at in consumers for name in node.outputs
                                                 for reader in file.readers.get(name, ()))


def _is_without_bias(file: File, value: str) -> bool:
    """Returns true if a node of unknown operation reads the value of a QLinear operator: quantisers leave out the metadata of
    the node that adds a bias."""
    node = file.producer.get(value)
    return node is not None and is_qlinear(node.op_type) and any(
        is_qlinear(reader.op_type) and not reader.operations for reader in file.readers.get(value, ()))


def program_result(recorded: Recorded, call: ModuleCall, results: list[Result]) -> Result | None:
    """Finds the operation result that was recorded. Distinguishes several results of a call by their sizes."""
    if len(results) == 1 and len(call.results) == 1:
        return results[0]
    matches = [result for result in results if result.dims is not None and len(result.dims) == len(recorded.dims)
             and all(size in (-1, recorded_size) for size, recorded_size in zip(result.dims, recorded.dims))]
    return matches[0] if len(matches) == 1 else None


def _is_read_elsewhere(file: File, value: str, nodes: Iterable[Node]) -> bool:
    indices = {node.at for node in nodes}
    return value in file.outputs or any(node.at not in indices for node in file.readers.get(value, ()))


def _values_from(file: File, calls: Calls, call: int) -> list[str]:
    """Returns values that nodes of the call compute and other nodes read, sorted so that values computed only by the
    call are last."""
    exclusive, shared = [], []
    for node in calls.nodes_of(call):
        for name in node.outputs:
            if name and name not in file.constants and (name in file.outputs or any(
                    not calls.within(reader, call) for reader in file.readers.get(name, ()))):
                (exclusive if calls.within(node, call) else shared).append(name)
    return shared + exclusive


def _constants_of_parent(file: File, calls: Calls, point: Point) -> list[str]:
    """Returns the enclosing call's constants if the export folded the module into a constant."""
    enclosing = calls.run.calls[point.returned_by[-1]].parent
    if enclosing is None or any(calls.nodes_of(at) for at in point.returned_by):
        return []
    names = (name for node in calls.nodes_of(enclosing) if not set(node.outputs) <= file.constants
            for name in node.inputs if name in file.constants)
    return [name for name in dict.fromkeys(names) if file.elements.get(name) == point.recorded.count]


def _values_of_unknown_nodes(file: File, calls: Calls, point: Point) -> list[str]:
    """Returns the values of nodes that may belong to the call, because it is inside of theirs. Only equal numbers prove
    it."""
    around = [calls.enclosing[at] for at in point.returned_by]
    return [name for at in sorted(file.unknown) if any(set(calls.calls_of_node[at]) & each for each in around)
            for name in file.nodes[at].outputs if name][:_MAX_UNKNOWN]


def _inputs_of(file: File, calls: Calls, call: int) -> list[str]:
    """Returns values that nodes of the call read and other nodes compute."""
    return list(dict.fromkeys(
        name for node in calls.nodes_of(call) if calls.within(node, call) for name in file.data_inputs(node)
        if name in file.producer and not calls.within(file.producer[name], call)))
