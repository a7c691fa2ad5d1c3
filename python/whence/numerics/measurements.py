"""Measures the points of a run: gets their candidate values from a runtime in rounds, and compares them."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from ..base.optional_packages import import_optional
from ..errors import error
from ..values.value_file import Run, Values
from . import candidates as finding, file_inputs, model_structure, quantised_values
from .annotated_file import File
from .candidates import Calls, Point
from .file_inputs import Feed, Overrides
from .recorded_program import RecordedProgram
from .runtimes import Runtime
from .tensor_differences import Figures, compare, of_wrong_form

_MIN_COSINE = 0.9      # minimum cosine of a fused node's value that is accepted as a module's result
_CONSTANT_LIMIT = 0.5  # maximum relative difference of a constant that may be a folded result
_MAX_BYTES = 256 << 20
MEMORY = 2 << 30       # default maximum number of bytes of values at one time


@dataclass
class Measured:
    """A point, and its value in the file."""

    point: Point
    value: str | None = None        # None: not observable
    figures: Figures | None = None
    certain: bool = False           # origins in the file, or equal numbers, prove that the value belongs to the point
    reason: str = ""                # why it is not observable

    def differs(self, tolerance: float) -> bool:
        return self.figures is not None and not self.figures.relative <= tolerance

    @property
    def is_wrong_output(self) -> bool:
        """Returns true if it is an output of the file with wrong sizes or a wrong dtype."""
        return self.figures is not None and bool(self.figures.form) and self.certain

    @property
    def counts_unequal(self) -> bool:
        """Returns true if its figures are shares of unequal elements. Small errors of inputs change some elements."""
        return self.figures is not None and self.figures.unequal is not None


@dataclass
class Measurement:
    """A run of the file compared with a recorded run."""

    calls: Calls
    points: list[Measured]          # in the file's order; unobservable points last
    rounds: int
    feed: Feed


def measure(file: File, values: Values, run: Run, runtime: Runtime, program: RecordedProgram | None,
            agreement_limit: float, memory: int = MEMORY,
            overrides: Overrides = Overrides(), feed: Feed | None = None, as_it_is: bool = True) -> Measurement:
    """Measures all points. A value whose relative difference is at most ``agreement_limit`` belongs to the point,
    whatever its origin. ``overrides`` change the recorded inputs; ``feed`` replaces both. ``as_it_is`` takes the file's
    outputs from a run that computes nothing else.

    Raises WhenceError: E0104 if the file's inputs do not fit the recorded ones, E0206 if the values belong to another
    model, E0207 if the runtime fails."""
    calls = Calls(file, run)
    if file.content is None and calls.belongs_to_another_model():
        raise error("E0206", "sidecar_mismatch", f"no module of {file.path} has values in {values.place}: they belong "
                    "to another model", "record the values of this model", file=file.path)
    points = finding.find(file, calls, program)
    if feed is None:
        feed = feed_of(file, values, run, overrides) if runtime.rounds else Feed()
    outputs = _outputs(file, runtime, feed) if as_it_is else {}
    measured, rounds = observed(file, values, calls, points, runtime, feed, agreement_limit, memory, outputs)
    nearest: dict[str, float] = {}
    for point in measured:
        if point.value is not None:
            nearest[point.value] = min(point.figures.nearest, nearest.get(point.value, math.inf))
    for point in measured:
        # A value nearer to another point belongs to that point: the file may lack one of two results.
        if point.value is not None and not point.is_wrong_output and point.figures.nearest > nearest[point.value] and (
                not point.certain or nearest[point.value] <= agreement_limit):
            point.value, point.figures, point.reason = None, None, "the file does not contain it"
        elif point.value in file.random:
            point.value, point.figures, point.reason = None, None, "it depends on random numbers"
    return Measurement(calls, in_order(file, measured), rounds, feed)


def _outputs(file: File, runtime: Runtime, feed: Feed) -> dict[str, torch.Tensor]:
    """Returns the file's outputs if nothing else is requested. ONNX Runtime then reuses memory, and keeps values in float32
    that it rounds to float16 if they are requested. Returns none for more than 256 MB of weights, for which another run
    is too slow."""
    if not runtime.provider or file.content is not None or \
            sum(os.path.getsize(each) for each in model_structure.files_of(file.path, file.model)) > _MAX_BYTES:
        return {}
    return dict(runtime.take(feed.tensors, file.outputs))


def in_order(file: File, points: list[Measured]) -> list[Measured]:
    """Sorts points in the file's order, unobservable points last."""
    return sorted(points, key=lambda each: file.position(each.value) if each.value is not None else len(file.nodes) + 1)


