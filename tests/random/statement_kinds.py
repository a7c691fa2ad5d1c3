"""Kinds of statements: functions that write a statement for a scope, or return None if nothing suitable is visible.

A new kind is a function with `@kind(name)`; its name is a row of the printed quotas. A function with `@expression`
returns an expression, and the generator chooses its target: a new or an existing name.
"""

from dataclasses import dataclass
from typing import Callable

import torch

from program_text import Statement
from scope import Scope

ALL = ("trace", "script", "export", "native")
SCRIPT_ONLY = ("script",)  # for branches and loops, which a trace does not contain


@dataclass(frozen=True)
class Kind:
    """`name` begins with its family: "view select"."""

    name: str
    make: Callable[..., "Statement | str | None"]
    routes: tuple[str, ...]
    weight: float
    is_expression: bool
    is_compound: bool = False


KINDS: dict[str, Kind] = {}


def kind(name: str, routes: tuple[str, ...] = ALL, weight: float = 1.0, is_expression: bool = False,
         is_compound: bool = False):
    def add(make):
        assert name not in KINDS, name
        KINDS[name] = Kind(name, make, routes, weight, is_expression, is_compound)
        return make
    return add


def expression(name: str, routes: tuple[str, ...] = ALL, weight: float = 1.0):
    return kind(name, routes, weight, is_expression=True)


def expressions(name: str, forms: dict[str, Callable[[Scope, str, int], str]], weight: float = 1.0,
                ranks: range = range(1, 5), routes: tuple[str, ...] = ALL) -> None:
    """Defines a family whose forms are functions of (scope, tensor, one of its axes)."""
    for form, write in forms.items():
        def make(scope: Scope, write=write):
            name = scope.tensor(ranks)
            return write(scope, name, scope.axis(name)) if name else None
        kind(f"{name} {form}", routes, weight / len(forms), is_expression=True)(make)


def other_axis(scope: Scope, name: str, axis: int) -> int:
    return scope.rng.choice([each for each in range(scope.example(name).dim()) if each != axis] or [axis])


def permutation(scope: Scope, name: str) -> str:
    order = list(range(scope.example(name).dim()))
    scope.rng.shuffle(order)
    return ", ".join(map(str, order))


# views

def sizes_of(name: str, axes) -> str:
    return ", ".join(f"{name}.size({axis})" for axis in axes)


def view_shape(scope: Scope, name: str, axis: int) -> str:
    """Returns another shape with the same number of elements."""
    rank = scope.example(name).dim()
    product = " * ".join(f"{name}.size({each})" for each in range(rank))
    last = f"{name}.size({rank - 1})"
    forms = ["-1", f"-1, {last}", f"{name}.size(0), -1", f"{product}", f"1, {product}", f"{product}, 1", f"-1, 1, {last}",
             f"{sizes_of(name, range(rank))}, 1", f"1, {sizes_of(name, range(rank))}"]
    size = scope.size(name, rank - 1)
    if all(shape[-1:] == (size,) for shape in scope.shapes(name)) and size % 2 == 0:
        forms += [f"-1, {size // 2}", f"{name}.size(0), -1, 2"] * 2
    if rank > 1:
        forms += [f"{last}, -1", f"{name}.size(0) * {name}.size(1), {sizes_of(name, range(2, rank)) or 1}"]
    return scope.rng.choice(forms)


