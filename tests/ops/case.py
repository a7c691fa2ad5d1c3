"""Defines cases for operators: `case("aten::gelu", lambda x: torch.nn.functional.gelu(x), f32(2, 3))`.

A case traces its function (or compiles its TorchScript source), exports the archive with the `whence` command and
compares values, dtypes and shapes in ONNX Runtime with PyTorch: for the traced tensors, for other values and, on
dynamic axes, at a larger size, at 1 and at 0 if PyTorch accepts them. The traced graph must contain the key's operator.
test_archives.py exports the same function with torch.export; that program may contain other operators.
"""

import functools
import inspect
import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Callable

import torch

DEFAULT_OPSETS = (20,)  # the command's default; test_matrix.py runs the others
_numbers = itertools.count()  # TorchScript needs a separate class for each source


@dataclass(frozen=True)
class Input:
    """A seeded random tensor, which can be created in other shapes."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    low: float = 0
    high: float = 1
    seed: int = 0

    def tensor(self, shape: tuple[int, ...] | None = None, draw: int = 0) -> torch.Tensor:
        """Creates the tensor; each `draw` returns other numbers in the same range."""
        shape = self.shape if shape is None else shape
        tensor = self._random(shape, draw)
        for attempt in range(1, 20 if draw else 0):  # a short draw of small integers often equals the first
            if not same(tensor, self._random(shape, 0)):
                break
            tensor = self._random(shape, draw + attempt)
        return tensor

    def _random(self, shape: tuple[int, ...], draw: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(1000 + self.seed + 17 * math.prod(shape) + 7919 * draw)
        if self.dtype == torch.bool:
            return torch.rand(shape, generator=generator) < 0.5
        if not self.dtype.is_floating_point:
            return torch.randint(int(self.low), int(self.high), shape, generator=generator).to(self.dtype)
        if (self.low, self.high) == (0, 1):
            return torch.randn(shape, generator=generator).to(self.dtype)
        return (self.low + (self.high - self.low) * torch.rand(shape, generator=generator)).to(self.dtype)


@dataclass(frozen=True)
class FixedInput:
    """A tensor of fixed numbers for the trace, and a second tensor for another run."""

    first: torch.Tensor
    second: torch.Tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.first.dtype

    @property
    def shape(self) -> torch.Size:
        return self.first.shape

    def tensor(self, shape: tuple[int, ...] | None = None, draw: int = 0) -> torch.Tensor:
        return self.second if draw else self.first


def fixed(tensor: torch.Tensor) -> FixedInput:
    """Adds a second tensor: the same numbers at other positions, or nearby numbers if all are equal."""
    rolled = tensor.flatten().roll(1).reshape(tensor.shape) if tensor.numel() else tensor
    if not same(rolled, tensor):
        return FixedInput(tensor, rolled)
    if tensor.dtype == torch.bool:
        return FixedInput(tensor, ~tensor)
    if tensor.is_floating_point():
        return FixedInput(tensor, tensor / 2 + 0.5 + (tensor == 1))
    return FixedInput(tensor, torch.where(tensor > 1, tensor - 1, tensor + 1))


def per_run(first: torch.Tensor, second: torch.Tensor) -> FixedInput:
    """Specifies both tensors, for numbers with a required order (bounds, lengths) or a single index."""
    return FixedInput(first, second)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Returns true if dtypes, shapes and numbers are equal; NaN equals NaN."""
    return one.dtype == other.dtype and one.shape == other.shape and bool(
        ((one == other) | ((one != one) & (other != other))).all())


def f32(*shape: int, seed: int = 0) -> Input:
    """Describes a normally distributed float32 tensor."""
    return Input(torch.float32, shape, seed=seed)


def between(low: float, high: float, *shape: int, seed: int = 0) -> Input:
    """Describes a uniform float32 tensor in [low, high)."""
    return Input(torch.float32, shape, low, high, seed)


def f64(*shape: int, seed: int = 0) -> Input:
    return Input(torch.float64, shape, seed=seed)


