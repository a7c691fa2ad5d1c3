"""The scope of a statement under construction: the names visible to it, with their values at several sizes.

Values come from PyTorch, which runs the lines that lead to this place through branches and loops, each body once. A
statement queries the scope for suitable tensors, axes and sizes; `tried` reports whether PyTorch runs the new lines.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Callable

import torch

from program_text import Input, Program, Statement
from running import GLOBALS, LARGEST, make_inputs

TRIED = (0, 3, 4, 7)  # sizes at which lines run during generation: the example's, a 1, doubled, a 0


@dataclass
class Names:
    """Names that are unique in the program."""

    count: int = 0

    def new(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"


def is_small(value: torch.Tensor) -> bool:
    if not value.numel():
        return True
    if value.numel() > 4000 or value.dim() > 5:
        return False
    return not value.is_floating_point() or bool(value.abs().max() <= LARGEST)  # False for NaN


def run_lines(lines: list[str], program: Program, numbers: tuple[int, ...] = TRIED,
              accepts: Callable[[torch.Tensor], bool] = is_small) -> list[dict | None]:
    """Returns all names and their values at several sizes; None if PyTorch raises or a tensor is not accepted."""
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
    chance: random.Random
    names: Names
    lines: list[str] = field(default_factory=list)  # the lines that lead to this place, without branches
    visible: set[str] = field(default_factory=set)
    outer: set[str] = field(default_factory=set)  # names of the enclosing blocks, which may be rebound
    counters: tuple[str, ...] = ()  # of the enclosing loops
    depth: int = 0
    in_loop: bool = False
    spaces: list[dict | None] = field(default_factory=list)

    @staticmethod
    def begin(program: Program, route: str, chance: random.Random) -> Scope:
        scope = Scope(program, route, chance, Names(), visible={each.name for each in program.inputs})
        scope.spaces = run_lines([], program)
        return scope

    def inside(self, *lines: str, counter: str = "", loop: bool = False) -> Scope | None:
        """Returns the scope of a block here, after lines in place of its head."""
        scope = Scope(self.program, self.route, self.chance, self.names, [*self.lines, *lines], set(self.visible),
                      set(self.visible), (*self.counters, *([counter] if counter else [])), self.depth + 1,
                      self.in_loop or loop)
        scope.visible.update([counter] if counter else [])
        scope.spaces = run_lines(scope.lines, self.program)
        return scope if scope.spaces[0] is not None else None

    # trying a candidate

    def tried(self, lines: list[str]) -> list[dict | None] | None:
        """Returns the names after these lines. The lines must run at the example's size, and at most sizes where the
        earlier lines run; otherwise returns None."""
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

    def of_type(self, wanted) -> list[str]:
        return sorted(name for name in self.visible if isinstance(self.spaces[0].get(name), wanted)
                      and all(isinstance(each.get(name), wanted) for each in self.runs()))

    def tensors(self, ranks: range = range(1, 5), dtype=torch.float32) -> list[str]:
        return [name for name in self.of_type(torch.Tensor)
                if self.example(name).dtype == dtype and self.example(name).dim() in ranks]

    def tensor(self, ranks: range = range(1, 5), dtype=torch.float32) -> str | None:
        """Returns a tensor, preferably a late one or one that shares its memory."""
        names = sorted(self.tensors(ranks, dtype), key=lambda name: (len(name), name))
        if not names:
            return None
        choice = self.chance.random()
        if choice < 0.35:
            names = [each for each in names if self.partners(each)] or names
        return self.chance.choice(names[-4:] if choice < 0.75 else names)

    def partners(self, name: str) -> list[str]:
        """Returns the other names that share its memory, also in part, in any run."""
        def memory(space, each):
            return space[each].untyped_storage().data_ptr()
        return [each for each in self.of_type(torch.Tensor) if each != name
                and any(memory(space, each) == memory(space, name) for space in self.runs())]

    def integers(self) -> list[str]:
        return [name for name in self.of_type(int) if name not in self.counters]

    def shapes(self, name: str, spaces: list[dict | None] | None = None) -> list[tuple[int, ...]]:
        return [tuple(each[name].shape) for each in (spaces or self.spaces) if each is not None and name in each]

    def axis(self, name: str) -> int:
        return self.chance.randrange(self.example(name).dim())

    def size(self, name: str, axis: int) -> int:
        return self.example(name).shape[axis]

    def alike(self, name: str) -> list[str]:
        """Returns the tensors with its shape at every size."""
        return [each for each in self.tensors(range(0, 6), self.example(name).dtype)
                if self.shapes(each) == self.shapes(name)]

    def suits(self, name: str) -> list[str]:
        """Returns the tensors that broadcast to its shape."""
        names = []
        for each in self.tensors(range(0, 6), self.example(name).dtype):
            try:
                if all(torch.broadcast_shapes(a, b) == torch.Size(b)
                       for a, b in zip(self.shapes(each), self.shapes(name), strict=True)):
                    names.append(each)
            except RuntimeError:
                continue
        return names

    # sizes as text

    def size_of(self, name: str | None = None) -> str:
        """Returns a varying size, of this tensor or of any."""
        name = name or self.tensor() or self.program.inputs[0].name
        axis = self.chance.randrange(max(1, self.example(name).dim()))
        return self.chance.choice([f"{name}.size({axis})", f"{name}.shape[{axis}]",
                                   f"{name}.size({axis - self.example(name).dim()})"])

    def integer(self) -> str:
        """Returns a size, or a named integer."""
        named = self.integers()
        return self.chance.choice(named) if named and self.chance.random() < 0.6 else self.size_of()

    def size_expression(self) -> str:
        """Returns an expression that is never negative, because -1 has another meaning in most operators."""
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
        n, c = self.integer(), self.chance.randint(1, 4)
        forms = [n, n, f"{n} // {c + 1}", f"{n} + {c}", f"{n} - {c}", f"{n} * {c}", f"{n} % {c + 1}",
                 f"({n} + {c}) // 2", f"{n} - {n} // 2", f"{n} * {self.integer()}", f"{n} + {self.integer()}"]
        if self.route != "trace":  # in a trace, Python's own functions turn traced numbers into constants
            forms += [f"min({n}, {c})", f"max({n}, {c})", f"min({n}, {self.integer()})", f"max({n} - {c}, 1)"]
        return self.chance.choice(forms)

    def index(self, name: str, axis: int) -> str:
        """Returns an index into the axis."""
        places = ["0", "-1", "1"]
        if not (self.route == "export" and self.depth):
            places += [f"{name}.size({axis}) - 1", f"{name}.size({axis}) // 2"]
        places += [counter for counter in self.counters for _ in range(3)]
        return self.chance.choice(places)

    def bounds(self, name: str, axis: int) -> str:
        """Returns the slice of one axis between brackets: "1:n // 2"."""
        chance = self.chance
        first = chance.choice(["", "", "0", "1", "2", "-2", "-3", *self.counters, self.any_size_expression()])
        last = chance.choice(["", "", "-1", "2", "3", self.any_size_expression(), self.size_expression(),
                              *[f"{each} + 1" for each in self.counters]])
        step = chance.choice(["", "", "", ":2", ":2", ":3"])
        return f"{first}:{last}{step}"

    def place(self, name: str) -> str:
        """Returns an index expression into a tensor: "[:, 1:, 0]"."""
        parts = []
        for axis in range(self.example(name).dim()):
            kind = self.chance.random()
            parts.append(":" if kind < 0.4 else self.bounds(name, axis) if kind < 0.75 else self.index(name, axis))
        while len(parts) > 1 and parts[-1] == ":" and self.chance.random() < 0.7:
            parts.pop()
        if self.chance.random() < 0.1:
            parts = ["...", parts[-1]]
        return "[" + ", ".join(parts) + "]"

    def number(self) -> str:
        return self.chance.choice(["0.5", "2.0", "-1.0", "1.5", "0.25", "-0.75", "3.0"])