expressions("view", {
    "select": lambda s, v, d: s.rng.choice([f"{v}.select({d}, {s.index(v, d)})", f"{v}[{':, ' * d}{s.index(v, d)}]"]),
    "slice": lambda s, v, d: f"{v}[{':, ' * d}{s.bounds(v, d)}]",
    "index": lambda s, v, d: f"{v}{s.subscript(v)}",
    "slice twice": lambda s, v, d: f"{v}[{s.bounds(v, 0)}]{s.subscript(v)}",
    "narrow": lambda s, v, d: f"{v}.narrow({d}, {s.rng.choice(['0', '0', '1', *s.counters])}, "
                              f"{s.rng.choice(['1', '2', s.size_expression(), f'{v}.size({d}) - 1'])})",
    "transpose": lambda s, v, d: f"{v}.transpose({d}, {other_axis(s, v, d)})",
    "permute": lambda s, v, d: f"{v}.permute({permutation(s, v)})",
    "movedim": lambda s, v, d: f"torch.movedim({v}, {d}, {other_axis(s, v, d)})",
    "swapaxes": lambda s, v, d: f"{v}.swapaxes({d}, {other_axis(s, v, d)})",
    "unsqueeze": lambda s, v, d: s.rng.choice([f"{v}.unsqueeze({d})", f"{v}.unsqueeze(-1)", f"{v}[None]",
                                               f"{v}[:, None]"]),
    "squeeze": lambda s, v, d: s.rng.choice([f"{v}[{':, ' * d}0:1].squeeze({d})", f"{v}.unsqueeze({d}).squeeze({d})",
                                             f"{v}.squeeze({d})"]),
    "view": lambda s, v, d: f"{v}.view({view_shape(s, v, d)})",
    "reshape": lambda s, v, d: f"{v}.reshape({view_shape(s, v, d)})",
    "reshape of a transpose": lambda s, v, d: f"{v}.transpose({d}, {other_axis(s, v, d)}).reshape({view_shape(s, v, d)})",
    "flatten": lambda s, v, d: s.rng.choice([f"{v}.flatten()", f"{v}.flatten({d})", f"torch.ravel({v})"]),
    "expand": lambda s, v, d: s.rng.choice([
        f"{v}.expand(2, {', '.join(['-1'] * s.example(v).dim())})",
        f"{v}.unsqueeze(0).expand({s.size_expression()}, {sizes_of(v, range(s.example(v).dim()))})",
        f"{v}[0:1].expand({s.size_expression()}{', -1' * (s.example(v).dim() - 1)})"]),
    "contiguous": lambda s, v, d: f"{v}{s.rng.choice(['', f'.transpose({d}, {other_axis(s, v, d)})'])}.contiguous()",
    "broadcast": lambda s, v, d: f"torch.broadcast_tensors({v}, {v}[:1])[{s.rng.choice('01')}]",
    "moveaxis": lambda s, v, d: f"{v}.moveaxis({d}, {s.rng.choice(['0', '-1'])})",
    "unflatten": lambda s, v, d: f"{v}.unflatten({d}, ({s.rng.choice(['1, -1', '-1, 1', '-1, 2'])}))",
    "einsum": lambda s, v, d: f"torch.einsum('...i->i...', {v})",
    "to": lambda s, v, d: s.rng.choice([f"{v}.to(torch.float32)", f"{v}.float()", f"{v}.detach()"]),
}, weight=9)
expressions("view", {
    "diagonal": lambda s, v, d: f"{v}.diagonal({s.rng.choice(['', '1', '-1', f'0, {d}, {other_axis(s, v, d)}'])})",
    "t": lambda s, v, d: f"{v}.transpose(-1, -2)" if s.example(v).dim() != 2 else f"{v}.t()",
    "view flat": lambda s, v, d: f"{v}.view(-1)[{s.bounds(v, 0)}]",
}, weight=1.5, ranks=range(2, 5))
expressions("view", {
    "chunk": lambda s, v, d: f"{v}.chunk({s.rng.choice('23')}, {d})[{s.rng.choice('01')}]",
    "split": lambda s, v, d: f"{v}.split({s.rng.choice('123')}, {d})[{s.rng.choice(['0', '1', '-1'])}]",
    "unbind": lambda s, v, d: f"{v}.unbind({d})[{s.rng.choice(['0', '1', '-1'])}]",
    "unfold": lambda s, v, d: f"{v}.unfold({d}, {s.rng.choice('12')}, {s.rng.choice('12')})",
    "hsplit": lambda s, v, d: f"torch.hsplit({v}, 2)[{s.rng.choice('01')}]",
    "tensor_split": lambda s, v, d: f"{v}.tensor_split(2, {d})[{s.rng.choice('01')}]",
}, weight=1.5)


@expression("view as another")
def view_as(scope: Scope):
    name = scope.tensor()
    others = [each for each in scope.tensors() if scope.example(each).numel() == scope.example(name).numel()]
    other = scope.rng.choice(others)
    form = scope.rng.choice(["view_as", "reshape_as", "expand_as"])
    return f"{name}.{form}({other})"


@expression("alias", weight=1.0)
def alias(scope: Scope):
    return scope.tensor(range(0, 5))


@kind("alias swapped", weight=0.5)
def swap(scope: Scope):
    name = scope.tensor()
    others = [each for each in scope.same_shaped(name) if each != name] if name else []
    if not others:
        return None
    other = scope.rng.choice(others)
    return Statement("alias swapped", f"{name}, {other} = {other}, {name}")


