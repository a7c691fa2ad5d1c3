"""A user's own converters: functions for operators, given with one export or registered for all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.optional_packages import needs
from ..errors import error
from .python_functions import PythonTranslation

OLDEST_OPSET, NEWEST_OPSET = 13, 28  # the range of `whence export --opset`
DEFAULT_OPSET = 20  # the default of torch.onnx.export


@dataclass(frozen=True)
class Registration:
    function: Any  # FunctionProto or PythonTranslation
    since: int
    until: int


_registered: dict[str, list[Registration]] = {}


def register_custom_op(operator: Any, function: Any, opset_version: int = OLDEST_OPSET, *,
                       until: int = NEWEST_OPSET) -> None:
    """Every export by a native backend, at opsets from ``opset_version`` to ``until``, converts ``operator`` by
    ``function``.

    operator  torch.ops.mylib.op.default, its name "mylib::op", or a torch.autograd.Function
    function  of onnxscript's operators, in Python; an onnxscript function, or a FunctionProto that needs no later opset
              than ``opset_version``; several Python functions, of which the annotations choose
    Of several registrations the one that starts latest counts, as torch.onnx has it; the same start replaces.
    Raises WhenceError E0104; E0101 for opsets outside 13-28.
    """
    if not OLDEST_OPSET <= opset_version <= until <= NEWEST_OPSET:
        raise error("E0101", "usage", f"opsets {opset_version} to {until} cannot be exported",
                    f"choose from {OLDEST_OPSET} to {NEWEST_OPSET}")
    (name, proto), = translation_table({operator: function}).items()
    others = [each for each in _registered.get(name, ()) if each.since != opset_version]
    _registered[name] = [*others, Registration(proto, opset_version, until)]


def unregister_custom_op(operator: Any, opset_version: int | None = None) -> None:
    """Forgets what was registered to start at ``opset_version``, or all of the operator's. E0101 when there is none."""
    name = operator_name(operator)
    left = [each for each in _registered.get(name, ()) if opset_version not in (None, each.since)]
    if len(left) == len(_registered.get(name, ())):
        at = "" if opset_version is None else f" from opset {opset_version} on"
        raise error("E0101", "usage", f"nothing is registered for {name}{at}",
                    "registered are: " + (", ".join(sorted(_registered)) or "none"))
    _registered[name] = left
    if not left:
        del _registered[name]


def registered(opset: int) -> dict[str, Any]:
    """{"mylib::op": FunctionProto or PythonTranslation} for exports at this opset."""
    found = {}
    for name, registrations in _registered.items():
        valid = [each for each in registrations if each.since <= opset <= each.until]
        if valid:
            found[name] = max(valid, key=lambda each: each.since).function
    return found


def operator_name(operator: Any) -> str:
    """"mylib::op", or "mylib::op.Tensor" of one of several overloads; of an operator, of its name, or of a
    torch.autograd.Function. Raises WhenceError E0104."""
    from .autograd_functions import is_function, operator_of

    if isinstance(operator, type) and is_function(operator):
        return operator_of(operator)
    name = operator if isinstance(operator, str) else getattr(getattr(operator, "_schema", None), "name", None) or \
        getattr(operator, "_qualified_op_name", None)
    if name and name.startswith("::"):
        name = "aten" + name
    if not name or not re.fullmatch(r"[\w-]+::[A-Za-z_][\w-]*(\.\w+)?", name):
        raise error("E0104", "input_mismatch", f"{operator!r} is not an operator",
                    "give torch.ops.mylib.op.default, or its name: 'mylib::op'")
    overload = getattr(operator, "_overloadname", None)
    several = [each for each in _schemas(name) if not any(argument.is_out for argument in each.arguments)]
    return f"{name}.{overload}" if overload and len(several) > 1 else name


def _schemas(name: str) -> list[Any]:
    """The schemas of the operator, or of the overload that is named."""
    import torch

    operator, _, overload = name.partition(".")
    schemas = torch._C._jit_get_schemas_for_operator(operator)
    return [each for each in schemas if not overload or (each.overload_name or "default") == overload]


def translation_table(table: Mapping[Any, Any] | None) -> dict[str, Any]:
    """{"mylib::op": FunctionProto or PythonTranslation}, of a table as torch.onnx.export takes it.

    Raises WhenceError E0104.
    """
    if not isinstance(table, (Mapping, type(None))):
        raise error("E0101", "usage", f"custom_translation_table is a {type(table).__name__}",
                    "give {torch.ops.mylib.op.default: function}")
    return {operator_name(operator): _translation(operator_name(operator), function)
            for operator, function in (table or {}).items()}


def _translation(name: str, given: Any) -> Any:
    several = isinstance(given, (list, tuple))
    functions = tuple(given) if several else (given,)
    wrong = [each for each in functions if type(each).__name__ != "FunctionProto" and not callable(each)]
    if wrong or not functions:
        said = f"holds a {type(wrong[0]).__name__}" if wrong and several else f"is a {type(given).__name__}"
        raise error("E0104", "input_mismatch", f"the translation of {name} {said}",
                    "give a function of onnxscript's operators, several of them, or an onnx.FunctionProto")
    if not several and hasattr(given, "to_function_proto"):
        given = given.to_function_proto()
    if type(given).__name__ == "FunctionProto":
        _check_inputs(name, given)
        return given
    if any(type(each).__name__ == "FunctionProto" for each in functions):
        raise error("E0104", "input_mismatch", f"several functions translate {name}, one of them a FunctionProto",
                    "give Python functions: by their annotations one is chosen")
    needs("onnxscript", "a translation that is a Python function")
    return PythonTranslation(functions)


def _check_inputs(name: str, function: Any) -> None:
    """A function that takes fewer tensors than the operator must have would drop some without a word."""
    counts = []
    for schema in _schemas(name):
        kinds = [str(each.type) for each in schema.arguments]
        if any("List[" in kind and "Tensor" in kind for kind in kinds):
            return  # a list of tensors may have any length
        counts.append((kinds.count("Tensor"), sum("Tensor" in kind for kind in kinds)))
    given = len(function.input)
    if counts and not any(least <= given <= most for least, most in counts):
        least, most = min(each for each, _ in counts), max(each for _, each in counts)
        takes = str(least) if least == most else f"{least} to {most}"
        raise error("E0104", "input_mismatch", f"the translation of {name} takes {given} tensors, the operator {takes}",
                    "take the operator's tensors in the order of its schema; what is not a tensor is an attribute")


def write_functions(translations: Mapping[str, Any], path: Path) -> Path:
    """A model file that holds the functions under the names by which the command finds them."""
    import onnx

    model = onnx.ModelProto(ir_version=10)
    for name, function in translations.items():
        copy = model.functions.add()
        copy.CopyFrom(function)
        namespace, _, copy.name = name.partition("::")
        copy.domain = f"whence.{namespace}"
    path.write_bytes(model.SerializeToString())
    return path
