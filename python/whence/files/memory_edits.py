"""Edits the nodes of a model in memory through a file: writes the model without its large weights, and copies what the
edited file states about the nodes back into the model.

The matcher reads structure, names and metadata; the content of weights is further evidence. So tensors in files are
linked, other tensors are written up to a budget, the smallest first, and the rest is left out: the file states their
types and shapes only. Lazy tensors are not evaluated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .onnx_graphs import graphs

if TYPE_CHECKING:
    import onnx
    import onnx_ir

_MAX_INLINE = 1024          # bytes of a tensor that is written into the model itself
_MAX_WRITTEN = 256_000_000  # bytes of tensors in memory that are written for one call
_WRITTEN = "memory.data"


def write_outline(model: onnx_ir.Model, path: Path) -> None:
    """Writes the model to ``path`` in an empty folder. Does not copy large weights, see above."""
    import onnx_ir as ir

    values = [value for graph in model.graphs() for value in graph.initializers.values()
              if isinstance(value.const_value, ir.ExternalTensor)
              or value.const_value is not None and value.const_value.nbytes > _MAX_INLINE]
    originals = [value.const_value for value in values]
    try:
        for value, stand_in in zip(values, _stand_ins(originals, path.parent), strict=True):
            value.const_value = stand_in
        ir.save(model, path)
    finally:
        for value, tensor in zip(values, originals, strict=True):
            value.const_value = tensor


def _stand_ins(tensors: list[Any], folder: Path) -> list[Any]:
    """Returns for each tensor one that refers to a file in ``folder``, or one without data."""
    import onnx
    import onnx_ir as ir

    sources = {os.fspath(tensor.path) for tensor in tensors if isinstance(tensor, ir.ExternalTensor)}
    links = {source: _link(source, folder, f"{number}.data") for number, source in enumerate(sorted(sources))}
    offsets: dict[int, int] = {}  # in the file of written tensors, by the id of the tensor

    def link_of(tensor: Any) -> str | None:
        return links[os.fspath(tensor.path)] if isinstance(tensor, ir.ExternalTensor) else None

    def is_readable(tensor: Any) -> bool:
        return os.path.exists(tensor.path) if isinstance(tensor, ir.ExternalTensor) else not isinstance(tensor, ir.LazyTensor)

    to_write = [tensor for tensor in tensors if link_of(tensor) is None and is_readable(tensor)]
    with open(folder / _WRITTEN, "wb") as data:
        for tensor in sorted(to_write, key=lambda each: each.nbytes):
            if id(tensor) not in offsets and data.tell() + tensor.nbytes <= _MAX_WRITTEN:
                offsets[id(tensor)] = data.tell()
                data.write(tensor.tobytes())

    def stand_in(tensor: Any) -> Any:
        if id(tensor) in offsets:
            location, offset = _WRITTEN, offsets[id(tensor)]
        elif (link := link_of(tensor)) is not None:
            location, offset = link, tensor.offset or 0
        else:
            return ir.from_proto(onnx.TensorProto(name=tensor.name, dims=tensor.shape.numpy(), data_type=tensor.dtype.value))
        return ir.ExternalTensor(location, offset, tensor.nbytes, tensor.dtype, shape=tensor.shape,
                                 name=tensor.name, base_dir=folder)

    return [stand_in(tensor) for tensor in tensors]


def _link(source: str, folder: Path, name: str) -> str | None:
    """Links a data file into the folder; returns its name there, or None if the file system has no such link."""
    try:
        os.link(os.path.realpath(source), folder / name)
    except OSError:  # another file system, or no file
        return None
    return name


def apply_to_ir(edited: Path, model: onnx_ir.Model) -> None:
    """Copies names, metadata and documentation of the nodes, metadata and IR version of the model."""
    import onnx_ir as ir

    source = ir.load(edited)
    for target, node in zip(_ir_nodes(model), _ir_nodes(source), strict=True):
        target.name, target.doc_string = node.name, node.doc_string
        _replace_entries(target.metadata_props, node.metadata_props)
    _replace_entries(model.metadata_props, source.metadata_props)
    model.ir_version = source.ir_version


def _ir_nodes(model: onnx_ir.Model) -> Iterator[Any]:
    yield from model.graph.all_nodes()
    for function in model.functions.values():
        yield from function.all_nodes()


def _replace_entries(target: Any, source: Any) -> None:
    target.clear()
    target.update(source)


def without_external_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model that states only types and shapes of external weights: a ModelProto does not state in which folder
    they are. Returns the model itself if it has none."""
    import onnx

    def external(each: onnx.ModelProto) -> list[onnx.TensorProto]:
        return [tensor for graph in graphs(each.graph) for tensor in graph.initializer
                if tensor.data_location == onnx.TensorProto.EXTERNAL]

    if not external(model):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in external(copy):
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
    return copy


def apply_to_proto(edited: Path, model: onnx.ModelProto) -> None:
    """Like apply_to_ir."""
    import onnx as library

    source = library.load(edited, load_external_data=False)
    for target, node in zip(_proto_nodes(model), _proto_nodes(source), strict=True):
        target.ClearField("name")
        target.ClearField("doc_string")
        _replace_proto_entries(target, node)
        if node.name:
            target.name = node.name
        if node.doc_string:
            target.doc_string = node.doc_string
    _replace_proto_entries(model, source)
    model.ir_version = source.ir_version


def _proto_nodes(model: Any) -> Iterator[Any]:
    for root in (model.graph, *model.functions):
        for graph in graphs(root):
            yield from graph.node


def _replace_proto_entries(target: Any, source: Any) -> None:
    del target.metadata_props[:]
    target.metadata_props.extend(source.metadata_props)
