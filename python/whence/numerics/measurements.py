"""Measures the points of a run: gets their candidate values from a runtime, in rounds, and compares them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch

from ..base.optional_packages import import_optional
from ..errors import error
from ..values.value_file import Run, Values
from . import candidates as finding, file_inputs
from .annotated_file import File
from .candidates import Calls, Point
from .file_inputs import Feed, Overrides
from .recorded_program import RecordedProgram
from .runtimes import Runtime
from .tensor_differences import Figures, compare

_MIN_COSINE = 0.9      # cosine above which a fused node's value is its module's result despite its difference
_CONSTANT_LIMIT = 0.5  # relative difference below which a constant may be a result that was folded on export
MEMORY = 2 << 30       # bytes of values to hold at once, by default


@dataclass
class Measured:
    """A point, and its value in the file."""

    point: Point
    value: str | None = None        # None: not observable
    figures: Figures | None = None
    certain: bool = False           # the origins in the file, or equal numbers, prove that the value is the point
    reason: str = ""                # why it is not observable

    def differs(self, tolerance: float) -> bool:
        return self.figures is not None and not self.figures.relative <= tolerance

    @property
    def counts_unequal(self) -> bool:
        """Returns true if its figures are shares of unequal elements. A small error of the inputs changes some
        elements."""
        return self.figures is not None and self.figures.unequal is not None


@dataclass
class Measurement:
    """One run of the file against one recorded run."""

    calls: Calls
    points: list[Measured]          # in the order of the file's nodes; unobservable points last
    rounds: int
    feed: Feed


def measure(file: File, values: Values, run: Run, runtime: Runtime, program: RecordedProgram | None,
            agreement_limit: float, memory: int = MEMORY,
            overrides: Overrides = Overrides(), feed: Feed | None = None) -> Measurement:
    """Measures all points. A value whose relative difference is at most ``agreement_limit`` is the point, whatever its
    origin. ``overrides`` are inputs besides the recorded ones; ``feed`` replaces both.

    Raises WhenceError: E0104 if the file's inputs differ from the recorded ones, E0206 if the values belong to another
    model, E0207 if the runtime fails on the file."""
    calls = Calls(file, run)
    if calls.belongs_to_another_model():
        raise error("E0206", "sidecar_mismatch", f"no module of {file.path} has values in {values.place}: they belong "
                    "to another model", "record the values of this model", file=file.path)
    points = finding.find(file, calls, program)
    if feed is None:
        feed = feed_of(file, values, run, overrides) if runtime.rounds else Feed()
    measured, rounds = observed(file, values, calls, points, runtime, feed, agreement_limit, memory)
    nearest: dict[str, float] = {}
    for each in measured:
        if each.value is not None:
            nearest[each.value] = min(each.figures.nearest, nearest.get(each.value, math.inf))
    for each in measured:
        # A value that another point agrees with belongs to that point: one of two results may be missing in the file.
        if each.value is not None and each.figures.nearest > nearest[each.value] and (
                not each.certain or nearest[each.value] <= agreement_limit):
            each.value, each.figures, each.reason = None, None, "the file has no such value"
        elif each.value in file.random:
            each.value, each.figures, each.reason = None, None, "it depends on random numbers"
    return Measurement(calls, in_order(file, measured), rounds, feed)


def in_order(file: File, points: list[Measured]) -> list[Measured]:
    """Sorts points by the order of the file's nodes, unobservable points last."""
    return sorted(points, key=lambda each: file.position(each.value) if each.value is not None else len(file.nodes) + 1)


def observed(file: File, values: Values, calls: Calls, points: list[Point], runtime: Runtime,
             feed: Feed, agreement_limit: float, memory: int) -> tuple[list[Measured], int]:
    """Returns each point with its chosen candidate, and the number of rounds."""
    of_value: dict[str, list[Point]] = {}
    for point in points:
        for name in dict.fromkeys(form for each in point.candidates for form in _with_dequantised(file, each)):
            of_value.setdefault(name, []).append(point)
    found: dict[tuple[str, str], Figures] = {}
    rounds = 0
    outputs = set(file.outputs)
    for names in _rounds(of_value, memory):
        rounds += 1
        for name, tensor in runtime.take(feed.tensors, names):
            for point in of_value.get(name, ()):
                figures = compare(values, point.recorded, tensor, name in outputs) \
                    if isinstance(tensor, torch.Tensor) else None
                if figures is not None:
                    found[point.recorded.key, name] = figures
    return [_chosen(file, calls, point, found, agreement_limit) for point in points], rounds


def _rounds(of_value: Mapping[str, list[Point]], memory: int) -> Iterator[list[str]]:
    """Yields the names for each round. By the recorded sizes, the values of a round stay below ``memory``."""
    names: list[str] = []
    held = 0
    for name, points in of_value.items():
        size = 8 * max(point.recorded.count for point in points)
        if names and held + size > memory:
            yield names
            names, held = [], 0
        names.append(name)
        held += size
    if names:
        yield names


def _with_dequantised(file: File, name: str) -> list[str]:
    """Returns the value and its dequantised copies. If a tool replaced a Relu by the clipping of QuantizeLinear, only
    the copies are clipped."""
    return [name, *file.dequantised(name)]


