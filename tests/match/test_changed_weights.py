"""Modules that differ only in their weights, in files whose weights a tool changed. Only the elements of the weights
identify the modules."""

import json

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer, QuantFormat

import command
from accuracy import rename, tools
from match.test_calls import keys


class Pair(torch.nn.Module):
    """`swapped` runs the second module first, so that the order of nodes is misleading."""

    def __init__(self, first: torch.nn.Module, second: torch.nn.Module, swapped: bool):
        super().__init__()
        self.a, self.b, self.swapped = first, second, swapped

    def forward(self, x):
        modules = (self.b, self.a) if self.swapped else (self.a, self.b)
        left, right = (torch.relu(module(x)) for module in modules)
        return left + right


def linear_model() -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(5)
    pairs = [Pair(torch.nn.Linear(64, 64, bias=False), torch.nn.Linear(64, 64, bias=False), swapped)
             for swapped in (True, False, True, False)]
    return torch.nn.Sequential(*pairs).eval(), torch.randn(3, 64)


def convolution_model() -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(6)

    def normalized() -> torch.nn.Module:
        norm = torch.nn.BatchNorm2d(8)
        for tensor in (norm.weight.data, norm.bias.data, norm.running_mean):
            torch.nn.init.normal_(tensor)  # scales of both signs
        torch.nn.init.uniform_(norm.running_var, 0.1, 4)
        return torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1, bias=False), norm)

    pairs = [Pair(normalized(), normalized(), swapped) for swapped in (True, False, True)]
    return torch.nn.Sequential(*pairs).eval(), torch.randn(2, 8, 12, 12)


def narrow_model() -> tuple[torch.nn.Module, torch.Tensor]:
    """Kernels with two elements, each with a different scale."""
    torch.manual_seed(9)

    def normalized() -> torch.nn.Module:
        norm = torch.nn.BatchNorm2d(32)
        torch.nn.init.normal_(norm.weight.data)
        torch.nn.init.uniform_(norm.running_var, 0.1, 4)
        return torch.nn.Sequential(torch.nn.Conv2d(32, 32, 1, groups=16, bias=False), norm)

    pairs = [Pair(normalized(), normalized(), swapped) for swapped in (True, False, True)]
    return torch.nn.Sequential(*pairs).eval(), torch.randn(2, 32, 6, 6)


class Experts(torch.nn.Module):
    """A sum of several operands, which a tool may add in any order."""

    def __init__(self):
        super().__init__()
        self.experts = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(32, 48, bias=False), torch.nn.SiLU(),
                                                               torch.nn.Linear(48, 32, bias=False)) for _ in range(5))

    def forward(self, x):
        total = self.experts[0](x)
        for expert in self.experts[1:]:
            total = total + expert(x)
        return total


def export_renamed(model: torch.nn.Module, x: torch.Tensor, folder) -> onnx.ModelProto:
    """Exports with PyTorch's TorchScript exporter, which folds batch norms. Replaces all names and swaps operands."""
    torch.jit.trace(model, x, check_trace=False).save(folder / "model.pt")
    torch.save((x,), folder / "inputs.pt")
    command.run("record", folder / "model.pt", "-o", folder / "model.whence.json", "--inputs", folder / "inputs.pt")
    torch.onnx.export(model, (x,), folder / "exported.onnx", dynamo=False, opset_version=20, verbose=False)
    file = onnx.load(folder / "exported.onnx")
    rename.rename_everything(file)
    for node in [add for add in file.graph.node if add.op_type == "Add"][::2]:
        operands = list(node.input)
        node.input[:] = operands[::-1]  # the sum is unchanged
    return file


def block_quantiser(weight_format: QuantFormat, symmetric: bool):
    def quantise(_, source, target):
        algorithm = DefaultWeightOnlyQuantConfig(block_size=16, is_symmetric=symmetric, quant_format=weight_format)
        quantizer = MatMulNBitsQuantizer(onnx.load(source), algo_config=algorithm)
        quantizer.process()
        onnx.save(quantizer.model.model, target)
    return quantise


