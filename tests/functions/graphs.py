"""Small ONNX graphs whose nodes say which module they belong to, in PyTorch's own keys, and what runs them."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def scopes(*modules: str) -> dict:
    """Metadata of a node in these called modules below the root, "path:Class" each; "path:Class#2" is the third call."""
    paths, classes, calls = [""], ["models.Root"], ["0"]
    for module in modules:
        path, kind = module.split(":")
        kind, _, call = kind.partition("#")
        paths.append(path)
        classes.append(f"models.{kind}")
        calls.append(call or "0")
    result = {"pkg.torch.onnx.name_scopes": repr([*paths, "op"]),
              "pkg.torch.onnx.class_hierarchy": repr([*classes, "aten.op.default"]),
              "namespace": "/".join(f"{p}: {c}" for p, c in zip(paths, classes, strict=True)) + "/op: aten.op.default"}
    if any(call != "0" for call in calls):
        result["pkg.whence.calls"] = "/".join(calls)
    return result


def node(op: str, inputs: list, outputs: list, *modules: str, **attributes) -> onnx.NodeProto:
    made = helper.make_node(op, inputs, outputs, name="_".join([op, *outputs]), **attributes)
    for key, value in scopes(*modules).items():
        made.metadata_props.add(key=key, value=value)
    return made


def weight(name: str, *shape: int) -> onnx.TensorProto:
    values = np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(values, name)


def model(nodes: list, initializers: list, inputs: dict, outputs: list, path, ir_version: int = 10) -> onnx.ModelProto:
    """Saves a model; `inputs`: shapes by name, all float32."""
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(next(iter(inputs.values()))))
         for name in outputs], initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=ir_version)
    onnx.checker.check_model(made)
    onnx.save(made, path)
    return made


def feeds(made: onnx.ModelProto) -> dict:
    """Random inputs; dynamic sizes are 2."""
    generator = np.random.default_rng(0)
    result = {}
    for value in made.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value or 2 for dim in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        values = generator.integers(0, 2, shape) if dtype.kind in "iub" else generator.standard_normal(shape)
        result[value.name] = values.astype(dtype)
    return result


def run(path, inputs: dict) -> list:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)


def assert_same_results(before, after) -> None:
    """ONNX Runtime computes the same from both files, bit for bit; both pass onnx's checker and shape inference."""
    made = onnx.load(after)
    onnx.checker.check_model(made, full_check=True)
    onnx.shape_inference.infer_shapes(made, strict_mode=True)
    inputs = feeds(onnx.load(before))
    for one, other in zip(run(before, inputs), run(after, inputs), strict=True):
        np.testing.assert_array_equal(one, other)


def metadata(made: onnx.ModelProto) -> list:
    """Operator and metadata of every node but constants, sorted: what must survive a round trip."""
    return sorted((each.op_type, tuple(sorted((entry.key, entry.value) for entry in each.metadata_props)))
                  for each in made.graph.node if each.op_type != "Constant")
