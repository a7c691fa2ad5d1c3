"""Generates random programs from statements of KINDS. A statement is kept if PyTorch runs it at several sizes."""

import random
from dataclasses import replace

import compound_kinds  # noqa: F401  (registers its kinds)
from program_text import Input, Program, Statement, block_lines
from running import bounded_memory, eager
from scope import Scope, run_lines
from statement_kinds import KINDS, Kind

SIGNATURES = (
    (Input("x", ("b", "s")),),
    (Input("x", ("b", "s")), Input("y", ("b", "s"))),
    (Input("x", ("b", "s")), Input("y", ("s",))),
    (Input("x", ("b", "s", 4)), Input("y", ("b", "s"))),
    (Input("x", ("b", 4)),),
    (Input("x", ("b", "s")), Input("y", ("t", "s"))),
)
COUNT = Input("k", (), "int64")
ATTEMPTS = 40  # at a program with enough statements that runs at enough sizes
MIN_STATEMENTS, MAX_STATEMENTS = 5, 12
MAX_ELEMENTS = 200_000


def choose_sizes(rng: random.Random) -> tuple[dict[str, int], ...]:
    """Returns the example's sizes and seven others: neighbours, doubles, unrelated sizes, and 1 and 0 for each axis."""
    b, s, t = rng.randint(2, 6), rng.randint(3, 8), rng.randint(2, 5)
    others = [(b + 1, s, t), (b, s + rng.choice([-1, 1, 2]), t + 1), (1, s, t), (2 * b, max(1, s // 2), 2 * t),
              (rng.randint(2, 9), rng.randint(2, 9), 1), (b, 1, 1), (0, s, 2)]
    if rng.random() < 0.3:
        others[-1] = (b, 0, t)
    return tuple({"b": one, "s": two, "t": three} for one, two, three in [(b, s, t), *others])


def grows(program: Program) -> bool:
    """Returns true if the program fails at larger sizes, or creates so many elements that it would exceed the memory at
    the sizes that whence tries."""
    larger = replace(program, sizes=({"b": 9, "s": 11, "t": 7},))
    for count in range(1, len(program.statements) + 1):  # stops before large tensors grow further
        lines = list(block_lines(program.statements[:count]))
        space, = run_lines(lines, larger, (0,), lambda value: value.numel() < MAX_ELEMENTS)
        if space is None:
            return True
    return False


class Generator:
    def __init__(self, seed: int, route: str):
        self.rng = random.Random(f"{route} {seed}")
        self.route = route
        self.kinds = [each for each in KINDS.values() if route in each.routes]

    def program(self) -> Program | None:
        for _ in range(ATTEMPTS):
            program = self.attempt()
            if program is not None and program.length() >= MIN_STATEMENTS:
                results = eager(program)
                runs = sum(each is not None for each in results)
                if results[0] is not None and runs >= 4 and not grows(program):
                    return self.with_an_early_return(program) if self.route == "script" else program
        return None

    def attempt(self) -> Program | None:
        inputs = self.rng.choice(SIGNATURES)
        if self.route == "script" and self.rng.random() < 0.35:
            inputs = (*inputs, COUNT)
        program = Program(inputs, (), (), choose_sizes(self.rng))
        scope = Scope.begin(program, self.route, self.rng)
        length = self.rng.randint(MIN_STATEMENTS, MAX_STATEMENTS)
        statements: list[Statement] = []
        if self.rng.random() < 0.6:
            statements += self.begin_with_a_copy(scope)
        while sum(1 for each in statements for _ in each.statements()) < length:
            added = self.add(scope)
            if added is None:
                return None
            statements += added
        results = self.choose_results(scope)
        return Program(inputs, tuple(statements), results, program.sizes) if results else None

    def with_an_early_return(self, program: Program) -> Program:
        """Occasionally adds a conditional return before the last statements, which may write to the results."""
        if self.rng.random() > 0.08 or len(program.statements) < 3:
            return program
        condition = self.rng.choice([f"{program.inputs[0].name}.size(0) > {self.rng.randint(1, 6)}",
                                     f"bool({program.inputs[0].name}.sum() > 0.3)"])
        back = Statement("early return", f"if {condition}:",
                         (Statement("early return", "return " + ", ".join(program.results)),))
        at = len(program.statements) - self.rng.randint(1, 2)
        changed = program.with_statements((*program.statements[:at], back, *program.statements[at:]))
        runs = sum(each is not None for each in eager(changed))
        return changed if runs == sum(each is not None for each in eager(program)) else program

    def begin_with_a_copy(self, scope: Scope) -> list[Statement]:
        """Returns an initial copy, because most models write to computed values and not to their inputs."""
        statement = Statement("compute", f"x = x * {self.rng.choice(['1.0', '2.0'])}")
        scope.take(statement, scope.try_lines(list(statement.lines())))
        return [statement]

    def block(self, scope: Scope, count: int) -> list[Statement]:
        statements: list[Statement] = []
        for _ in range(count):
            statements += self.add(scope) or []
        return statements

    def add(self, scope: Scope) -> list[Statement] | None:
        """Returns a statement of a random kind, or None if no attempt runs."""
        for _ in range(25):
            kind = self.rng.choices(self.kinds, [self.weight(each, scope) for each in self.kinds])[0]
            made = self.make(kind, scope)
            if made is None:
                continue
            parts, new = made
            lines = [line for each in parts for line in each.lines()]
            spaces = scope.try_lines(lines)
            if spaces is None:
                continue
            for part in parts:
                scope.take(part, spaces)
            scope.visible.update(new)
            return parts
        return None

    def weight(self, kind: Kind, scope: Scope) -> float:
        if kind.is_compound:
            return kind.weight * (1.6 if scope.depth == 0 else 0.4)
        return kind.weight

    def make(self, kind: Kind, scope: Scope) -> tuple[list[Statement], list[str]] | None:
        """Returns statements and the names that they add."""
        made = kind.make(scope, self.block) if kind.is_compound else kind.make(scope)
        if made is None:
            return None
        if kind.is_expression:
            target = self.choose_target(made, scope)
            return ([Statement(kind.name, f"{target} = {made}")], [target]) if target else None
        made = made if isinstance(made, tuple) else (made,)
        parts = [each for each in made if isinstance(each, Statement)]
        empty = kind.is_compound and not parts[0].body
        return None if empty else (parts, [each for each in made if isinstance(each, str)])

    def choose_target(self, expression: str, scope: Scope) -> str | None:
        """Returns a new name, or an outer name to rebind, preferably a tensor of equal shape."""
        new = scope.names.new()
        rebinds = self.rng.random() < (0.6 if scope.outer else 0.12)
        if not rebinds:
            return new
        spaces = scope.try_lines([f"{new} = {expression}"])
        if spaces is None:
            return None
        shapes, rank = scope.shapes(new, spaces), spaces[0][new].dim()
        tensors = [each for each in scope.tensors(range(rank, rank + 1), spaces[0][new].dtype)
                   if not scope.outer or each in scope.outer]
        same = [each for each in tensors if scope.shapes(each) == shapes]
        return self.rng.choice(same or (tensors if self.rng.random() < 0.3 else None) or [new])

    def choose_results(self, scope: Scope) -> tuple[str, ...]:
        """Returns some names, including the latest one, and often names that share memory with them."""
        names = sorted(scope.tensors(range(0, 6)), key=lambda name: (len(name), name))
        if not names:
            return ()
        chosen = {names[-1], *self.rng.sample(names, min(len(names), self.rng.randint(1, 3)))}
        for name in sorted(chosen):
            others = scope.aliases(name)
            chosen.update([self.rng.choice(others)] if others and self.rng.random() < 0.5 else [])
        return tuple(name for name in names if name in chosen)


@bounded_memory()
def generate(seed: int, route: str) -> Program | None:
    """Returns the program of a seed, which is the same in every process."""
    return Generator(seed, route).program()
