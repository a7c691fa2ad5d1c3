"""Changes of an onnx.ModelProto that an ONNXProgram offers: other weights, other names for sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..arguments import trees
from ..base.optional_packages import needs
from ..errors import error
from ..files.onnx_graphs import graphs


def replace_weights(model: Any, weights: Mapping[str, torch.Tensor]) -> None:
    """Raises WhenceError E0105 for a name that the file does not have, E0104 for another shape; then nothing changes.

    Optimisation keeps some weights in another layout or folded into others, under other names or shapes.
    """
    helper = needs("onnx", "apply_weights").numpy_helper
    known = {each.name: each for each in model.graph.initializer}
    new = {}
    for name, tensor in trees.with_tensors(dict(weights)).items():
        if name not in known:
            raise error("E0105", "unknown_node", f"the file has no weight '{name}'",
                        "export with optimize=False, which keeps each weight as it is; names are those of state_dict()")
        if list(known[name].dims) != list(tensor.shape):
            raise error("E0104", "input_mismatch",
                        f"'{name}' has the shape {list(known[name].dims)} in the file, {list(tensor.shape)} is given",
                        "give weights of the same module; export with optimize=False, which keeps each as it is")
        new[name] = helper.from_array(tensor.detach().cpu().contiguous().numpy(), name)
    for name, tensor in new.items():
        known[name].CopyFrom(tensor)


def rename_sizes(model: Any, names: Mapping[Any, str]) -> None:
    """{"s77": "batch"}, also in what follows from them. Raises WhenceError E0105 for a size that does not occur."""
    by_name = {str(old): new for old, new in names.items()}
    places = list(_dims(model.graph))
    words = {word for dim in places for word in re.findall(r"\w+", dim.dim_param)}
    for old in by_name:
        if old not in words:
            raise error("E0105", "unknown_node", f"no size is called '{old}'",
                        "the sizes are: " + ", ".join(sorted({dim.dim_param for dim in places if dim.dim_param})))
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, by_name)) + r")\b")

    def renamed(text: str) -> str:
        return pattern.sub(lambda found: by_name[found.group()], text)

    for dim in places:
        if dim.dim_param:
            dim.dim_param = renamed(dim.dim_param)
    for entry in model.graph.metadata_props:
        if entry.key.endswith(".range_constraints"):
            entry.value = renamed(entry.value)


def _dims(outermost: Any) -> Iterator[Any]:
    for graph in graphs(outermost):
        for value in [*graph.input, *graph.output, *graph.value_info]:
            yield from value.type.tensor_type.shape.dim