def observed(file: File, values: Values, calls: Calls, points: list[Point], runtime: Runtime,
             feed: Feed, agreement_limit: float, memory: int,
             known: Mapping[str, torch.Tensor] = MappingProxyType({})) -> tuple[list[Measured], int]:
    """Returns each point with its chosen candidate, and the number of rounds. Values that are ``known`` are not computed."""
    points_by_value: dict[str, list[Point]] = {}
    for point in points:
        for name in dict.fromkeys(form for each in point.candidates for form in _with_dequantised(file, each)):
            points_by_value.setdefault(name, []).append(point)
    by_output = _results_by_output(file, calls, points)
    for name in by_output:
        points_by_value.setdefault(name, [])
    figures_of: dict[tuple[str, str], Figures] = {}
    wrong_forms: dict[str, Measured] = {}  # by the key of the recorded tensor
    rounds = 0
    outputs = set(file.outputs)
    for names in _split_into_rounds(points_by_value, memory):
        rounds += 1
        computed = runtime.take(feed.tensors, [name for name in names if name not in known])
        for name, tensor in itertools.chain(computed, ((name, known[name]) for name in names if name in known)):
            if isinstance(tensor, torch.Tensor):
                tensor = quantised_values.dequantised(file, name, tensor)
            for point in points_by_value.get(name, ()):
                figures = compare(values, point.recorded, tensor, name in outputs, name in point.operation_values) \
                    if isinstance(tensor, torch.Tensor) else None
                if figures is not None:
                    figures_of[point.recorded.key, name] = figures
                elif isinstance(tensor, torch.Tensor) and [name] == point.operation_values:
                    _add_wrong_form(wrong_forms, point, name, tensor, False)
            if name in by_output and isinstance(tensor, torch.Tensor):
                _add_wrong_form(wrong_forms, by_output[name], name, tensor, True)
    measured = [_choose_candidate(file, calls, point, figures_of, agreement_limit) for point in points]
    return [_with_wrong_form(each, wrong_forms.get(each.point.recorded.key)) for each in measured], rounds


def _results_by_output(file: File, calls: Calls, points: list[Point]) -> dict[str, Point]:
    """Returns the recorded result for each output of the file, if the model returned as many different tensors."""
    results = calls.run.calls[-1].results
    by_key = {point.recorded.key: point for point in points}
    if len(results) != len(file.outputs) or len({each.key for each in results}) != len(results):
        return {}
    return {name: by_key[each.key] for name, each in zip(file.outputs, results, strict=True) if each.key in by_key}


def _add_wrong_form(to: dict[str, Measured], point: Point, name: str, tensor: torch.Tensor, is_output: bool) -> None:
    figures = of_wrong_form(point.recorded, tensor, is_output)
    if figures is not None:
        to[point.recorded.key] = Measured(point, name, figures, is_output)


def _with_wrong_form(measured: Measured, wrong_form: Measured | None) -> Measured:
    """Returns ``wrong_form`` if the tensor is not observed elsewhere."""
    return wrong_form if wrong_form is not None and measured.value in (None, wrong_form.value) else measured


def _split_into_rounds(points_by_value: Mapping[str, list[Point]], memory: int) -> Iterator[list[str]]:
    """Splits the names into rounds whose values, by their recorded sizes, fit into ``memory``."""
    names: list[str] = []
    total = 0
    for name, points in points_by_value.items():
        size = 8 * max((point.recorded.count for point in points), default=0)
        if names and total + size > memory:
            yield names
            names, total = [], 0
        names.append(name)
        total += size
    if names:
        yield names


def _with_dequantised(file: File, name: str) -> list[str]:
    """Returns the value and its dequantised copies. If QuantizeLinear clips in place of a Relu that a tool removed,
    only the copies are clipped."""
    return [name, *file.dequantised(name)]


def _choose_candidate(file: File, calls: Calls, point: Point, figures_of: Mapping[tuple[str, str], Figures],
            agreement_limit: float) -> Measured:
    key = point.recorded.key

    def nearest(names: Iterable[str]) -> str | None:
        return min(names, key=lambda name: figures_of[key, name].nearest, default=None)

    def observed_forms(names: Iterable[str]) -> dict[str, str]:
        """Returns the nearest form, original or dequantised, of each observed candidate."""
        forms = ((name, nearest(each for each in _with_dequantised(file, name) if (key, each) in figures_of))
                 for name in names)
        return {name: form for name, form in forms if form is not None}

    operation_values, module_values = observed_forms(point.operation_values), observed_forms(point.module_values)
    for forms in (operation_values, module_values):
        best = nearest(forms.values())
        if best is not None and figures_of[key, best].nearest <= agreement_limit:
            return Measured(point, best, figures_of[key, best], True)
    if operation_values:
        best = nearest(operation_values.values())
        return Measured(point, best, figures_of[key, best], best not in point.partial_values and not _is_fused(file, best))
    if point.fused_node is not None:
        return Measured(point, reason=f"fused into {point.fused_node.title}")
    # No candidate agrees, so the last value that only the module computes is its result, if any.
    own_forms = [form for name, form in module_values.items()
           if point.source_call is not None and _is_own_value(file, calls, name, point.source_call)]
    if not own_forms and len(module_values) == 1:
        (name, form), = module_values.items()
        if not point.returned_by or name in file.constants and figures_of[key, form].relative < _CONSTANT_LIMIT:
            own_forms = [form]
    if not own_forms and point.source_call is not None:
        own_forms = [form for name, form in module_values.items()
                     if _is_fused_result(file, calls, name, point.source_call)
                     and figures_of[key, form].cosine > _MIN_COSINE]
    if own_forms:
        same_sized = [result for at in point.returned_by[:1] for result in calls.run.calls[at].results
                      if result.count == point.recorded.count]
        return Measured(point, own_forms[-1], figures_of[key, own_forms[-1]],
                        len(set(own_forms)) == 1 and len(same_sized) < 2)
    return Measured(point, reason="the file does not contain it" if not point.candidates else
                    "no value in the file has its size and numbers")


