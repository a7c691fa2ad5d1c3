"""What an operator case is: `case("aten::gelu", lambda x: torch.nn.functional.gelu(x), f32(2, 3))`.

A case traces its function (or compiles its TorchScript source), exports the archive with the `whence` command and
compares ONNX Runtime with PyTorch: values, dtypes and shapes. It does so on the tensors that were traced and on others
of the same description; where axes are dynamic, also at a larger size, at 1 and at 0 as far as PyTorch accepts them.
The operator in its key has to occur in the traced graph. The same function goes through torch.export as well, where
operators may be others.
"""

import functools
import inspect
import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Callable

import torch

DEFAULT_OPSETS = (20,)  # the command's default; test_matrix.py runs the others
_numbers = itertools.count()  # TorchScript wants a class of its own for each source


@dataclass(frozen=True)
class Input:
    """A seeded random tensor that can be made again in another shape."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    low: float = 0
    high: float = 1
    seed: int = 0

    def tensor(self, shape: tuple[int, ...] | None = None, draw: int = 0) -> torch.Tensor:
        """Each `draw` holds other numbers of the same range."""
        shape = self.shape if shape is None else shape
        drawn = self._drawn(shape, draw)
        for attempt in range(1, 20 if draw else 0):  # few small integers are often the same ones
            if not same(drawn, self._drawn(shape, 0)):
                break
            drawn = self._drawn(shape, draw + attempt)
        return drawn

    def _drawn(self, shape: tuple[int, ...], draw: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(1000 + self.seed + 17 * math.prod(shape) + 7919 * draw)
        if self.dtype == torch.bool:
            return torch.rand(shape, generator=generator) < 0.5
        if not self.dtype.is_floating_point:
            return torch.randint(int(self.low), int(self.high), shape, generator=generator).to(self.dtype)
        if (self.low, self.high) == (0, 1):
            return torch.randn(shape, generator=generator).to(self.dtype)
        return (self.low + (self.high - self.low) * torch.rand(shape, generator=generator)).to(self.dtype)


@dataclass(frozen=True)
class Given:
    """A tensor with numbers of its own, which is traced, and another one for a second run."""

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


def given(tensor: torch.Tensor) -> Given:
    """The second tensor has the same numbers in other places; where all of them are equal, others close by."""
    moved = tensor.flatten().roll(1).reshape(tensor.shape) if tensor.numel() else tensor
    if not same(moved, tensor):
        return Given(tensor, moved)
    if tensor.dtype == torch.bool:
        return Given(tensor, ~tensor)
    if tensor.is_floating_point():
        return Given(tensor, tensor / 2 + 0.5 + (tensor == 1))
    return Given(tensor, torch.where(tensor > 1, tensor - 1, tensor + 1))


def two(first: torch.Tensor, second: torch.Tensor) -> Given:
    """For tensors whose numbers cannot change places: bounds that ascend, lengths that descend, an only index."""
    return Given(first, second)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal in dtype, shape and numbers; NaN equals NaN."""
    return one.dtype == other.dtype and one.shape == other.shape and bool(
        ((one == other) | ((one != one) & (other != other))).all())


def f32(*shape: int, seed: int = 0) -> Input:
    """Normally distributed float32."""
    return Input(torch.float32, shape, seed=seed)


def between(low: float, high: float, *shape: int, seed: int = 0) -> Input:
    """Uniform float32 in [low, high)."""
    return Input(torch.float32, shape, low, high, seed)


def f64(*shape: int, seed: int = 0) -> Input:
    return Input(torch.float64, shape, seed=seed)


def f16(*shape: int, seed: int = 0) -> Input:
    return Input(torch.float16, shape, seed=seed)


def i64(low: int, high: int, *shape: int, seed: int = 0) -> Input:
    """Uniform int64 in [low, high)."""
    return Input(torch.int64, shape, low, high, seed)


def i32(low: int, high: int, *shape: int, seed: int = 0) -> Input:
    return Input(torch.int32, shape, low, high, seed)


def u8(low: int, high: int, *shape: int, seed: int = 0) -> Input:
    return Input(torch.uint8, shape, low, high, seed)


def boolean(*shape: int, seed: int = 0) -> Input:
    return Input(torch.bool, shape, seed=seed)


def plain(result):
    """Results with names of their own (torch.return_types.sort) have no form in a torch.export archive."""
    return tuple(result) if type(result).__module__ == "torch.return_types" else result


@dataclass(frozen=True)
class Tolerance:
    relative: float = 1e-5
    absolute: float = 1e-5


