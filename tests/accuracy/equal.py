"""Finds equal values in two files, one created from the other, by running both on the example inputs.

When an optimiser removes a no-op or merges two nodes, their neighbours read another, equal value. Judged by names, this
would look like an absorbed node. Optimisers also rename and reshape values.
"""

import collections
import hashlib
from collections.abc import Iterator

import numpy
import onnx
import onnxruntime

from accuracy.graphs import all_graphs


class Classes:
    """Groups the values of one file: by content, and by content and shape."""

    def __init__(self, arrays: dict[str, numpy.ndarray]):
        self.arrays = arrays
        self.content, self.shaped = {}, {}
        first = {}
        for name, value in arrays.items():
            digest = hashlib.sha256(str(value.dtype).encode() + value.tobytes()).hexdigest()
            self.content[name] = first.setdefault(digest, name)
            self.shaped[name] = first.setdefault((digest, value.shape), name)


def renamed_values(old: dict, new: dict, blocked: set[str] = frozenset()) -> dict[str, str]:
    """Returns the renamed values, possibly reshaped: new name -> old name.

    If several old values are equal, the first one is used. A convolution that absorbs a later scaling may keep its
    result's name, which then refers to the later value. `blocked`: new values with channels in blocks.
    """
    by_size = collections.defaultdict(list)
    for name, value in old.items():
        if comparable(value):
            by_size[value.size].append((name, value.ravel()))
    result = {}
    for name, value in new.items():
        if not comparable(value) or (name in old and is_close(value, old[name])):
            continue
        margin = 1e-5 * numpy.abs(value).max()
        for flat in unblocked(value, old) if name in blocked else [value.ravel()]:
            found = next((candidate for candidate, other in by_size[flat.size]
                          if numpy.abs(flat - other).max() <= margin), None)
            if found is not None:
                result[name] = found
                break
    return result


def unblocked(value: numpy.ndarray, old: dict) -> Iterator[numpy.ndarray]:
    """Yields a value of ONNX Runtime's NCHWc operators, which is in blocks of channels, as NCHW. The block size (8 or
    16) depends on the processor, so it yields every candidate, without the padding in the last block."""
    if value.ndim != 4:
        return
    batch, channels, height, width = value.shape
    counts = sorted({array.shape[1] for array in old.values() if array.ndim == 4 and array.shape[2:] == value.shape[2:]
                     and channels - 16 < array.shape[1] <= channels}, reverse=True)
    for block in (8, 16):
        if channels % block == 0:
            blocks = value.reshape(batch, channels // block, height, width, block)
            nchw = blocks.transpose(0, 1, 4, 2, 3).reshape(value.shape)
            yield from (nchw[:, :count].ravel() for count in counts)


def is_close(value: numpy.ndarray, other: numpy.ndarray) -> bool:
    """Returns true if both are the same value except for rounding."""
    if value.size != other.size or not numpy.issubdtype(other.dtype, numpy.floating):
        return True
    if not (numpy.isfinite(value).all() and numpy.isfinite(other).all()):  # masks: nothing is folded into them
        return True
    return numpy.abs(value.ravel() - other.ravel()).max() <= 1e-3 * numpy.abs(other).max()


def weights(found: dict) -> dict[str, str]:
    """Returns value -> digest of the sorted elements, which is equal for a weight and its transpose."""
    return {name: hashlib.sha256(numpy.sort(value, axis=None).tobytes()).hexdigest()
            for name, value in found.items() if comparable(value)}


def comparable(value: numpy.ndarray) -> bool:
    """Returns whether the content identifies the value: masks and sizes repeat, activations do not."""
    return value.dtype == numpy.float32 and value.size >= 8 and numpy.unique(value.ravel()[:64]).size >= 8


def values(model: onnx.ModelProto, feeds: dict) -> dict[str, numpy.ndarray]:
    """Returns the inputs, the initializers and all node results of the main graph for the example inputs."""
    run = onnx.ModelProto()
    run.CopyFrom(model)
    for graph in all_graphs(run):
        for node in graph.node:
            node.ClearField("metadata_props")  # older IR versions lack this field
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
    found.update(zip((output.name for output in session.get_outputs()), outputs, strict=True))
    return {name: numpy.asarray(found[name]) for name in [*inputs, *value_order(run, found)]}


def value_order(model: onnx.ModelProto, found: dict) -> list[str]:
    names = [tensor.name for tensor in model.graph.initializer]
    names += [name for node in model.graph.node for name in node.output]
    return [name for name in dict.fromkeys(names) if name in found]


def feed(session: onnxruntime.InferenceSession, feeds: dict) -> dict[str, numpy.ndarray]:
    types = {"tensor(float16)": numpy.float16}
    result = {}
    for entry in session.get_inputs():
        array = numpy.asarray(feeds[entry.name])
        result[entry.name] = array.astype(types.get(entry.type, array.dtype))
    return result