def int8_per_channel(_, source, target):
    """Quantises like TensorRT and ONNX Runtime: int8 from -127 to 127 with one scale per channel."""
    model = onnx.load(source)
    for weight in [tensor for tensor in model.graph.initializer if len(tensor.dims) == 4]:
        array = numpy_helper.to_array(weight)
        scale = (np.abs(array).reshape(array.shape[0], -1).max(1) / 127).astype(np.float32)
        stored = np.round(array / scale.reshape(-1, 1, 1, 1)).astype(np.int8)
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(stored, name + "_q"))
        model.graph.initializer.extend([numpy_helper.from_array(scale, name + "_s")])
        model.graph.node.insert(0, onnx.helper.make_node("DequantizeLinear", [name + "_q", name + "_s"], [name], axis=0))
    onnx.save(model, target)


TOOLS = {
    "int8": tools.dynamic_int8,
    "float16": tools.float16,
    "int4 packed": block_quantiser(QuantFormat.QOperator, symmetric=True),
    "int4 packed, zero points": block_quantiser(QuantFormat.QOperator, symmetric=False),
    "int4 in blocks": block_quantiser(QuantFormat.QDQ, symmetric=True),
    "int4 in blocks, zero points": block_quantiser(QuantFormat.QDQ, symmetric=False),
}


def truth_of_products(annotated, renamed: onnx.ModelProto, model: torch.nn.Module) -> list[tuple[str, str, str]]:
    """Returns the true module, the annotated module and its confidence for each product. Tools append a suffix to the
    names of weights that they replace; the original weight of that name identifies the true module."""
    graph = onnx.load(annotated).graph
    producer = {name: node for node in graph.node for name in node.output}
    before = {weight.name: numpy_helper.to_array(weight) for weight in renamed.graph.initializer}
    weights = {path.removesuffix(".weight"): tensor.detach().numpy() for path, tensor in model.named_parameters()
               if path.endswith(".weight") and tensor.ndim > 1}
    products = []
    for node in graph.node:
        if node.op_type not in {"MatMul", "MatMulInteger", "MatMulNBits", "Conv"}:
            continue
        name = node.input[1]
        while name in producer:  # skips the dequantisation
            name = producer[name].input[0]
        original = next(before[old] for old in before if name == old or name.startswith(old + "_"))
        products.append((true_module(original, weights), keys(node)["module"], keys(node)["confidence"]))
    return products


def true_module(array: np.ndarray, weights: dict[str, np.ndarray]) -> str:
    """Returns the module whose weight has these rows, each up to a factor. Matrices are transposed."""
    def is_like(weight: np.ndarray) -> bool:
        rows = (array.T if array.ndim == 2 else array).reshape(len(weight), -1)
        ratio = rows / weight.reshape(len(weight), -1)
        return bool(np.abs(ratio / np.median(ratio, axis=1, keepdims=True) - 1).max() < 0.01)

    [path] = [path for path, weight in weights.items() if is_like(weight)]
    return path


@pytest.mark.parametrize("tool", TOOLS)
def test_quantised_weights_distinguish_twins(tool, tmp_path):
    model, x = linear_model()
    renamed = export_renamed(model, x, tmp_path)
    onnx.save(renamed, tmp_path / "renamed.onnx")
    TOOLS[tool]("", tmp_path / "renamed.onnx", tmp_path / "changed.onnx")
    command.run("annotate", tmp_path / "changed.onnx", "--sidecar", tmp_path / "model.whence.json",
                "-o", tmp_path / "annotated.onnx")
    products = truth_of_products(tmp_path / "annotated.onnx", renamed, model)
    assert len(products) == 8
    assert products == [(true, true, "matched") for true, _, _ in products]