# arithmetic

def operand(scope: Scope, name: str) -> str:
    """Returns an operand to add to a tensor or to write to it: of the same shape, or one that broadcasts to it."""
    others = scope.broadcastable(name)
    choice = scope.rng.random()
    if choice < 0.35 and [each for each in others if each != name]:
        other = scope.rng.choice([each for each in others if each != name])
        # An operator that reads the memory that it writes is undefined: the result depends on the order of elements.
        return f"{other}.clone()" if other in scope.aliases(name) else other
    if choice < 0.6:
        return scope.number()
    other = scope.rng.choice(others)
    return scope.rng.choice([f"{other} * {scope.number()}", f"torch.relu({other})", f"{other} + {scope.number()}",
                             f"torch.tanh({other})", f"torch.ones_like({other})"])


def scaled(scope: Scope) -> str:
    """Returns a number derived from a size."""
    size = scope.integer()
    if scope.route == "trace":
        return size
    return scope.rng.choice([f"float({size})", size, f"float({size} + 1)"])


expressions("compute", {
    "add": lambda s, v, d: f"{v} + {operand(s, v)}",
    "subtract": lambda s, v, d: f"{v} - {operand(s, v)}",
    "multiply": lambda s, v, d: f"{v} * {operand(s, v)}",
    "activation": lambda s, v, d: f"torch.{s.rng.choice(['relu', 'tanh', 'sigmoid', 'abs', 'neg', 'sin'])}({v})",
    "softmax": lambda s, v, d: f"torch.softmax({v}, {d})",
    "sum": lambda s, v, d: f"{v}.{s.rng.choice(['sum', 'mean'])}({d}{s.rng.choice(['', ', keepdim=True'])})",
    "sum of all": lambda s, v, d: f"{v} + {v}.sum()",
    "amax": lambda s, v, d: f"{v}.amax({d}{s.rng.choice(['', ', keepdim=True'])})",
    "cat": lambda s, v, d: f"torch.cat([{v}, {s.rng.choice(s.same_shaped(v))}], {d})",
    "cat of parts": lambda s, v, d: f"torch.cat([{v}[1:], {v}[:1]], 0)",
    "stack": lambda s, v, d: f"torch.stack([{v}, {s.rng.choice(s.same_shaped(v))}], {d})",
    "where": lambda s, v, d: f"torch.where({v} > 0.3, {v}, {s.rng.choice(s.same_shaped(v))})",
    "clamp": lambda s, v, d: f"{v}.clamp(-1.0, 1.0)",
    "cumsum": lambda s, v, d: f"{v}.cumsum({d})",
    "flip": lambda s, v, d: f"{v}.flip({d})",
    "roll": lambda s, v, d: f"{v}.roll(1, {d})",
    "clone": lambda s, v, d: f"{v}.clone()",
    "pad": lambda s, v, d: f"torch.nn.functional.pad({v}, [1, {s.rng.choice('01')}])",
    "sort": lambda s, v, d: f"{v}.sort({d})[0]",
    "var": lambda s, v, d: f"{v}.var({d}, unbiased=False)",
    "layer_norm": lambda s, v, d: f"torch.nn.functional.layer_norm({v}, {v}.shape[-1:])",
    "index by tensor": lambda s, v, d: f"{v}[torch.arange({v}.size(0)) // 2]",
    "index_select": lambda s, v, d: f"{v}.index_select({d}, torch.arange({v}.size({d})).flip(0))",
}, weight=6.5)
expressions("compute", {
    "matmul": lambda s, v, d: f"{v} @ {s.rng.choice(s.same_shaped(v))}.transpose(-1, -2) * 0.125",
    "tril": lambda s, v, d: f"{v}.{s.rng.choice(['tril', 'triu'])}({s.rng.choice(['', '1', '-1'])})",
    "outer": lambda s, v, d: f"{v}.select({d}, 0).unsqueeze({d}) + {v}",
}, weight=1, ranks=range(2, 4))
expressions("size", {
    "scaled": lambda s, v, d: f"{v} {s.rng.choice('*/+-')} {scaled(s)}",
    "arange": lambda s, v, d: f"torch.arange({s.size_expression()}, dtype=torch.float32)",
    "filled": lambda s, v, d: s.rng.choice([f"torch.full(({s.size_expression()},), {s.number()})",
                                            f"torch.zeros({s.size_expression()}, {v}.size({d}))",
                                            f"torch.ones({v}.size({d}), {s.size_expression()})",
                                            f"{v}.new_zeros({v}.size({d}))"]),
    "like": lambda s, v, d: f"torch.{s.rng.choice(['zeros_like', 'ones_like'])}({v})",
    "arange added": lambda s, v, d: f"{v} + torch.arange({v}.size(-1))",
    "repeat": lambda s, v, d: f"{v}.repeat({s.size_expression()}{', 1' * (s.example(v).dim() - 1)})",
    "reshaped": lambda s, v, d: f"{v}.reshape({s.size_expression()}, -1)",
    "eye": lambda s, v, d: f"torch.eye({s.size_expression()})",
    "interval": lambda s, v, d: f"torch.linspace(0.0, 1.0, {s.size_expression()})",
}, weight=3)


