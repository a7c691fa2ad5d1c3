"""Measures the origins that `whence.keep` keeps in the fusions of transformers' ONNX exporter.

    python tests/bench/fused_origins.py [ARCHITECTURE ...]

For each architecture and each set of fusions, prints the share of nodes whose module is right. The truth never comes from
`keep`: it is read from PyTorch's keys in the file without fusions, through values and weights.

- A node that the fusions left as it was is from the module that its keys name in the unfused file.
- A node with the values of a node of the unfused file, in any layout, is from the module of that node.
- A node that multiplies by a weight is from the module of the product with that weight, also if it absorbed more.
- Another node is from a module whose nodes depend on the same weights. A weight that a fusion packed is recognised by its
  elements, which are random and therefore different for each weight.
- Sizes, masks and positions depend on no weight: equal values, or the module around all readers.
"""

from __future__ import annotations

import ast
import os
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import torch

import whence
from transformers_models import MODELS

FUSIONS = ("cpu", "cuda", "webgpu", "dml")
ATTENTIONS = ("Attention", "GroupQueryAttention", "MultiHeadAttention")


def keys_of(node: onnx.NodeProto) -> dict[str, str]:
    return {each.key: each.value for each in node.metadata_props}


def module_by_pytorch(node: onnx.NodeProto) -> str | None:
    scopes = ast.literal_eval(keys_of(node).get("pkg.torch.onnx.name_scopes", "[]"))[:-1]
    named = [scope for scope in scopes if not scope.startswith("_empty")]
    return named[-1] if named else None


def module_by_keep(node: onnx.NodeProto) -> str | None:
    keys = keys_of(node)
    if "pkg.whence.confidence" not in keys:
        return module_by_pytorch(node)
    return keys.get("pkg.whence.primary", keys.get("pkg.whence.module"))


def common_module(modules: Iterable[str]) -> str:
    return ".".join(os.path.commonprefix([module.split(".") if module else [] for module in modules]))


