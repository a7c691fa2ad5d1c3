"""The public functions of the Python package have complete types, as also reported by `pyright --verifytypes whence
--ignoreexternal` if it is installed."""
import inspect
import re

import pytest
import whence

# A generic class without type arguments, which a strict checker treats as unknown.
BARE = re.compile(r"\b(dict|list|tuple|set|frozenset|Mapping|Sequence|Iterable|Iterator|Collection|Callable|PathLike)\b(?!\[)")


def functions_of(name: str, value: object) -> dict[str, object]:
    """Returns a public function, or the public methods of a public class."""
    if not inspect.isclass(value):
        return {name: value}
    members = {each: inspect.getattr_static(value, each) for each in dir(value)
               if not each.startswith("_") or each in ("__call__", "__init__")}
    members = {each: getattr(member, "fget", None) or getattr(member, "__func__", member) for each, member in members.items()}
    return {f"{name}.{each}": member for each, member in members.items()
            if inspect.isfunction(member) and member.__module__.startswith("whence.")}


PUBLIC = {each: function for name in whence.__all__ for each, function in functions_of(name, getattr(whence, name)).items()}


def missing_types(function: object) -> list[str]:
    """Returns the parameters, and "return", without a complete type."""
    signature = inspect.signature(function)
    types = {name: each.annotation for name, each in signature.parameters.items() if name not in ("self", "cls")}
    types["return"] = signature.return_annotation
    return [name for name, kind in types.items() if kind is inspect.Parameter.empty or BARE.search(str(kind))]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_function_has_complete_types(name):
    assert not missing_types(PUBLIC[name])


def test_missing_types_are_found():
    assert len(PUBLIC) > 60 and {"export", "ONNXProgram.save", "Coverage.percent"} <= set(PUBLIC)

    def function(a, b: "dict", c: "dict[str, int]", *args: "str | os.PathLike") -> "list[str]":  # noqa: F821
        return []

    assert missing_types(function) == ["a", "b", "args"]
