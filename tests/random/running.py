"""Runs programs by PyTorch: the text itself, without tracing or compiling."""

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
MOST_GROWTH = 6 << 30  # bytes of address space
LARGEST = 1e4  # limit of numbers on the way: above it, rounding errors look like defects


@contextmanager
def bounded_memory():
    """Limits the memory, so that a program without end gets an error from PyTorch."""
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_GROWTH, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))


def make_inputs(program: Program, number: int) -> list[torch.Tensor]:
    """Returns inputs at program.sizes[number]: multiples of 1/8, so that most sums are exact and no condition on data
    depends on rounding."""
    sizes = program.sizes[number]
    chance = np.random.default_rng(1000 + number)
    made = []
    for each in program.inputs:
        if each.dtype == "int64":
            made.append(torch.tensor(int((3, 1, 2, 5, 0, 4, 3, 2)[number % 8])))
            continue
        values = chance.integers(-16, 17, size=each.shape(sizes)) / 8
        made.append(torch.from_numpy(np.asarray(values, dtype=np.float32)))
    return made


def compile_forward(source: str) -> Callable:
    """Returns the function, with its source registered for `inspect`."""
    name = f"<program {zlib.crc32(source.encode()):08x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = dict(GLOBALS, __name__="random_program")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # in texts of the shrinker
        exec(compile(source, name, "exec"), space)
    return space["forward"]


def as_module(source: str) -> torch.nn.Module:
    """Returns an instance of a new class."""
    made = type("Net", (torch.nn.Module,), {"forward": compile_forward(source), "__module__": "random_program"})
    return made().eval()


def results_of(forward: Callable, inputs: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """Returns the results of a call, copied before later writes, or None if PyTorch raises. Copies the inputs too."""
    try:
        with torch.no_grad():
            found = forward(*[each.clone() for each in inputs])
            return [torch.as_tensor(each).clone() for each in (found if isinstance(found, tuple) else (found,))]
    except Exception:
        return None


def eager(program: Program) -> list[list[torch.Tensor] | None]:
    """Returns the results at every size."""
    forward = compile_forward(program.source())
    return [results_of(lambda *inputs: forward(None, *inputs), make_inputs(program, number))
            for number in range(len(program.sizes))]
