"""A file with the patterns that optimisers rewrite, whose nodes state their modules: a corpus source for carried.py.

    carried.py --models patterns --source patterns --rows 'onnxoptimizer:*,onnxscript:*'

Exporters hardly leave such patterns, so files of models do not show what a single pass does to origins. Each pattern below
is a module; a line is a submodule and the node that it computes. `x` is float32[2,4,8,8], `s` is float32[2,6,8], `c` is
bool[2,4,8,8]. `$4x8` is a weight of that shape, `{1,2}` a list of integers, `#0.5` a number.
"""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy
import onnx
import onnx.parser
import torch
from onnx import numpy_helper

from accuracy import models
from accuracy.graphs import first_output
from accuracy.truth import Truth

PATTERNS = {
    "cast": "a: p = Tanh(x) | b: q = Cast<to = 1>(p) | c: y = Exp(q)",
    "casts": "a: p = Cast<to = 11>(x) | b: q = Cast<to = 1>(p) | c: y = Exp(q)",
    "dropout": "a: p = Tanh(x) | b: q = Dropout(p) | c: y = Exp(q)",
    "flatten": "a: p = Reshape(s, {2,48}) | b: q = Flatten<axis = 1>(p) | c: y = Exp(q)",
    "flatten_image": "a: p = Tanh(x) | b: y = Flatten<axis = 1>(p)",
    "relus": "a: p = Relu(x) | b: q = Relu(p) | c: y = Exp(q)",
    "ceils": "a: p = Ceil(x) | b: y = Ceil(p)",
    "argmax": "a: p = Softmax<axis = 2>(s) | b: y = ArgMax<axis = 2>(p)",
    "no_pad": "a: p = Tanh(x) | b: q = Pad(p, {0,0,0,0,0,0,0,0}) | c: y = Exp(q)",
    "one_concat": "a: p = Tanh(x) | b: q = Concat<axis = 1>(p) | c: y = Exp(q)",
    "expand": "a: p = Tanh(x) | b: q = Expand(p, {2,4,8,8}) | c: y = Exp(q)",
    "shape_gather": "a: p = Shape(x) | b: q = Gather(p, {1}) | c: r = Cast<to = 1>(q) | d: y = Mul(r, x)",
    "shape_slice": "a: p = Shape(x) | b: q = Slice(p, {2}, {4}) | c: r = Concat<axis = 0>({8}, q) | d: y = Reshape(x, r)",
    "no_transpose": "a: p = Tanh(x) | b: q = Transpose<perm = [0, 1, 2, 3]>(p) | c: y = Exp(q)",
    "conv_bias": "a: p = Conv(x, $5x4x3x3) | b: q = Add(p, $1x5x1x1) | c: y = Tanh(q)",
    "conv_norm": "a: p = Conv(x, $5x4x3x3) | b: q = BatchNormalization(p, $5, $5, $5, $5) | c: y = Tanh(q)",
    "transposed_conv_norm": "a: p = ConvTranspose(x, $4x5x3x3) | b: q = BatchNormalization(p, $5, $5, $5, $5) | c: y = Tanh(q)",
    "gemm_norm": "a: p = Reshape(s, {2,48}) | b: q = Gemm(p, $48x5, $5) | c: r = BatchNormalization(q, $5, $5, $5, $5) | d: y = Tanh(r)",
    "conv_affine": "a: p = Conv(x, $5x4x3x3, $5) | b: q = Mul(p, #2.5) | c: r = Add(q, #1.5) | d: y = Tanh(r)",
    "affine_conv": "a: p = Mul(x, #2.5) | b: q = Add(p, #1.5) | c: r = Conv(q, $5x4x3x3, $5) | d: y = Tanh(r)",
    "concats": "a: p = Tanh(x) | b: q = Concat<axis = 1>(p, x) | c: y = Concat<axis = 1>(q, p)",
    "log_softmax": "a: p = Softmax<axis = 2>(s) | b: q = Log(p) | c: y = Exp(q)",
    "reduce_unsqueeze": "a: p = ReduceMean<keepdims = 0>(s, {1}) | b: q = Unsqueeze(p, {1}) | c: y = Tanh(q)",
    "squeezes": "a: p = Reshape(s, {1,2,1,48}) | b: q = Squeeze(p, {0}) | c: r = Squeeze(q, {1}) | d: y = Tanh(r)",
    "squeeze_reshape": "a: p = Reshape(s, {96,1}) | b: q = Squeeze(p) | c: r = Reshape(q, {-1}) | d: y = Tanh(r)",
    "unsqueezes": "a: p = Tanh(s) | b: q = Unsqueeze(p, {0}) | c: r = Unsqueeze(q, {1}) | d: y = Tanh(r)",
    "transposes": "a: p = Transpose<perm = [0, 2, 1, 3]>(x) | b: q = Transpose<perm = [0, 2, 3, 1]>(p) | c: y = Tanh(q)",
    "matmul_bias": "a: p = Reshape(s, {2,48}) | b: q = MatMul(p, $48x5) | c: r = Add(q, $5) | d: y = Tanh(r)",
    "transposed_matmul_bias": "a: p = Reshape(s, {48,2}) | b: t = Transpose<perm = [1, 0]>(p) | c: q = MatMul(t, $48x5) | d: r = Add(q, $5) | e: y = Tanh(r)",
    "pad_conv": "a: p = Pad(x, {0,0,1,1,0,0,1,1}) | b: q = Conv(p, $5x4x3x3) | c: y = Tanh(q)",
    "pad_pool": "a: p = Pad(x, {0,0,1,1,0,0,1,1}) | b: q = AveragePool<kernel_shape = [3, 3], count_include_pad = 1>(p) | c: y = Tanh(q)",
    "same_conv": 'a: p = Conv<auto_pad = "SAME_UPPER">(x, $5x4x3x3) | b: y = Tanh(p)',
    "transpose_gemm": "a: p = Reshape(s, {48,2}) | b: q = Transpose<perm = [1, 0]>(p) | c: r = Gemm(q, $48x5, $5) | d: y = Tanh(r)",
    "gemm": "a: p = Reshape(s, {2,48}) | b: q = Gemm(p, $48x5, $5) | c: y = Tanh(q)",
    "zero_bias": "a: p = Reshape(s, {2,48}) | b: q = Gemm(p, $48x5, @5) | c: y = Tanh(q)",
    "zero_bias_conv": "a: p = Conv(x, $5x4x3x3, @5) | b: y = Tanh(p)",
    "einsum": 'a: p = Transpose<perm = [0, 2, 1]>(s) | b: q = Einsum<equation = "bij,bjk->bik">(s, p) | c: y = Tanh(q)',
    "concat_reshape": "a: p = Shape(s) | b: q = Gather(p, {0}) | c: r = Concat<axis = 0>(q, {48}) | d: t = Reshape(s, r) | e: y = Tanh(t)",
    "no_reshape": "a: p = Tanh(s) | b: q = Reshape(p, {2,6,8}) | c: y = Exp(q)",
    "reshapes": "a: p = Reshape(s, {4,24}) | b: q = Reshape(p, {2,48}) | c: y = Exp(q)",
    "units": "a: p = Mul(x, #1.0) | b: q = Add(p, #0.0) | c: r = Sub(q, #0.0) | d: t = Div(r, #1.0) | e: y = Tanh(t)",
    "common": "a: p = Tanh(s) | b: q = Tanh(s) | c: r = Exp(p) | d: t = Sin(q) | e: y = Add(r, t)",
    "projections": "a: q = MatMul(s, $8x8) | b: k = MatMul(s, $8x8) | c: v = MatMul(s, $8x8) | d: t = Tanh(q) | e: u = Mul(t, k) | f: y = Mul(u, v)",
    "dead": "a: p = Tanh(x) | b: q = Exp(p) | c: y = Sin(p)",
    "identity": "a: p = Tanh(x) | b: q = Identity(p) | c: y = Exp(q)",
    "slices": "a: p = Slice(x, {1}, {7}, {2}) | b: q = Slice(p, {1}, {7}, {3}) | c: y = Tanh(q)",
    "whole_slice": "a: p = Slice(x, {0}, {8}, {2}, {1}) | b: y = Tanh(p)",
    "slice_split": "a: p = Slice(s, {0}, {4}, {2}) | b: q = Slice(s, {4}, {8}, {2}) | c: r = Tanh(p) | d: y = Add(r, q)",
    "where": "a: p = Not(c) | b: q = Where(p, x, #0.5) | c: y = Tanh(q)",
    "add": "a: p = Add($1x4x1x1, x) | b: y = Tanh(p)",
    "hardswish": "a: p = Add(x, #3.0) | b: q = Clip(p, #0.0, #6.0) | c: r = Mul(x, q) | d: t = Div(r, #6.0) | e: y = Tanh(t)",
    "hardsigmoid": "a: p = Add(x, #3.0) | b: q = Clip(p, #0.0, #6.0) | c: r = Div(q, #6.0) | d: y = Tanh(r)",
    "clips": "a: p = Clip(x, #-1.0, #1.0) | b: q = Clip(p, #-0.5, #2.0) | c: r = Relu(q) | d: y = Tanh(r)",
    "relu_clip": "a: p = Relu(x) | b: q = Clip(p, #-0.5, #2.0) | c: y = Tanh(q)",
    "min_max": "a: p = Min(x, #1.0) | b: q = Max(p, #-1.0) | c: y = Tanh(q)",
    "mins": "a: p = Min(x, #1.0) | b: q = Min(p, #0.5) | c: r = Max(q, #-0.25) | d: t = Max(r, #-0.75) | e: y = Tanh(t)",
    "expand_add": "a: p = Expand($1x1x8, {2,6,8}) | b: q = Add(s, p) | c: y = Tanh(q)",
    "constant_of_shape": "a: p = ConstantOfShape({2,6,8}) | b: q = Cast<to = 7>(p) | c: r = Cast<to = 1>(q) | d: y = Add(s, r)",
    "reshaped_matmul": "a: p = Reshape(s, {12,8}) | b: q = MatMul(p, $8x5) | c: r = Reshape(q, {2,6,5}) | d: y = Tanh(r)",
}
INPUTS = "float[2,4,8,8] x, float[2,6,8] s, bool[2,4,8,8] c"


