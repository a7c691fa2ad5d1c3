"""Records the nodes that a Python function creates when it calls onnxscript's operators on symbolic values.

The recorder is an onnxscript evaluator (``onnxscript.evaluator.default_as``) that computes nothing: each operator
becomes a node of one ONNX graph. Python numbers and arrays become constants with the dtype of the tensor arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import torch
from onnxscript import values

from ..files.onnx_graphs import bodies

# The opset from which an unchanged call of an operator has another meaning. Other changes concern dtypes, or move
# arguments between attributes and inputs, which does not affect a call by name. annotator/write/user_functions.cpp has
# the same table.
_CHANGED_AT = {"BatchNormalization": 14, "DFT": 20, "GridSample": 20, "GroupNormalization": 21, "Hardmax": 13,
             "LogSoftmax": 13, "Resize": 11, "RoiAlign": 16, "Softmax": 13}


class Symbolic(ir.Value):
    """A value of the graph: has ``shape``, ``dtype`` and ``rank`` if they are known, and Python's operators."""

    def __init__(self, opset: values.Opset, name: str, type: ir.TypeProtocol | None = None,
                 shape: ir.Shape | None = None, const_value: Any = None):
        super().__init__(name=name, type=type, shape=shape, const_value=const_value)
        self._opset = opset

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    def __bool__(self) -> bool:
        if self.producer() is not None:
            raise TypeError("a tensor's contents are unknown during an export; use op.If or op.Where")
        return True  # an argument that is not None

    def __ne__(self, other: Any) -> Any:
        return True if other is None else self._opset.Not(self._opset.Equal(self, other))

    __hash__ = ir.Value.__hash__

    def __mod__(self, other: Any) -> Any:
        floating = self.dtype is not None and self.dtype.is_floating_point()
        return self._opset.Mod(self, other, fmod=1) if floating else self._opset.Mod(self, other)

    def __neg__(self) -> Any:
        return self._opset.Neg(self)

    def __invert__(self) -> Any:
        return self._opset.Not(self)


def _operators() -> None:
    forms = {"add": "Add", "sub": "Sub", "mul": "Mul", "truediv": "Div", "pow": "Pow", "matmul": "MatMul", "and": "And",
             "or": "Or", "xor": "Xor"}
    for python, name in forms.items():
        setattr(Symbolic, f"__{python}__", lambda a, b, name=name: getattr(a._opset, name)(a, b))
        setattr(Symbolic, f"__r{python}__", lambda a, b, name=name: getattr(a._opset, name)(b, a))
    for python, name in {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}.items():
        setattr(Symbolic, f"__{python}__", lambda a, b, name=name: getattr(a._opset, name)(a, b))


_operators()