@kind("size named", weight=2)
def name_size(scope: Scope):
    name = scope.names.new("n")
    return Statement("size named", f"{name} = {scope.size_expression()}"), name


@kind("size rebound", SCRIPT_ONLY, weight=1.2)
def rebind_size(scope: Scope):
    """In a block, rebinds an outer integer."""
    candidates = [name for name in scope.integers() if not scope.outer or name in scope.outer]
    if not candidates:
        return None
    return Statement("size rebound", f"{scope.rng.choice(candidates)} = {scope.size_expression()}")


# sizes that depend on data

expressions("data size", {
    "mask": lambda s, v, d: f"{v}[{v} > {s.rng.choice(['0.3', '-0.7', '1.1'])}]",
    "masked_select": lambda s, v, d: f"torch.masked_select({v}, {v} > 0.3)",
    "nonzero": lambda s, v, d: f"torch.nonzero({v} > 0.3).float()",
}, weight=0.5, routes=("trace", "script", "native"))


@expression("data size counted", SCRIPT_ONLY, weight=0.4)
def counted(scope: Scope):
    name = scope.tensor()
    return f"{name}[:int(({name} > 0.3).sum())]" if name else None


# several results, and lists

@kind("list parts", weight=0.8)
def parts(scope: Scope):
    """Binds several names to parts of one tensor or list."""
    name = scope.tensor()
    if name is None:
        return None
    first, second, axis = scope.names.new(), scope.names.new(), scope.axis(name)
    form = scope.rng.choice([f"{name}.chunk(2, {axis})", f"{name}.tensor_split(2, {axis})", f"[{name}, {name} * 2.0]",
                             f"({name}[:1], {name})"])
    if form.startswith("["):
        form = f"({form[1:-1]})"
    return Statement("list parts", f"{first}, {second} = {form}"), first, second


@kind("list written", SCRIPT_ONLY, weight=0.5)
def write_to_item(scope: Scope):
    """A list contains references, so a write to an item changes every tensor that shares its memory."""
    name = scope.tensor()
    if name is None:
        return None
    items, other = scope.names.new("l"), scope.rng.choice(scope.same_shaped(name))
    number = scope.rng.choice(["0", "1", "-1"])
    return (Statement("list written", f"{items}[{number}].{scope.rng.choice(['add_(0.5)', 'mul_(2.0)', 'zero_()'])}",
                      lead=f"{items} = [{name}, {scope.rng.choice([other, other + ' * 1.0', name + '[:1]'])}]"),)


@kind("branch expression", SCRIPT_ONLY, weight=0.8)
def conditional_expression(scope: Scope):
    name = scope.tensor()
    if name is None:
        return None
    other, new = scope.rng.choice(scope.same_shaped(name)), scope.names.new()
    second = scope.rng.choice([other, f"{other} * 2.0", f"{other}[:]", f"{name}.relu()", f"{name}.clone()"])
    condition = scope.rng.choice([f"{scope.integer()} > {scope.rng.randint(1, 6)}", f"bool({name}.sum() > 0.3)"])
    return Statement("branch expression", f"{new} = {name} if {condition} else {second}"), new


# writes

def write_target(scope: Scope) -> str | None:
    """Returns the target of a write: a name, or a view of it."""
    name = scope.tensor()
    if name is None:
        return None
    choice = scope.rng.random()
    if choice < 0.45:
        return name
    axis = scope.axis(name)
    return scope.rng.choice([f"{name}{scope.subscript(name)}", f"{name}{scope.subscript(name)}",
                             f"{name}.select({axis}, {scope.index(name, axis)})",
                             f"{name}.transpose({axis}, {other_axis(scope, name, axis)})",
                             f"{name}.view(-1)[{scope.bounds(name, 0)}]", f"{name}.unsqueeze(0)",
                             f"{name}.narrow({axis}, 0, 1)", f"{name}.diagonal()"])