def _chosen(file: File, calls: Calls, point: Point, found: Mapping[tuple[str, str], Figures],
            agreement_limit: float) -> Measured:
    key = point.recorded.key

    def nearest(names: Iterable[str]) -> str | None:
        return min(names, key=lambda name: found[key, name].nearest, default=None)

    def observed_forms(names: Iterable[str]) -> dict[str, str]:
        """Returns the nearest form of each observed candidate."""
        forms = ((name, nearest(each for each in _with_dequantised(file, name) if (key, each) in found))
                 for name in names)
        return {name: form for name, form in forms if form is not None}

    operation_values, module_values = observed_forms(point.operation_values), observed_forms(point.module_values)
    for forms in (operation_values, module_values):
        best = nearest(forms.values())
        if best is not None and found[key, best].nearest <= agreement_limit:
            return Measured(point, best, found[key, best], True)
    if operation_values:
        best = nearest(operation_values.values())
        return Measured(point, best, found[key, best], True)
    if point.fused_node is not None:
        return Measured(point, reason=f"fused into {point.fused_node.title}")
    # No candidate agrees: the last value that only the module computes is its result, if there is one.
    own = [form for name, form in module_values.items()
           if point.source_call is not None and _is_own_value(file, calls, name, point.source_call)]
    if not own and len(module_values) == 1:
        (name, form), = module_values.items()
        if not point.returned_by or name in file.constants and found[key, form].relative < _CONSTANT_LIMIT:
            own = [form]
    if not own and point.source_call is not None:
        own = [form for name, form in module_values.items() if _is_fused_result(file, calls, name, point.source_call)
               and found[key, form].cosine > _MIN_COSINE]
    if own:
        alike = [each for at in point.returned_by[:1] for each in calls.run.calls[at].results
                 if each.count == point.recorded.count]
        return Measured(point, own[-1], found[key, own[-1]], len(set(own)) == 1 and len(alike) < 2)
    return Measured(point, reason="the file has no such value" if not point.candidates else
                    "no value of the file has its size and values")


def _is_own_value(file: File, calls: Calls, value: str, call: int) -> bool:
    """Returns true if only nodes of the call compute the value, and no node of the call reads it. Such a reader might
    add the bias, for instance."""
    is_own = value in file.producer and calls.within(file.producer[value], call) and not file.producer[value].quantized
    return is_own and not any(calls.touches(reader, call) for reader in file.readers.get(value, ()))


def _is_fused_result(file: File, calls: Calls, value: str, call: int) -> bool:
    """Returns true if a node fused from sibling modules, such as a convolution and its norm, outputs the call's
    result."""
    if value not in file.producer or file.producer[value].quantized or any(
            calls.touches(reader, call) for reader in file.readers.get(value, ())):
        return False
    fused = calls.calls_of_node[file.producer[value].at]
    apart = all(one not in calls.enclosing[other] for one in fused for other in fused if one != other)
    return len(fused) > 1 and apart and call == max(fused)


def feed_of(file: File, values: Values, run: Run, overrides: Overrides) -> Feed:
    """Returns the recorded and the supplied inputs under the file's names and in its dtypes."""
    return file_inputs.feed(file, {name: values.whole(each) for name, each in run.inputs.items()}, overrides)


@dataclass(frozen=True)
class NumberFormat:
    """The number format that a file computes in, and the bounds of its rounding errors."""

    name: str
    min_limit: float          # relative difference below which no value differs
    max_limit: float          # relative difference above which every value differs
    unquantised_limit: float  # relative difference above which values of unquantised nodes differ


# Operators with quantised inputs or outputs.
QUANTISING = {"MatMulNBits", "GatherBlockQuantized", "QuantizeLinear", "DynamicQuantizeLinear", "DequantizeLinear",
              "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul", "DynamicQuantizeMatMul",
              "MatMulIntegerToFloat", "QGemm"}
_FLOAT32 = NumberFormat("float32", 1e-5, 1e-3, 1e-3)
_FLOAT16 = NumberFormat("float16", 1e-3, 0.05, 0.05)


def number_format_of(file: File) -> NumberFormat:
    proto = import_optional("onnx", "reading a model").TensorProto
    types = {node.op_type for node in file.nodes}
    weights = {each.data_type for each in file.model.graph.initializer}
    is_half = proto.FLOAT16 in weights or any(each.type.tensor_type.elem_type == proto.FLOAT16
                                              for each in file.model.graph.value_info)
    plain = _FLOAT16 if is_half else _FLOAT32
    if types & {"MatMulNBits", "GatherBlockQuantized"} or weights & {proto.INT4, proto.UINT4}:
        return NumberFormat("weights of 4 bits", 0.1, 0.5, plain.unquantised_limit)
    if types & QUANTISING:
        return NumberFormat("quantised to 8 bits", 0.08, 0.3, plain.unquantised_limit)
    if proto.BFLOAT16 in weights:
        return NumberFormat("bfloat16", 8e-3, 0.2, 0.2)
    return plain
