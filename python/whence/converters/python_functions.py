"""Translations that are Python functions: each is called once for every call of the operator, as in torch.onnx.export.

A function gets a symbolic value for each tensor and Python values for other arguments. It calls onnxscript's operators,
each of which adds a node to the graph.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import WhenceError
from ..files.onnx_graphs import bodies
from .call_expansion import Call, Input, Keyword


@dataclass(frozen=True)
class PythonTranslation:
    """Python functions for one operator: the first whose annotations allow the dtypes of the call is used."""

    functions: tuple[Callable[..., Any], ...]


def part_of(translation: PythonTranslation, call: Call, opset: int) -> Any:
    """Returns an ONNX model that contains only this call. Raises WhenceError E0302 if the function fails."""
    import onnxscript.evaluator

    from .node_recorder import NodeRecorder

    recorder = NodeRecorder(opset)
    inputs = [recorder.input(f"input_{index}", each or _scalar(call, index)) for index, each in enumerate(call.inputs)]
    function = _choose(translation, call, inputs)
    name = f"the translation '{getattr(function, '__name__', function)}' of {call.operator}"
    try:
        args, kwargs = _bind(function, call, inputs)
        with onnxscript.evaluator.default_as(recorder):
            result = function(*args, **kwargs)
            results = _results(result, call, recorder)
        return _model(recorder, inputs, results)
    except WhenceError:
        raise
    except Exception as failure:  # the function is the user's
        raise call.failed(name, failure, "fix the function: it gets the operator's arguments, tensors as symbolic "
                          "values, and must return the operator's results") from failure


def _scalar(call: Call, index: int) -> Any:
    """Returns the type of a number that the graph computes, if the file does not state it."""
    import onnx

    for argument in call.schema.arguments if call.schema else ():
        value = call.arguments.get(argument.name)
        if Input(index) in (value if isinstance(value, list) else [value]) and "Tensor" not in str(argument.type):
            kinds = {"float": onnx.TensorProto.DOUBLE, "bool": onnx.TensorProto.BOOL}
            kind = next((kind for text, kind in kinds.items() if text in str(argument.type)), onnx.TensorProto.INT64)
            return onnx.helper.make_tensor_type_proto(kind, [])
    return None


# ---- choice of the function and its arguments ------------------------------------------------------------------------


def _choose(translation: PythonTranslation, call: Call, inputs: Sequence[Any]) -> Callable[..., Any]:
    if len(translation.functions) == 1:
        return translation.functions[0]
    for function in translation.functions:
        try:
            args, kwargs = _bind(function, call, inputs)
            bound = inspect.signature(function).bind(*args, **kwargs).arguments
            hints = typing.get_type_hints(getattr(function, "function", function))
        except (TypeError, ValueError, NameError):
            continue  # its arguments do not fit
        if all(_accepts(hints.get(name), value) for name, value in bound.items()):
            return function
    dtypes = ", ".join(str(getattr(each.dtype, "name", "of unknown dtype")) for each in inputs)
    raise call.failed(f"the translation of {call.operator}", f"none of its {len(translation.functions)} functions "
                      f"takes tensors of {dtypes}", "annotate them with the types that they accept, such as FLOAT")


def _accepts(annotation: Any, value: Any) -> bool:
    dtype, allowed = getattr(value, "dtype", None), _dtypes(annotation)
    return dtype is None or allowed is None or int(dtype) in allowed


def _dtypes(annotation: Any) -> set[int] | None:
    """Returns the ONNX dtypes that an annotation allows, such as FLOAT, a Union or a TypeVar; None allows any dtype."""
    if isinstance(annotation, typing.TypeVar):
        parts = annotation.__constraints__ or ((annotation.__bound__,) if annotation.__bound__ else ())
    elif typing.get_origin(annotation) in (typing.Union, types.UnionType):
        parts = tuple(each for each in typing.get_args(annotation) if each is not type(None))
    else:
        dtype = getattr(annotation, "dtype", None)
        return None if dtype is None else {int(dtype)}
    dtypes = [_dtypes(each) for each in parts]
    return None if not dtypes or None in dtypes else set().union(*dtypes)


def _bind(function: Callable[..., Any], call: Call, inputs: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments in the order of the operator's schema. Trailing arguments with default values are passed
    only if the function has no default for them, as in a torch.export program."""
    schema = call.schema
    names = [each.name for each in schema.arguments] if schema else list(call.arguments)
    by_name = {each.name: each for each in schema.arguments} if schema else {}
    values, is_default = {}, {}
    for name in names:
        has_default = name in by_name and by_name[name].has_default_value()
        default = by_name[name].default_value if has_default else inspect._empty
        value = call.arguments.get(name, None if default is inspect._empty else default)
        values[name] = _value(value, inputs)
        is_default[name] = default is not inspect._empty and (name not in call.arguments or _equals(value, default))
    positional = [name for name in names if name not in by_name or not by_name[name].kwarg_only]
    required, keyword_names = _requirements(function)
    count = len(positional)
    while count > required and is_default[positional[count - 1]]:
        count -= 1
    keywords = {name: values[name] for name in names if name not in positional and (
        not is_default[name] or name in keyword_names)}
    if "dtype" in keywords and keywords["dtype"] is None:
        keywords["dtype"] = -1  # as in torch.onnx
    return [values[name] for name in positional[:count]], keywords


