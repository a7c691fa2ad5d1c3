"""Which values of a file are the same value under two names: it is run, and equal bytes of one shape are one class.

An optimiser that removes a no-op or merges two nodes lets the neighbours read another value of the same class. Names
alone would make that look like an absorbed node.
"""

import collections
import hashlib

import numpy
import onnx
import onnxruntime

from accuracy.graphs import all_graphs


def classes(model: onnx.ModelProto, feeds: dict) -> dict[str, str]:
    """Value of the main graph -> the first value in file order that is always equal to it."""
    first, result = {}, {}
    for name, value in values(model, feeds).items():
        digest = hashlib.sha256(f"{value.dtype}{value.shape}".encode() + value.tobytes()).hexdigest()
        result[name] = first.setdefault(digest, name)
    return result


def values(model: onnx.ModelProto, feeds: dict) -> dict[str, numpy.ndarray]:
    """Inputs, initializers and everything that nodes of the main graph yield, for the example inputs."""
    run = onnx.ModelProto()
    run.CopyFrom(model)
    for graph in all_graphs(run):
        for node in graph.node:
            node.ClearField("metadata_props")  # older IR versions have none
    names = [name for node in run.graph.node for name in node.output if name]
    known = {output.name for output in run.graph.output}
    run.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(run.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = feed(session, feeds)
    outputs = session.run([output.name for output in session.get_outputs()], inputs)
    found = dict(inputs)
    found.update({tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in run.graph.initializer})
    found.update(zip((output.name for output in session.get_outputs()), outputs))
    return {name: numpy.asarray(found[name]) for name in [*inputs, *known_order(run, found)]}


def known_order(model: onnx.ModelProto, found: dict) -> list[str]:
    names = [tensor.name for tensor in model.graph.initializer]
    names += [name for node in model.graph.node for name in node.output]
    return [name for name in dict.fromkeys(names) if name in found]


def feed(session: onnxruntime.InferenceSession, feeds: dict) -> dict[str, numpy.ndarray]:
    types = {"tensor(float16)": numpy.float16}
    result = {}
    for wanted in session.get_inputs():
        array = numpy.asarray(feeds[wanted.name])
        result[wanted.name] = array.astype(types.get(wanted.type, array.dtype))
    return result
