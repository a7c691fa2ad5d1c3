"""Measures the points of a run: takes candidate values from a runtime, in rounds, and compares them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch

from ..base.optional_packages import needs
from ..errors import error
from ..values.value_file import Run, Values
from . import candidates as finding, file_inputs
from .annotated_file import File
from .candidates import Calls, Point
from .file_inputs import Feed, Supplied
from .recorded_program import RecordedProgram
from .runtimes import Runtime
from .tensor_differences import Figures, compare

_LIKE = 0.9        # cosine above which the value of a fused node is one of its modules' results, however far it is off
_NEAR = 0.5        # relative difference below which a constant may be a result that was computed while exporting
MEMORY = 2 << 30  # bytes of values that are held at once, by default


@dataclass
class Measured:
    """A point, and the value of the file that it is."""

    point: Point
    value: str | None = None        # None: not observable
    figures: Figures | None = None
    certain: bool = False           # the file or equal numbers say that the value is the point
    reason: str = ""                # why it is not observable

    def differs(self, tolerance: float) -> bool:
        return self.figures is not None and not self.figures.relative <= tolerance

    @property
    def counts(self) -> bool:
        """Its figures are shares of elements that are equal: where what they come from is off a little, some change."""
        return self.figures is not None and self.figures.unequal is not None


@dataclass
class Measurement:
    """One run of the file against one recorded run."""

    calls: Calls
    points: list[Measured]          # in the order of the file's nodes, those that are not observable last
    rounds: int
    feed: Feed


def measure(file: File, values: Values, run: Run, runtime: Runtime, program: RecordedProgram | None,
            agreeing: float, memory: int = MEMORY,
            said: Supplied = Supplied(), feed: Feed | None = None) -> Measurement:
    """``agreeing``: a value that is off by that much at most, relatively, is the point, whatever the file says of it. ``said``:
    of inputs, beside the recorded ones; ``feed``: what the file is given instead.

    Raises WhenceError: E0104 when the file's inputs are not those that were recorded, E0206 when the values are of
    another model, E0207 when the runtime does not run the file."""
    calls = Calls(file, run)
    if calls.of_another_model():
        raise error("E0206", "sidecar_mismatch", f"no module of {file.path} has values in {values.place}: they are of "
                    "another model", "record the values of this model", file=file.path)
    points = finding.find(file, calls, program)
    if feed is None:
        feed = feed_of(file, values, run, said) if runtime.rounds else Feed()
    measured, rounds = observed(file, values, calls, points, runtime, feed, agreeing, memory)
    nearest: dict[str, float] = {}
    for each in measured:
        if each.value is not None:
            nearest[each.value] = min(each.figures.nearest, nearest.get(each.value, math.inf))
    for each in measured:
        # A value that another point agrees with is that one: of two results, one may not be in the file.
        if each.value is not None and each.figures.nearest > nearest[each.value] and (
                not each.certain or nearest[each.value] <= agreeing):
            each.value, each.figures, each.reason = None, None, "no value of the file is it"
        elif each.value in file.random:
            each.value, each.figures, each.reason = None, None, "random numbers have a part in it"
    return Measurement(calls, in_order(file, measured), rounds, feed)


def in_order(file: File, points: list[Measured]) -> list[Measured]:
    """In the order of the file's nodes, those that are not observable last."""
    return sorted(points, key=lambda each: file.place(each.value) if each.value is not None else len(file.nodes) + 1)


def observed(file: File, values: Values, calls: Calls, points: list[Point], runtime: Runtime,
             feed: Feed, agreeing: float, memory: int) -> tuple[list[Measured], int]:
    """Each point with the candidate that it is, and the number of rounds that it took."""
    of_value: dict[str, list[Point]] = {}
    for point in points:
        for name in dict.fromkeys(form for each in point.candidates for form in _forms(file, each)):
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
    return [_chosen(file, calls, point, found, agreeing) for point in points], rounds


def _rounds(of_value: Mapping[str, list[Point]], memory: int) -> Iterator[list[str]]:
    """Names for each round, whose values together stay below ``memory``, as far as recorded sizes say."""
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


def _forms(file: File, name: str) -> list[str]:
    """A value as it is made, and as what quantises it leaves it. A Relu that a tool dropped into the clip of a QuantizeLinear
    is in the second alone."""
    return [name, *file.dequantised(name)]