def _equals(value: Any, default: Any) -> bool:
    return not isinstance(value, Input) and (value is default or type(value) is type(default) and value == default)


def _requirements(function: Callable[..., Any]) -> tuple[int, set[str]]:
    """Returns the number of arguments that the function requires by position, and the names of required arguments that
    can be passed by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0, set()
    needed = [each for each in parameters if each.default is each.empty]
    by_order = [each.name for each in needed if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return len(by_order), {each.name for each in needed if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)}


def _value(value: Any, inputs: Sequence[Any]) -> Any:
    """Returns a value in the form of torch.onnx: dtypes as ONNX dtypes, devices and layouts as strings."""
    import torch
    import onnx_ir

    if isinstance(value, Input):
        return inputs[value.index]
    if isinstance(value, (list, tuple)):
        return [_value(each, inputs) for each in value]
    if isinstance(value, Keyword):
        return str(value)
    if isinstance(value, torch.dtype):
        return onnx_ir.tensor(torch.empty(0, dtype=value)).dtype
    return value


# ---- results of the function ------------------------------------------------------------------------------------------


def _results(returned: Any, call: Call, recorder: Any) -> list[Any]:
    """Returns one value for each result of the call, with the dtype that PyTorch computes. Raises TypeError."""
    import onnx_ir as ir

    count = len(call.node.output)
    if isinstance(returned, ir.Value) and isinstance(returned.type, ir.SequenceType):
        results = [recorder.opset.SequenceAt(returned, index) for index in range(count)]
    else:
        results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if len(results) != count:
        raise TypeError(f"it returns {len(results)} values, but the operator returns {count}")
    for index, (result, type) in enumerate(zip(results, call.outputs)):
        if not isinstance(result, ir.Value):
            if result is None:
                raise TypeError(f"it returns no value {index}, which the model reads")
            result = recorder.operand(result, None)
        elem = type.tensor_type.elem_type if type is not None else 0
        if elem and result.dtype is not None and int(result.dtype) != elem and isinstance(result.type, ir.TensorType):
            result = recorder.opset.Cast(result, to=elem)
        results[index] = result
    return results


def _model(recorder: Any, inputs: Sequence[Any], results: Sequence[Any]) -> Any:
    import onnx
    import onnx_ir as ir

    graph = onnx.GraphProto(name="part")
    graph.input.extend(ir.serde.serialize_value(each) for each in inputs)
    graph.output.extend(ir.serde.serialize_value(each) for each in results)
    graph.node.extend(ir.serde.serialize_node(each) for each in recorder.nodes)
    graph.initializer.extend(ir.serde.serialize_tensor(each.const_value) for each in recorder.constants)
    for node in recorder.nodes:
        graph.value_info.extend(ir.serde.serialize_value(each) for each in node.outputs if each.type is not None)
    model = onnx.ModelProto(ir_version=10, graph=graph)
    for domain, version in recorder.opset_imports.items():
        model.opset_import.add(domain=domain, version=version)
    if recorder.functions:
        model.functions.extend(recorder.functions.values())
        model = _inlined(model)
    _drop_unread(model.graph)
    return model


def _inlined(model: Any) -> Any:
    """Returns the model with calls of onnxscript functions inlined, as in torch.onnx.export."""
    import onnx.inliner

    for function in model.functions:
        for each in function.opset_import:
            if not any(each.domain == opset.domain for opset in model.opset_import):
                model.opset_import.add(domain=each.domain, version=each.version)
    return onnx.inliner.inline_local_functions(model)


def _drop_unread(graph: Any) -> None:
    """Removes nodes, constants, types and optional results that nothing reads."""
    import onnx

    read_names, kept_nodes = {each.name for each in graph.output}, []
    for node in reversed(graph.node):  # readers come after the nodes that they read
        if read_names.isdisjoint(node.output):
            continue
        read_names |= _read_by(node)
        kept_nodes.append(type(node).FromString(node.SerializeToString()))
        node = kept_nodes[-1]
        if onnx.defs.has(node.op_type, node.domain):
            formal = onnx.defs.get_schema(node.op_type, domain=node.domain).outputs
            optional = onnx.defs.OpSchema.FormalParameterOption.Optional
            node.output[:] = ["" if name not in read_names and index < len(formal) and formal[index].option == optional
                              else name for index, name in enumerate(node.output)]
            while node.output and not node.output[-1]:
                node.output.pop()
    del graph.node[:]
    graph.node.extend(reversed(kept_nodes))
    for value in [each for each in graph.initializer if each.name not in read_names]:
        graph.initializer.remove(value)
    produced = {name for node in graph.node for name in node.output}
    for value in [each for each in graph.value_info if each.name not in produced]:
        graph.value_info.remove(value)


def _read_by(node: Any) -> set[str]:
    names = set(node.input)
    for graph in bodies(node):
        names.update(name for inner in graph.node for name in inner.input)
        names.update(each.name for each in graph.output)
    return names
