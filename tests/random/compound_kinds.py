"""Kinds of statements with blocks: branches and loops. The generator writes a block in a new scope, and then tries the
complete statement like any other."""

from dataclasses import replace

from program_text import Statement
from scope import Scope
from statement_kinds import SCRIPT_ONLY, kind

MAX_DEPTH = 2


def size_condition(scope: Scope) -> str:
    n, other = scope.integer(), scope.integer()
    sizes = [value for space in scope.runs() for value in [scope.value(n, space)] if isinstance(value, int)]
    threshold = scope.rng.choice(sizes or [3])  # equal to some size, so that both sides run
    single = scope.rng.choice([f"{n} > {threshold}", f"{n} < {threshold}", f"{n} >= {threshold}", f"{n} == {threshold}",
                               f"{n} != {threshold}", f"{n} % 2 == 0", f"{n} > {other}", f"{n} == {other}",
                               f"{n} * 2 > {threshold} + {other}"])
    if scope.counters and scope.rng.random() < 0.4:
        single = scope.rng.choice([f"{scope.counters[-1]} > 0", f"{scope.counters[-1]} % 2 == 0",
                                   f"{scope.counters[-1]} < {n}"])
    if scope.rng.random() < 0.12:
        single = f"{single} {scope.rng.choice(['and', 'or'])} {other} > 2"
    return single


def data_condition(scope: Scope) -> str:
    name = scope.tensor(range(0, 5))
    integers = [each.name for each in scope.program.inputs if each.dtype == "int64"]
    forms = [f"bool({name}.sum() > {scope.rng.choice(['0', '1.3', '-2.3'])})", f"bool(({name} > 0.3).any())",
             f"bool({name}.mean() < 0.1)"]
    forms += [f"int({each}) > {scope.rng.choice('123')}" for each in integers for _ in range(2)]
    return scope.rng.choice(forms)


def condition(scope: Scope) -> str:
    return size_condition(scope) if scope.rng.random() < 0.6 else data_condition(scope)


def branch(name: str, condition, weight: float) -> None:
    def make(scope: Scope, block):
        inner = scope.inside()
        if inner is None or scope.depth >= MAX_DEPTH:
            return None
        body = block(inner, scope.rng.randint(1, 3))
        other = None
        if scope.rng.random() < 0.5:
            inner = scope.inside()
            other = block(inner, scope.rng.randint(1, 2)) if inner else None
        return Statement(name, f"if {condition(scope)}:", tuple(body), tuple(other) if other else None)
    kind(name, SCRIPT_ONLY, weight, is_compound=True)(make)


branch("branch on a size", size_condition, 1.6)
branch("branch on data", data_condition, 1.2)


@kind("branch defines", SCRIPT_ONLY, 0.8, is_compound=True)
def branch_defines(scope: Scope, block):
    """Both sides bind a new name: to a view, to a copy, or to an outer name."""
    if scope.depth >= MAX_DEPTH:
        return None
    new, sides = scope.names.new(), []
    like = None
    for _ in range(2):
        inner = scope.inside()
        body = list(block(inner, scope.rng.choice([0, 0, 1, 2])))
        source = like and scope.rng.choice(scope.same_shaped(like)) or inner.tensor()
        if source is None:
            return None
        like = source if source in scope.visible else like
        value = scope.rng.choice([source, source, f"{source} * {scope.number()}", f"{source}[:]", f"{source}.view_as({source})",
                                  f"{source}.clone()", f"{source}.flip(0)"])
        sides.append((*body, Statement("branch defines", f"{new} = {value}")))
    return Statement("branch defines", f"if {condition(scope)}:", *sides), new


def with_break(scope: Scope, body: list[Statement], inner: Scope) -> list[Statement]:
    if scope.route == "native" or scope.rng.random() > 0.15:
        return body
    leave = Statement("break", f"if {condition(inner)}:", (Statement("break", "break"),))
    at = scope.rng.randint(0, len(body))
    return [*body[:at], leave, *body[at:]]


