"""Small ONNX graphs with module metadata in PyTorch's keys, and helpers that run them."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def scopes(*modules: str) -> dict:
    """Returns the metadata of a node in nested modules like "path:Class". "path:Class#2" is the third call."""
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
    proto = helper.make_node(op, inputs, outputs, name="_".join([op, *outputs]), **attributes)
    for key, value in scopes(*modules).items():
        proto.metadata_props.add(key=key, value=value)
    return proto


def weight(name: str, *shape: int) -> onnx.TensorProto:
    values = np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(values, name)


def model(nodes: list, initializers: list, inputs: dict, outputs: list, path, ir_version: int = 10) -> onnx.ModelProto:
    """Saves a model. `inputs` maps names to shapes; every input is float32."""
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(next(iter(inputs.values()))))
         for name in outputs], initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=ir_version)
    onnx.checker.check_model(proto)
    onnx.save(proto, path)
    return proto


def feeds(proto: onnx.ModelProto) -> dict:
    """Returns random inputs, in which dynamic sizes are 2."""
    generator = np.random.default_rng(0)
    result = {}
    for value in proto.graph.input:
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
    """Asserts that ONNX Runtime's results of both files are equal bit for bit and that `after` passes onnx's checks."""
    proto = onnx.load(after)
    onnx.checker.check_model(proto, full_check=True)
    onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    inputs = feeds(onnx.load(before))
    for expected, result in zip(run(before, inputs), run(after, inputs), strict=True):
        np.testing.assert_array_equal(expected, result)


def metadata(proto: onnx.ModelProto) -> list:
    """Returns the sorted operators and metadata of all nodes except constants. A round trip must preserve them."""
    return sorted((node.op_type, tuple(sorted((entry.key, entry.value) for entry in node.metadata_props)))
                  for node in proto.graph.node if node.op_type != "Constant")
