"""Runs nodes at which a difference seems to begin again, on other inputs, and drops differences that do not begin there.

The nodes run in ONNX Runtime, whichever runtime computed the file's values. If the results on the file's values are not
the file's, another runtime, provider or optimisation computes something else, and the difference stays. Else, four
questions decide:
1. Are the nodes right on PyTorch's inputs? Then they only amplify the error of their inputs, as a Tanh of large numbers
   or a comparison does.
2. Does rounding their inputs change their results as much? Then rounding explains the difference: floor, remainder and
   nearest-neighbour sampling jump where an input crosses a boundary.
3. Are the nodes right without rounding to 8 bits, and do the file's outputs agree? Then only the steps are coarse. QLinear
   operators cannot run without rounding; their values have only coarse steps unless a later floating-point value differs.
4. Would PyTorch's result in the place of theirs make later values wrong, which are right? Then they compute another
   value, because a tool moved a factor across it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import WhenceError
from ..values.value_file import Values
from . import node_pieces, ort_session, quantised_values, tensor_differences
from .annotated_file import File
from .corrected_values import correct_value
from .first_differences import Beginning, Limits
from .measurements import Measured
from .runtimes import Runtime
from .tensor_differences import Figures
from .value_flow import Flow

_TRIALS = 8             # runs on rounded inputs
_WIDER = 2.0            # factor of the rounding in the trials, times the root of the number of nodes that round
_EXPLAINED = 3.0        # rounding explains errors of this many times those in the trials
_FEW_CHANGES = 2        # integers that low precision may change in any tensor
_MAX_EXACT = 1e-6       # largest relative rounding error of a format that keeps integers exact
_STEPS = 255            # of a tensor quantised to 8 bits
_EXACT = torch.bfloat16  # numbers that fit, such as integers and halves, are assumed to be exact
_MAX_BYTES = 256 << 20  # maximum size of the nodes' weights, and of the inputs of all nodes that run again together


@dataclass(frozen=True)
class Recomputation:
    """Runs a file's nodes again in ONNX Runtime, on the CPU."""

    recorded: Values
    runtime: Runtime                     # which computed the file's values
    feed: Mapping[str, torch.Tensor]
    epsilon: float                       # the relative rounding error of the file's unquantised values

    def remaining(self, flow: Flow, limits: Limits, beginnings: list[Beginning]) -> list[Beginning]:
        """Returns the beginnings without those whose nodes run alone and are not the cause of the difference."""
        return [each for each in beginnings if self._begins(flow, limits, each.measured)
                and (each.lasts or not self._is_other_value(flow, limits, each.measured))]

    def _begins(self, flow: Flow, limits: Limits, measured: Measured) -> bool:
        if measured.figures.form or measured.figures.not_finite:
            return True
        if quantised_values.steps_of(flow.file, measured.value) is not None and not _is_shown(flow, limits, measured):
            return False
        nodes = self._nodes_of(flow, measured)
        own = None if nodes is None else nodes.error(nodes.right_inputs)
        if own is None:
            return True
        error = max(own.relative, nodes.departure())
        if own.unequal is None:
            limit = _limit(flow, limits, measured)
        else:  # small tensors have few elements, so one that crosses a boundary is a large share
            limit = max(limits.general, _FEW_CHANGES / measured.point.recorded.count) if nodes.rounds(self.epsilon) else 0.0
        if error <= max(limit, _EXPLAINED * nodes.rounding_error(own, self.epsilon)):
            return False
        # Steps that are too coarse for some values are a fault only if an output shows it.
        return not (nodes.quantising and _outputs_agree(flow, limits)) or not nodes.unrounded_error() <= limits.general

    def _is_other_value(self, flow: Flow, limits: Limits, measured: Measured) -> bool:
        for later in flow.next_observed(measured.value)[0]:
            if limits.above(flow, later):
                continue
            nodes = self._nodes_of(flow, later)
            if nodes is None or not torch.is_tensor(right := nodes.right_inputs.get(measured.value)) \
                    or right is nodes.inputs[measured.value]:
                continue
            figures = nodes.error({**nodes.inputs, measured.value: right})
            if figures is not None and not figures.relative <= max(_limit(flow, limits, later), _EXPLAINED * later.figures.relative):
                return True
        return False

    def _nodes_of(self, flow: Flow, measured: Measured) -> _Nodes | None:
        """Returns the nodes that compute the value from observed values; None if they do not run alone."""
        region, reads = flow.region(measured.value)
        if sum(8 * each.point.recorded.count for each in reads) > _MAX_BYTES:
            return None
        nodes = node_pieces.with_constants(flow.file, region)
        names = list(dict.fromkeys([*(each.value for each in reads if each.value not in flow.file.elements),
                                    *node_pieces.inputs_of(flow.file, nodes)]))
        inputs = {name: self.feed[name] for name in names if name in self.feed}
        try:
            taken = {name: tensor for name, tensor in self.runtime.take(
                self.feed, [measured.value, *(name for name in names if name not in inputs)]) if isinstance(tensor, torch.Tensor)}
            actual = taken.get(measured.value) if measured.value in names else taken.pop(measured.value, None)
            inputs |= taken
            if len(inputs) < len(names) or actual is None:
                return None
            model = node_pieces.model_of(flow.file, nodes, inputs, {measured.value: None})
            if model.ByteSize() > _MAX_BYTES:
                return None
            session = _session(model)
        except WhenceError:  # the nodes do not run alone, or ONNX Runtime is not installed
            return None
        reads = [each for each in reads if each.value in inputs]
        right = {each.value: correct_value(flow.file, self.recorded, each, inputs[each.value]) for each in reads}
        errors = {each.value: each.figures.relative for each in reads
                  if right[each.value] is None and math.isfinite(each.figures.relative)}
        return _Nodes(flow.file, self.recorded, measured, model, session, inputs, actual,
                      {name: tensor if right.get(name) is None else right[name] for name, tensor in inputs.items()},
                      errors, sum(flow.quantise([node]) for node in nodes))


