"""Assembles the report from the measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ..values.value_file import Values
from .annotated_file import File, Node
from .failing_nodes import Failure
from .first_differences import Beginning, CONVERTING, Limits, REARRANGING, beginning_at
from .measurements import Measured, Measurement
from .merged_operations import main_operation, merged_operation, nodes_before_merged
from .isolated_modules import IsolatedErrors
from .recorded_program import RecordedProgram
from .report import AccuracyReport, FirstDifference, ModuleAccuracy
from .reproduction import Piece
from .runtimes import Runtime
from .source_lines import Stack, read_traceback
from .tensor_differences import range_of, wrong_sizes
from .value_flow import Flow
from .value_proofs import Contradiction, Evidence


_MAX_BARE = 0.02  # share of nodes without a module above which a note says so


@dataclass(frozen=True)
class Part:
    """The measurement of one run, with the places where differences begin."""

    flow: Flow
    limits: Limits
    limit_reason: str
    beginnings: list[Beginning]
    isolated_errors: IsolatedErrors
    evidence: Evidence
    contradictions: list[Contradiction]
    recorded: Values
    program: RecordedProgram | None = None
    operation: Beginning | None = None  # the operation at which ``first`` begins; None: unknown
    failure: Failure | None = None      # the node that does not run; the part ends before it

    @property
    def measurement(self) -> Measurement:
        return self.flow.measurement

    @cached_property
    def first(self) -> Beginning | None:
        """Returns the first difference that lasts, or else the first that involves weights: later values may show no
        effect of an error, for instance of an attention query."""
        return next(iter(self._without_minor([each for each in self.beginnings if each.lasts]) or
                         self._without_minor([each for each in self.beginnings if each.is_from_weights])), None)

    def status(self, measured: Measured) -> str:
        """Returns the status of an observable value, consistent with the report's verdict."""
        if not self.limits.above(self.flow, measured):
            return "equal"
        if self.first is None:
            return "passing" if self.beginnings else "adds up"
        return "passing" if measured.value in self._passing_values else "differs"

    @cached_property
    def _passing_values(self) -> set[str]:
        return {each.measured.value for each in self.beginnings if not each.lasts and each is not self.first}

    def _without_minor(self, beginnings: list[Beginning]) -> list[Beginning]:
        """In quantised files, drops differences just above the limit if another is far above it, because modules round
        differently."""
        if self.limits.unquantised == self.limits.general or self.limit_reason == "as given":
            return beginnings
        largest = max((each.measured.figures.relative for each in beginnings), default=0.0)
        return [each for each in beginnings
                if each.measured.figures.relative > min(2 * self.limits.general, largest / 3)]


def worst_of(parts: list[Part]) -> Part:
    """Returns the run with the largest difference."""
    return max(parts, key=lambda part: (part.first is not None or part.failure is not None, _largest_error(part.measurement)))


def piece_of(part: Part) -> Piece | None:
    """Returns the nodes at which the first difference begins; None if nothing differs."""
    if part.first is None and part.failure is not None:
        wrong = next(_inputs_of_wrong_sizes(part, part.failure), None)
        if wrong is None:
            node = part.failure.node
            return Piece([node], next(name for name in node.outputs if name), None)
        return _piece_at(part, wrong)
    first = part.operation or part.first
    return None if first is None else _piece_at(part, first)


def _piece_at(part: Part, first: Beginning) -> Piece:
    nodes = first.nodes
    if part.program is not None:
        before = nodes_before_merged(part.flow.file, nodes, part.program)
        nodes = sorted([*nodes, *before], key=lambda node: node.at)
    observed = {**part.flow.observed, **{each.value: each for each in first.reads}}
    return Piece(nodes, first.measured.value, first.measured.point.recorded,
                 {name: each for name, each in observed.items() if each.differs(part.limits.general)})


def report_of(file: File, parts: list[Part], recorded: Values, runtime: Runtime) -> AccuracyReport:
    part = worst_of(parts)
    failure = part.failure
    first_differences = {id(each): first_difference(part, each) for each in part.beginnings}
    beginnings, first = tuple(first_differences.values()), first_differences.get(id(part.first))
    if failure is not None:
        failed = [*(first_difference(part, each) for each in _inputs_of_wrong_sizes(part, failure)),
                  _failed(part, failure)]
        beginnings, first = (*beginnings, *failed), first or failed[0]
    return AccuracyReport(Path(file.path), runtime.settings, part.limits.general, part.limit_reason,
                          modules_of(part), first, beginnings, tuple(part.contradictions),
                          (*file.notes, *_notes(file, part, parts.index(part), len(recorded.runs), not runtime.rounds)))


def _largest_error(measurement: Measurement) -> float:
    return max((each.figures.relative for each in measurement.points if each.figures), default=0.0)


