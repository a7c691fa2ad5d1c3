"""Shrinks a failing program: removes statements, and replaces statements with their blocks and expressions with their
parts, as long as the failure remains."""

import ast
from dataclasses import replace
from typing import Callable, Iterator

from program_text import Program, Statement


def shrink(program: Program, still_fails: Callable[[Program], bool], max_calls: int = 400) -> Program:
    """Calls `still_fails` at most `max_calls` times. It must return False if PyTorch does not run the program."""
    remaining, at, rejections = list(candidates(program)), 0, 0
    for _ in range(max_calls):
        # A rejected candidate would be rejected again, so after a success the search continues after it, cyclically.
        if rejections >= len(remaining):
            break
        candidate = remaining[at % len(remaining)]
        if still_fails(candidate):
            program, rejections = candidate, 0
            remaining = list(candidates(program))
        else:
            at, rejections = at + 1, rejections + 1
    return program


def candidates(program: Program) -> Iterator[Program]:
    """Yields smaller programs, beginning with the smallest."""
    statements = program.statements
    for number in range(len(program.sizes) - 1, 0, -1):
        if len(program.sizes) > 3:
            yield replace(program, sizes=program.sizes[:number] + program.sizes[number + 1:])
    for block in smaller_blocks(statements):
        yield program.with_statements(block)
    if len(program.results) > 1:
        for name in program.results:
            yield replace(program, results=tuple(each for each in program.results if each != name))
    for each in program.inputs:
        if len(program.inputs) > 1:
            yield replace(program, inputs=tuple(other for other in program.inputs if other != each))


def smaller_blocks(statements: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    for number in reversed(range(len(statements))):
        before, statement, after = statements[:number], statements[number], statements[number + 1:]
        yield before + after
        if statement.body is not None:
            yield before + statement.body + after
            if statement.other is not None:
                yield before + statement.other + after
                yield (*before, replace(statement, other=None), *after)
            for body in smaller_blocks(statement.body):
                yield (*before, replace(statement, body=body), *after)
            for other in smaller_blocks(statement.other or ()):
                yield (*before, replace(statement, other=other), *after)
        for text in smaller_texts(statement.text):
            if statement.tail and not text.startswith(f"while {statement.tail.split()[0]} < "):
                continue  # the counter ends the loop
            yield (*before, replace(statement, text=text), *after)


def smaller_texts(text: str) -> Iterator[str]:
    """Replaces one expression of the line with a part: "t = x[1:].relu()" gives "t = x[1:]" and "t = x.relu()"."""
    head = text.endswith(":")
    tree = ast.parse(text + ("\n pass" if head else "") if not text == "break" else "pass")
    found = set()
    for node in list(ast.walk(tree)):
        for name, value in ast.iter_fields(node):
            for number, child in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(child, ast.expr) or is_target(node, name):
                    continue
                for part in parts(child):
                    put(node, name, number, part)
                    found.add(ast.unparse(tree).removesuffix("\n    pass"))
                    put(node, name, number, child)
    yield from sorted(found - {text}, key=len)


def is_target(node: ast.AST, name: str) -> bool:
    return name in ("targets", "target", "func") and not isinstance(node, ast.Expr)


def put(node: ast.AST, name: str, number: int, value: ast.expr) -> None:
    if isinstance(getattr(node, name), list):
        getattr(node, name)[number] = value
    else:
        setattr(node, name, value)


def parts(expression: ast.expr) -> list[ast.expr]:
    match expression:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch")), args=args):
            return [each for each in args if not isinstance(each, ast.List)] + \
                [each for part in args if isinstance(part, ast.List) for each in part.elts]
        case ast.Call(func=ast.Attribute(value=value)):
            return [value, ast.Constant(2)]
        case ast.Call(args=args):
            return [*args, ast.Constant(2)]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.BoolOp(values=values):
            return values
        case ast.Subscript(value=ast.Attribute()):
            return [ast.Constant(2)]
        case ast.Subscript(value=value):
            return [value]
        case ast.Slice() as cut if cut.lower or cut.upper or cut.step:
            return [ast.Slice(None if name == "lower" else cut.lower, None if name == "upper" else cut.upper,
                              None if name == "step" else cut.step)
                    for name in ("lower", "upper", "step") if getattr(cut, name)]
    return []
