"""Measures whether equal operations of a model have equal pkg.whence.id in files by four exporters at two opsets.

`python -m accuracy.identities` prints the tables of docs/metadata-spec.md, on transformers' models with random weights.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

import command

ID = "pkg.whence.id"
OPSETS = (18, 20)


def entries(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


def ids_of(node: onnx.NodeProto) -> list[str]:
    text = entries(node).get(ID)
    if text is None:
        return []
    return json.loads(text) if text.endswith("]") else [text]


def exports(module: torch.nn.Module, example: torch.Tensor, spec: str, folder: Path, opsets=OPSETS) -> dict[str, Path]:
    """Returns annotated files by exporter and opset: PyTorch's two exporters, and whence on both archives."""
    torch.jit.trace(module, example, check_trace=False).save(folder / "m.pt")
    torch.export.save(torch.export.export(module, (example,)), folder / "m.pt2")
    command.run("record", folder / "m.pt", "-o", folder / "pt.json", "--input", spec)
    command.run("record", folder / "m.pt2", "-o", folder / "pt2.json")
    files = {}
    for opset in opsets:
        for name, dynamo, sidecar in (("TorchScript", False, "pt.json"), ("dynamo", True, "pt2.json")):
            files[f"{name} {opset}"] = path = folder / f"{name}{opset}.onnx"
            options = {"external_data": False, "verbose": False} if dynamo else {}
            torch.onnx.export(module, (example,), path, dynamo=dynamo, opset_version=opset, **options)
            command.run("annotate", path, "--sidecar", folder / sidecar, "-o", path)
        for archive, inputs in (("m.pt", ["--input", spec]), ("m.pt2", [])):
            files[f"whence {archive[1:]} {opset}"] = path = folder / f"whence{archive[1:]}{opset}.onnx"
            command.run("export", folder / archive, *inputs, "--opset", opset, "--annotate", "-o", path)
    return files


def shared(one: Path, other: Path) -> tuple[int, int]:
    """Returns how many of the first file's nodes have an id that the other file has too, and how many have an id."""
    known = {name for node in onnx.load(other).graph.node for name in ids_of(node)}
    nodes = [ids_of(node) for node in onnx.load(one).graph.node]
    return sum(bool(names) and known.issuperset(names) for names in nodes), sum(map(bool, nodes))


def weights_read(path: Path) -> dict[str, list[np.ndarray]]:
    """Maps each id to the float weights that its nodes read, with sorted elements, to ignore layouts."""
    graph = onnx.load(path).graph
    producers = {output: node for node in graph.node for output in node.output}
    values = {tensor.name: tensor for tensor in graph.initializer}
    values |= {node.output[0]: node.attribute[0].t for node in graph.node
               if node.op_type == "Constant" and node.attribute[0].name == "value"}
    found: dict[str, list[np.ndarray]] = {}
    for node in graph.node:
        for name in node.input:
            while name not in values and name in producers and producers[name].op_type in ("Transpose", "Identity"):
                name = producers[name].input[0]
            if name in values and ids_of(node):
                weight = numpy_helper.to_array(values[name])
                if weight.dtype == np.float32 and weight.size > 4:
                    found.setdefault(entries(node)[ID], []).append(np.sort(weight.ravel()))
    return found


def agreeing(one: Path, other: Path) -> tuple[int, int]:
    """Returns how many ids read the same weight in both files, and how many read weights in both."""
    first, second = weights_read(one), weights_read(other)
    common = sorted(first.keys() & second.keys())
    same = [any(a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-6) for a in first[name] for b in second[name])
            for name in common]
    return sum(same), len(same)


class OneTensor(torch.nn.Module):
    """Wraps a transformers' model so that it takes one tensor and returns one."""

    def __init__(self, model, masked: bool = False):
        super().__init__()
        self.model, self.masked = model.eval(), masked

    def forward(self, x):
        return (self.model(x, attention_mask=torch.ones_like(x)) if self.masked else self.model(x)).last_hidden_state


def models():
    from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, ResNetConfig, ResNetModel

    torch.manual_seed(0)
    ids, spec = torch.randint(0, 1000, (2, 16)), "x=int64[2,16]<1000"
    bert = BertConfig(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512, vocab_size=1000)
    yield "BERT-tiny", OneTensor(BertModel(bert)), ids, spec
    gpt = GPT2Config(n_embd=64, n_layer=2, n_head=2, vocab_size=1000, n_positions=64, use_cache=False,
                     attn_implementation="eager")
    yield "GPT-2, 2 layers", OneTensor(GPT2Model(gpt), masked=True), ids, spec
    resnet = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 1, 1], layer_type="basic")
    yield "ResNet, 4 stages", OneTensor(ResNetModel(resnet)), torch.randn(2, 3, 64, 64), "x=float32[2,3,64,64]"


def main() -> None:
    warnings.filterwarnings("ignore")
    for name, module, example, spec in models():
        with tempfile.TemporaryDirectory() as folder:
            files = exports(module.eval(), example, spec, Path(folder))
            print(f"\n| {name} | nodes | {' | '.join(files)} |\n|---|---|{'---|' * len(files)}")
            right = total = 0
            for row, one in files.items():
                shares = [shared(one, other) for other in files.values()]
                cells = [f"{100 * count / nodes:.1f} %" for count, nodes in shares]
                print(f"| {row} | {shares[0][1]} of {len(onnx.load(one).graph.node)} | {' | '.join(cells)} |")
                for other in files.values():
                    same, both = agreeing(one, other) if one != other else (0, 0)
                    right, total = right + same, total + both
            print(f"\nidentities whose nodes read the same weight in both files: {right} of {total}")


if __name__ == "__main__":
    sys.exit(main())