def modules_of(part: Part) -> tuple[ModuleAccuracy, ...]:
    """Returns the rows of the report, in the order in which the calls ended."""
    by_key = {each.point.recorded.key: each for each in part.measurement.points}
    rows = []
    for at, call in enumerate(part.measurement.calls.run.calls):
        results = [by_key[each.key] for each in call.results if each.key in by_key]
        if not results:
            continue  # it returned no tensor, or only inputs of the model
        observed = [each for each in results if each.value is not None]
        if not observed:
            rows.append(ModuleAccuracy(call.module, call.call, call.type, "not observable",
                                       note=_unobservable_reason(part, at, results)))
            continue
        worst = max(observed, key=lambda each: each.figures.relative)
        figures = worst.figures
        rows.append(ModuleAccuracy(
            call.module, call.call, call.type, part.status(worst), worst.value, figures.relative, figures.largest,
            figures.sqnr, figures.cosine, figures.unequal, figures.estimated, part.flow.inherited_error(worst.value),
            figures.not_finite, figures.layout,
            part.isolated_errors.relative.get((call.module, call.call)), *_source(part.flow.file, worst.value, part.program),
            part.evidence.prove(part.flow, part.limits, observed)))
    return tuple(rows)


def _source(file: File, value: str, program: RecordedProgram | None) -> tuple[str, Stack]:
    node = file.producer.get(value)
    return ("", ()) if node is None else (node.source, _stack(file, node, program))


def _stack(file: File, node: Node, program: RecordedProgram | None) -> Stack:
    """Returns the call stack of the node's first operation, from the file or else from the sidecar."""
    traceback = file.traceback(node)
    if traceback or program is None or not node.operations:
        return read_traceback(traceback)
    first = node.operations[0] if node.operations else len(program.stacks)
    return program.stacks[first] if first < len(program.stacks) else ()


def _unobservable_reason(part: Part, call: int, results: list[Measured]) -> str:
    if part.failure is not None:
        return "not observable: the file does not run that far"
    file, calls = part.flow.file, part.measurement.calls
    nodes = [each.point.fused_node for each in results if each.point.fused_node is not None]
    nodes = nodes or calls.nodes_of(call)
    if not nodes:
        return "not observable: no node in the file belongs to it"
    first_observed = part.flow.first_observed(nodes)
    where = f", first seen at {calls.run.calls[first_observed.point.source_call].name}" \
        if first_observed is not None and first_observed.point.source_call is not None else ""
    return f"not observable: {results[0].reason}{where}"


def first_difference(part: Part, beginning: Beginning) -> FirstDifference:
    calls = part.measurement.calls.run.calls
    origin = part.operation if part.operation is not None and beginning is part.first else beginning
    at = origin.enclosing if origin.enclosing is not None else beginning.measured.point.source_call
    module, call = (calls[at].module, calls[at].call) if at is not None else ("", 0)
    operation, source, stack = _operation(part.flow.file, origin.nodes, part.program)
    suspects = [calls[number].module for number in origin.calls]
    primary = _primary_call(origin.nodes)
    if primary is not None and len(set(suspects)) > 1:
        module, call = primary
    merged = _merged(part.flow, origin.nodes, part.program)
    inner = _call_inside(part, origin.nodes, operation, module)
    if merged is not None:
        (module, call), operation, source, stack = merged
        suspects.insert(0, module)
    elif inner is not None:
        module, call = inner
        suspects = [module]
    figures = beginning.measured.figures
    return FirstDifference(module, call, tuple(dict.fromkeys(suspects)),
                           operation, source, beginning.measured.value, tuple(node.title for node in origin.nodes),
                           figures.relative, figures.largest, figures.estimated,
                           part.flow.inherited_error(beginning.measured.value), beginning.lasts,
                           part.isolated_errors.relative.get((module, call)), stack,
                           figures.form, _ranges(part, origin) if figures.not_finite else "")


def _computing(nodes: list[Node]) -> list[Node]:
    """Returns the nodes without those that only rearrange or convert values."""
    return [node for node in nodes if node.op_type not in REARRANGING | CONVERTING]


def _primary_call(nodes: list[Node]) -> tuple[str, int] | None:
    """Returns the module and call of the main operation, if all computing nodes are fused around the same one."""
    computing = _computing(nodes)
    found = {(node.primary, node.call) for node in computing if len(node.modules) > 1}
    return found.pop() if len(found) == 1 and len(computing) == 1 else None


def _merged(flow: Flow, nodes: list[Node],
            program: RecordedProgram | None) -> tuple[tuple[str, int], str, str, Stack] | None:
    """Returns the module call, operator, source line and stack of the operation that a tool merged into the nodes."""
    if program is None:
        return None
    computing = _computing(nodes) or nodes
    number = merged_operation(flow.file, computing, program, not flow.quantise(nodes))
    if number is None:
        return None
    stack = program.stacks[number] if number < len(program.stacks) else ()
    return program.calls[number], program.targets[number], _line(stack), stack


def _call_inside(part: Part, nodes: list[Node], operation: str, module: str) -> tuple[str, int] | None:
    """Returns the call of the only recorded operation of this operator inside the module, if the nodes state only a module
    around their own."""
    if part.program is None or not operation or any(node.confidence != "ancestor" for node in _computing(nodes) or nodes):
        return None
    calls = [call for call, target in zip(part.program.calls, part.program.targets, strict=True) if target == operation
             and (not module or call[0] == module or call[0].startswith(module + "."))]
    return calls[0] if len(calls) == 1 else None