def feeds_of(model: onnx.ModelProto, inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns the example inputs by their names in the file, which has them in the same order."""
    leaves = [leaf.numpy() for leaf in torch.utils._pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    return {value.name: leaf for value, leaf in zip(model.graph.input, leaves, strict=True)}


class File:
    """A model with all its values for some inputs."""

    def __init__(self, path: Path, feeds: dict[str, np.ndarray], weights: dict[str, np.ndarray] | None = None) -> None:
        self.model = onnx.load(path)
        self.nodes = list(self.model.graph.node)
        self.values = self._run(feeds)
        self.initializers = {each.name: onnx.numpy_helper.to_array(each) for each in self.model.graph.initializer}
        self.weights_of: dict[str, frozenset[str]] = {}
        own = weights if weights is not None else self.initializers
        by_element = defaultdict(set)
        for name, array in own.items():
            if array.dtype.kind == "f" and array.size > 8:
                for element in array.ravel()[:: max(1, array.size // 64)]:
                    by_element[float(element)].add(name)
        for name, array in self.initializers.items():
            self.weights_of[name] = self._made_of(array, by_element, own)
        for node in self.nodes:
            inputs = [self.weights_of.get(name, frozenset()) for name in node.input]
            for name in node.output:  # sizes depend on no weight
                self.weights_of[name] = frozenset() if node.op_type in ("Shape", "Size") else frozenset().union(*inputs)

    def _run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        present = {each.name for each in model.graph.output}
        for node in model.graph.node:
            for name in node.output:
                if name and name not in present:
                    model.graph.output.append(onnx.ValueInfoProto(name=name))
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level, options.log_severity_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, 4
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/model.onnx")
            session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_outputs()]
        return dict(zip(names, session.run(None, {each.name: feeds[each.name] for each in session.get_inputs()}), strict=True))

    @staticmethod
    def _made_of(array: np.ndarray, by_element: dict[float, set[str]], weights: dict[str, np.ndarray]) -> frozenset[str]:
        if array.dtype.kind != "f" or array.size <= 8:
            return frozenset()
        found = set()
        elements = set(map(float, array.ravel()))
        for name in {name for element in elements & by_element.keys() for name in by_element[element]}:
            sample = weights[name].ravel()[:: max(1, weights[name].size // 64)]
            if len({*map(float, sample)} & elements) > 0.9 * len({*map(float, sample)}):
                found.add(name)
        return frozenset(found)


def signature(array: np.ndarray) -> tuple:
    return array.dtype.kind, array.size


def is_permuted(a: np.ndarray, b: np.ndarray) -> bool:
    """Returns true if two arrays have the same elements in any order."""
    return np.allclose(np.sort(a, axis=None), np.sort(b, axis=None), rtol=1e-3, atol=1e-4)


def operation(node: onnx.NodeProto) -> tuple:
    return node.op_type, *node.input, "->", *node.output


def product_weights(file: File, node: onnx.NodeProto) -> list[frozenset[str]]:
    """Returns the weights that a product reads directly."""
    if "MatMul" not in node.op_type and node.op_type != "Gemm":
        return []
    return [file.weights_of[name] for name in node.input if name in file.initializers and file.weights_of[name]]


class Truth:
    """The modules that the unfused file states for a value, or for the weights that it depends on."""

    def __init__(self, unfused: File) -> None:
        self.by_signature, self.by_weights = defaultdict(list), defaultdict(set)
        self.by_operation: dict[tuple, str] = {}
        self.of_product = defaultdict(set)
        for node in unfused.nodes:
            module = module_by_pytorch(node)
            if module is None:
                continue
            self.by_operation[operation(node)] = module
            for weights in product_weights(unfused, node):
                self.of_product[weights].add(module)
            for name in node.output:
                if name in unfused.values:
                    self.by_signature[signature(unfused.values[name])].append((unfused.values[name], module))
                self.by_weights[unfused.weights_of[name]].add(module)

    def modules_of(self, file: File, node: onnx.NodeProto) -> set[str]:
        """Returns the modules that the node may be from; nothing if its values and weights do not show them."""
        if operation(node) in self.by_operation:
            return {self.by_operation[operation(node)]}
        found = {module for weights in product_weights(file, node) for module in self.of_product[weights]}
        for name in node.output:
            value = file.values.get(name)
            if value is not None and value.size > 1 and value.dtype.kind in "fib":
                found |= {module for other, module in self.by_signature[signature(value)] if is_permuted(value, other)}
            weights = file.weights_of.get(name, frozenset())
            if not found and weights:
                found |= self.by_weights.get(weights, set())
        return found


def around_readers(file: File, node: onnx.NodeProto, readers: dict[str, list[onnx.NodeProto]]) -> str | None:
    modules = [module_by_keep(reader) for name in node.output for reader in readers.get(name, ())]
    return common_module(module for module in modules if module is not None) if modules else None


def judge(unfused: File, fused: File) -> tuple[int, list[str]]:
    """Returns the number of right nodes, and a line for each other node."""
    truth, right, others = Truth(unfused), 0, []
    readers = defaultdict(list)
    for node in fused.nodes:
        for name in node.input:
            readers[name].append(node)
    for node in fused.nodes:
        module, expected = module_by_keep(node), truth.modules_of(fused, node)
        if module is not None and (module in expected or module == common_module(expected) if expected else
                                   module == around_readers(fused, node, readers)):
            right += 1
        elif module is not None and not fused.weights_of[node.output[0]] and module == around_readers(fused, node, readers):
            right += 1
        else:
            others.append(f"{node.op_type} {node.name}: {module}, not one of {sorted(expected)}; its readers are in "
                          f"{around_readers(fused, node, readers)}")
    for node in fused.nodes:
        if node.op_type in ATTENTIONS and "attn" not in (module_by_keep(node) or "") and "attention" not in (module_by_keep(node) or ""):
            others.append(f"{node.op_type} {node.name} is called {module_by_keep(node)}")
    return right, others


def perturb(model: torch.nn.Module) -> None:
    """Adds noise to all parameters, because those of norms are equal in a new model."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn_like(parameter)


def measure(name: str, folder: Path) -> list[tuple[str, int, int, int, list[str]]]:
    """Returns (fusions, nodes, nodes without a module before, right nodes, other nodes) for each set of fusions."""
    from transformers.exporters import OnnxConfig, OnnxExporter
    from transformers.exporters.onnxruntime_fusions import fuse_for_onnxruntime

    model, inputs = MODELS[name]()
    perturb(model)
    exported = OnnxExporter().export(model, inputs, config=OnnxConfig(dynamic=True))
    path = folder / "unfused.onnx"
    onnx_ir.save(exported.program, path)
    feeds = feeds_of(onnx.load(path), inputs)
    unfused, rows = File(path, feeds), []
    for fusions in FUSIONS:
        bare = onnx_ir.load(path)
        fuse_for_onnxruntime(bare, fusions)
        lost = sum(module_by_pytorch(onnx_ir.to_proto(node)) is None for node in bare.graph)
        kept = onnx_ir.load(path)
        with whence.keep():
            fuse_for_onnxruntime(kept, fusions)
        onnx_ir.save(kept, folder / "fused.onnx")
        fused = File(folder / "fused.onnx", feeds, unfused.initializers)
        right, others = judge(unfused, fused)
        rows.append((fusions, len(fused.nodes), lost, right, others))
    return rows


def main() -> None:
    warnings.filterwarnings("ignore")
    all_nodes = all_right = 0
    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                rows = measure(name, Path(folder))
            except Exception as failure:  # an architecture that the exporter or the runtime refuses
                print(f"{name:14} {type(failure).__name__}: {str(failure).splitlines()[0][:150]}", flush=True)
                continue
        for fusions, nodes, lost, right, others in rows:
            print(f"{name:14} {fusions:7} {nodes:4} nodes, {lost:3} bare without whence, {right:4} right", flush=True)
            for line in others:
                print("      " + line)
            all_nodes, all_right = all_nodes + nodes, all_right + right
    print(f"{all_right} of {all_nodes} nodes right, {all_right / max(all_nodes, 1):.2%}")
    sys.exit(all_right < 0.995 * all_nodes)


if __name__ == "__main__":
    main()