def _is_shown(flow: Flow, limits: Limits, measured: Measured) -> bool:
    """Returns true if a later floating-point value differs."""
    visited, pending = {measured.value}, [measured]
    while pending:
        for later in flow.next_observed(pending.pop().value)[0]:
            if later.value in visited:
                continue
            if limits.above(flow, later) and quantised_values.steps_of(flow.file, later.value) is None:
                return True
            visited.add(later.value)
            pending.append(later)
    return False


def _outputs_agree(flow: Flow, limits: Limits) -> bool:
    outputs = [flow.observed[name] for name in flow.file.outputs if name in flow.observed]
    return bool(outputs) and not any(limits.above(flow, each) for each in outputs)


def _limit(flow: Flow, limits: Limits, measured: Measured) -> float:
    """Returns the largest error of nodes whose inputs are right."""
    return limits.general if flow.is_quantised(measured.value) else min(limits.general, limits.unquantised)


@dataclass(frozen=True)
class _Nodes:
    """The nodes of one value, ready to run."""

    file: File
    recorded: Values
    measured: Measured
    model: Any
    session: Any
    inputs: Mapping[str, torch.Tensor]        # the file's values
    actual: torch.Tensor                      # the file's result
    right_inputs: Mapping[str, torch.Tensor]  # PyTorch's, where they are known
    errors: Mapping[str, float]               # relative differences of the other observed inputs
    quantising: int                           # how many nodes round to few bits

    def rounds(self, epsilon: float) -> bool:
        """Returns true if the nodes compute with floating-point numbers in low precision."""
        are_floats = any(tensor.is_floating_point() for tensor in self.inputs.values())
        return are_floats and (self.quantising > 0 or epsilon > _MAX_EXACT)

    def error(self, inputs: Mapping[str, torch.Tensor]) -> Figures | None:
        """Returns the difference of the result on these inputs from PyTorch's; None if the nodes do not run on them."""
        return self._figures(self._result(inputs))

    def departure(self) -> float:
        """Returns the relative difference of the file's result from that of the nodes on the file's values."""
        result = self._result(self.inputs)
        actual = quantised_values.dequantised(self.file, self.measured.value, self.actual)
        return math.inf if result is None or result.shape != actual.shape else tensor_differences.relative(result, actual)

    def _figures(self, result: torch.Tensor | None) -> Figures | None:
        point = self.measured.point
        return None if result is None else tensor_differences.compare(
            self.recorded, point.recorded, result, integers_as_floats=self.measured.value in point.operation_values)

    def rounding_error(self, own: Figures, epsilon: float) -> float:
        """Returns the largest finite difference that rounding the inputs makes, as the figures count it."""
        generator = torch.Generator().manual_seed(0)
        return self._spread(own, (self._result({name: self._rounded(name, epsilon, generator) for name in self.inputs})
                                  for _ in range(_TRIALS)))

    def unrounded_error(self) -> float:
        """Returns the relative difference of the result if the nodes do not round to 8 bits between operations."""
        try:
            session = _session(node_pieces.without_rounding(self.model))
        except WhenceError:
            return math.inf
        figures = self._figures(self._result(self.right_inputs, session))
        return math.inf if figures is None else figures.relative

    def _result(self, inputs: Mapping[str, torch.Tensor], session: Any = None) -> torch.Tensor | None:
        result = _result(session or self.session, inputs)
        return None if result is None else quantised_values.dequantised(self.file, self.measured.value, result)

    def _spread(self, own: Figures, results: Iterable[torch.Tensor | None]) -> float:
        right = self._result(self.right_inputs)
        errors = [float((each != right).double().mean()) if own.unequal is not None else tensor_differences.relative(right, each)
                  for each in results if each is not None and each.shape == right.shape]
        return max((each for each in errors if math.isfinite(each)), default=0.0)

    def _rounded(self, name: str, epsilon: float, generator: torch.Generator) -> torch.Tensor:
        """Returns the right input with an error that is as large as the file's, and as rounding. Exact numbers have none."""
        right, actual = (quantised_values.dequantised(self.file, name, each[name]) for each in (self.right_inputs, self.inputs))
        if not right.is_floating_point():
            return self.right_inputs[name]
        exact = right.double()
        size = torch.where(exact == right.to(_EXACT).double(), 0.0, epsilon * exact.abs())
        size = size.clamp(min=self.errors.get(name, 0.0) * exact.abs())
        if self.quantising and exact.numel():
            size = size.clamp(min=float(exact.max() - exact.min()) / _STEPS / 2)
        if right.shape == actual.shape:
            size = torch.maximum(size, (actual.double() - exact).abs())
        noise = 2 * torch.rand(right.shape, generator=generator, dtype=torch.float64) - 1
        noisy = torch.where(size > 0, exact + _WIDER * max(self.quantising, 1)**0.5 * size * noise, exact)
        return quantised_values.quantised(self.file, name, noisy, self.right_inputs[name])


def _session(model: Any) -> Any:
    return ort_session.session(model.SerializeToString(), optimised=False)


def _result(session: Any, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """Returns the session's only output; None if it does not run on these inputs."""
    try:
        result, = ort_session.run(session, inputs)
    except Exception:  # ONNX Runtime's exceptions have no common base class
        return None
    return result if isinstance(result, torch.Tensor) else None