def f16(*shape: int, seed: int = 0) -> Input:
    return Input(torch.float16, shape, seed=seed)


def i64(low: int, high: int, *shape: int, seed: int = 0) -> Input:
    """Describes a uniform int64 tensor in [low, high)."""
    return Input(torch.int64, shape, low, high, seed)


def i32(low: int, high: int, *shape: int, seed: int = 0) -> Input:
    return Input(torch.int32, shape, low, high, seed)


def u8(low: int, high: int, *shape: int, seed: int = 0) -> Input:
    return Input(torch.uint8, shape, low, high, seed)


def boolean(*shape: int, seed: int = 0) -> Input:
    return Input(torch.bool, shape, seed=seed)


def as_tuple(result):
    """Converts named results (torch.return_types.sort), which torch.export cannot save, to tuples."""
    return tuple(result) if type(result).__module__ == "torch.return_types" else result


@dataclass(frozen=True)
class Tolerance:
    relative: float = 1e-5
    absolute: float = 1e-5


@dataclass(frozen=True)
class Case:
    key: str
    function: Callable | torch.nn.Module | str
    inputs: tuple[Input | FixedInput, ...]
    dynamic: str = ""
    opsets: tuple[int, ...] = DEFAULT_OPSETS
    tolerance: Tolerance | None = field(default_factory=Tolerance)
    refused: str = ""
    recorded_as: str = ""
    not_in_archives: str = ""
    not_in_traces: str = ""
    other_inputs: tuple[tuple[torch.Tensor, ...], ...] = ()
    one_value: str = ""
    not_at: dict[str, str] = field(default_factory=dict)
    finite: str = ""
    not_as: dict[str, str] = field(default_factory=dict)
    family: str = ""  # the table that contains the case

    @functools.cached_property
    def argument_names(self) -> list[str]:
        if isinstance(self.function, str):
            return [argument.debugName().split(".")[0] for argument in list(self.module().graph.inputs())[1:]]
        function = self.function.forward if isinstance(self.function, torch.nn.Module) else self.function
        return list(inspect.signature(function).parameters)[: len(self.inputs)]

    def axes(self) -> dict[str, dict[int, str]]:
        """Parses `dynamic` to {argument: {axis: symbol}}."""
        axes_by_argument: dict[str, dict[int, str]] = {}
        for group in self.dynamic.split():
            argument, axes = group.split(":")
            pairs = (pair.split("=") for pair in axes.split(","))
            axes_by_argument[argument] = {int(axis): symbol for axis, symbol in pairs}
        return axes_by_argument

    def symbols(self) -> list[str]:
        """Returns the names of the dynamic sizes."""
        return sorted({symbol for axes in self.axes().values() for symbol in axes.values()})

    def sizes(self) -> dict[str, int]:
        """Returns the dynamic sizes of the trace."""
        return {symbol: each.shape[axis] for name, each in zip(self.argument_names, self.inputs, strict=True)
                for axis, symbol in self.axes().get(name, {}).items()}

    def larger(self, growth: int) -> dict[str, int]:
        """Increases every dynamic size, the first by `growth` and each further one by `growth` more."""
        return {symbol: size + growth * (1 + self.symbols().index(symbol)) for symbol, size in self.sizes().items()}

    def tensors(self, sizes: dict[str, int] | None = None, draw: int = 0) -> list[torch.Tensor]:
        """Creates the example inputs with these dynamic sizes; each `draw` has other values."""
        tensors = []
        for name, each in zip(self.argument_names, self.inputs, strict=True):
            shape = list(each.shape)
            for axis, symbol in self.axes().get(name, {}).items():
                shape[axis] = (sizes or {}).get(symbol, shape[axis])
            tensors.append(each.tensor(tuple(shape), draw))
        return tensors

    def module(self) -> torch.nn.Module:
        """Returns a module with the function's argument names; compiles TorchScript source."""
        if isinstance(self.function, torch.nn.Module):
            return self.function.eval()
        if isinstance(self.function, str):
            module = type(f"Operator{next(_numbers)}", (torch.jit.ScriptModule,), {})()
            module.define(self.function + "\n")
            return module.eval()
        arguments = ", ".join(self.argument_names)
        scope = {"function": lambda *tensors: as_tuple(self.function(*tensors))}
        exec(f"def forward(self, {arguments}): return function({arguments})", scope)  # noqa: S102
        return type("Operator", (torch.nn.Module,), {"forward": scope["forward"]})().eval()

    def archive(self) -> torch.jit.ScriptModule:
        module = self.module()
        if isinstance(module, torch.jit.ScriptModule):
            return module
        return torch.jit.trace(module, tuple(self.tensors()), check_trace=False)

    def exported_program(self) -> torch.export.ExportedProgram:
        """Exports the case with torch.export, with its dynamic axes."""
        axes = self.axes()
        shapes = tuple({axis: torch.export.Dim.DYNAMIC for axis in axes.get(name, {})} or None
                       for name in self.argument_names)
        # torch.export marks dynamic axes on its inputs, and the marks would be saved.
        inputs = tuple(tensor.clone() for tensor in self.tensors())
        with torch.no_grad():
            return torch.export.export(self.module(), inputs, dynamic_shapes=shapes if axes else None)

    def __str__(self) -> str:
        kinds = ",".join(str(each.dtype).removeprefix("torch.") + str(list(each.shape)) for each in self.inputs)
        return f"{self.key.removeprefix('aten::')}({kinds}{' ' + self.dynamic if self.dynamic else ''})"


