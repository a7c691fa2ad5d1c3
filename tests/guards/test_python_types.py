"""The public functions of the Python package have complete types. `pyright --verifytypes whence --ignoreexternal` checks
the same."""
import inspect
import re

import pytest
import whence

# A generic class without type arguments, which strict type checkers treat as unknown.
UNPARAMETRIZED = re.compile(r"\b(dict|list|tuple|set|frozenset|Mapping|Sequence|Iterable|Iterator|Collection|Callable|PathLike)\b(?!\[)")


def functions_of(name: str, value: object) -> dict[str, object]:
    """Returns a public function, or the public methods of a public class."""
    if not inspect.isclass(value):
        return {name: value}
    members = {member_name: inspect.getattr_static(value, member_name) for member_name in dir(value)
               if not member_name.startswith("_") or member_name in ("__call__", "__init__")}
    members = {member_name: getattr(member, "fget", None) or getattr(member, "__func__", member)
               for member_name, member in members.items()}
    return {f"{name}.{member_name}": member for member_name, member in members.items()
            if inspect.isfunction(member) and member.__module__.startswith("whence.")}


PUBLIC = {path: function for name in whence.__all__ for path, function in functions_of(name, getattr(whence, name)).items()}


def missing_types(function: object) -> list[str]:
    """Returns the parameters without a complete type, and "return" if the result has none."""
    signature = inspect.signature(function)
    types = {name: parameter.annotation for name, parameter in signature.parameters.items() if name not in ("self", "cls")}
    types["return"] = signature.return_annotation
    return [name for name, kind in types.items() if kind is inspect.Parameter.empty or UNPARAMETRIZED.search(str(kind))]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_function_has_complete_types(name):
    assert not missing_types(PUBLIC[name])


def test_missing_types_are_reported():
    assert len(PUBLIC) > 60 and {"export", "ONNXProgram.save", "Coverage.percent"} <= set(PUBLIC)

    def function(a, b: "dict", c: "dict[str, int]", *args: "str | os.PathLike") -> "list[str]":  # noqa: F821
        return []

    assert missing_types(function) == ["a", "b", "args"]
