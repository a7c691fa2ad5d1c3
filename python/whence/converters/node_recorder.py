"""The nodes that a Python function makes of symbolic values, when it calls onnxscript's operators.

An evaluator of onnxscript (``onnxscript.evaluator.default_as``) that computes nothing: each operator becomes a node of
one ONNX graph, Python numbers and arrays among its arguments become constants of the dtype of the tensors beside them.
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

# The opset at which the same call of an operator began to mean something else. Other changes are of dtypes, or of what
# is an attribute and what an input, which a call by name does not see. annotator/write/user_functions.cpp has the same.
_REFORMED = {"BatchNormalization": 14, "DFT": 20, "GridSample": 20, "GroupNormalization": 21, "Hardmax": 13,
             "LogSoftmax": 13, "Resize": 11, "RoiAlign": 16, "Softmax": 13}


class Symbolic(ir.Value):
    """A value of the graph: has ``shape``, ``dtype``, ``rank`` as far as they are known, and Python's operators."""

    def __init__(self, opset: values.Opset, name: str, type: ir.TypeProtocol | None = None,
                 shape: ir.Shape | None = None, const_value: Any = None):
        super().__init__(name=name, type=type, shape=shape, const_value=const_value)
        self._opset = opset

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    def __bool__(self) -> bool:
        if self.producer() is not None:
            raise TypeError("what a tensor holds is not known while a model is exported; use op.If, or op.Where")
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
    """onnxscript's Evaluator interface: eval_op and eval_function."""

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
        self._know(value, type)
        return value

    def constant(self, value: Any, dtype: ir.DataType | None = None) -> Symbolic:
        """An initializer, one for all that are equal."""
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
            made = Symbolic(self.opset, name, ir.TensorType(value.dtype), ir.Shape(value.shape), value)
            made.const_value.name = name
            self._constants[key] = made
            self._types[name] = onnx.helper.make_tensor_type_proto(int(value.dtype), list(value.shape))
        return self._constants[key]

    # ---- what onnxscript calls ----

    def eval_op(self, op: values.Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if op.domain == "" and op.name == "Constant" and not args:
            return self._given_constant(kwargs)
        schema = self._schema(op)
        if schema is None:  # onnx does not know the domain
            self.opset_imports[op.domain] = op.opset.version
            return self._node(op.domain, op.name, [self.operand(each, None) for each in args], kwargs, 1)
        signature = ir.schemas.OpSignature.from_op_schema(schema)
        inputs, attributes = _bound(signature, args, kwargs)
        self.opset_imports.setdefault(op.domain, op.opset.version)
        operands = self._operands(signature, inputs)
        return self._node(op.domain, op.name, operands, attributes, _count(signature, attributes, operands), schema)

    def eval_function(self, function: values.OnnxFunction[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        signature = function.op_signature
        inputs, attributes = _bound(signature, args, kwargs)
        if function.traceable:
            return function.function(**inputs, **attributes)
        for each in (*function.function_ir.get_called_functions().values(), function):
            proto = at_opset(each.to_function_proto(), self.opset.version)
            self.functions[proto.domain, proto.name] = proto
            self.opset_imports.setdefault(proto.domain, each.opset.version)
        return self._node(proto.domain, proto.name, self._operands(signature, inputs), attributes, len(proto.output))

    # ---- nodes ----

    def _schema(self, op: values.Op) -> onnx.defs.OpSchema | None:
        """The schema in the export's opset: a function may have been written for another. Raises ValueError."""
        version = self.opset.version
        if op.domain != "" or op.op_schema is None or op.opset.version == version:
            return op.op_schema
        if op.op_schema.since_version > version:
            raise ValueError(f"{op.name} as it is used is of opset {op.op_schema.since_version}, the export of "
                             f"{version}: export with opset_version={op.op_schema.since_version}")
        if op.op_schema.since_version < _REFORMED.get(op.name, 0) <= version:
            raise ValueError(f"{op.name} of opset {op.opset.version} is another than that of the export's opset "
                             f"{version}: use onnxscript.opset{version}, or opset_version={op.opset.version}")
        return onnx.defs.get_schema(op.name, version, "")

    def _given_constant(self, attributes: Mapping[str, Any]) -> Symbolic:
        (name, value), = ((name, value) for name, value in attributes.items() if value is not None)
        kinds = {"value_int": ir.DataType.INT64, "value_ints": ir.DataType.INT64, "value_float": ir.DataType.FLOAT,
                 "value_floats": ir.DataType.FLOAT, "value_string": ir.DataType.STRING,
                 "value_strings": ir.DataType.STRING}
        return self.constant(value, kinds.get(name))

    def _operands(self, signature: ir.schemas.OpSignature, inputs: Mapping[str, Any]) -> list[Symbolic | None]:
        """The inputs of a node. Python's values get the dtype of a tensor for which the same type variable stands."""
        beside: dict[str, Symbolic] = {}
        for name, given in inputs.items():
            for each in given if isinstance(given, (list, tuple)) else (given,):
                if isinstance(each, ir.Value):
                    beside.setdefault(signature.params_map[name].type_constraint.name, each)
        operands: list[Symbolic | None] = []
        for name, given in inputs.items():
            parameter = signature.params_map[name]
            like = beside.get(parameter.type_constraint.name)
            allowed = parameter.type_constraint.allowed_types
            if parameter.variadic:
                operands += [self.operand(each, like, allowed) for each in given]
            elif isinstance(given, (list, tuple)) and all(isinstance(each, ir.SequenceType) for each in allowed):
                operands.append(self.opset.SequenceConstruct(*given))
            else:
                operands.append(self.operand(given, like, allowed))
        while operands and operands[-1] is None:
            operands.pop()
        return operands

    def operand(self, given: Any, like: ir.Value | None, allowed: frozenset[Any] = frozenset()) -> ir.Value | None:
        if given is None or isinstance(given, ir.Value):
            return given
        if isinstance(given, (list, tuple)) and any(isinstance(each, ir.Value) for each in given):
            one = ir.tensor([-1])
            parts = [self.opset.Reshape(each if isinstance(each, ir.Value) else self.operand(each, like, allowed), one)
                     for each in given]
            return parts[0] if len(parts) == 1 else self.opset.Concat(*parts, axis=0)
        if isinstance(given, onnx.TensorProto):
            return self.constant(ir.serde.deserialize_tensor(given))
        if isinstance(given, (ir.TensorProtocol, torch.Tensor, np.ndarray, np.generic)):
            return self.constant(given if not isinstance(given, np.generic) else np.asarray(given))
        if not isinstance(given, (bool, int, float, complex, str, list, tuple)):
            raise TypeError(f"a {type(given).__name__} cannot be an operand")
        if like is not None and like.dtype is not None:
            return self.constant(given, like.dtype)
        natural = self.constant(given, ir.DataType.INT64 if isinstance(given, (list, tuple)) and not given else
                                _natural(given, allowed))
        return natural if like is None else self.opset.CastLike(natural, like)

    def _node(self, domain: str, op_type: str, inputs: list[Any], attributes: Mapping[str, Any], outputs: int,
              schema: onnx.defs.OpSchema | None = None) -> Any:
        number = sum(each.op_type == op_type for each in self.nodes)
        name = f"{op_type}_{number}" if number else op_type
        results = [Symbolic(self.opset, f"{name}_output_{index}") for index in range(outputs)]
        given = {key: int(value) if isinstance(value, ir.DataType) else value for key, value in attributes.items()
                 if value is not None}
        node = ir.Node(domain, op_type, inputs, ir.convenience.convert_attributes(given), outputs=results, name=name)
        self.nodes.append(node)
        self._infer(node, schema)
        return results[0] if len(results) == 1 else tuple(results)

    def _infer(self, node: ir.Node, schema: onnx.defs.OpSchema | None) -> None:
        known = {each.name: self._types[each.name] for each in node.inputs if each is not None
                 and each.name in self._types}
        function = self.functions.get((node.domain, node.op_type))
        if not (schema or function) or len(known) < len({each.name for each in node.inputs if each is not None}):
            return
        data = {each.name: ir.serde.serialize_tensor(each.const_value) for each in node.inputs
                if each is not None and each.const_value is not None}
        imports = [onnx.helper.make_opsetid(domain, version) for domain, version in self.opset_imports.items()]
        try:
            if function is not None:
                types = [known[each.name] if each is not None else onnx.TypeProto() for each in node.inputs]
                attributes = [ir.serde.serialize_attribute(each) for each in node.attributes.values()]
                given = onnx.shape_inference.infer_function_output_types(function, types, attributes)
                found = dict(zip((each.name for each in node.outputs), given))
            else:
                found = onnx.shape_inference.infer_node_outputs(schema, ir.serde.serialize_node(node), known, data,
                                                                opset_imports=imports, ir_version=10)
        except Exception:  # onnx's own, of several kinds: what it cannot tell stays unknown
            return
        for output in node.outputs:
            self._know(output, found.get(output.name))

    def _know(self, value: ir.Value, type: onnx.TypeProto | None) -> None:
        if type is None or type.WhichOneof("value") is None:
            return
        if type.HasField("tensor_type") and not type.tensor_type.elem_type:
            return
        self._types[value.name] = type
        value.type = ir.serde.deserialize_type_proto_for_type(type)
        value.shape = ir.serde.deserialize_type_proto_for_shape(type)


def at_opset(function: onnx.FunctionProto, version: int) -> onnx.FunctionProto:
    """The function by the operators of another opset. Raises ValueError where some of its nodes mean another thing."""
    for imported in function.opset_import:
        if imported.domain or imported.version == version:
            continue
        for node in (*function.node, *(inner for node in function.node for graph in bodies(node)
                                       for inner in graph.node)):
            if not _means_the_same(node, imported.version, version):
                raise ValueError(f"the function {function.name} is of opset {imported.version}, the export of "
                                 f"{version}, and {node.op_type} is not the same: use onnxscript.opset{version}")
        imported.version = version
    return function


def _means_the_same(node: onnx.NodeProto, opset: int, version: int) -> bool:
    if node.domain:
        return True
    now, then = (onnx.defs.get_schema(node.op_type, each, "") for each in (opset, version))
    if now.since_version == then.since_version:
        return True
    if now.since_version > version or not {each.name for each in node.attribute} <= {*then.attributes}:
        return False
    if node.op_type == "Split" and then.since_version >= 18 and len(node.input) < 2:
        return False  # from opset 18 on, Split has to name the number of parts
    return not now.since_version < _REFORMED.get(node.op_type, 0) <= version


def _bound(signature: ir.schemas.OpSignature, args: Sequence[Any],
           kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Pairs arguments with inputs and attributes, by place or name. Raises TypeError."""
    left, named = list(args), dict(kwargs)
    inputs: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for parameter in signature.params:
        if isinstance(parameter, ir.schemas.Parameter) and parameter.variadic:
            inputs[parameter.name], left = left, []
            continue
        if left:
            value = left.pop(0)
        elif parameter.name in named:
            value = named.pop(parameter.name)
        elif parameter.required:
            raise TypeError(f"{signature.name} needs {parameter.name}")
        else:
            value = None
        if isinstance(parameter, ir.schemas.Parameter):
            inputs[parameter.name] = value
        elif value is not None:
            whole = isinstance(value, int) and parameter.type == ir.AttributeType.FLOAT
            attributes[parameter.name] = float(value) if whole else value
    if left or named:
        raise TypeError(f"{signature.name} takes no " + (", ".join(named) or f"{len(args)} arguments"))
    return inputs, attributes


def _count(signature: ir.schemas.OpSignature, attributes: Mapping[str, Any], operands: Sequence[Any]) -> int:
    if signature.name == "Split":
        sizes = operands[1].const_value if len(operands) > 1 and operands[1] is not None else None
        if sizes is None and not attributes.get("num_outputs"):
            raise ValueError("how many results Split has is not known: give num_outputs, or a constant split")
        return attributes.get("num_outputs") or sizes.size
    if signature.name == "BatchNormalization" and not attributes.get("training_mode"):
        return 1
    bodies = [value for value in attributes.values() if isinstance(value, (onnx.GraphProto, ir.Graph))]
    if bodies:  # If, Loop and Scan have as many results as their bodies; a Loop's first is its condition
        outputs = bodies[0].output if isinstance(bodies[0], onnx.GraphProto) else bodies[0].outputs
        return len(outputs) - (signature.name == "Loop")
    return len(signature.outputs)


def _natural(value: Any, allowed: frozenset[Any]) -> ir.DataType:
    if len(allowed) == 1:
        return next(iter(allowed)).dtype
    for one in value if isinstance(value, (list, tuple)) else (value,):
        kind = bool if isinstance(one, bool) else type(one)
        if kind is not int:
            return {bool: ir.DataType.BOOL, float: ir.DataType.FLOAT, complex: ir.DataType.FLOAT,
                    str: ir.DataType.STRING}[kind]
    return ir.DataType.INT64
