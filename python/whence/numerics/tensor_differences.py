"""Measures the difference between an observed and a recorded tensor, exactly or estimated from a sketch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch

from ..values import sketch as sketching
from ..values.sketch import Sketch
from ..values.value_file import Recorded, Values

_MAX_LAYOUTS = 130  # maximum number of orders of axes to try; five axes have 120


@dataclass(frozen=True)
class Figures:
    """``relative`` is the norm of the difference divided by the norm of the recorded tensor. It is infinite if elements
    are NaN or infinite in only one tensor, or if only the recorded tensor is zero. For integers and booleans, it is the
    share of unequal elements."""

    relative: float
    largest: float          # largest absolute difference; if estimated, only of 1,024 elements
    cosine: float
    estimated: bool         # computed from a sketch
    unequal: float | None   # the share of unequal elements; None for floating-point tensors
    not_finite: bool        # elements are NaN or infinite in only one tensor
    layout: str             # the observed tensor's order of axes, if different: "axes 0 2 3 1"
    form: str = ""          # its sizes or dtype, if they are wrong: "its sizes are [1, 1] instead of []"
    permuted: Figures | None = None  # in another order of axes with the same sizes, which may be wrong
    sizes: tuple[int, ...] = ()      # of the observed tensor

    @property
    def moves_channels(self) -> bool:
        """True if the layout converts between channels first and channels last."""
        axes = list(map(int, self.layout.split()[1:]))
        count = len(axes)
        return count > 2 and axes in ([0, *range(2, count), 1], [0, count - 1, *range(1, count - 1)])

    @property
    def nearest(self) -> float:
        """The smaller ``relative`` in both orders of axes."""
        return self.relative if self.permuted is None else min(self.relative, self.permuted.relative)

    @property
    def sqnr(self) -> float:
        """Signal to quantisation noise, in dB."""
        if self.relative == 0:
            return math.inf
        return -20 * math.log10(self.relative) if math.isfinite(self.relative) else -math.inf


@dataclass(frozen=True)
class _View:
    """A view of the observed tensor with the recorded order of elements; its sizes may differ."""

    layout: str
    tensor: torch.Tensor


def compare(values: Values, recorded: Recorded, observed: torch.Tensor, in_own_order: bool = False,
            integers_as_floats: bool = False) -> Figures | None:
    """Compares two tensors. Returns None if their numbers of elements differ or the layout is not recognised.

    If sizes differ, the order of axes in which the samples agree best is used. With ``in_own_order``, for outputs of
    the file, axes are never reordered. ``integers_as_floats`` accepts floating-point numbers for complete integers:
    Div and Floor compute them before a Cast.
    """
    observed = _as_complex(recorded, observed)
    are_floats = integers_as_floats and recorded.form == "whole" and recorded.dtype.startswith("int")
    if recorded.count != observed.numel() or not are_floats and is_number(recorded) != _is_number_tensor(observed):
        return None
    indices, samples = samples_of(values, recorded)
    unpermuted = _View("", observed)
    view = unpermuted if in_own_order else _best_view(observed, recorded.dims, indices, samples)
    if view is None:
        return None
    figures = _view_figures(values, recorded, view)
    if view.layout and _without_ones(observed.shape) == _without_ones(recorded.dims):
        figures = replace(_view_figures(values, recorded, unpermuted), permuted=figures)
    return replace(figures, sizes=tuple(observed.shape))


def _view_figures(values: Values, recorded: Recorded, view: _View) -> Figures:
    if recorded.form == "whole":
        return _complete_figures(values.whole(recorded), view)
    return _sketch_figures(values.sketch(recorded), recorded, view)


def of_wrong_form(recorded: Recorded, observed: torch.Tensor, is_output: bool) -> Figures | None:
    """Returns figures that state how the observed tensor's sizes, or kind of dtype if it is an output of the file,
    differ; None if both are right. Floating-point dtypes may have another precision, and a quantiser replaces them.
    Quantised tensors have another form in a file."""
    if recorded.dtype.startswith("q"):
        return None
    observed = _as_complex(recorded, observed)
    form = wrong_sizes(recorded, tuple(observed.shape))
    is_quantised = observed.dtype in (torch.int8, torch.uint8)
    if not form and is_output and not is_quantised and _kind(recorded.dtype) != _kind(str(observed.dtype)):
        form = f"its dtype is {str(observed.dtype).removeprefix('torch.')} instead of {recorded.dtype}"
    return Figures(math.inf, math.inf, 0.0, False, None, False, "", form, sizes=tuple(observed.shape)) if form else None


def with_wrong_sizes(figures: Figures, form: str) -> Figures:
    return replace(figures, relative=math.inf, largest=math.inf, cosine=0.0, layout="", form=form, permuted=None)


def wrong_sizes(recorded: Recorded, sizes: tuple[int, ...]) -> str:
    """Returns "its sizes are [1, 1] instead of []", or an empty string."""
    return "" if sizes == tuple(recorded.dims) else f"its sizes are {list(sizes)} instead of {list(recorded.dims)}"


def _as_complex(recorded: Recorded, observed: torch.Tensor) -> torch.Tensor:
    """Returns complex numbers for a complex recorded tensor: a file has real and imaginary parts in the last axis."""
    is_pairs = recorded.dtype.startswith("complex") and observed.is_floating_point() and observed.shape[-1:] == (2,)
    if not is_pairs:
        return observed
    return torch.view_as_complex((observed if observed.dtype is torch.float64 else observed.float()).contiguous())


def _kind(dtype: str) -> str:
    """Returns "float", "complex", or the dtype of integers, booleans and double precision: "int64"."""
    dtype = dtype.removeprefix("torch.")
    return next((kind for kind in ("float", "complex") if kind in dtype and not dtype.endswith("64")), dtype)


def as_recorded(values: Values, recorded: Recorded, observed: torch.Tensor, layout: str) -> torch.Tensor:
    """Returns the observed tensor with the recorded sizes, and with the recorded order of axes if ``layout`` is set."""
    view = _best_view(observed, recorded.dims, *samples_of(values, recorded)) if layout else None
    return (observed if view is None else view.tensor).reshape(recorded.dims)


def range_of(values: Values, recorded: Recorded) -> tuple[float, float] | None:
    """Returns the smallest and the largest finite element; None if there is none."""
    if recorded.form != "whole":
        summary = values.sketch(recorded)
        return summary.moment("min"), summary.moment("max")
    tensor = values.whole(recorded)
    finite = tensor[torch.isfinite(tensor)].double() if not tensor.is_complex() else tensor.new_empty(0)
    return (float(finite.min()), float(finite.max())) if finite.numel() else None


def relative(expected: torch.Tensor, observed: torch.Tensor) -> float:
    """Returns ``Figures.relative`` for two tensors with the same number of elements."""
    a, b = observed.reshape(-1), expected.reshape(-1)
    if not _is_number_tensor(b):
        return float((a != b).double().mean()) if a.numel() else 0.0
    return _number_figures(a, b, "").relative


def is_number(recorded: Recorded) -> bool:
    return recorded.dtype.startswith(("float", "bfloat", "complex"))


def _is_number_tensor(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _complete_figures(expected: torch.Tensor, view: _View) -> Figures:
    a, b = view.tensor.reshape(-1), expected.reshape(-1)
    if not _is_number_tensor(b):
        unequal = float((a.double() != b.double()).double().mean()) if a.numel() else 0.0
        return _integer_figures(unequal, _largest(a.double() - b.double()), False, view.layout)
    return _number_figures(a, b, view.layout)


def _number_figures(observed: torch.Tensor, expected: torch.Tensor, layout: str) -> Figures:
    a, b = _wide(observed), _wide(expected)
    not_finite = _not_finite_differs(a, b)
    finite = torch.isfinite(a) & torch.isfinite(b)
    a, b = (a, b) if bool(finite.all()) else (a[finite], b[finite])
    difference = _length(a - b)
    return _figures(difference, _length(a), _length(b), _largest(a - b), not_finite, False, layout)


def samples_of(values: Values, recorded: Recorded) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns sampled indices of the recorded tensor, and the elements at these indices."""
    if recorded.form != "whole":
        return sketching.sample_positions(recorded.count), values.sketch(recorded).samples
    flat = values.whole(recorded).reshape(-1)
    indices = torch.arange(flat.numel()) if flat.numel() <= sketching.SAMPLES \
        else sketching.sample_positions(flat.numel())
    return indices, flat[indices]


