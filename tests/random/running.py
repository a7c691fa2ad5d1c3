"""Runs the text of programs in PyTorch, without tracing or compiling."""

import linecache
import resource
import warnings
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, List

import numpy as np
import torch

from program_text import Program

GLOBALS = {"torch": torch, "List": List, "min": min, "max": max}
MAX_GROWTH = 6 << 30  # bytes of address space
MAX_MAGNITUDE = 1e4  # limit of intermediate values: above it, rounding errors look like defects


@contextmanager
def bounded_memory():
    """Limits the memory, so that PyTorch raises an error in an endless program."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MAX_GROWTH, hard_limit))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft_limit, hard_limit))


def make_inputs(program: Program, number: int) -> list[torch.Tensor]:
    """Returns inputs at program.sizes[number]. They are multiples of 1/8, so that most sums are exact and no condition
    on data depends on rounding."""
    sizes = program.sizes[number]
    rng = np.random.default_rng(1000 + number)
    inputs = []
    for each in program.inputs:
        if each.dtype == "int64":
            inputs.append(torch.tensor(int((3, 1, 2, 5, 0, 4, 3, 2)[number % 8])))
            continue
        values = rng.integers(-16, 17, size=each.shape(sizes)) / 8
        inputs.append(torch.from_numpy(np.asarray(values, dtype=np.float32)))
    return inputs


def compile_forward(source: str) -> Callable:
    """Returns the function, with its source registered for `inspect`."""
    name = f"<program {zlib.crc32(source.encode()):08x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = dict(GLOBALS, __name__="random_program")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # for lines from the shrinker
        exec(compile(source, name, "exec"), space)
    return space["forward"]


def as_module(source: str) -> torch.nn.Module:
    """Returns a module with this forward."""
    module_class = type("Net", (torch.nn.Module,), {"forward": compile_forward(source), "__module__": "random_program"})
    return module_class().eval()


def results_of(forward: Callable, inputs: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """Returns copies of the results of a call on copies of the inputs, or None if PyTorch raises."""
    try:
        with torch.no_grad():
            results = forward(*[each.clone() for each in inputs])
            return [torch.as_tensor(each).clone() for each in (results if isinstance(results, tuple) else (results,))]
    except Exception:
        return None


def eager(program: Program) -> list[list[torch.Tensor] | None]:
    """Returns the results at every size."""
    forward = compile_forward(program.source())
    return [results_of(lambda *inputs: forward(None, *inputs), make_inputs(program, number))
            for number in range(len(program.sizes))]
