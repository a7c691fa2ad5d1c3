"""A user's own converters: functions for operators, passed to one export or registered for all exports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.optional_packages import import_optional
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
    """Registers ``function`` as the converter of ``operator`` for every export by a native backend, at opsets from
    ``opset_version`` to ``until``.

    operator  torch.ops.mylib.op.default, its name "mylib::op", or a torch.autograd.Function
    function  a Python function that calls onnxscript's operators; an onnxscript function or a FunctionProto of an opset
              up to ``opset_version``; or several Python functions, chosen by their annotations
    If several registrations apply, the one with the latest start is used, as in torch.onnx; a registration with the
    same start replaces the earlier one. Raises WhenceError E0104; E0101 for opsets outside 13-28.
    """
    if not OLDEST_OPSET <= opset_version <= until <= NEWEST_OPSET:
        raise error("E0101", "usage", f"opsets {opset_version} to {until} cannot be exported",
                    f"choose from {OLDEST_OPSET} to {NEWEST_OPSET}")
    (name, proto), = translation_table({operator: function}).items()
    others = [each for each in _registered.get(name, ()) if each.since != opset_version]
    _registered[name] = [*others, Registration(proto, opset_version, until)]


def unregister_custom_op(operator: Any, opset_version: int | None = None) -> None:
    """Removes the operator's registration that starts at ``opset_version``, or all of them. Raises E0101 if none
    exists."""
    name = operator_name(operator)
    remaining = [each for each in _registered.get(name, ()) if opset_version not in (None, each.since)]
    if len(remaining) == len(_registered.get(name, ())):
        at = "" if opset_version is None else f" from opset {opset_version} on"
        raise error("E0101", "usage", f"nothing is registered for {name}{at}",
                    "registered operators: " + (", ".join(sorted(_registered)) or "none"))
    _registered[name] = remaining
    if not remaining:
        del _registered[name]


def registered(opset: int) -> dict[str, Any]:
    """Returns {"mylib::op": FunctionProto or PythonTranslation} for exports at this opset."""
    functions = {}
    for name, registrations in _registered.items():
        valid = [each for each in registrations if each.since <= opset <= each.until]
        if valid:
            functions[name] = max(valid, key=lambda each: each.since).function
    return functions


def operator_name(operator: Any) -> str:
    """Returns "mylib::op", or "mylib::op.Tensor" if the operator has several overloads. Accepts an operator, its name,
    or a torch.autograd.Function. Raises WhenceError E0104."""
    from .autograd_functions import is_function, operator_of

    if isinstance(operator, type) and is_function(operator):
        return operator_of(operator)
    name = operator if isinstance(operator, str) else getattr(getattr(operator, "_schema", None), "name", None) or \
        getattr(operator, "_qualified_op_name", None)
    if name and name.startswith("::"):
        name = "aten" + name
    if not name or not re.fullmatch(r"[\w-]+::[A-Za-z_][\w-]*(\.\w+)?", name):
        raise error("E0104", "input_mismatch", f"{operator!r} is not an operator",
                    "pass torch.ops.mylib.op.default, or its name: 'mylib::op'")
    overload = getattr(operator, "_overloadname", None)
    overloads = [each for each in _schemas(name) if not any(argument.is_out for argument in each.arguments)]
    return f"{name}.{overload}" if overload and len(overloads) > 1 else name


def _schemas(name: str) -> list[Any]:
    """Returns the schemas of the operator, or of the named overload."""
    import torch

    operator, _, overload = name.partition(".")
    schemas = torch._C._jit_get_schemas_for_operator(operator)
    return [each for each in schemas if not overload or (each.overload_name or "default") == overload]


def translation_table(table: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Converts a table of torch.onnx.export to {"mylib::op": FunctionProto or PythonTranslation}.

    Raises WhenceError E0104.
    """
    if not isinstance(table, (Mapping, type(None))):
        raise error("E0101", "usage", f"custom_translation_table is a {type(table).__name__}",
                    "pass {torch.ops.mylib.op.default: function}")
    return {operator_name(operator): _translation(operator_name(operator), function)
            for operator, function in (table or {}).items()}


def _translation(name: str, translation: Any) -> Any:
    several = isinstance(translation, (list, tuple))
    functions = tuple(translation) if several else (translation,)
    invalid = [each for each in functions if type(each).__name__ != "FunctionProto" and not callable(each)]
    if invalid or not functions:
        problem = f"contains a {type(invalid[0]).__name__}" if invalid and several else \
            f"is a {type(translation).__name__}"
        raise error("E0104", "input_mismatch", f"the translation of {name} {problem}",
                    "pass one or more functions of onnxscript's operators, or an onnx.FunctionProto")
    if not several and hasattr(translation, "to_function_proto"):
        translation = translation.to_function_proto()
    if type(translation).__name__ == "FunctionProto":
        _check_inputs(name, translation)
        return translation
    if any(type(each).__name__ == "FunctionProto" for each in functions):
        raise error("E0104", "input_mismatch", f"several functions translate {name}, and one is a FunctionProto",
                    "pass only Python functions, which are chosen by their annotations")
    import_optional("onnxscript", "a translation that is a Python function")
    return PythonTranslation(functions)


def _check_inputs(name: str, function: Any) -> None:
    """Refuses a function with fewer inputs than the operator has tensors: it would silently drop some of them."""
    counts = []
    for schema in _schemas(name):
        kinds = [str(each.type) for each in schema.arguments]
        if any("List[" in kind and "Tensor" in kind for kind in kinds):
            return  # a list of tensors may have any length
        counts.append((kinds.count("Tensor"), sum("Tensor" in kind for kind in kinds)))
    count = len(function.input)
    if counts and not any(lowest <= count <= highest for lowest, highest in counts):
        lowest, highest = min(each for each, _ in counts), max(each for _, each in counts)
        takes = str(lowest) if lowest == highest else f"{lowest} to {highest}"
        raise error("E0104", "input_mismatch", f"the translation of {name} takes {count} tensors, not {takes}",
                    "take the operator's tensors in the order of its schema; other arguments are attributes")


def write_functions(translations: Mapping[str, Any], path: Path) -> Path:
    """Writes a model file with the functions, under the names by which the command finds them."""
    import onnx

    model = onnx.ModelProto(ir_version=10)
    for name, function in translations.items():
        copy = model.functions.add()
        copy.CopyFrom(function)
        namespace, _, copy.name = name.partition("::")
        copy.domain = f"whence.{namespace}"
    path.write_bytes(model.SerializeToString())
    return path
