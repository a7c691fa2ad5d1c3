"""Node counts of PyTorch's two exporters on the zoo at opset 20, its default: the baseline for `whence export`.

    python tests/models/baselines.py            writes tests/models/baselines.json
    python tests/models/baselines.py bert_tiny  prints the figures of one model and writes nothing

The table is stored because the dynamo exporter takes a minute for the zoo. tests/export/test_models.py recomputes
BERT-tiny's row, which detects changes in a new PyTorch version.
"""

import contextlib
import io
import json
import logging
import sys
import tempfile
import warnings
from pathlib import Path

import onnx
import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models import zoo

logging.getLogger("torch.onnx").setLevel(logging.ERROR)
OPSET = 20
TABLE = Path(__file__).with_suffix(".json")


def count_nodes(graph: onnx.GraphProto) -> int:
    """Counts the nodes of a graph and of the graphs in its nodes' attributes."""
    inner = sum(count_nodes(sub) for node in graph.node for attribute in node.attribute
                for sub in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])])
    return len(graph.node) + inner


class Positional(torch.nn.Module):
    """Wraps a model for the TorchScript exporter: inputs by position, a tuple of tensors as output."""

    def __init__(self, model: torch.nn.Module, names: list[str]):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors):
        return tuple(zoo.flatten(self.model(**dict(zip(self.names, tensors, strict=True)))))


def export(name: str, dynamo: bool, dynamic: bool) -> int | None:
    """Returns the node count of the exported file, or None if the exporter fails."""
    entry = zoo.MODELS[name]
    inputs = entry.inputs(entry.first)
    options = {"kwargs": inputs} if dynamo else {}
    if dynamic and dynamo:
        options["dynamic_shapes"] = {key: {axis: torch.export.Dim.DYNAMIC for axis in entry.dynamic.get(key, {})}
                                     for key in inputs}
        sizes = {key: max(size, 2) for key, size in entry.first.items()}  # a size of 1 would be specialised
        options["kwargs"] = entry.inputs(sizes)
    elif dynamic:
        options["dynamic_axes"] = entry.dynamic
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        path = f"{folder}/model.onnx"
        try:
            model, args = entry.model(), ()
            if not dynamo:
                model, args = Positional(model, list(inputs)), tuple(inputs.values())
            torch.onnx.export(model, args, path, input_names=list(inputs), opset_version=OPSET, dynamo=dynamo,
                              external_data=False, verbose=False, **options)
        except Exception as error:  # any failure of an exporter counts
            print(f"{name} dynamo={dynamo} dynamic={dynamic}: {str(error)[:200]}", file=sys.stderr)
            return None
        return count_nodes(onnx.load(path).graph)


def measure(name: str) -> dict:
    return {shape: {exporter: export(name, exporter == "dynamo", shape == "dynamic")
                    for exporter in ["torchscript", "dynamo"]}
            for shape in ["static", "dynamic"]}


def read_table() -> dict:
    return json.loads(TABLE.read_text())


def main(names: list[str]) -> None:
    rows = {name: measure(name) for name in names or zoo.MODELS}
    text = json.dumps({"opset": OPSET, "torch": torch.__version__, "nodes": rows}, indent=1) + "\n"
    if names:
        print(text, end="")
    else:
        TABLE.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