def condition_scope(scope: Scope, inner: Scope) -> Scope:
    """Returns a scope for a condition at the start of an iteration, where the names of the block are not yet bound."""
    return replace(inner, visible=scope.visible | set(inner.counters), spaces=inner.spaces)


def loop(name: str, count, weight: float, while_loop: bool = False, routes: tuple[str, ...] = SCRIPT_ONLY) -> None:
    def make(scope: Scope, block):
        if scope.depth >= MAX_DEPTH:
            return None
        counter = scope.names.new("i")
        inner = scope.inside(f"{counter} = 0", counter=counter, loop=True)
        head = count(scope, counter)
        if inner is None or head is None:
            return None
        body = with_break(scope, list(block(inner, scope.rng.randint(1, 3))), condition_scope(scope, inner))
        if while_loop:
            return Statement(name, head, tuple(body), lead=f"{counter} = 0", tail=f"{counter} = {counter} + 1")
        return Statement(name, head, tuple(body))
    kind(name, routes, weight, is_compound=True)(make)


def data_count(scope: Scope) -> str:
    integers = [each.name for each in scope.program.inputs if each.dtype == "int64"]
    if integers and scope.rng.random() < 0.7:
        return f"int({scope.rng.choice(integers)})"
    return f"int(({scope.tensor()} > 0.3).sum()) % 4"


loop("loop fixed", lambda s, i: f"for {i} in range({s.rng.choice('123')}):", 0.8,
     routes=("script", "native"))
loop("loop over a size", lambda s, i: f"for {i} in range({s.size_expression()}):", 1.2)
loop("loop over data", lambda s, i: f"for {i} in range({data_count(s)}):", 0.8)
loop("while on a size", lambda s, i: f"while {i} < 5 and {i} * 2 < {s.size_expression()}:", 0.4, while_loop=True)
loop("while on data", lambda s, i: f"while {i} < 4 and {data_condition(s)}:", 0.4, while_loop=True)


@kind("loop over rows", SCRIPT_ONLY, 0.6, is_compound=True)
def row_loop(scope: Scope, block):
    """The loop variable is a view of the tensor. An iteration may write to it."""
    name = scope.tensor()
    if scope.depth >= MAX_DEPTH or name is None:
        return None
    row, axis = scope.names.new("r"), scope.axis(name)
    inner = scope.inside(f"{row} = {name}.select({axis}, 0)", loop=True)
    if inner is None:
        return None
    inner.visible.add(row)
    body = list(block(inner, scope.rng.randint(1, 2)))
    if scope.rng.random() < 0.5:
        body.append(Statement("loop over rows", scope.rng.choice([f"{row}.mul_(0.5)", f"{row} += {scope.number()}",
                                                                  f"{row}[:1] = {scope.number()}"])))
    return Statement("loop over rows", f"for {row} in {name}.unbind({axis}):", tuple(body))


@kind("loop with a list", SCRIPT_ONLY, 0.8, is_compound=True)
def list_loop(scope: Scope, block):
    """Appends tensors in a loop, then joins them."""
    if scope.depth >= MAX_DEPTH:
        return None
    name, counter, result = scope.names.new("l"), scope.names.new("i"), scope.names.new()
    inner = scope.inside(f"{name} = []", f"{counter} = 0", counter=counter, loop=True)
    if inner is None:
        return None
    body = list(block(inner, scope.rng.randint(0, 2)))
    part = inner.tensor()
    value = scope.rng.choice([part, f"{part}[{counter}]", f"{part} * {counter}", f"{part}[:1]"])
    body.append(Statement("list appended", f"{name}.append({value})"))
    head = f"for {counter} in range({scope.rng.choice(['2', '3', scope.integer(), data_count(scope)])}):"
    lead = f"{name}: List[torch.Tensor] = [{scope.rng.choice(['', part if part in scope.visible else ''])}]"
    return (Statement("loop with a list", head, tuple(with_break(scope, body, condition_scope(scope, inner))), lead=lead),
            Statement("list joined", f"{result} = torch.{scope.rng.choice(['stack', 'cat', 'stack'])}({name})"), result)