def register() -> None:
    """Adds the file to the models of the corpus."""
    generator = torch.Generator().manual_seed(5)
    example = {"x": torch.randn(2, 4, 8, 8, generator=generator), "s": torch.randn(2, 6, 8, generator=generator)}
    example["c"] = torch.randn(2, 4, 8, 8, generator=generator) > 0
    models.ENTRIES["patterns"] = SimpleNamespace(first=None, inputs=lambda _: dict(example))


def export(name: str, opset: int, dynamic: bool, target: Path) -> Truth:
    """Writes the file; returns its truth."""
    rng, nodes, modules, weights, outputs = numpy.random.default_rng(7), [], [], {}, []

    def constant(text: str) -> str:
        kind, body = text[0], text[1:].rstrip("}")
        shape = [int(size) for size in body.split("x")] if kind in "$@" else []
        value = {"$": lambda: rng.uniform(0.1, 1, shape).astype(numpy.float32), "@": lambda: numpy.zeros(shape, numpy.float32),
                 "#": lambda: numpy.float32(body), "{": lambda: numpy.array(list(map(int, body.split(","))), numpy.int64)}[kind]()
        weights[f"w{len(weights)}"] = numpy.asarray(value)
        return f"w{len(weights) - 1}"

    for pattern, lines in PATTERNS.items():
        for line in lines.split("|"):
            module, node = line.strip().split(": ", 1)
            head, inputs = node.rsplit("(", 1)
            head = re.sub(r"^(\w+) =", rf"{pattern}_\1 =", head)
            inputs = re.sub(r"[$@#{][-.\dx,]+\}?", lambda found: constant(found[0].rstrip(",")) + "," * found[0].endswith(","), inputs)
            inputs = re.sub(r"\b([a-z])\b", lambda found: found[1] if found[1] in "xs" or (found[1] == "c" and "Not(" in node)
                            else f"{pattern}_{found[1]}", inputs)
            nodes.append(f"{head}({inputs}")
            modules.append(f"{pattern}.{module}")
        outputs.append(f"{pattern}_y")
    text = f"<ir_version: 10, opset_import: ['' : {opset}]> patterns ({INPUTS}) => ({', '.join(f'float[] {each}' for each in outputs)}) {{"
    model = onnx.parser.parse_model(text.replace("'", '"') + "\n".join(nodes) + "}")
    model.graph.initializer.extend(numpy_helper.from_array(value, each) for each, value in weights.items())
    for value in model.graph.output:
        kind = onnx.TensorProto.INT64 if value.name == "argmax_y" else onnx.TensorProto.FLOAT
        value.type.CopyFrom(onnx.helper.make_tensor_type_proto(kind, None))
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.save(inferred, target)
    return Truth({first_output(node): frozenset({(module, 0)})
                  for node, module in zip(inferred.graph.node, modules, strict=True)})
