"""Programs as data: a list of statements that renders to the source of a module's forward.

A statement is a line, or the head of a branch or loop with its blocks. The expected results are PyTorch's for the
rendered text, so a statement may be removed or simplified if the program still runs.
"""

from dataclasses import dataclass, replace
from typing import Iterator

INDENT = "    "


@dataclass(frozen=True)
class Statement:
    """`kind` is the row of KINDS that created the statement; quotas count kinds."""

    kind: str
    text: str  # "t = x[1:]", or a head: "for i in range(n):"
    body: tuple["Statement", ...] | None = None
    other: tuple["Statement", ...] | None = None  # the block of `else:`
    lead: str = ""  # a line required before the head: "count = 0"
    tail: str = ""  # a line required at the end of the body: "count = count + 1"

    def lines(self) -> Iterator[str]:
        if self.lead:
            yield self.lead
        yield self.text
        if self.body is not None:
            inner = [*block_lines(self.body), *([self.tail] if self.tail else [])]
            yield from (INDENT + line for line in inner or ["pass"])
        if self.other is not None:
            yield "else:"
            yield from (INDENT + line for line in list(block_lines(self.other)) or ["pass"])

    def statements(self) -> Iterator["Statement"]:
        """Yields this statement and the statements in its blocks."""
        yield self
        for block in (self.body, self.other):
            for each in block or ():
                yield from each.statements()


def block_lines(statements) -> Iterator[str]:
    for statement in statements:
        yield from statement.lines()


@dataclass(frozen=True)
class Input:
    """`dims` are names of axes or fixed sizes; () means a single integer."""

    name: str
    dims: tuple[str | int, ...]
    dtype: str = "float32"

    def shape(self, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(sizes[dim] if isinstance(dim, str) else dim for dim in self.dims)

    def dynamic_axes(self) -> dict[int, str]:
        return {axis: dim for axis, dim in enumerate(self.dims) if isinstance(dim, str)}


@dataclass(frozen=True)
class Program:
    inputs: tuple[Input, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]  # names that forward returns
    sizes: tuple[dict[str, int], ...]  # sizes of the axes: first the example's, then others to compare

    def source(self) -> str:
        arguments = ", ".join(f"{each.name}: torch.Tensor" for each in self.inputs)
        lines = [*block_lines(self.statements), "return " + ", ".join(self.results)]
        return f"def forward(self, {arguments}):\n" + "".join(f"{INDENT}{line}\n" for line in lines)

    def kinds(self) -> set[str]:
        return {each.kind for statement in self.statements for each in statement.statements()}

    def length(self) -> int:
        return sum(1 for statement in self.statements for _ in statement.statements())

    def with_statements(self, statements) -> "Program":
        return replace(self, statements=tuple(statements))

    def __str__(self) -> str:
        shapes = ", ".join(f"{each.name}[{', '.join(map(str, each.dims))}]" for each in self.inputs)
        return f"# {shapes}; example {self.sizes[0]}\n{self.source()}"
