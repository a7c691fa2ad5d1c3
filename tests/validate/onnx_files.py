"""Writes small valid and invalid ONNX files for the tests of validate, show and explain."""

import onnx
from onnx import TensorProto, helper

MODULE, CONFIDENCE, ID = "pkg.whence.module", "pkg.whence.confidence", "pkg.whence.id"


def node(op_type: str, inputs: list[str], output: str, name: str = "", metadata: dict | None = None, **options):
    result = helper.make_node(op_type, inputs, [output], name=name, **options)
    for key, value in (metadata or {}).items():
        add_key(result, key, value)
    return result


def add_key(owner, key: str, value: str) -> None:
    entry = owner.metadata_props.add()
    entry.key, entry.value = key, value


def known(module: str, confidence: str = "exact") -> dict:
    return {MODULE: module, CONFIDENCE: confidence}


def model(nodes: list, path, initializers=(), ir_version: int = 10, functions=(), opsets=None) -> str:
    """Writes a model from x (float32[2]) to the last node's output. Does not check it, so it may be invalid."""
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, [2])], list(initializers))
    result = helper.make_model(graph, opset_imports=opsets or [helper.make_opsetid("", 18)], functions=list(functions))
    result.ir_version = ir_version
    path.write_bytes(result.SerializeToString())
    return str(path)


def chain(*metadata: dict) -> list:
    """Returns a chain of Relu nodes, one for each set of metadata."""
    values = ["x", *(f"v{i}" for i in range(len(metadata)))]
    return [node("Relu", [values[i]], values[i + 1], f"n{i}", keys) for i, keys in enumerate(metadata)]


def external(name: str, location: str, dims=(2,), **spans) -> onnx.TensorProto:
    """Returns a float32 tensor whose bytes are stored at `location`."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **spans}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return tensor
