"""Changes that an ONNXProgram makes to an onnx.ModelProto: other weights, other names of sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..arguments import trees
from ..base.optional_packages import import_optional
from ..errors import error
from ..files.onnx_graphs import graphs


def replace_weights(model: Any, weights: Mapping[str, torch.Tensor]) -> None:
    """Replaces initializers by name. Raises WhenceError E0105 for an unknown name, E0104 for another shape; the model
    is then unchanged.

    Optimisation stores some weights in another layout or folds them into others, under other names or shapes.
    """
    helper = import_optional("onnx", "apply_weights").numpy_helper
    initializers = {each.name: each for each in model.graph.initializer}
    new = {}
    for name, tensor in trees.with_tensors(dict(weights)).items():
        if name not in initializers:
            raise error("E0105", "unknown_node", f"the file has no weight '{name}'",
                        "export with optimize=False, which keeps each weight unchanged, under its name in state_dict()")
        if list(initializers[name].dims) != list(tensor.shape):
            raise error("E0104", "input_mismatch",
                        f"'{name}' has the shape {list(initializers[name].dims)} in the file, not {list(tensor.shape)}",
                        "pass weights of the same module; export with optimize=False, which keeps weights unchanged")
        new[name] = helper.from_array(tensor.detach().cpu().contiguous().numpy(), name)
    for name, tensor in new.items():
        initializers[name].CopyFrom(tensor)


def rename_sizes(model: Any, names: Mapping[Any, str]) -> None:
    """Renames sizes, also in expressions: {"s77": "batch"}. Raises WhenceError E0105 for a size that does not occur."""
    by_name = {str(old): new for old, new in names.items()}
    dims = list(_dims(model.graph))
    words = {word for dim in dims for word in re.findall(r"\w+", dim.dim_param)}
    for old in by_name:
        if old not in words:
            raise error("E0105", "unknown_node", f"the model has no size '{old}'",
                        "the sizes are: " + ", ".join(sorted({dim.dim_param for dim in dims if dim.dim_param})))
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, by_name)) + r")\b")

    def renamed(text: str) -> str:
        return pattern.sub(lambda match: by_name[match.group()], text)

    for dim in dims:
        if dim.dim_param:
            dim.dim_param = renamed(dim.dim_param)
    for entry in model.graph.metadata_props:
        if entry.key.endswith(".range_constraints"):
            entry.value = renamed(entry.value)


def _dims(outermost: Any) -> Iterator[Any]:
    for graph in graphs(outermost):
        for value in [*graph.input, *graph.output, *graph.value_info]:
            yield from value.type.tensor_type.shape.dim