def _chosen(file: File, calls: Calls, point: Point, found: Mapping[tuple[str, str], Figures],
            agreeing: float) -> Measured:
    key = point.recorded.key

    def nearest(names: Iterable[str]) -> str | None:
        return min(names, key=lambda name: found[key, name].nearest, default=None)

    def seen(names: Iterable[str]) -> dict[str, str]:
        """The nearest form of each candidate that was observed."""
        forms = ((name, nearest(each for each in _forms(file, name) if (key, each) in found)) for name in names)
        return {name: form for name, form in forms if form is not None}

    stated, likely = seen(point.stated), seen(point.likely)
    for forms in (stated, likely):
        best = nearest(forms.values())
        if best is not None and found[key, best].nearest <= agreeing:
            return Measured(point, best, found[key, best], True)
    if stated:
        best = nearest(stated.values())
        return Measured(point, best, found[key, best], True)
    if point.within is not None:
        return Measured(point, reason=f"fused into {point.within.title}")
    # Nothing is equal: what the module alone makes last is its result, if anything is.
    own = [form for name, form in likely.items() if point.maker is not None and _made_alone(file, calls, name, point.maker)]
    if not own and len(likely) == 1:
        (name, form), = likely.items()
        if not point.returned_by or name in file.constants and found[key, form].relative < _NEAR:
            own = [form]
    if not own and point.maker is not None:
        own = [form for name, form in likely.items() if _made_last(file, calls, name, point.maker)
               and found[key, form].cosine > _LIKE]
    if own:
        alike = [each for at in point.returned_by[:1] for each in calls.run.calls[at].results
                 if each.count == point.recorded.count]
        return Measured(point, own[-1], found[key, own[-1]], len(set(own)) == 1 and len(alike) < 2)
    return Measured(point, reason="no value of the file is it" if not point.candidates else
                    "no value of the file has its size and values")


def _made_alone(file: File, calls: Calls, value: str, call: int) -> bool:
    """Nodes of the call alone make the value, and none that computes a part of the call reads it: that one would add the
    bias, for instance."""
    made = value in file.maker and calls.within(file.maker[value], call) and not file.maker[value].quantized
    return made and not any(calls.touches(reader, call) for reader in file.readers.get(value, ()))


def _made_last(file: File, calls: Calls, value: str, call: int) -> bool:
    """A node that stands for several modules side by side, a convolution with its norm, makes what the last of them does."""
    if value not in file.maker or file.maker[value].quantized or any(
            calls.touches(reader, call) for reader in file.readers.get(value, ())):
        return False
    fused = calls.of_node[file.maker[value].at]
    apart = all(one not in calls.around[other] for one in fused for other in fused if one != other)
    return len(fused) > 1 and apart and call == max(fused)


def feed_of(file: File, values: Values, run: Run, said: Supplied) -> Feed:
    """The recorded inputs, and those that are supplied, under the file's names and in its dtypes."""
    return file_inputs.feed(file, {name: values.whole(each) for name, each in run.inputs.items()}, said)


@dataclass(frozen=True)
class Kind:
    """The numbers that a file computes in, and the bounds of their rounding."""

    name: str
    least: float  # relative; below it nothing is called a difference
    most: float   # above it everything is
    exact: float  # relative; a difference where nothing is quantised


# Operators that compute with, or make, numbers of few bits.
QUANTISING = {"MatMulNBits", "GatherBlockQuantized", "QuantizeLinear", "DynamicQuantizeLinear", "DequantizeLinear",
              "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul", "DynamicQuantizeMatMul",
              "MatMulIntegerToFloat", "QGemm"}
_FLOAT32 = Kind("float32", 1e-5, 1e-3, 1e-3)
_FLOAT16 = Kind("float16", 1e-3, 0.05, 0.05)


def kind_of(file: File) -> Kind:
    proto = needs("onnx", "reading a model").TensorProto
    types = {node.op_type for node in file.nodes}
    weights = {each.data_type for each in file.model.graph.initializer}
    is_half = proto.FLOAT16 in weights or any(each.type.tensor_type.elem_type == proto.FLOAT16
                                              for each in file.model.graph.value_info)
    plain = _FLOAT16 if is_half else _FLOAT32
    if types & {"MatMulNBits", "GatherBlockQuantized"} or weights & {proto.INT4, proto.UINT4}:
        return Kind("weights of 4 bits", 0.1, 0.5, plain.exact)
    if types & QUANTISING:
        return Kind("quantised to 8 bits", 0.08, 0.3, plain.exact)
    if proto.BFLOAT16 in weights:
        return Kind("bfloat16", 8e-3, 0.2, 0.2)
    return plain