class NodeRecorder:
    """Implements onnxscript's Evaluator interface: eval_op and eval_function."""

    def __init__(self, opset: int):
        self.opset = values.Opset("", opset)
        self.nodes: list[ir.Node] = []
        self.functions: dict[tuple[str, str], onnx.FunctionProto] = {}
        self.opset_imports: dict[str, int] = {"": opset}
        self._constants: dict[tuple[Any, ...], Symbolic] = {}
        self._types: dict[str, onnx.TypeProto] = {}

    @property
    def constants(self) -> list[Symbolic]:
        return list(self._constants.values())

    def input(self, name: str, type: onnx.TypeProto | None) -> Symbolic:
        value = Symbolic(self.opset, name)
        self._set_type(value, type)
        return value

    def constant(self, value: Any, dtype: ir.DataType | None = None) -> Symbolic:
        """Returns an initializer; equal values share one initializer."""
        if isinstance(value, torch.Tensor):
            value = ir.tensor(value.detach().cpu().contiguous())
        elif isinstance(value, complex):  # a pair, like complex tensors in the file
            value = ir.tensor([value.real, value.imag], dtype=dtype)
        elif not isinstance(value, ir.TensorProtocol):
            value = ir.tensor(value, dtype=dtype)
        bytes_of = tuple(value.numpy().reshape(-1)) if value.dtype == ir.DataType.STRING else value.tobytes()
        key = (value.dtype, tuple(value.shape), bytes_of)
        if key not in self._constants:
            name = f"constant_{len(self._constants)}" if self._constants else "constant"
            constant = Symbolic(self.opset, name, ir.TensorType(value.dtype), ir.Shape(value.shape), value)
            constant.const_value.name = name
            self._constants[key] = constant
            self._types[name] = onnx.helper.make_tensor_type_proto(int(value.dtype), list(value.shape))
        return self._constants[key]

    # ---- called by onnxscript ----

    def eval_op(self, op: values.Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if op.domain == "" and op.name == "Constant" and not args:
            return self._constant_node(kwargs)
        schema = self._schema(op)
        if schema is None:  # onnx lacks the domain
            self.opset_imports[op.domain] = op.opset.version
            return self._node(op.domain, op.name, [self.operand(each, None) for each in args], kwargs, 1)
        signature = ir.schemas.OpSignature.from_op_schema(schema)
        inputs, attributes = _bind(signature, args, kwargs)
        self.opset_imports.setdefault(op.domain, op.opset.version)
        operands = self._operands(signature, inputs)
        return self._node(op.domain, op.name, operands, attributes, _count(signature, attributes, operands), schema)

    def eval_function(self, function: values.OnnxFunction[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        signature = function.op_signature
        inputs, attributes = _bind(signature, args, kwargs)
        if function.traceable:
            return function.function(**inputs, **attributes)
        for each in (*function.function_ir.get_called_functions().values(), function):
            proto = at_opset(each.to_function_proto(), self.opset.version)
            self.functions[proto.domain, proto.name] = proto
            self.opset_imports.setdefault(proto.domain, each.opset.version)
        return self._node(proto.domain, proto.name, self._operands(signature, inputs), attributes, len(proto.output))

    # ---- nodes ----

    def _schema(self, op: values.Op) -> onnx.defs.OpSchema | None:
        """Returns the schema in the export's opset, because a function may use another opset. Raises ValueError."""
        version = self.opset.version
        if op.domain != "" or op.op_schema is None or op.opset.version == version:
            return op.op_schema
        if op.op_schema.since_version > version:
            raise ValueError(f"{op.name} as used needs opset {op.op_schema.since_version}, but the export has "
                             f"{version}: export with opset_version={op.op_schema.since_version}")
        if op.op_schema.since_version < _CHANGED_AT.get(op.name, 0) <= version:
            raise ValueError(f"{op.name} of opset {op.opset.version} has another meaning in the export's opset "
                             f"{version}: use onnxscript.opset{version}, or opset_version={op.opset.version}")
        return onnx.defs.get_schema(op.name, version, "")

    def _constant_node(self, attributes: Mapping[str, Any]) -> Symbolic:
        (name, value), = ((name, value) for name, value in attributes.items() if value is not None)
        kinds = {"value_int": ir.DataType.INT64, "value_ints": ir.DataType.INT64, "value_float": ir.DataType.FLOAT,
                 "value_floats": ir.DataType.FLOAT, "value_string": ir.DataType.STRING,
                 "value_strings": ir.DataType.STRING}
        return self.constant(value, kinds.get(name))

    def _operands(self, signature: ir.schemas.OpSignature, inputs: Mapping[str, Any]) -> list[Symbolic | None]:
        """Returns the inputs of a node. Python values get the dtype of a tensor with the same type variable."""
        tensors: dict[str, Symbolic] = {}
        for name, argument in inputs.items():
            for each in argument if isinstance(argument, (list, tuple)) else (argument,):
                if isinstance(each, ir.Value):
                    tensors.setdefault(signature.params_map[name].type_constraint.name, each)
        operands: list[Symbolic | None] = []
        for name, argument in inputs.items():
            parameter = signature.params_map[name]
            like = tensors.get(parameter.type_constraint.name)
            allowed = parameter.type_constraint.allowed_types
            if parameter.variadic:
                operands += [self.operand(each, like, allowed) for each in argument]
            elif isinstance(argument, (list, tuple)) and all(isinstance(each, ir.SequenceType) for each in allowed):
                operands.append(self.opset.SequenceConstruct(*argument))
            else:
                operands.append(self.operand(argument, like, allowed))
        while operands and operands[-1] is None:
            operands.pop()
        return operands

    def operand(self, value: Any, like: ir.Value | None, allowed: frozenset[Any] = frozenset()) -> ir.Value | None:
        if value is None or isinstance(value, ir.Value):
            return value
        if isinstance(value, (list, tuple)) and any(isinstance(each, ir.Value) for each in value):
            one = ir.tensor([-1])
            parts = [self.opset.Reshape(each if isinstance(each, ir.Value) else self.operand(each, like, allowed), one)
                     for each in value]
            return parts[0] if len(parts) == 1 else self.opset.Concat(*parts, axis=0)
        if isinstance(value, onnx.TensorProto):
            return self.constant(ir.serde.deserialize_tensor(value))
        if isinstance(value, (ir.TensorProtocol, torch.Tensor, np.ndarray, np.generic)):
            return self.constant(value if not isinstance(value, np.generic) else np.asarray(value))
        if not isinstance(value, (bool, int, float, complex, str, list, tuple)):
            raise TypeError(f"a {type(value).__name__} cannot be an operand")
        if like is not None and like.dtype is not None:
            return self.constant(value, like.dtype)
        constant = self.constant(value, ir.DataType.INT64 if isinstance(value, (list, tuple)) and not value else
                                _natural_dtype(value, allowed))
        return constant if like is None else self.opset.CastLike(constant, like)

    def _node(self, domain: str, op_type: str, inputs: list[Any], attributes: Mapping[str, Any], outputs: int,
              schema: onnx.defs.OpSchema | None = None) -> Any:
        number = sum(each.op_type == op_type for each in self.nodes)
        name = f"{op_type}_{number}" if number else op_type
        results = [Symbolic(self.opset, f"{name}_output_{index}") for index in range(outputs)]
        present = {key: int(value) if isinstance(value, ir.DataType) else value for key, value in attributes.items()
                 if value is not None}
        node = ir.Node(domain, op_type, inputs, ir.convenience.convert_attributes(present), outputs=results, name=name)
        self.nodes.append(node)
        self._infer(node, schema)
        return results[0] if len(results) == 1 else tuple(results)

    def _infer(self, node: ir.Node, schema: onnx.defs.OpSchema | None) -> None:
        input_types = {each.name: self._types[each.name] for each in node.inputs if each is not None
                 and each.name in self._types}
        function = self.functions.get((node.domain, node.op_type))
        if not (schema or function) or len(input_types) < len({each.name for each in node.inputs if each is not None}):
            return
        data = {each.name: ir.serde.serialize_tensor(each.const_value) for each in node.inputs
                if each is not None and each.const_value is not None}
        imports = [onnx.helper.make_opsetid(domain, version) for domain, version in self.opset_imports.items()]
        try:
            if function is not None:
                types = [input_types[each.name] if each is not None else onnx.TypeProto() for each in node.inputs]
                attributes = [ir.serde.serialize_attribute(each) for each in node.attributes.values()]
                output_types = onnx.shape_inference.infer_function_output_types(function, types, attributes)
                types_by_name = dict(zip((each.name for each in node.outputs), output_types))
            else:
                types_by_name = onnx.shape_inference.infer_node_outputs(
                    schema, ir.serde.serialize_node(node), input_types, data, opset_imports=imports, ir_version=10)
        except Exception:  # onnx raises several classes; types that it cannot infer stay unknown
            return
        for output in node.outputs:
            self._set_type(output, types_by_name.get(output.name))

    def _set_type(self, value: ir.Value, type: onnx.TypeProto | None) -> None:
        if type is None or type.WhichOneof("value") is None:
            return
        if type.HasField("tensor_type") and not type.tensor_type.elem_type:
            return
        self._types[value.name] = type
        value.type = ir.serde.deserialize_type_proto_for_type(type)
        value.shape = ir.serde.deserialize_type_proto_for_shape(type)


def at_opset(function: onnx.FunctionProto, version: int) -> onnx.FunctionProto:
    """Converts the function to another opset. Raises ValueError if the meaning of a node changes."""
    for imported in function.opset_import:
        if imported.domain or imported.version == version:
            continue
        for node in (*function.node, *(inner for node in function.node for graph in bodies(node)
                                       for inner in graph.node)):
            if not _has_same_meaning(node, imported.version, version):
                raise ValueError(f"the function {function.name} has opset {imported.version}, but the export has "
                                 f"{version}, where {node.op_type} has another meaning: use onnxscript.opset{version}")
        imported.version = version
    return function


def _has_same_meaning(node: onnx.NodeProto, opset: int, version: int) -> bool:
    if node.domain:
        return True
    old, new = (onnx.defs.get_schema(node.op_type, each, "") for each in (opset, version))
    if old.since_version == new.since_version:
        return True
    if old.since_version > version or not {each.name for each in node.attribute} <= {*new.attributes}:
        return False
    if node.op_type == "Split" and new.since_version >= 18 and len(node.input) < 2:
        return False  # from opset 18 on, Split must state the number of outputs
    return not old.since_version < _CHANGED_AT.get(node.op_type, 0) <= version


def _bind(signature: ir.schemas.OpSignature, args: Sequence[Any],
           kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Pairs arguments with inputs and attributes, by position or by name. Raises TypeError."""
    remaining, keywords = list(args), dict(kwargs)
    inputs: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for parameter in signature.params:
        if isinstance(parameter, ir.schemas.Parameter) and parameter.variadic:
            inputs[parameter.name], remaining = remaining, []
            continue
        if remaining:
            value = remaining.pop(0)
        elif parameter.name in keywords:
            value = keywords.pop(parameter.name)
        elif parameter.required:
            raise TypeError(f"{signature.name} needs {parameter.name}")
        else:
            value = None
        if isinstance(parameter, ir.schemas.Parameter):
            inputs[parameter.name] = value
        elif value is not None:
            needs_float = isinstance(value, int) and parameter.type == ir.AttributeType.FLOAT
            attributes[parameter.name] = float(value) if needs_float else value
    if remaining or keywords:
        raise TypeError(f"{signature.name} does not take " + (", ".join(keywords) or f"{len(args)} arguments"))
    return inputs, attributes


def _count(signature: ir.schemas.OpSignature, attributes: Mapping[str, Any], operands: Sequence[Any]) -> int:
    if signature.name == "Split":
        sizes = operands[1].const_value if len(operands) > 1 and operands[1] is not None else None
        if sizes is None and not attributes.get("num_outputs"):
            raise ValueError("the number of results of Split is unknown: pass num_outputs, or a constant split")
        return attributes.get("num_outputs") or sizes.size
    if signature.name == "BatchNormalization" and not attributes.get("training_mode"):
        return 1
    bodies = [value for value in attributes.values() if isinstance(value, (onnx.GraphProto, ir.Graph))]
    if bodies:  # If, Loop and Scan have one result for each body output; a Loop's first output is its condition
        outputs = bodies[0].output if isinstance(bodies[0], onnx.GraphProto) else bodies[0].outputs
        return len(outputs) - (signature.name == "Loop")
    return len(signature.outputs)


def _natural_dtype(value: Any, allowed: frozenset[Any]) -> ir.DataType:
    if len(allowed) == 1:
        return next(iter(allowed)).dtype
    for element in value if isinstance(value, (list, tuple)) else (value,):
        kind = bool if isinstance(element, bool) else type(element)
        if kind is not int:
            return {bool: ir.DataType.BOOL, float: ir.DataType.FLOAT, complex: ir.DataType.FLOAT,
                    str: ir.DataType.STRING}[kind]
    return ir.DataType.INT64
