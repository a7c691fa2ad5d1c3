"""The scope of a statement under construction: the visible names, with their values at several sizes.

PyTorch computes the values by running the lines before the statement, with each enclosing block once. A statement
queries the scope for suitable tensors, axes and sizes; `try_lines` reports whether PyTorch runs its lines.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Callable

import torch

from program_text import Input, Program, Statement
from running import GLOBALS, MAX_MAGNITUDE, make_inputs

TRIAL_SIZES = (0, 3, 4, 7)  # indices of sizes at which lines run during generation: the example's, a 1, doubled, a 0


@dataclass
class Names:
    """Creates names that are unique in the program."""

    count: int = 0

    def new(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"


def is_small(value: torch.Tensor) -> bool:
    if not value.numel():
        return True
    if value.numel() > 4000 or value.dim() > 5:
        return False
    return not value.is_floating_point() or bool(value.abs().max() <= MAX_MAGNITUDE)  # False for NaN


def run_lines(lines: list[str], program: Program, numbers: tuple[int, ...] = TRIAL_SIZES,
              accepts: Callable[[torch.Tensor], bool] = is_small) -> list[dict | None]:
    """Returns all names with their values, for several sizes; None for a size if PyTorch raises or a tensor is not
    accepted."""
    code = compile("\n".join(lines), "<lines>", "exec")
    found: list[dict | None] = []
    for number in numbers:
        space = dict(GLOBALS)
        space.update((each.name, value) for each, value in zip(program.inputs, make_inputs(program, number), strict=True))
        try:
            with torch.no_grad():
                exec(code, space)
        except Exception:
            found.append(None)
            continue
        tensors = [each for each in space.values() if isinstance(each, torch.Tensor)]
        found.append(space if all(map(accepts, tensors)) else None)
    return found


@dataclass
class Scope:
    program: Program  # its inputs and sizes
    route: str
    rng: random.Random
    names: Names
    lines: list[str] = field(default_factory=list)  # the lines before the statement, with enclosing blocks inlined
    visible: set[str] = field(default_factory=set)
    outer: set[str] = field(default_factory=set)  # names of the enclosing blocks, which may be rebound
    counters: tuple[str, ...] = ()  # of the enclosing loops
    depth: int = 0
    in_loop: bool = False
    spaces: list[dict | None] = field(default_factory=list)

    @staticmethod
    def begin(program: Program, route: str, rng: random.Random) -> Scope:
        scope = Scope(program, route, rng, Names(), visible={each.name for each in program.inputs})
        scope.spaces = run_lines([], program)
        return scope

    def inside(self, *lines: str, counter: str = "", loop: bool = False) -> Scope | None:
        """Returns the scope of a block that starts here. `lines` replace its head."""
        scope = Scope(self.program, self.route, self.rng, self.names, [*self.lines, *lines], set(self.visible),
                      set(self.visible), (*self.counters, *([counter] if counter else [])), self.depth + 1,
                      self.in_loop or loop)
        scope.visible.update([counter] if counter else [])
        scope.spaces = run_lines(scope.lines, self.program)
        return scope if scope.spaces[0] is not None else None

    # candidates

    def try_lines(self, lines: list[str]) -> list[dict | None] | None:
        """Returns the values after these lines, or None if they fail at the example's size or at several sizes at which
        the earlier lines run."""
        try:
            spaces = run_lines([*self.lines, *lines], self.program)
        except SyntaxError:
            return None
        runs = sum(each is not None for each in spaces)
        before = sum(each is not None for each in self.spaces)
        return spaces if spaces[0] is not None and runs > 1 and runs >= before - 1 else None

    def take(self, statement: Statement, spaces: list[dict | None], *new: str) -> None:
        self.lines += statement.lines()
        self.visible.update(new)
        self.spaces = spaces

    # queries

    def example(self, name: str):
        return self.spaces[0][name]

    def runs(self) -> list[dict]:
        return [each for each in self.spaces if each is not None]

    def of_type(self, kind) -> list[str]:
        return sorted(name for name in self.visible if isinstance(self.spaces[0].get(name), kind)
                      and all(isinstance(each.get(name), kind) for each in self.runs()))

    def tensors(self, ranks: range = range(1, 5), dtype=torch.float32) -> list[str]:
        return [name for name in self.of_type(torch.Tensor)
                if self.example(name).dtype == dtype and self.example(name).dim() in ranks]

    def tensor(self, ranks: range = range(1, 5), dtype=torch.float32) -> str | None:
        """Returns a tensor, preferably a recent one or one that shares its memory."""
        names = sorted(self.tensors(ranks, dtype), key=lambda name: (len(name), name))
        if not names:
            return None
        choice = self.rng.random()
        if choice < 0.35:
            names = [each for each in names if self.aliases(each)] or names
        return self.rng.choice(names[-4:] if choice < 0.75 else names)

    def aliases(self, name: str) -> list[str]:
        """Returns the other names that share the storage of `name` in any run."""
        def memory(space, each):
            return space[each].untyped_storage().data_ptr()
        return [each for each in self.of_type(torch.Tensor) if each != name
                and any(memory(space, each) == memory(space, name) for space in self.runs())]

    def integers(self) -> list[str]:
        return [name for name in self.of_type(int) if name not in self.counters]

    def shapes(self, name: str, spaces: list[dict | None] | None = None) -> list[tuple[int, ...]]:
        return [tuple(each[name].shape) for each in (spaces or self.spaces) if each is not None and name in each]

    def axis(self, name: str) -> int:
        return self.rng.randrange(self.example(name).dim())

    def size(self, name: str, axis: int) -> int:
        return self.example(name).shape[axis]

    def same_shaped(self, name: str) -> list[str]:
        """Returns the tensors that have the shape of `name` at every size."""
        return [each for each in self.tensors(range(0, 6), self.example(name).dtype)
                if self.shapes(each) == self.shapes(name)]

    def broadcastable(self, name: str) -> list[str]:
        """Returns the tensors that broadcast to the shape of `name`."""
        names = []
        for each in self.tensors(range(0, 6), self.example(name).dtype):
            try:
                if all(torch.broadcast_shapes(a, b) == torch.Size(b)
                       for a, b in zip(self.shapes(each), self.shapes(name), strict=True)):
                    names.append(each)
            except RuntimeError:
                continue
        return names

    # expressions

    def size_of(self, name: str | None = None) -> str:
        """Returns an expression for a size of `name`, or of any tensor."""
        name = name or self.tensor() or self.program.inputs[0].name
        axis = self.rng.randrange(max(1, self.example(name).dim()))
        return self.rng.choice([f"{name}.size({axis})", f"{name}.shape[{axis}]",
                                f"{name}.size({axis - self.example(name).dim()})"])

    def integer(self) -> str:
        """Returns an expression for a size, or the name of an integer."""
        named = self.integers()
        return self.rng.choice(named) if named and self.rng.random() < 0.6 else self.size_of()

    def size_expression(self) -> str:
        """Returns an expression that is never negative, because -1 has a special meaning in most operators."""
        for _ in range(8):
            text = self.any_size_expression()
            values = [self.value(text, space) for space in self.runs()]
            if all(value is not None and 0 <= value <= 40 for value in values):
                return text
        return self.integer()

    def value(self, text: str, space: dict) -> int | None:
        try:
            return eval(text, dict(space))
        except Exception:  # for example a division by a size of 0
            return None

    def any_size_expression(self) -> str:
        n, c = self.integer(), self.rng.randint(1, 4)
        forms = [n, n, f"{n} // {c + 1}", f"{n} + {c}", f"{n} - {c}", f"{n} * {c}", f"{n} % {c + 1}",
                 f"({n} + {c}) // 2", f"{n} - {n} // 2", f"{n} * {self.integer()}", f"{n} + {self.integer()}"]
        if self.route != "trace":  # in a trace, Python's min and max turn traced numbers into constants
            forms += [f"min({n}, {c})", f"max({n}, {c})", f"min({n}, {self.integer()})", f"max({n} - {c}, 1)"]
        return self.rng.choice(forms)

    def index(self, name: str, axis: int) -> str:
        """Returns an index into the axis."""
        indices = ["0", "-1", "1"]
        if not (self.route == "export" and self.depth):
            indices += [f"{name}.size({axis}) - 1", f"{name}.size({axis}) // 2"]
        indices += [counter for counter in self.counters for _ in range(3)]
        return self.rng.choice(indices)

    def bounds(self, name: str, axis: int) -> str:
        """Returns the slice of one axis, without brackets: "1:n // 2"."""
        rng = self.rng
        first = rng.choice(["", "", "0", "1", "2", "-2", "-3", *self.counters, self.any_size_expression()])
        last = rng.choice(["", "", "-1", "2", "3", self.any_size_expression(), self.size_expression(),
                           *[f"{each} + 1" for each in self.counters]])
        step = rng.choice(["", "", "", ":2", ":2", ":3"])
        return f"{first}:{last}{step}"

    def subscript(self, name: str) -> str:
        """Returns a subscript for a tensor: "[:, 1:, 0]"."""
        parts = []
        for axis in range(self.example(name).dim()):
            kind = self.rng.random()
            parts.append(":" if kind < 0.4 else self.bounds(name, axis) if kind < 0.75 else self.index(name, axis))
        while len(parts) > 1 and parts[-1] == ":" and self.rng.random() < 0.7:
            parts.pop()
        if self.rng.random() < 0.1:
            parts = ["...", parts[-1]]
        return "[" + ", ".join(parts) + "]"

    def number(self) -> str:
        return self.rng.choice(["0.5", "2.0", "-1.0", "1.5", "0.25", "-0.75", "3.0"])