def _is_fused(file: File, value: str) -> bool:
    """Returns true if an operator of ONNX Runtime computes the value that may do more than the operation: FusedConv
    applies an activation."""
    node = file.producer.get(value)
    return node is not None and node.domain.startswith("com.microsoft") and not is_quantising(node.op_type)


def _is_own_value(file: File, calls: Calls, value: str, call: int) -> bool:
    """Returns true if only nodes of the call compute the value and no node of the call reads it. A node that reads it
    might, for instance, add the bias."""
    is_own = value in file.producer and calls.within(file.producer[value], call) and not file.producer[value].quantized
    return is_own and not any(calls.touches(reader, call) for reader in file.readers.get(value, ()))


def _is_fused_result(file: File, calls: Calls, value: str, call: int) -> bool:
    """Returns true if the value is the call's result, from a node fused from sibling modules such as a convolution and
    its norm."""
    if value not in file.producer or file.producer[value].quantized or any(
            calls.touches(reader, call) for reader in file.readers.get(value, ())):
        return False
    fused = calls.calls_of_node[file.producer[value].at]
    are_siblings = all(inner not in calls.enclosing[outer] for inner in fused for outer in fused if inner != outer)
    return len(fused) > 1 and are_siblings and call == max(fused)


def feed_of(file: File, values: Values, run: Run, overrides: Overrides) -> Feed:
    """Returns the recorded and supplied inputs by the file's names, in the file's dtypes."""
    return file_inputs.feed(file, {name: values.whole(each) for name, each in run.inputs.items()}, overrides)


@dataclass(frozen=True)
class NumberFormat:
    """The number format of a file's computation, with bounds for rounding errors."""

    name: str
    min_limit: float          # smaller relative differences are always accepted
    max_limit: float          # larger relative differences are never accepted
    unquantised_limit: float  # larger relative differences of unquantised nodes' values are never accepted
    epsilon: float            # relative rounding error of unquantised values


# Operators with quantised inputs or outputs.
QUANTISING = {"MatMulNBits", "GatherBlockQuantized", "QuantizeLinear", "DynamicQuantizeLinear", "DequantizeLinear",
              "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul", "DynamicQuantizeMatMul",
              "MatMulIntegerToFloat", "QGemm", "QAttention", "DynamicQuantizeLSTM"}
FLOAT32 = NumberFormat("float32", 1e-5, 1e-3, 1e-3, 2**-24)
FLOAT16 = NumberFormat("float16", 1e-3, 0.05, 0.05, 2**-11)


def is_quantising(op_type: str) -> bool:
    return op_type in QUANTISING or quantised_values.is_qlinear(op_type)


def number_format_of(file: File) -> NumberFormat:
    proto = import_optional("onnx", "reading a model").TensorProto
    types = {node.op_type for node in file.nodes}
    weights = {each.data_type for each in file.model.graph.initializer}
    is_half = proto.FLOAT16 in weights or any(each.type.tensor_type.elem_type == proto.FLOAT16
                                              for each in file.model.graph.value_info)
    unquantised = FLOAT16 if is_half else FLOAT32
    if types & {"MatMulNBits", "GatherBlockQuantized"} or weights & {proto.INT4, proto.UINT4}:
        return NumberFormat("weights of 4 bits", 0.1, 0.5, unquantised.unquantised_limit, unquantised.epsilon)
    if any(map(is_quantising, types)):
        return NumberFormat("quantised to 8 bits", 0.08, 0.3, unquantised.unquantised_limit, unquantised.epsilon)
    if proto.BFLOAT16 in weights:
        return NumberFormat("bfloat16", 8e-3, 0.2, 0.2, 2**-8)
    return unquantised
