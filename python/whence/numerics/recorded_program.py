"""Reads a sidecar's operations, and which of them computed each result of a module."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from ..errors import error
from .source_lines import SourceLine


@dataclass(frozen=True)
class Result:
    """A result of a module call: a value that the call computes and that is read outside it."""

    operation: int  # the recorded operation that computed it
    output: int     # index in the operation's results
    dims: tuple[int, ...] | None


@dataclass
class RecordedProgram:
    results: dict[tuple[str, int], list[Result]]   # by module and call, in execution order
    targets: list[str]                             # by operation: "aten::linear"
    calls: list[tuple[str, int]]                   # by operation: its module and call
    ranks: list[tuple[int | None, ...]]            # by operation: the ranks of its results
    read: list[set[int]]                           # by operation: the operations whose results it reads
    stacks: list[tuple[SourceLine, ...]]           # by operation: its source lines, innermost first
    arguments: list[str]                           # by operation, without tensors: "shifts=[7, -9], dims=[2, 3]"
    digest: str                                    # identifies the program in value pair files


def read(path: str | os.PathLike[str]) -> RecordedProgram:
    """Reads a sidecar. Raises WhenceError: E0102, E0203 if it is not a sidecar, E0204."""
    try:
        with open(path, encoding="utf-8") as file:
            raw = json.load(file)
    except OSError as failure:
        raise error("E0102", "missing_file", f"{path} cannot be read: {failure}", "check the path",
                    file=str(path)) from None
    except (ValueError, RecursionError):
        raise _not_a_sidecar(path) from None
    if not isinstance(raw, dict) or raw.get("format") != "whence-sidecar":
        raise _not_a_sidecar(path)
    try:
        return _program(raw)
    except (KeyError, IndexError, TypeError, ValueError) as failure:
        raise error("E0204", "corrupt_file", f"{path} is damaged: {failure!r}", "record the model again",
                    file=str(path)) from None


def _not_a_sidecar(path: str | os.PathLike[str]):
    return error("E0203", "wrong_kind", f"{path} is not a sidecar", "pass a file written by whence.record",
                 file=str(path))


def _rows(raw: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [dict(zip(raw[name]["columns"], row, strict=True)) for row in raw[name]["rows"]]


def _program(raw: dict[str, Any]) -> RecordedProgram:
    strings, modules, scopes = raw["strings"], _rows(raw, "modules"), _rows(raw, "scopes")
    operations, values = _rows(raw, "operations"), _rows(raw, "values")
    chains = _scope_chains(scopes)
    names = [(strings[modules[scope["module"]]["path"]], scope["call"]) for scope in scopes]
    producer = {value: (at, number) for at, each in enumerate(operations)
                for number, value in enumerate(each["outputs"])}
    reading_scopes: dict[int, set[int]] = {}  # value -> scopes that read it
    for operation in operations:
        for value in _values(operation["arguments"]):
            reading_scopes.setdefault(value, set()).add(operation["scope"])
    returned = {value for each in _rows(raw, "outputs") for value in _values(each["value"])}
    results: dict[tuple[str, int], list[Result]] = {}
    for value, (at, number) in sorted(producer.items(), key=lambda entry: entry[1]):
        readers = reading_scopes.get(value, set())
        for scope in chains[operations[at]["scope"]]:
            if value in returned or any(scope not in chains[reader] for reader in readers):
                dims = values[value]["dims"]
                sizes = None if dims is None else tuple(each if isinstance(each, int) else -1 for each in dims)
                results.setdefault(names[scope], []).append(Result(at, number, sizes))
    read = [{producer[value][0] for value in _values(each["arguments"]) if value in producer} for each in operations]
    ranks = [tuple(None if (dims := values[value]["dims"]) is None else len(dims) for value in each["outputs"])
             for each in operations]
    return RecordedProgram(results, [strings[each["target"]] for each in operations],
                           [names[each["scope"]] for each in operations], ranks, read, _stacks(raw, operations),
                           [_argument_text(each["arguments"], strings) for each in operations], raw["program_digest"])


def _stacks(raw: dict[str, Any], operations: list[dict[str, Any]]) -> list[tuple[SourceLine, ...]]:
    strings = raw["strings"]
    frames = [SourceLine(strings[each["file"]], each["line"], strings[each["function"]]) for each in _rows(raw, "frames")]
    stacks = [tuple(frames[at] for at in each["frames"]) for each in _rows(raw, "stacks")]
    return [stacks[each["stack"]] if each["stack"] >= 0 else () for each in operations]


def _scope_chains(scopes: list[dict[str, Any]]) -> list[frozenset[int]]:
    """Returns the enclosing scopes of each scope, including itself. Parents come before children in ``scopes``."""
    chains: list[frozenset[int]] = []
    for at, scope in enumerate(scopes):
        enclosing = chains[scope["parent"]] if scope["parent"] >= 0 else frozenset()
        chains.append(enclosing | {at})
    return chains


def _argument_text(arguments: list[Any], strings: list[str]) -> str:
    """Returns the arguments that are numbers, or lists of them. They follow their names."""
    return ", ".join(f"{strings[name]}={argument}" for name, argument in zip(arguments[::2], arguments[1::2])
                     if _are_numbers(argument))


def _are_numbers(argument: Any) -> bool:
    return all(map(_are_numbers, argument)) if isinstance(argument, list) else isinstance(argument, (int, float))


def _values(argument: Any) -> list[int]:
    """Returns the ids of all values in an argument, including nested values."""
    if isinstance(argument, dict):
        if "value" in argument and isinstance(argument["value"], int):
            return [argument["value"]]
        return [value for each in argument.values() for value in _values(each)]
    if isinstance(argument, list):
        return [value for each in argument for value in _values(each)]
    return []