def _not_finite_differs(a: torch.Tensor, b: torch.Tensor) -> bool:
    if bool(torch.isfinite(a).all()) and bool(torch.isfinite(b).all()):
        return False
    return not (torch.equal(a.isnan(), b.isnan()) and torch.equal(a.isposinf(), b.isposinf())
                and torch.equal(a.isneginf(), b.isneginf()))


def _sketch_figures(expected: Sketch, recorded: Recorded, view: _View) -> Figures:
    indices = sketching.sample_positions(recorded.count)
    flat = view.tensor.reshape(-1)
    sampled = flat[indices]
    if not _is_number_tensor(flat):
        unequal = float((sampled != expected.samples).double().mean())
        return _integer_figures(unequal, _largest(sampled.double() - expected.samples.double()), True, view.layout)
    norm, counts = sketching.norm_of(flat)
    projected = sketching.projection(flat)
    not_finite = counts != expected.not_finite
    a, b = _wide(sampled), _wide(expected.samples)
    not_finite = not_finite or _not_finite_differs(a, b)
    finite = torch.isfinite(a) & torch.isfinite(b)
    difference = _length(projected.double() - expected.projection.double())
    return _figures(difference, norm, expected.norm, _largest(a[finite] - b[finite]),
                    not_finite, True, view.layout)