def base_of(target: str) -> str:
    return target.split(".")[0].split("[")[0]


def write(name: str, form: Callable[[Scope, str, str], str], weight: float = 1.0, routes: tuple[str, ...] = ALL) -> None:
    def make(scope: Scope):
        target = write_target(scope)
        return Statement(f"write {name}", form(scope, target, base_of(target))) if target else None
    kind(f"write {name}", routes, weight)(make)


def small_operand(scope: Scope, base: str) -> str:
    """Returns an operand that fits most views of the base: a number, a scalar tensor, or an operand for the base."""
    return scope.rng.choice([scope.number(), scope.number(), f"{base}.sum()", operand(scope, base)])


write("add_", lambda s, t, v: f"{t}.add_({small_operand(s, v)})", 1.5)
write("mul_", lambda s, t, v: f"{t}.mul_({small_operand(s, v)})")
write("fill_", lambda s, t, v: s.rng.choice([f"{t}.fill_({s.number()})", f"{t}.zero_()"]))
write("copy_", lambda s, t, v: f"{t}.copy_({t if s.rng.random() < 0.3 else operand(s, v)} * 0.5)")
write("unary_", lambda s, t, v: f"{t}.{s.rng.choice(['relu_', 'neg_', 'abs_', 'tanh_', 'sigmoid_'])}()", 0.7)
write("clamp_", lambda s, t, v: f"{t}.clamp_(min=-0.5)", 0.4)
write("masked_fill_", lambda s, t, v: f"{t}.masked_fill_({t} > 0.3, {s.number()})", 0.7)
write("index_fill_", lambda s, t, v: f"{t}.index_fill_(0, torch.tensor([0]), {s.number()})", 0.3)
write("index_add_", lambda s, t, v: f"{t}.index_add_(0, torch.tensor([0]), {t}[-1:] * 2.0)", 0.7)
write("twice", lambda s, t, v: f"{t}.add_({s.number()}).mul_({s.number()})", 0.4)
write("swapped", lambda s, t, v: f"{t}.copy_({t}.flip(0))", 0.5)
write("out=", lambda s, t, v: f"torch.add({t}, {s.number()}, out={t})", 0.5)


@kind("write index", weight=2)
def write_index(scope: Scope):
    name = scope.tensor()
    return name and Statement("write index", f"{name}{scope.subscript(name)} = {small_operand(scope, name)}")


@kind("write index own", weight=1)
def write_own(scope: Scope):
    """Writes to a part of a tensor a multiple of the same part of this or another tensor."""
    name = scope.tensor()
    if name is None:
        return None
    part, other = scope.subscript(name), scope.rng.choice(scope.same_shaped(name))
    return Statement("write index own", f"{name}{part} = {other}{part} * {scope.number()}")


@kind("write augmented view", weight=1.5)
def write_augmented_view(scope: Scope):
    name = scope.tensor()
    if name is None:
        return None
    sign = scope.rng.choice(["+=", "-=", "*="])
    return Statement("write augmented view", f"{name}{scope.subscript(name)} {sign} {small_operand(scope, name)}")


@kind("write augmented", weight=1.2)
def write_augmented(scope: Scope):
    """`t += y` writes to the memory of t, which other names may share."""
    name = scope.tensor()
    return name and Statement("write augmented", f"{name} {scope.rng.choice(['+=', '-=', '*='])} {operand(scope, name)}")


@kind("write mask", weight=0.8)
def write_mask(scope: Scope):
    name = scope.tensor()
    return name and Statement("write mask", f"{name}[{name} > {scope.rng.choice(['0.3', '-0.4'])}] = {scope.number()}")


@kind("write index_put_", weight=0.7)
def write_index_put(scope: Scope):
    name = scope.tensor()
    if name is None:
        return None
    where = scope.rng.choice(["torch.tensor([0])", f"torch.arange({name}.size(0))", f"torch.arange({name}.size(0) // 2)"])
    value = scope.rng.choice([f"torch.tensor({scope.number()})", f"{name}[:1] * 2.0"])
    return Statement("write index_put_", f"{name}.index_put_(({where},), {value})")