def test_gathered_quantised_rows_distinguish_twins(tmp_path):
    """Gathers rows, then dequantises them, like the relative bias of T5 after dynamic quantisation."""
    torch.manual_seed(11)
    pairs = [Pair(torch.nn.Embedding(32, 4), torch.nn.Embedding(32, 4), swapped) for swapped in (True, False, True)]

    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pairs = torch.nn.ModuleList(pairs)

        def forward(self, x):
            return torch.stack([pair(x) for pair in self.pairs])

    model = Sum().eval()
    renamed = export_renamed(model, torch.randint(0, 32, (2, 5)), tmp_path)
    weights = {path.removesuffix(".weight"): tensor.detach().numpy() for path, tensor in model.named_parameters()}
    truth = []
    for gather in [node for node in renamed.graph.node if node.op_type == "Gather"]:
        weight = next(tensor for tensor in renamed.graph.initializer if tensor.name == gather.input[0])
        array = numpy_helper.to_array(weight)
        truth.append(next(path for path, tensor in weights.items() if np.array_equal(tensor, array)))
        low, high = min(array.min(), 0), max(array.max() * 1.7, 0)  # far from symmetric
        scale = np.float32((high - low) / 255)
        zero = np.uint8(round(-low / scale))
        stored = np.clip(np.round(array / scale) + zero, 0, 255).astype(np.uint8)
        name, result = weight.name, gather.output[0]
        weight.CopyFrom(numpy_helper.from_array(stored, name))
        renamed.graph.initializer.extend([numpy_helper.from_array(scale, name + "_s"),
                                          numpy_helper.from_array(zero, name + "_z")])
        gather.output[0] = result + "_q"
        at = list(renamed.graph.node).index(gather)
        renamed.graph.node.insert(at + 1, onnx.helper.make_node("DequantizeLinear", [result + "_q", name + "_s",
                                                                                     name + "_z"], [result]))
    onnx.save(renamed, tmp_path / "changed.onnx")
    command.run("annotate", tmp_path / "changed.onnx", "--sidecar", tmp_path / "model.whence.json",
                "-o", tmp_path / "annotated.onnx")
    gathers = [keys(node) for node in onnx.load(tmp_path / "annotated.onnx").graph.node if node.op_type == "Gather"]
    assert len(truth) == 6
    assert [(metadata["module"], metadata["confidence"]) for metadata in gathers] == [(path, "matched") for path in truth]


@pytest.mark.parametrize("make_model", [convolution_model, narrow_model])
@pytest.mark.parametrize("quantised", [False, True], ids=["float", "int8"])
def test_weights_with_a_folded_norm_distinguish_twins(make_model, quantised, tmp_path):
    model, x = make_model()
    renamed = export_renamed(model, x, tmp_path)
    onnx.save(renamed, tmp_path / "renamed.onnx")
    if quantised:
        int8_per_channel("", tmp_path / "renamed.onnx", tmp_path / "changed.onnx")
    command.run("annotate", tmp_path / ("changed.onnx" if quantised else "renamed.onnx"), "--sidecar",
                tmp_path / "model.whence.json", "-o", tmp_path / "annotated.onnx")
    products = truth_of_products(tmp_path / "annotated.onnx", renamed, model)
    assert len(products) == 6
    # The norm was folded into the convolution, which now belongs to the module around both.
    assert products == [(true, true.removesuffix(".0"), "matched") for true, _, _ in products]


@pytest.mark.parametrize("tool", ["int8", "int4 packed"])
def test_operands_of_a_reordered_sum_keep_their_modules(tool, tmp_path):
    torch.manual_seed(10)
    model = Experts().eval()
    renamed = export_renamed(model, torch.randn(3, 32), tmp_path)
    sums = [node for node in renamed.graph.node if node.op_type == "Add"]
    results = {name for node in sums for name in node.output}
    added = [name for node in sums for name in node.input if name not in results]
    assert len(added) == 5
    order = added[2:] + added[:2]
    total = order[0]
    for node, operand in zip(sums, order[1:], strict=True):  # chains the sums in the file's order
        node.input[:] = [total, operand]
        total = node.output[0]
    other_nodes = [node for node in renamed.graph.node if node not in sums]
    del renamed.graph.node[:]
    renamed.graph.node.extend(other_nodes + sums)
    onnx.checker.check_model(renamed)
    onnx.save(renamed, tmp_path / "renamed.onnx")
    TOOLS[tool]("", tmp_path / "renamed.onnx", tmp_path / "changed.onnx")
    command.run("annotate", tmp_path / "changed.onnx", "--sidecar", tmp_path / "model.whence.json", "-o",
                tmp_path / "annotated.onnx")
    products = truth_of_products(tmp_path / "annotated.onnx", renamed, model)
    assert len(products) == 10
    assert [(module, word) for _, module, word in products] == [(true, "matched") for true, _, _ in products]


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(64, size, bias=False) for size in (64, 64, 32))

    def forward(self, x):
        return torch.softmax(self.query(x) @ self.key(x).transpose(-1, -2), -1) @ self.value(x)


