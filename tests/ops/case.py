"""What an operator case is: `case("aten::gelu", lambda x: torch.nn.functional.gelu(x), f32(2, 3))`.

A case traces its function (or compiles its TorchScript source), exports the archive with the `whence` command and
compares ONNX Runtime with PyTorch: values, dtypes and shapes, at the size traced and, where axes are dynamic, at a
larger one. The operator in its key has to occur in the traced graph. The same function goes through torch.export as
well, where operators may be others.
"""

import inspect
import itertools
import math
from dataclasses import dataclass, field
from typing import Callable

import torch

DEFAULT_OPSETS = (18,)
_numbers = itertools.count()  # TorchScript wants a class of its own for each source


@dataclass(frozen=True)
class Input:
    """A seeded random tensor that can be made again in another shape."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    low: float = 0
    high: float = 1
    seed: int = 0

    def tensor(self, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        shape = self.shape if shape is None else shape
        generator = torch.Generator().manual_seed(1000 + self.seed + 17 * math.prod(shape))
        if self.dtype == torch.bool:
            return torch.rand(shape, generator=generator) < 0.5
        if not self.dtype.is_floating_point:
            return torch.randint(int(self.low), int(self.high), shape, generator=generator).to(self.dtype)
        if (self.low, self.high) == (0, 1):
            return torch.randn(shape, generator=generator).to(self.dtype)
        return (self.low + (self.high - self.low) * torch.rand(shape, generator=generator)).to(self.dtype)


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
    inputs: tuple[Input | torch.Tensor, ...]
    dynamic: str = ""
    opsets: tuple[int, ...] = DEFAULT_OPSETS
    tolerance: Tolerance | None = field(default_factory=Tolerance)
    refused: str = ""
    recorded_as: str = ""
    not_in_archives: str = ""
    not_in_traces: str = ""
    other_inputs: tuple[tuple[torch.Tensor, ...], ...] = ()

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

    def tensors(self, growth: int = 0) -> list[torch.Tensor]:
        """The example inputs; with every dynamic axis longer by `growth`, more for each further symbol."""
        symbols = sorted({symbol for axes in self.axes().values() for symbol in axes.values()})
        made = []
        for name, given in zip(self.argument_names(), self.inputs, strict=True):
            if isinstance(given, torch.Tensor):
                made.append(given)
                continue
            shape = list(given.shape)
            for axis, symbol in self.axes().get(name, {}).items():
                shape[axis] += growth * (1 + symbols.index(symbol))
            made.append(given.tensor(tuple(shape)))
        return made

    def module(self) -> torch.nn.Module:
        """What is traced, under the function's own argument names; TorchScript source is compiled."""
        if isinstance(self.function, torch.nn.Module):
            return self.function.eval()
        if isinstance(self.function, str):
            module = type(f"Operator{next(_numbers)}", (torch.jit.ScriptModule,), {})()
            module.define(self.function + "\n")
            return module.eval()
        arguments = ", ".join(self.argument_names())
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
                       for name in self.argument_names())
        with torch.no_grad():
            return torch.export.export(self.module(), tuple(self.tensors()), dynamic_shapes=shapes if axes else None)

    def __str__(self) -> str:
        kinds = ",".join(str(given.dtype).removeprefix("torch.") + str(list(given.shape)) for given in self.inputs)
        return f"{self.key.removeprefix('aten::')}({kinds}{' ' + self.dynamic if self.dynamic else ''})"


def case(key: str, function, *inputs, dynamic: str = "", opsets=DEFAULT_OPSETS, tolerance=(1e-5, 1e-5),
         refused: str = "", recorded_as: str = "", not_in_archives: str = "", not_in_traces: str = "",
         other_inputs: tuple[tuple[torch.Tensor, ...], ...] = ()) -> Case:
    """One line of a case table.

    key        the operator with its overload, as `whence ops` lists it
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
    """
    return Case(key, function, tuple(inputs), dynamic, tuple(opsets), Tolerance(*tolerance) if tolerance else None,
                refused, recorded_as, not_in_archives, not_in_traces, tuple(other_inputs))