def case(key: str, function, *inputs, dynamic: str = "", opsets=DEFAULT_OPSETS, tolerance=(1e-5, 1e-5),
         refused: str = "", recorded_as: str = "", not_in_archives: str = "", not_in_traces: str = "",
         other_inputs: tuple[tuple[torch.Tensor, ...], ...] = (), one_value: str = "",
         not_at: dict[str, str] | None = None, finite: str = "", not_as: dict[str, str] | None = None) -> Case:
    """Creates one row of a case table.

    key        the operator with its overload, as in `whence ops`
    inputs     descriptions of random tensors with different seeds; tensors of fixed numbers (see `fixed`); or
               per_run(first, second)
    function   called with the inputs while tracing; or a torch.nn.Module; or the source of a TorchScript `forward`,
               "def forward(self, x): ...", for operators that tracing cannot produce
    dynamic    dynamic axes by the function's argument names: "x:0=batch,1=seq mask:0=batch"
    tolerance  (relative, absolute); None compares only dtypes and shapes (random numbers)
    refused    a fragment of the message with which export must refuse the case
    recorded_as  the operator in the archive if export rewrites it to `key`: aten::fill_.Scalar
    not_in_archives  why the case does not run with torch.export: it fails, or its program has another meaning. Not
               needed for TorchScript source
    not_in_traces  why the case is not traced: LibTorch lacks operators that Python registers
    other_inputs  further argument tensors on which the exported file is compared: NaN, infinities, empty axes
    one_value  why an input has the same numbers in every run
    not_at     dynamic sizes that PyTorch supports but ONNX or ONNX Runtime does not, each with the reason:
               {"n=0": "ONNX Runtime has no convolution of an empty tensor"}
    not_as     dtypes of matrix.py that PyTorch supports but ONNX or ONNX Runtime does not, each with the reason
    finite     why this case is not tried with NaN and infinities, unlike others of its family
    """
    inputs = tuple(fixed(each) if isinstance(each, torch.Tensor) else
                   replace(each, seed=each.seed + 100 * index) if isinstance(each, Input) else each
                   for index, each in enumerate(inputs))
    return Case(key, function, inputs, dynamic, tuple(opsets), Tolerance(*tolerance) if tolerance else None,
                refused, recorded_as, not_in_archives, not_in_traces, tuple(other_inputs), one_value, not_at or {},
                finite, not_as or {})