def merge_products(model: onnx.ModelProto, order: list[str]) -> None:
    """Merges the products that read these weights into one int8 product, followed by a Split."""
    graph = model.graph
    products = {node.input[1]: node for node in graph.node if node.op_type == "MatMul"}
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    joint = np.concatenate([arrays[name] for name in order], axis=1)
    scale = np.float32(np.abs(joint).max() / 127)
    graph.initializer.extend([
        numpy_helper.from_array(np.round(joint / scale).astype(np.int8), "joint"), numpy_helper.from_array(scale, "scale"),
        numpy_helper.from_array(np.array([arrays[name].shape[1] for name in order]), "sizes")])
    operand = products[order[0]].input[0]
    merged = [onnx.helper.make_node("DequantizeLinear", ["joint", "scale"], ["weight"]),
             onnx.helper.make_node("MatMul", [operand, "weight"], ["all"]),
             onnx.helper.make_node("Split", ["all", "sizes"], [products[name].output[0] for name in order], axis=-1)]
    for name in order:
        graph.node.remove(products[name])
        graph.initializer.remove(next(tensor for tensor in graph.initializer if tensor.name == name))
    other_nodes = list(graph.node)
    del graph.node[:]
    graph.node.extend(merged + other_nodes)


def test_a_merged_quantised_product_has_all_modules(tmp_path):
    torch.manual_seed(7)
    model = Attention().eval()
    renamed = export_renamed(model, torch.randn(2, 5, 64), tmp_path)
    names = {true_module(numpy_helper.to_array(weight), {path.removesuffix(".weight"): tensor.detach().numpy() for
                         path, tensor in model.named_parameters() if tensor.numel() == np.prod(weight.dims)}): weight.name
             for weight in renamed.graph.initializer if len(weight.dims) == 2}
    merge_products(renamed, [names[path] for path in ("key", "value", "query")])
    onnx.checker.check_model(renamed)
    onnx.save(renamed, tmp_path / "joint.onnx")
    command.run("annotate", tmp_path / "joint.onnx", "--sidecar", tmp_path / "model.whence.json", "-o",
                tmp_path / "annotated.onnx")
    [product] = [node for node in onnx.load(tmp_path / "annotated.onnx").graph.node if node.input[-1:] == ["weight"]]
    assert sorted(json.loads(keys(product)["modules"])) == ["key", "query", "value"]
    assert keys(product)["confidence"] == "matched"
    assert "sketches: key" in keys(product)["evidence"]


@pytest.mark.parametrize("tool", ["int8", "int4 packed"])
def test_weights_from_another_training_run_are_refused(tool, tmp_path):
    model, x = linear_model()
    export_renamed(model, x, tmp_path)
    torch.manual_seed(8)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    torch.onnx.export(model, (x,), tmp_path / "other.onnx", dynamo=False, opset_version=20, verbose=False)
    retrained = onnx.load(tmp_path / "other.onnx")
    rename.rename_everything(retrained)
    onnx.save(retrained, tmp_path / "renamed.onnx")
    TOOLS[tool]("", tmp_path / "renamed.onnx", tmp_path / "changed.onnx")
    refused = command.run("annotate", tmp_path / "changed.onnx", "--sidecar", tmp_path / "model.whence.json", "-o",
                      tmp_path / "annotated.onnx", "--allow-different-weights", code=3)
    assert "0 more by some of their elements" in refused.stderr