def _line(stack: Stack) -> str:
    """Returns the innermost source line of a stack, "block.py:17 forward"."""
    return str(stack[0]) if stack else ""


def _inputs_of_wrong_sizes(part: Part, failure: Failure) -> Iterator[Beginning]:
    """Yields the values that the failing node reads, also after it rearranged them, whose sizes are not PyTorch's. In a
    file that runs, a tool may have added or removed axes."""
    reads = [measured for name in failure.node.inputs
             for measured in ([part.flow.observed[name]] if name in part.flow.observed else part.flow.region(name)[1])]
    for measured in sorted(reads, key=lambda each: part.flow.file.position(each.value)):
        form = wrong_sizes(measured.point.recorded, measured.figures.sizes)
        if form and measured.figures.sizes:
            yield beginning_at(part.flow, replace(measured, figures=replace(measured.figures, form=form)), part.limits)


def _ranges(part: Part, beginning: Beginning) -> str:
    """Describes the recorded values, and the values that they are computed from."""
    own, before = _range(part, [beginning.measured]), _range(part, beginning.reads)
    return (own or "not finite") + (f", computed from values {before}" if before else "")


def _range(part: Part, measured: list[Measured]) -> str:
    ranges = [each for each in (range_of(part.recorded, one.point.recorded) for one in measured) if each is not None]
    return f"from {min(low for low, _ in ranges):.3g} to {max(high for _, high in ranges):.3g}" if ranges else ""


def _failed(part: Part, failure: Failure) -> FirstDifference:
    node = failure.node
    main = node
    if part.program is not None:  # of a fused node, the operation of its primary module
        of_primary = tuple(each for each in node.operations if part.program.calls[each] == (node.primary, node.call))
        main = replace(node, operations=of_primary or node.operations)
    operation, source, stack = _operation(part.flow.file, [main], part.program)
    module, call, suspects = node.primary, node.call, node.modules
    merged = _merged(part.flow, [node], part.program)
    inner = _call_inside(part, [node], operation, module)
    if merged is not None:
        (module, call), operation, source, stack = merged
        suspects = tuple(dict.fromkeys((module, *suspects)))
    elif inner is not None:
        module, call = inner
        suspects = (module,)
    return FirstDifference(module, call, suspects, operation, source, node.outputs[0], (node.title,),
                           math.inf, math.inf, False, 0.0, stack=stack, failure=failure.message)


def _operation(file: File, nodes: list[Node], program: RecordedProgram | None) -> tuple[str, str, Stack]:
    """Returns the operation of the computing nodes ("" if there are several), and the last source line with its
    stack."""
    computing = _computing(nodes) or nodes
    last = next((node for node in reversed(computing) if node.source), None)
    source, stack = ("", ()) if last is None else (last.source, _stack(file, last, program))
    if not source:
        stack = _stack(file, computing[-1], program)
        source = _line(stack)
    has_operations = any(node.operations for node in computing)
    stated = set() if has_operations else {file.exporter_operation(node) for node in computing}
    if len(stated) == 1 and "" not in stated:
        return stated.pop(), source, stack
    return "" if program is None else main_operation(computing, program), source, stack


def _notes(file: File, part: Part, number: int, runs: int, are_stored: bool) -> Iterator[str]:
    feed = part.measurement.feed
    for name, dtype in feed.casts.items():
        yield f"the input '{name}' was converted to {dtype}, its dtype in the file"
    if len(file.inputs) > 1 and feed.by_position:
        pairs = ", ".join(f"{name}={recorded}" for name, recorded in feed.by_position.items())
        yield f"inputs were paired by position: {pairs}; --input-name (input_names) overrides it"
    bare = sum(node.confidence == "unattributed" for node in file.nodes)
    if bare > _MAX_BARE * len(file.nodes) and not file.has_exporter_origins:
        yield f"{bare} of {len(file.nodes)} nodes have no module: annotate the file again, from the file before the tool"
    yield from (f"{contradiction}: is the annotation right?" for contradiction in part.contradictions)
    if part.isolated_errors.failed:
        (module, _), reason = next(iter(part.isolated_errors.failed.items()))
        yield (f"{len(part.isolated_errors.failed)} module call{'s' * (len(part.isolated_errors.failed) > 1)} did not "
               f"run alone, such as {module}: {reason}")
    if file.random:
        operators = sorted({node.op_type for node in file.nodes if not file.random.isdisjoint(node.outputs)
                          and file.random.isdisjoint(node.inputs)})
        yield f"the file draws random numbers ({', '.join(operators)}); values that depend on them are left out"
    if part.measurement.rounds > 1:
        yield f"values were computed in {part.measurement.rounds} rounds"
    if runs > 1:
        yield (f"only the first of {runs} recorded runs was compared" if are_stored else
               f"shows run {number} of {runs} recorded runs, which differs most")