@dataclass(frozen=True)
class Case:
    key: str
    function: Callable | torch.nn.Module | str
    inputs: tuple[Input | Given, ...]
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
    family: str = ""  # the table that the case is from

    @functools.cached_property
    def argument_names(self) -> list[str]:
        if isinstance(self.function, str):
            return [argument.debugName().split(".")[0] for argument in list(self.module().graph.inputs())[1:]]
        function = self.function.forward if isinstance(self.function, torch.nn.Module) else self.function
        return list(inspect.signature(function).parameters)[: len(self.inputs)]

    def axes(self) -> dict[str, dict[int, str]]:
        """`dynamic` as {argument: {axis: symbol}}."""
        named: dict[str, dict[int, str]] = {}
        for group in self.dynamic.split():
            argument, axes = group.split(":")
            named[argument] = {int(axis): symbol for axis, symbol in (pair.split("=") for pair in axes.split(","))}
        return named

    def symbols(self) -> list[str]:
        """The names of dynamic sizes."""
        return sorted({symbol for axes in self.axes().values() for symbol in axes.values()})

    def sizes(self) -> dict[str, int]:
        """The dynamic sizes at which the case is traced."""
        return {symbol: given.shape[axis] for name, given in zip(self.argument_names, self.inputs, strict=True)
                for axis, symbol in self.axes().get(name, {}).items()}

    def larger(self, growth: int) -> dict[str, int]:
        """Every dynamic size longer by `growth`, more for each further symbol."""
        return {symbol: size + growth * (1 + self.symbols().index(symbol)) for symbol, size in self.sizes().items()}

    def tensors(self, sizes: dict[str, int] | None = None, draw: int = 0) -> list[torch.Tensor]:
        """The example inputs, with dynamic axes of these sizes where given; each `draw` has other values."""
        made = []
        for name, given in zip(self.argument_names, self.inputs, strict=True):
            shape = list(given.shape)
            for axis, symbol in self.axes().get(name, {}).items():
                shape[axis] = (sizes or {}).get(symbol, shape[axis])
            made.append(given.tensor(tuple(shape), draw))
        return made

    def module(self) -> torch.nn.Module:
        """What is traced, under the function's own argument names; TorchScript source is compiled."""
        if isinstance(self.function, torch.nn.Module):
            return self.function.eval()
        if isinstance(self.function, str):
            module = type(f"Operator{next(_numbers)}", (torch.jit.ScriptModule,), {})()
            module.define(self.function + "\n")
            return module.eval()
        arguments = ", ".join(self.argument_names)
        scope = {"function": lambda *given: plain(self.function(*given))}
        exec(f"def forward(self, {arguments}): return function({arguments})", scope)  # noqa: S102
        return type("Operator", (torch.nn.Module,), {"forward": scope["forward"]})().eval()

    def archive(self) -> torch.jit.ScriptModule:
        module = self.module()
        if isinstance(module, torch.jit.ScriptModule):
            return module
        return torch.jit.trace(module, tuple(self.tensors()), check_trace=False)

    def exported_program(self) -> torch.export.ExportedProgram:
        """What torch.export makes of it, at any size of the dynamic axes."""
        axes = self.axes()
        shapes = tuple({axis: torch.export.Dim.DYNAMIC for axis in axes.get(name, {})} or None
                       for name in self.argument_names)
        given = tuple(tensor.clone() for tensor in self.tensors())  # torch.export marks what is dynamic, and that is saved
        with torch.no_grad():
            return torch.export.export(self.module(), given, dynamic_shapes=shapes if axes else None)

    def __str__(self) -> str:
        kinds = ",".join(str(given.dtype).removeprefix("torch.") + str(list(given.shape)) for given in self.inputs)
        return f"{self.key.removeprefix('aten::')}({kinds}{' ' + self.dynamic if self.dynamic else ''})"


def case(key: str, function, *inputs, dynamic: str = "", opsets=DEFAULT_OPSETS, tolerance=(1e-5, 1e-5),
         refused: str = "", recorded_as: str = "", not_in_archives: str = "", not_in_traces: str = "",
         other_inputs: tuple[tuple[torch.Tensor, ...], ...] = (), one_value: str = "",
         not_at: dict[str, str] | None = None, finite: str = "", not_as: dict[str, str] | None = None) -> Case:
    """One line of a case table.

    key        the operator with its overload, as `whence ops` lists it
    inputs     descriptions of tensors, which make numbers that differ from each other and can be made again; tensors
               with numbers of their own (see `given`); or two(first, second)
    function   called with the inputs while tracing; or a torch.nn.Module; or the source of a TorchScript `forward`,
               "def forward(self, x): ..." , for operators that tracing cannot produce
    dynamic    axes left open, by the function's argument names: "x:0=batch,1=seq mask:0=batch"
    tolerance  (relative, absolute); None compares dtypes and shapes only (random numbers)
    refused    a part of the message with which export has to refuse the case
    recorded_as  the operator to be found in the archive, where export makes `key` of it: aten::fill_.Scalar
    not_in_archives  why the case is left out from a torch.export archive: torch.export fails on it, or means another
               thing. TorchScript source needs no reason.
    not_in_traces  why the case is left out from a trace: LibTorch does not know an operator that Python registers
    other_inputs  further tensors for all arguments, on which the exported file is compared as well: NaN, infinities,
               empty axes
    one_value  why an input has the same numbers in every run
    not_at     dynamic sizes at which PyTorch computes what ONNX or ONNX Runtime cannot, each with the reason:
               {"n=0": "ONNX Runtime has no convolution of nothing"}
    not_as     dtypes of matrix.py with which PyTorch computes what ONNX or ONNX Runtime cannot, each with the reason
    finite     why NaN and infinities are not tried where the family's other cases are
    """
    inputs = tuple(given(each) if isinstance(each, torch.Tensor) else
                   replace(each, seed=each.seed + 100 * place) if isinstance(each, Input) else each
                   for place, each in enumerate(inputs))
    return Case(key, function, inputs, dynamic, tuple(opsets), Tolerance(*tolerance) if tolerance else None,
                refused, recorded_as, not_in_archives, not_in_traces, tuple(other_inputs), one_value, not_at or {},
                finite, not_as or {})