def _figures(difference: float, observed: float, expected: float, largest: float, not_finite: bool, estimated: bool,
             layout: str) -> Figures:
    if not_finite or not math.isfinite(difference):
        relative = math.inf
    elif expected == 0:
        relative = 0.0 if difference == 0 else math.inf
    else:
        relative = difference / expected
    cosine = 1.0 if difference == 0 else 0.0
    if observed > 0 and expected > 0 and math.isfinite(difference):
        # From the law of cosines, because a sketch contains only norms.
        cosine = max(-1.0, min(1.0, (observed**2 + expected**2 - difference**2) / (2 * observed * expected)))
    return Figures(relative, largest, cosine, estimated, None, not_finite, layout)


def _integer_figures(unequal: float, largest: float, estimated: bool, layout: str) -> Figures:
    return Figures(unequal, largest, 1.0 - unequal, estimated, unequal, False, layout)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()).reshape(-1).double() if tensor.is_complex() else tensor.double()


def _length(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor.double()))


def _largest(difference: torch.Tensor) -> float:
    return float(difference.abs().max()) if difference.numel() else 0.0


# ---- layouts ------------------------------------------------------------------------------------------------------


def _best_view(observed: torch.Tensor, dims: tuple[int, ...], indices: torch.Tensor,
               samples: torch.Tensor) -> _View | None:
    """Returns the tensor unchanged, or in another order of axes if only that order is close to the samples."""
    unpermuted = _View("", observed)
    distance = _distance(unpermuted, indices, samples)
    if distance < 0.5:
        return unpermuted
    distances = [(_distance(view, indices, samples), view) for view in _permuted(observed, dims)]
    min_distance, best = min(distances, key=lambda each: each[0], default=(math.inf, unpermuted))
    if min_distance < 0.1 and min_distance < distance / 4:
        return best
    return unpermuted if _without_ones(observed.shape) == _without_ones(dims) else None


def _without_ones(dims: Iterable[int]) -> list[int]:
    return [size for size in dims if size != 1]


def _permuted(observed: torch.Tensor, dims: tuple[int, ...]) -> Iterator[_View]:
    """Yields views with permuted observed axes (channels last, split heads) or recorded axes (merged heads)."""
    for order in _orders(observed.dim()):
        yield _View("axes " + " ".join(map(str, order)), observed.permute(order))
    if tuple(observed.shape) == dims:
        return
    for order in _orders(len(dims)):
        sizes = [dims[axis] for axis in order]
        inverse = [order.index(axis) for axis in range(len(dims))]
        yield _View("axes " + " ".join(map(str, inverse)), observed.reshape(sizes).permute(inverse))


def _orders(rank: int) -> Iterator[tuple[int, ...]]:
    """Yields all orders of axes except the original order."""
    return itertools.islice(itertools.permutations(range(rank)), 1, _MAX_LAYOUTS)


def _distance(view: _View, indices: torch.Tensor, samples: torch.Tensor) -> float:
    """Returns the relative difference of the sampled elements. Copies only these elements."""
    if samples.numel() == 0:
        return 0.0
    sampled = _elements(view.tensor, indices)
    if not _is_number_tensor(sampled):
        return float((sampled != samples).double().mean())
    a, b = _wide(sampled), _wide(samples)
    finite = torch.isfinite(a) & torch.isfinite(b)
    length = _length(b[finite])
    return _length(a[finite] - b[finite]) / length if length else float(_length(a[finite]) > 0)


def _elements(tensor: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Returns the elements at these indices in contiguous order. torch.unravel_index would import sympy, which takes most
    of a second."""
    if tensor.is_contiguous():
        return tensor.view(-1)[indices]
    axes = []
    for size in reversed(tensor.shape):
        axes.append(indices % size)
        indices = indices // size
    return tensor[tuple(reversed(axes))]
